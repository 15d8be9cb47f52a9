// The threads that run embedded models, so that a busy model never delays a shard. One pool per
// server, with a bounded queue: a full queue is an error (`AgentError.overloaded`), not a delay.
// FairJobQueue decides which job is next, and which makes room in a full queue. ShardAgentHost
// returns a job's results to its shard.
//
// Invariant: a job that was taken runs or is evicted, exactly once, also when the pool is shutting
// down.

import CLinux
import Session

/// The counts of a worker pool.
package struct WorkerCounts: Equatable, Sendable {
    /// Jobs that wait for a thread.
    package var queued = 0
    /// Jobs that a thread runs.
    package var running = 0
    /// Awaited jobs refused because the queue was full, since the start.
    package var refused = 0
    /// Jobs that lost their place in a full queue to a job of another owner, since the start.
    package var evicted = 0

    /// All zero.
    package init() {}
}

/// A fixed number of threads and a bounded queue. All methods may be called from any thread.
package final class WorkerPool: Sendable {
    private let queue: WorkerQueue

    /// Its counts now.
    package var counts: WorkerCounts { queue.counts }

    /// Starts the threads.
    /// - Parameters:
    ///   - threads: at least 1; the machine's cores are a good number.
    ///   - maxQueued: jobs that may wait beyond those that run. A user waits for each, so a few per
    ///     thread are useful, and hundreds only make all of them late.
    package init(threads: Int, maxQueued: Int) {
        precondition(threads > 0 && maxQueued >= 0)
        queue = WorkerQueue(maxQueued: maxQueued)
        queue.start(threads: threads)
    }

    deinit { queue.stop(waitForThreads: false) }

    /// Runs a job on the next free thread, the jobs of a session in the order of submission. An
    /// awaited job that finds the queue full takes the place of a job whose owner has a larger
    /// share of the queue.
    /// - Returns: false: the job is not run. The queue is full and no share is larger, no thread is
    ///   free for a job that is not awaited, or the pool is shut down.
    package func submit(
        _ urgency: JobUrgency, for owner: JobOwner?, _ job: ComputeJob
    ) -> Bool { queue.submit(urgency, owner, job) }

    /// Takes no more jobs, runs those that wait, and waits for the threads to end. Jobs that are
    /// not wanted should be cancelled before.
    /// - Precondition: not called from a job.
    package func shutdown() { queue.stop(waitForThreads: true) }
}

/// The state that the threads share. It lives until the last thread has ended.
private final class WorkerQueue: @unchecked Sendable {
    /// How much nicer a worker is than the process. 5: it gets a third of an event loop's share of
    /// a contended core.
    private static let addedNiceness: Int32 = 5

    /// Guards everything below; signalled for each new job and when stopping.
    private let lock = ConditionLock()
    private let maxQueued: Int
    private var waiting = FairJobQueue<ComputeJob>()
    /// Its `queued` stays 0; `counts` fills it in.
    private var tally = WorkerCounts()
    private var isStopping = false
    private var threads: [pthread_t] = []
    private var threadCount = 0

    init(maxQueued: Int) { self.maxQueued = maxQueued }

    var counts: WorkerCounts {
        lock.withLock {
            var counts = tally
            counts.queued = waiting.count
            return counts
        }
    }

    func start(threads count: Int) {
        threadCount = count
        threads = (0..<count).map { _ in
            guard let thread = startThread({ [self] in runJobs() }) else {
                preconditionFailure("a worker thread cannot be started")
            }
            return thread
        }
    }

    func submit(_ urgency: JobUrgency, _ owner: JobOwner?, _ job: ComputeJob) -> Bool {
        let (isTaken, evicted) = lock.withLock { take(job, urgency, owner) }
        // Without the lock: the job may submit another one.
        evicted?.evicted()
        return isTaken
    }

    /// Puts a job into the queue if there is room, or if another job makes room.
    /// - Returns: whether it is in the queue, and the job that was evicted.
    private func take(
        _ job: ComputeJob, _ urgency: JobUrgency, _ owner: JobOwner?
    ) -> (isTaken: Bool, evicted: ComputeJob?) {
        // For a job that waits, a thread may already be on its way.
        let busy = waiting.count + tally.running
        let room =
            switch urgency {
            case .awaited: maxQueued + threadCount
            case .expected: threadCount
            case .spare: max(1, threadCount - 1)
            }
        let isFull = busy >= room
        let mayEvict = isFull && urgency == .awaited && !isStopping
        let evicted = mayEvict ? waiting.evict(for: owner) : nil
        guard !isStopping, !isFull || evicted != nil else {
            if urgency == .awaited { tally.refused += 1 }
            return (false, nil)
        }
        if evicted != nil { tally.evicted += 1 }
        waiting.append(job, of: owner)
        lock.signal()
        return (true, evicted)
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

    /// The loop of one thread.
    private func runJobs() {
        // Event loops have priority: a user hears late audio, not a slightly later model. Linux has
        // a nice value per thread, and nice(2) adds to the caller's, which is the process's so far;
        // the kernel stops at 19.
        _ = nice(Self.addedNiceness)
        // The name is set last: a thread with the name has its niceness, too.
        pthread_setname_np(pthread_self(), "worker")
        while let job = nextJob() {
            job.run()
            lock.withLock { tally.running -= 1 }
        }
    }

    private func nextJob() -> ComputeJob? {
        lock.withLock {
            while waiting.count == 0, !isStopping { lock.wait() }
            guard let job = waiting.popFirst() else { return nil }
            tally.running += 1
            return job
        }
    }
}
