// A shard's thread as Swift's executor: agents' tasks run between the shard's own steps, on its
// thread. Two objects, because with one object for both roles every resumption of a task hops twice
// (measured: 1,053 ns and 3 jobs against 542 ns and 1 job).
//
// Invariant: a job runs only inside `runJobs(atMost:)`, on the thread that called `adoptThread()`.

import CLinux
import Synchronization

/// A piece of a task that is ready to run, and in which role it came.
private struct ShardJob: Sendable {
    let job: UnownedJob
    /// Whether it belongs to an actor of the shard, rather than to a task that only prefers it.
    let isIsolated: Bool
}

/// Jobs that wait for the shard's next tick. Shared by both executors.
private final class JobQueue: @unchecked Sendable {
    let mailbox: Mailbox<ShardJob>
    /// The shard's thread, or 0. pthread_t is never 0 on Linux.
    let thread = Atomic<UInt>(0)
    /// Touched by the shard's thread only.
    @exclusivity(unchecked) var local: [ShardJob] = []  // 204 instructions an echo.
    @exclusivity(unchecked) var incoming: [ShardJob] = []  // 97 instructions an echo.

    init(wake: @escaping @Sendable () -> Void) { mailbox = Mailbox(wake: wake) }

    var isOnThread: Bool { thread.load(ordering: .relaxed) == UInt(pthread_self()) }

    func enqueue(_ job: ShardJob) {
        if isOnThread { local.append(job) } else { mailbox.post(job) }
    }
}

/// The serial executor of a shard's actor.
final class ShardSerialExecutor: SerialExecutor {
    private let queue: JobQueue

    fileprivate init(queue: JobQueue) { self.queue = queue }

    func enqueue(_ job: consuming ExecutorJob) {
        queue.enqueue(ShardJob(job: UnownedJob(job), isIsolated: true))
    }

    func asUnownedSerialExecutor() -> UnownedSerialExecutor {
        UnownedSerialExecutor(ordinary: self)
    }

    func checkIsolated() {
        precondition(queue.isOnThread, "the shard's state was touched by another thread")
    }

    func isIsolatingCurrentContext() -> Bool? { queue.isOnThread }
}

/// The executor that agents' tasks prefer.
final class ShardTaskExecutor: TaskExecutor {
    private let queue: JobQueue

    fileprivate init(queue: JobQueue) { self.queue = queue }

    func enqueue(_ job: consuming ExecutorJob) {
        queue.enqueue(ShardJob(job: UnownedJob(job), isIsolated: false))
    }
}

/// Both roles of one shard's thread, and the queue between them. Runs nothing by itself.
final class ShardExecutor: Sendable {
    private let queue: JobQueue
    /// For actors whose state belongs to the shard.
    let serial: ShardSerialExecutor
    /// For `Task(executorPreference:)`.
    let task: ShardTaskExecutor

    /// Creates an executor whose thread sleeps until `wake` is called.
    init(wake: @escaping @Sendable () -> Void) {
        queue = JobQueue(wake: wake)
        serial = ShardSerialExecutor(queue: queue)
        task = ShardTaskExecutor(queue: queue)
    }

    /// Makes the calling thread the shard's.
    func adoptThread() { queue.thread.store(UInt(pthread_self()), ordering: .relaxed) }

    /// Whether the caller runs on the shard's thread.
    var isOnThread: Bool { queue.isOnThread }

    /// Whether jobs wait that this thread enqueued. Those of other threads wake it instead.
    var hasJobs: Bool { !queue.local.isEmpty }

    /// Jobs that wait, except those of other threads.
    var jobCount: Int { queue.local.count }

    /// Runs the jobs that are ready, and those that they make ready, up to a number of jobs.
    /// - Returns: how many ran.
    @discardableResult
    func runJobs(atMost limit: Int) -> Int {
        let queue = queue
        precondition(queue.isOnThread)
        if queue.mailbox.take(into: &queue.incoming) {
            queue.local.append(contentsOf: queue.incoming)
            queue.incoming.removeAll(keepingCapacity: true)
        }
        guard !queue.local.isEmpty else { return 0 }
        let serial = serial.asUnownedSerialExecutor()
        let task = task.asUnownedTaskExecutor()
        var ran = 0
        while ran < limit, ran < queue.local.count {
            // Jobs append to `local` while they run, so it is indexed, not iterated.
            let next = queue.local[ran]
            ran += 1
            if next.isIsolated {
                next.job.runSynchronously(isolatedTo: serial, taskExecutor: task)
            } else {
                next.job.runSynchronously(on: task)
            }
        }
        queue.local.removeFirst(ran)
        return ran
    }
}
