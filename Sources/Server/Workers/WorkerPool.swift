// The threads that run embedded models, so that a busy model never delays a shard. One pool per
// server, with a bounded queue: a full queue is an error (`AgentError.overloaded`), not a delay.
// JobSchedule decides which jobs are taken, and which is next. ShardAgentHost returns a job's results
// to its shard.
//
// Invariant: a job that was taken runs or is evicted, exactly once, also when the pool is shutting
// down.

import CLinux
import Session

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
        queue = WorkerQueue(threads: threads, maxQueued: maxQueued)
        queue.start(threads: threads)
    }

    deinit { queue.stop(waitForThreads: false) }

    /// Runs a job on the next free thread, the jobs of a session in the order of submission. An
    /// awaited job that finds the queue full takes the place of a job whose owner has a larger
    /// share of the queue.
    /// - Returns: false where the job is not run: the queue is full and no share is larger, a job
    ///   that is not awaited is shed (JobSchedule), or the pool is shut down.
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
    private var schedule: JobSchedule<(job: ComputeJob, urgency: JobUrgency)>
    private var threads: [pthread_t] = []

    init(threads: Int, maxQueued: Int) {
        schedule = JobSchedule(threads: threads, maxQueued: maxQueued)
    }

    var counts: WorkerCounts { lock.withLock { schedule.counts } }

    func start(threads count: Int) {
        threads = (0..<count).map { _ in
            guard let thread = startThread({ [self] in runJobs() }) else {
                preconditionFailure("a worker thread cannot be started")
            }
            return thread
        }
    }

    func submit(_ urgency: JobUrgency, _ owner: JobOwner?, _ job: ComputeJob) -> Bool {
        let now = MonotonicClock.now
        let (isTaken, evicted) = lock.withLock {
            let outcome = schedule.submit((job, urgency), urgency, of: owner, at: now)
            if outcome.isTaken { lock.signal() }
            return outcome
        }
        // Without the lock: the job may submit another one.
        evicted?.job.evicted()
        return isTaken
    }

    func stop(waitForThreads: Bool) {
        let ending = lock.withLock { () -> [pthread_t] in
            schedule.stop()
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
        while let (job, urgency) = nextJob() {
            let (begin, used) = (MonotonicClock.now, MonotonicClock.usedByThread)
            job.run()
            let (end, usedAtEnd) = (MonotonicClock.now, MonotonicClock.usedByThread)
            lock.withLock {
                schedule.note(usedAtEnd - used, of: urgency)
                schedule.end(after: end - begin, at: end)
            }
        }
    }

    private func nextJob() -> (job: ComputeJob, urgency: JobUrgency)? {
        lock.withLock {
            while true {
                if let job = schedule.start() { return job }
                guard !schedule.isStopping else { return nil }
                lock.wait()
            }
        }
    }
}
