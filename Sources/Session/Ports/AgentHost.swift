// The services of the server that an agent may use. The server implements it on the session's own
// shard (Server/ShardAgentHost); tests implement it on a virtual clock.

import Codec

/// The services of the shard that runs an agent's task. All methods may be called from any async
/// context.
public protocol AgentHost: Sendable {
    /// The time on the shard's clock; by default it stands still.
    func now() async -> Instant

    /// Suspends the task for a while on the shard's clock.
    /// - Throws: `CancellationError` when the task is cancelled first.
    func sleep(for duration: Duration) async throws

    /// Runs CPU-heavy work on the server's bounded worker pool, never on the shard's thread.
    /// - Throws: what `work` throws, or `AgentError.overloaded` when the pool's queue is full.
    func compute<Result: Sendable>(
        _ work: @escaping @Sendable () throws -> Result
    ) async throws -> Result

    /// Runs CPU-heavy work that yields pieces as it goes; `each` receives them on the shard.
    /// `yield` returns false once the consumer needs no more pieces.
    /// - Throws: what `work` throws, or `AgentError.overloaded` when the pool's queue is full.
    func compute<Element: Sendable>(
        yielding work: @escaping @Sendable (_ yield: (Element) -> Bool) throws -> Void,
        each: @Sendable (Element) async throws -> Void
    ) async throws

    /// Sends an HTTP request on the shard's own event loop and returns once the head of the
    /// answer is there.
    /// - Throws: `AgentError.upstream`, or `CancellationError`.
    func send(_ request: UpstreamRequest) async throws -> any UpstreamResponse

    /// A connection to a Redis server, on the shard's own event loop. All agents of a shard that name
    /// the same server and the same purpose share one. It connects with its first command.
    /// - Parameter purpose: a word. Commands that wait need a connection, and so a purpose, of
    ///   their own.
    /// - Throws: `AgentError.unavailable`, by default always.
    func redis(
        at address: RedisAddress, for purpose: String
    ) throws(AgentError) -> any RedisCommands

    /// Books bytes on the session's ledger, or takes them off where negative: a request's body, an
    /// answer that is not complete. The request of the task itself is booked already. Bytes that
    /// are left are taken off at the end of the task. The default books nothing.
    func charge(_ bytes: Int)

    /// Facts of the session that the task works for. Nil means that it works for none, or that
    /// nothing is known. The default is nil.
    func sessionFacts() async -> SessionFacts?

    /// Reports a failure of a service that the operator has configured, for the log and the
    /// metrics. Any thread. The default reports nothing.
    func report(_ fault: ServiceFault)

    /// The event loop that runs the task. All tasks of one loop run on one thread, and what an agent
    /// keeps for it they may share. By default there is one.
    var shard: ObjectIdentifier { get }

    /// Starts work on the same event loop that belongs to no session: it goes on when the caller's
    /// task is cancelled or over. It ends when it is done; the end of the server does not wait for
    /// it. By default it is a task of its own.
    /// - Parameter work: gets a host of its own.
    func startSharedWork(_ work: @escaping @Sendable (any AgentHost) async -> Void)
}

extension AgentHost {
    /// By default time does not pass.
    public func now() async -> Instant { Instant(nanoseconds: 0) }

    /// By default there is no Redis client.
    public func redis(
        at address: RedisAddress, for purpose: String
    ) throws(AgentError) -> any RedisCommands {
        throw .unavailable(message: "This server has no Redis client.")
    }

    /// By default nothing is counted.
    public func charge(_ bytes: Int) {}

    /// By default nothing is reported.
    public func report(_ fault: ServiceFault) {}

    /// Nothing is known.
    public func sessionFacts() async -> SessionFacts? { nil }

    /// There is one event loop.
    public var shard: ObjectIdentifier { ObjectIdentifier(Self.self) }

    /// A task of its own.
    public func startSharedWork(_ work: @escaping @Sendable (any AgentHost) async -> Void) {
        Task { await work(self) }
    }

    /// Charges the present use instead of the earlier charge, if the difference is 1 KiB or more:
    /// less is within the estimate of a task.
    /// - Parameter charged: the last charge.
    public func charge(_ bytes: Int, insteadOf charged: inout Int) {
        guard abs(bytes - charged) >= 1_024 else { return }
        charge(bytes - charged)
        charged = bytes
    }
}

/// An HTTP request to a model or speech service.
public struct UpstreamRequest: Sendable {
    /// Absolute URL, http or https.
    public var url: String
    /// For example `POST`.
    public var method: String
    /// Header fields in order.
    public var headers: [(name: String, value: String)]
    /// Body bytes.
    public var body: [UInt8]
    /// Limit of the time until the answer's head, and between pieces of its body. Default 30 s.
    public var timeout: Duration
    /// Limit of the time until the answer's end; nil for none, the default. While the transfer is
    /// paused for a slow consumer it does not run.
    public var totalTimeout: Duration?
    /// A field of the answer's head that `UpstreamResponse.header` is to know, if there is one.
    public var keptHeader: String?
    /// Whether only public addresses may be reached: for URLs that a client has named, who must not
    /// reach the server's own network through it. False: any address, the default.
    public var reachesOnlyPublicAddresses = false
    /// Whether it goes through the proxy of services, where there is one. False for requests between
    /// nodes: their passes are for the nodes alone, and a proxy seldom reaches a private address.
    public var usesProxy = true

    /// Creates a request.
    public init(
        url: String, method: String = "POST", headers: [(name: String, value: String)] = [],
        body: [UInt8] = [], timeout: Duration = .seconds(30), totalTimeout: Duration? = nil
    ) {
        self.url = url
        self.method = method
        self.headers = headers
        self.body = body
        self.timeout = timeout
        self.totalTimeout = totalTimeout
    }
}

/// The answer to an `UpstreamRequest`. Dropping the last reference, or cancelling the task that
/// waits for it, ends the transfer.
public protocol UpstreamResponse: AnyObject, Sendable {
    /// HTTP status.
    var status: Int { get }

    /// The `Content-Type` field as it came (RFC 9110 §8.3); nil where there is none, the default.
    var contentType: String? { get }

    /// How long the service asks for no further request (`Retry-After`, RFC 9110 §10.2.3); nil
    /// where it does not, the default.
    var retryAfter: Duration? { get }

    /// The `Location` field of an answer with the status 3xx as it came (RFC 9110 §10.2.2); nil for
    /// any other answer, where there is none, and by default.
    var location: String? { get }

    /// The request's `keptHeader`; nil for any other, where there is none, and by default.
    func header(_ name: String) -> String?

    /// The next piece of the body, or nil at its end.
    /// - Throws: `AgentError.upstream` when the transfer breaks, or `CancellationError`.
    func nextChunk() async throws -> [UInt8]?

    /// Says that the answer is complete, except for parts that may be left out. The transfer then
    /// ends by itself or after `limit`, as if the service had ended it. Dropping the last reference
    /// does not end it before, because its connection may serve the next request. Called once; does
    /// nothing by default.
    func expectEnd(within limit: Duration)
}

extension UpstreamResponse {
    /// The media type of the body is not known.
    public var contentType: String? { nil }

    /// By default there is none.
    public var location: String? { nil }

    /// By default nothing is asked for.
    public var retryAfter: Duration? { nil }

    /// By default the transfer goes on without such a limit.
    public func expectEnd(within limit: Duration) {}

    /// No field is kept.
    public func header(_ name: String) -> String? { nil }
}

/// Why an agent has failed; becomes a failed response or a failed transcription.
public enum AgentError: Error, Equatable, Sendable {
    /// The part is not configured or its model is not installed; `message` says what to do.
    case unavailable(message: String)
    /// No provider of this server answers for the model that the client named.
    case unknownModel(message: String)
    /// The worker pool's queue is full.
    case overloaded
    /// A quota of the caller is used up; `message` names it and says when to come back.
    case quotaUsedUp(message: String, retryAfter: Duration)
    /// The model has too many requests: as many wait for it as may, or the service says so.
    /// `retryAfter` is when another request may succeed, `detail` the service's own words.
    case rateLimited(retryAfter: Duration, detail: String = "")
    /// A model or speech service failed: the HTTP status (0 when none came) and the service's
    /// words.
    case upstream(status: Int, message: String)
    /// A service reported an error within an answer that had begun with a 2xx status. `status` is
    /// that of the same error before an answer (0 where it is unknown), `message` is the service's.
    case brokenOff(status: Int, message: String)
    /// The service answered with something that cannot be understood; `detail` is for the operator
    /// alone.
    case malformedReply(message: String, detail: String = "")
    /// The worker that answered the turn has died, after the user heard a part of its answer or
    /// before.
    case agentLost(hasSpoken: Bool)
    /// One of the others with its cause, for a caller who may know it (`ServiceFault.summary`).
    indirect case explained(AgentError, cause: String)

    /// The model calls a function with arguments that are no JSON object.
    static let brokenArguments = AgentError.malformedReply(
        message: "The model called a function with arguments that are no JSON object.")

    /// The protocol's error code.
    public var code: String {
        switch self {
        case .unavailable: "agent_unavailable"
        case .unknownModel: "model_not_found"
        case .overloaded: "server_overloaded"
        case .rateLimited, .quotaUsedUp: "rate_limit_exceeded"
        case .upstream, .brokenOff: "upstream_error"
        case .malformedReply: "upstream_malformed_reply"
        case .agentLost: "agent_lost"
        case .explained(let error, _): error.code
        }
    }

    /// A sentence for the client. It has neither the service's own words nor its address: services
    /// repeat keys and addresses in their errors.
    public var message: String {
        switch self {
        case .unavailable(let message), .unknownModel(let message),
            .malformedReply(let message, _), .quotaUsedUp(let message, _):
            message
        case .overloaded: "The server's worker queue is full; try again."
        case .rateLimited:
            "The model has too many requests now; try again in \(retryAfterSeconds ?? 1) s."
        case .upstream(let status, _), .brokenOff(let status, _):
            status == 0
                ? "A service that the server depends on gave no complete answer; try again."
                : "A service that the server depends on answered with status \(status)."
        case .agentLost(let hasSpoken):
            hasSpoken
                ? "The agent stopped in the middle of its answer; ask again."
                : "The agent stopped before it answered; try again."
        case .explained(let error, let cause): "\(error.message) \(cause)"
        }
    }

    /// Whole seconds after which another request may succeed, at least 1; nil where nothing says
    /// when.
    public var retryAfterSeconds: Int? {
        switch self {
        case .rateLimited(let delay, _), .quotaUsedUp(_, let delay):
            return max(1, (delay.wholeMilliseconds + 999) / 1_000)
        case .explained(let error, _): return error.retryAfterSeconds
        default: return nil
        }
    }

    /// A sentence for the operator.
    public var detail: String {
        switch self {
        case .upstream(let status, let message), .brokenOff(let status, let message):
            status == 0 ? message : "status \(status): \(message)"
        case .malformedReply(let message, let detail):
            detail.isEmpty ? message : "\(message) (\(detail))"
        case .rateLimited(_, let detail): detail.isEmpty ? message : detail
        case .unavailable, .unknownModel, .overloaded, .quotaUsedUp, .agentLost: message
        case .explained(let error, _): error.detail
        }
    }
}
