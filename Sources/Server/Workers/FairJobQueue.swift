// The jobs that wait for a thread of the worker pool: which job is next, and which makes room when
// the queue is full. A value without threads or locks; WorkerPool guards it.
//
// Order: callers take turns, within a caller its sessions take turns, and the jobs of a session
// keep their order. So a job of a caller with no other job waits for at most one job of each other
// caller, beside those in work.
//
// Room: the caller with the most jobs loses one, and within it the session with the most jobs. The
// new job counts for its owner, and in a tie its owner loses. So an eviction always makes the
// shares more equal, and two owners cannot evict each other's jobs alternately.
//
// Invariant: `count` is the number of jobs; no caller and no session without a job is listed.
// Each call takes time in proportion to the callers, plus the sessions and jobs of one of them.

/// Jobs by caller and session.
struct FairJobQueue<Job> {
    private struct SessionJobs {
        let session: JobOwner.Session?
        var jobs: [Job]
    }

    private struct CallerJobs {
        /// The caller, or nil for the server itself.
        let caller: CallerTag?
        /// In the order of their turns.
        var sessions: [SessionJobs] = []
        var count = 0
    }

    /// In the order of their turns.
    private var callers: [CallerJobs] = []
    /// The number of jobs.
    private(set) var count = 0

    /// Adds a job behind the others of its session.
    mutating func append(_ job: Job, of owner: JobOwner?) {
        count += 1
        let caller = place(ofCaller: owner) ?? callers.endIndex
        if caller == callers.endIndex { callers.append(CallerJobs(caller: owner?.caller)) }
        callers[caller].count += 1
        if let session = place(ofSession: owner, inCaller: caller) {
            callers[caller].sessions[session].jobs.append(job)
        } else {
            callers[caller].sessions.append(SessionJobs(session: owner?.session, jobs: [job]))
        }
    }

    /// Takes the job whose turn it is; nil where none waits.
    mutating func popFirst() -> Job? {
        guard !callers.isEmpty else { return nil }
        var caller = callers.removeFirst()
        var session = caller.sessions.removeFirst()
        let job = session.jobs.removeFirst()
        if !session.jobs.isEmpty { caller.sessions.append(session) }
        caller.count -= 1
        if caller.count > 0 { callers.append(caller) }
        count -= 1
        return job
    }

    /// Removes a job to make room for one more job of `owner`: the newest job of the session with
    /// the most jobs, of the caller with the most jobs. Among equals, the one whose turn is last
    /// loses its job.
    /// - Returns: nil where no share is larger than that of `owner` would be.
    mutating func evict(for owner: JobOwner?) -> Job? {
        let own = place(ofCaller: owner)
        let ownCount = own.map { callers[$0].count } ?? 0
        if let largest = Self.largest(callers.map(\.count), above: ownCount + 1) {
            return evict(fromCaller: largest, above: 0)
        }
        guard let own else { return nil }
        let session = place(ofSession: owner, inCaller: own)
        let sessionCount = session.map { callers[own].sessions[$0].jobs.count } ?? 0
        return evict(fromCaller: own, above: sessionCount + 1)
    }

    private mutating func evict(fromCaller caller: Int, above share: Int) -> Job? {
        let counts = callers[caller].sessions.map(\.jobs.count)
        guard let session = Self.largest(counts, above: share) else { return nil }
        let job = callers[caller].sessions[session].jobs.removeLast()
        if counts[session] == 1 { callers[caller].sessions.remove(at: session) }
        callers[caller].count -= 1
        if callers[caller].count == 0 { callers.remove(at: caller) }
        count -= 1
        return job
    }

    /// The place of the largest number, the last among equals; nil where none is above `share`.
    private static func largest(_ counts: [Int], above share: Int) -> Int? {
        guard let most = counts.max(), most > share else { return nil }
        return counts.lastIndex(of: most)
    }

    private func place(ofCaller owner: JobOwner?) -> Int? {
        callers.firstIndex { $0.caller == owner?.caller }
    }

    private func place(ofSession owner: JobOwner?, inCaller caller: Int) -> Int? {
        callers[caller].sessions.firstIndex { $0.session == owner?.session }
    }
}
