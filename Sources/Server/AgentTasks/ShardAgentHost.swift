// The services of a shard for the agents that run on it: its clock, the worker pool, its HTTP
// client, its Redis client. ShardGate lets tasks sleep, UpstreamHTTP has HTTP; this file returns
// results from other threads.

import Codec
import Session
import Synchronization

/// An HTTP client on a shard's event loop. `UpstreamHTTP` is one; tests script another.
package protocol UpstreamClient: AnyObject, Sendable {
    /// Sends a request and returns once the head of the answer is there.
    /// - Parameter owner: the session that it is charged to. Nil means none.
    func send(
        _ request: UpstreamRequest, for owner: EventToken?
    ) async throws -> any UpstreamResponse
    /// Bytes of the requests of an owner. On the shard's thread.
    func heldBytes(of owner: EventToken) -> Int
    /// A watched descriptor is ready. On the shard's thread.
    func handleReady(fd: Int32, readable: Bool, writable: Bool, failed: Bool)
    /// The upstream timer has fired. On the shard's thread.
    func handleTimer()
    /// Ends every transfer. On the shard's thread.
    func shutdown()
}

extension WorkerPool: ComputePool {}

extension UpstreamHTTP: UpstreamClient {}

/// The services of one shard for its agents.
final class ShardAgentHost: AgentHost {
    /// Pieces of one streaming job that may wait for the shard. 4,096: minutes of speech; a job
    /// that runs further ahead of its consumer fails as overloaded.
    static let maxWaitingPieces = 4_096

    private let gate: ShardGate
    private let pool: any ComputePool
    private let upstream: (any UpstreamClient)?
    private let redis: RedisClient?
    /// Notes failures of services. Where nil, they are not noted.
    private let noteFault: (@Sendable (ServiceFault) -> Void)?
    private let urgency: JobUrgency
    /// The session that it works for, or nil for the shard itself.
    private let owner: JobOwner?
    /// Bytes that its task has charged.
    private let charged = Atomic<Int>(0)
    /// Whether the causes of failures may be told to the session's client.
    private let explainsFailures: Bool
    /// The newest failure of a service, where its cause may be told.
    private let newestFault = Mutex<String?>(nil)
    /// Whether its jobs are not needed unless they have begun.
    private let isWithdrawn = Atomic<Bool>(false)

    /// - Parameters:
    ///   - urgency: the urgency of all jobs of this host.
    ///   - owner: the session that it works for, or nil for the shard itself.
    ///   - noteFault: notes failures of services. Where nil, they are not noted.
    ///   - explainsFailures: whether the session's client may know the causes of failures.
    init(
        gate: ShardGate, pool: any ComputePool, upstream: (any UpstreamClient)?,
        redis: RedisClient? = nil, noteFault: (@Sendable (ServiceFault) -> Void)? = nil,
        urgency: JobUrgency = .awaited, owner: JobOwner? = nil, explainsFailures: Bool = false
    ) {
        self.explainsFailures = explainsFailures
        self.redis = redis
        self.noteFault = noteFault
        self.owner = owner
        self.gate = gate
        self.pool = pool
        self.upstream = upstream
        self.urgency = urgency
    }

    /// The same host for the work of one session.
    /// - Parameter token: the session's connection, or its text request.
    func serving(
        _ token: EventToken, of work: AgentWork, _ urgency: JobUrgency = .awaited
    ) -> ShardAgentHost {
        ShardAgentHost(
            gate: gate, pool: pool, upstream: upstream, redis: redis, noteFault: noteFault,
            urgency: urgency,
            owner: JobOwner(caller: work.caller, shard: ObjectIdentifier(gate), token: token),
            explainsFailures: work.explainsFailures)
    }

    /// An error for the session's client, with its cause where the client may know it.
    func explained(_ error: AgentError) -> AgentError {
        guard let cause = newestFault.withLock({ $0 }) else { return error }
        return .explained(error, cause: cause)
    }

    /// Its jobs that have not begun end with `CancellationError` when their turn comes; those that
    /// have begun go on.
    func withdraw() { isWithdrawn.store(true, ordering: .relaxed) }

    /// Bytes that its task has in addition to its command.
    var chargedBytes: Int { max(0, charged.load(ordering: .relaxed)) }

    func charge(_ bytes: Int) {
        guard bytes != 0 else { return }
        charged.add(bytes, ordering: .relaxed)
        // The session itself may have nothing to do for a long time.
        if let owner { gate.noteCharge(of: owner.token) }
    }

    func sessionFacts() async -> SessionFacts? {
        guard let owner else { return nil }
        return await gate.facts(of: owner.token)
    }

    func report(_ fault: ServiceFault) {
        noteFault?(fault)
        if explainsFailures, !fault.isTolerated { newestFault.withLock { $0 = fault.summary } }
    }

    var shard: ObjectIdentifier { ObjectIdentifier(gate) }

    func startSharedWork(_ work: @escaping @Sendable (any AgentHost) async -> Void) {
        let host = ShardAgentHost(
            gate: gate, pool: pool, upstream: upstream, redis: redis, noteFault: noteFault,
            urgency: urgency)
        Task(executorPreference: gate.executor.task) { await work(host) }
    }

    func now() async -> Instant { await gate.time }

    func sleep(for duration: Duration) async throws {
        try await gate.sleep(for: duration)
    }

    func compute<Result: Sendable>(
        _ work: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        let interest = ComputeInterest()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let job = ComputeJob {
                    // A turn that was interrupted meanwhile must not occupy a worker.
                    guard !interest.isLost, !self.isWithdrawn.load(ordering: .relaxed) else {
                        continuation.resume(throwing: CancellationError())
                        return
                    }
                    continuation.resume(with: Swift.Result(catching: work))
                } evicted: {
                    continuation.resume(throwing: AgentError.overloaded)
                }
                guard !pool.submit(urgency, for: owner, job) else { return }
                continuation.resume(throwing: AgentError.overloaded)
            }
        } onCancel: {
            interest.lose()
        }
    }

    func compute<Element: Sendable>(
        yielding work: @escaping @Sendable (_ yield: (Element) -> Bool) throws -> Void,
        each: @Sendable (Element) async throws -> Void
    ) async throws {
        let pieces = ComputePieces<Element>(limit: ShardAgentHost.maxWaitingPieces)
        let job = ComputeJob {
            guard !pieces.isAbandoned else { return }
            do {
                try work { pieces.append($0) }
                pieces.finish(throwing: nil)
            } catch {
                pieces.finish(throwing: error)
            }
        } evicted: {
            pieces.finish(throwing: AgentError.overloaded)
        }
        guard pool.submit(urgency, for: owner, job) else { throw AgentError.overloaded }
        // The worker must be told of the consumer's end, for any cause.
        defer { pieces.abandon() }
        try await withTaskCancellationHandler {
            while let piece = try await pieces.next() { try await each(piece) }
        } onCancel: {
            pieces.abandon()
        }
    }

    func send(_ request: UpstreamRequest) async throws -> any UpstreamResponse {
        guard let upstream else {
            throw AgentError.unavailable(message: "This server has no upstream HTTP client.")
        }
        return try await upstream.send(request, for: owner?.token)
    }

    func redis(
        at address: RedisAddress, for purpose: String
    ) throws(AgentError) -> any RedisCommands {
        guard let redis else {
            throw .unavailable(message: "This server has no Redis client.")
        }
        return redis.commands(to: address, for: purpose)
    }
}

/// Whether the result of a job is still wanted.
private final class ComputeInterest: Sendable {
    private let flag = Atomic<Bool>(false)

    var isLost: Bool { flag.load(ordering: .relaxed) }

    func lose() { flag.store(true, ordering: .relaxed) }
}
