// The port to the threads that run embedded models: jobs, their urgency and their owners.
// `WorkerPool` implements it with threads, tests implement it without.

import Codec
import Session

/// The urgency of a job.
package enum JobUrgency: Sendable {
    /// A client waits for the result: the job is queued where no thread is free.
    case awaited
    /// A client will probably wait for the result in a moment: the job is queued behind a few
    /// others, and refused where more wait.
    case expected
    /// No client waits for the result. The job is refused unless a thread is free, another one stays
    /// free for the jobs that are awaited, and the threads are idle half of the time. A pool of one
    /// thread takes it when that thread is free.
    case spare
}

/// Tells callers apart. The work of all sessions of one caller counts together. A session stores
/// it, so it is a hash of 32 bits and no table of callers exists.
///
/// Two callers have the same tag with a probability of 1 in 4 billion; they then share one place in
/// the order. A client cannot choose a tag, because the seed of Swift's `Hasher` is random in each
/// process.
package struct CallerTag: Hashable, Sendable {
    private let bits: UInt32

    /// The tag of a caller.
    /// - Parameters:
    ///   - principal: the principal of its credential (`Caller.principal`), or nil where no
    ///     credential tells callers apart. Then the address does.
    ///   - address: the client's address. Behind a trusted proxy it is the one that the proxy
    ///     names. All addresses of an IPv6 /64 count as one.
    package init(principal: SHA256Digest?, address: NetworkAddress) {
        var hasher = Hasher()
        if let principal {
            hasher.combine(principal)
        } else {
            hasher.combine(address.subscriber)
        }
        bits = UInt32(truncatingIfNeeded: hasher.finalize())
    }
}

/// The owner of a job: a caller, and one session or text request of that caller.
package struct JobOwner: Equatable, Sendable {
    /// One session of one shard.
    package struct Session: Equatable, Sendable {
        fileprivate let shard: ObjectIdentifier?
        fileprivate let token: EventToken
    }

    /// The caller; all its sessions share one place in the order.
    package let caller: CallerTag
    /// The session.
    package let session: Session
    /// The connection, or the text request, of the session.
    var token: EventToken { session.token }

    /// Creates the owner of a session's jobs.
    /// - Parameter shard: tells sessions of different shards apart, whose tokens may be the same.
    package init(caller: CallerTag, shard: ObjectIdentifier? = nil, token: EventToken) {
        self.caller = caller
        session = Session(shard: shard, token: token)
    }
}

/// Work for a pool. The pool calls one of the two functions, once, for each job that it takes.
package struct ComputeJob: Sendable {
    /// The work. Called on a thread of the pool.
    package let run: @Sendable () -> Void
    /// The job lost its place in the queue to another owner and never runs. Called on the thread
    /// that submitted the other job.
    package let evicted: @Sendable () -> Void

    /// Creates a job.
    /// - Parameter evicted: called when the job is evicted. By default it does nothing, for work
    ///   whose end no task awaits.
    package init(
        run: @escaping @Sendable () -> Void, evicted: @escaping @Sendable () -> Void = {}
    ) {
        self.run = run
        self.evicted = evicted
    }
}

/// Runs CPU-heavy work on other threads.
package protocol ComputePool: Sendable {
    /// Takes a job or refuses it. Callers take turns, and within a caller its sessions do.
    /// - Parameter owner: the session that the job is for, or nil for the server itself, which
    ///   counts as one caller.
    /// - Returns: false when too many jobs wait, or when the job may not wait at all: then neither
    ///   function of the job is called. True: exactly one of them is called, once.
    func submit(_ urgency: JobUrgency, for owner: JobOwner?, _ job: ComputeJob) -> Bool
}
