// The threads that run embedded models, so that a busy model never holds up a shard. One pool per
// server, its queue bounded: a full queue is an answer (`AgentError.overloaded`), not a delay.
// Sessions take turns in it: who submits many jobs at once waits for his own, nobody else does.
// How a job's results travel back to its shard is ShardAgentHost's.
//
// Invariant: a job that was taken runs exactly once, also when the pool is shutting down.

import CLinux
import Session

/// What a worker pool does at a moment.
package struct WorkerCounts: Equatable, Sendable {
    /// Jobs that wait for a thread.
    package var queued = 0
    /// Jobs that a thread runs.
    package var running = 0
    /// Awaited jobs refused because the queue was full, since the start.
    package var refused = 0

    /// All zero.
    package init() {}
}

/// A fixed number of threads and a bounded queue. All methods may be called from any thread.
package final class WorkerPool: Sendable {
    private let queue: WorkerQueue

    /// What it does now.
    package var counts: WorkerCounts { queue.counts }

    /// Starts the threads.
    /// - Parameters:
    ///   - threads: at least 1; the machine's cores are a good number.
    ///   - maxQueued: jobs that may wait beyond those that run. Each is a user who waits, so a few
    ///     per thread are useful and hundreds only make everyone late.
    package init(threads: Int, maxQueued: Int) {
        precondition(threads > 0 && maxQueued >= 0)
        queue = WorkerQueue(maxQueued: maxQueued)
        queue.start(threads: threads)
    }

    deinit { queue.stop(waitForThreads: false) }

    /// Runs a job on the next free thread, each owner's in the order of submission.
    /// - Returns: false, and the job is not run, when the queue is full, when no thread is free
    ///   for a job that nobody awaits, or when the pool is shut down.
    package func submit(
        _ urgency: JobUrgency, for owner: JobOwner?, _ job: @escaping @Sendable () -> Void
    ) -> Bool { queue.submit(urgency, owner, job) }

    /// Takes no more jobs, runs those that were taken, and waits for the threads to end. Cancel
    /// what is no longer wanted first.
    /// - Precondition: not called from a job.
    package func shutdown() { queue.stop(waitForThreads: true) }
}

/// What the threads share. It outlives the pool until the last thread has ended.
private final class WorkerQueue: @unchecked Sendable {
    /// How much nicer a worker is than the process. 5: it gets a third of an event loop's share of
    /// a contended core.
    private static let addedNiceness: Int32 = 5

    /// Guards everything below; signalled for each new job and when stopping.
    private let lock = ConditionLock()
    private let maxQueued: Int
    private struct Queued {
        /// Every owner has at most one job in each round.
        let round: UInt64
        let owner: JobOwner?
        let job: @Sendable () -> Void
    }

    /// In the order of submission, which decides within a round. Few, so that a search costs less
    /// than a queue for each owner.
    private var queued: [Queued] = []
    /// Of the job that was taken last.
    private var round: UInt64 = 0
    /// Its `queued` is made up when it is asked for.
    private var tally = WorkerCounts()
    private var isStopping = false
    private var threads: [pthread_t] = []
    private var threadCount = 0

    init(maxQueued: Int) { self.maxQueued = maxQueued }

    var counts: WorkerCounts {
        lock.withLock {
            var counts = tally
            counts.queued = queued.count
            return counts
        }
    }

    func start(threads count: Int) {
        threadCount = count
        // Signals belong to the thread that waits for them, never to a worker; threads inherit the
        // mask of their maker.
        var all = sigset_t()
        var previous = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &previous)
        defer { pthread_sigmask(SIG_SETMASK, &previous, nil) }
        for _ in 0..<count {
            var thread = pthread_t()
            let context = Unmanaged.passRetained(self).toOpaque()
            let result = pthread_create(
                &thread, nil,
                { context in
                    Unmanaged<WorkerQueue>.fromOpaque(context!).takeRetainedValue().runJobs()
                    return nil
                }, context)
            precondition(result == 0, "a worker thread cannot be started: error \(result)")
            threads.append(thread)
        }
    }

    func submit(
        _ urgency: JobUrgency, _ owner: JobOwner?, _ job: @escaping @Sendable () -> Void
    ) -> Bool {
        lock.withLock {
            // What waits may have been given a thread that has not come for it yet.
            let busy = queued.count + tally.running
            let room =
                switch urgency {
                case .awaited: maxQueued + threadCount
                case .expected: threadCount
                case .spare: max(1, threadCount - 1)
                }
            guard !isStopping, busy < room else {
                if urgency == .awaited { tally.refused += 1 }
                return false
            }
            let own = owner == nil ? 0 : queued.count { $0.owner == owner }
            queued.append(Queued(round: round + UInt64(own), owner: owner, job: job))
            lock.signal()
            return true
        }
    }

    func stop(waitForThreads: Bool) {
        let ending = lock.withLock { () -> [pthread_t] in
            isStopping = true
            lock.broadcast()
            defer { threads = [] }
            return threads
        }
        for thread in ending {
            if waitForThreads {
                precondition(pthread_equal(thread, pthread_self()) == 0)
                pthread_join(thread, nil)
            } else {
                pthread_detach(thread)
            }
        }
    }

    /// The life of one thread.
    private func runJobs() {
        // Event loops come first: a model that is a little later is not heard, late audio is. Linux
        // keeps one nice value per thread, and nice(2) adds to that of its caller, which is the
        // process's own so far; the kernel stops at 19.
        _ = nice(Self.addedNiceness)
        // The name comes last: a thread that has it has its niceness, too.
        pthread_setname_np(pthread_self(), "worker")
        while let job = takeJob() {
            job()
            lock.withLock { tally.running -= 1 }
        }
    }

    private func takeJob() -> (@Sendable () -> Void)? {
        lock.withLock {
            while queued.isEmpty, !isStopping { lock.wait() }
            guard let first = queued.indices.min(by: { queued[$0].round < queued[$1].round })
            else { return nil }
            let next = queued.remove(at: first)
            round = next.round
            tally.running += 1
            return next.job
        }
    }
}
