// How many threads run embedded speech models, and how many jobs may wait for them.

import Session

/// Settings of the worker threads.
public struct WorkerSettings: Sendable {
    /// One per core.
    public var threads = ProcessorShare.cores
    /// 64 for each core: some 25 s of work for a thread, with utterances of 10 s. So all callers of a
    /// machine may stop speaking at once, and their turns wait instead of failing.
    public var maxQueuedJobs = 64 * ProcessorShare.cores

    static let settings: [Setting<Self>] = [
        .integer(
            "worker-threads", \.threads, 1...1_024, unit: "threads",
            "Threads for embedded speech models. One per core."),
        .integer(
            "max-queued-jobs", \.maxQueuedJobs, 1...1_000_000, unit: "jobs",
            """
            Jobs that wait for a worker thread; 64 for each core. Beyond that, a job of the \
            session with the most jobs fails.
            """),
    ]
}
