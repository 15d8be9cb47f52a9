// A second executor for tests that go from one thread to another: jobs run on a thread of its own,
// which waits on a lock between them.

import Synchronization

@testable import Server

/// A thread that runs tasks and is not the loop's.
final class OtherThread: Sendable {
    /// Whether the thread has work, and whether it must end.
    private struct State {
        var isAwake = true
        var isStopped = false
    }

    /// Guards the state; signalled when it changes.
    private final class Bell: Sendable {
        private let lock = ConditionLock()
        private let state = Mutex(State())

        func ring(stopping: Bool = false) {
            lock.withLock {
                state.withLock {
                    $0.isAwake = true
                    $0.isStopped = $0.isStopped || stopping
                }
                lock.signal()
            }
        }

        /// Waits for the next ring; false once stopped.
        func await() -> Bool {
            lock.withLock {
                while !state.withLock({ $0.isAwake }) { lock.wait() }
                return state.withLock {
                    $0.isAwake = false
                    return !$0.isStopped
                }
            }
        }
    }

    let executor: ShardExecutor
    private let bell = Bell()
    private let pool = WorkerPool(threads: 1, maxQueued: 0)

    init() {
        let bell = bell
        let executor = ShardExecutor(wake: { bell.ring() })
        self.executor = executor
        let isStarted = pool.submit {
            executor.adoptThread()
            while bell.await() { executor.runJobs(atMost: 1_000) }
        }
        precondition(isStarted)
    }

    /// Ends the thread after what it runs now.
    func stop() { bell.ring(stopping: true) }
}
