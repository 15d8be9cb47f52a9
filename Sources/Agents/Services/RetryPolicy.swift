// When a failed request to a service is retried: exponential backoff with jitter, within a budget,
// so that an outage does not multiply the requests. The caller defines the request and reports when
// a part of its answer has been passed on.
//
// Invariant: a request is not retried once a byte of its answer has come: a service that has begun
// to answer has begun to act. All sessions share one retry budget for each service.

import Session
import Synchronization

/// Limits the retries of one service: a token bucket that first requests fill and retries empty.
/// Shared by all shards.
public final class RetryBudget: Sendable {
    /// Capacity of the bucket in retries. 10: enough to bridge a restart of the service. An outage
    /// adds ten requests at once, then only the percentage.
    public static let burst = 10
    private static let retryCost = 100

    /// Hundredths of a retry.
    private let tokens = Mutex(burst * retryCost)
    private let percent: Int

    /// Creates a full budget.
    /// - Parameter percent: retries per hundred requests, 0…100. 10: retries add at most a tenth to
    ///   the load of a failing service.
    public init(percent: Int = 10) {
        precondition((0...100).contains(percent))
        self.percent = percent
    }

    /// Counts the first attempt of a request.
    func handleRequest() {
        tokens.withLock { $0 = min($0 + percent, Self.burst * Self.retryCost) }
    }

    /// Takes one retry from the budget; false when it is empty.
    func takeRetry() -> Bool {
        guard percent > 0 else { return false }
        return tokens.withLock { tokens in
            guard tokens >= Self.retryCost else { return false }
            tokens -= Self.retryCost
            return true
        }
    }
}

/// Makes requests to one service and retries those that fail for a transient reason.
public struct RetryPolicy: Sendable {
    /// Most retries of one request, 0 or more. 2: with the delays below they add about 300 ms, a
    /// pause that a user on the telephone hardly notices.
    public var maxRetries: Int
    /// The delay before the first retry; each further one doubles it.
    public var firstDelay: Duration = .milliseconds(100)
    /// The longest delay. A service that asks for a longer one (`Retry-After`) is not retried: a
    /// conversation cannot wait that long.
    public var maxDelay: Duration = .seconds(2)
    /// Draws the random part of a delay, 0…`limit` milliseconds, so that requests which failed
    /// together are not retried together.
    var drawMilliseconds: @Sendable (_ limit: Int) -> Int = { Int.random(in: 0...$0) }

    private let budget: RetryBudget

    /// Creates a policy.
    public init(maxRetries: Int = 2, budget: RetryBudget = RetryBudget()) {
        self.maxRetries = maxRetries
        self.budget = budget
    }

    /// A policy without retries.
    public static var never: RetryPolicy { RetryPolicy(maxRetries: 0) }

    /// Makes a request. Retries it while the failure is transient, no part of an answer has come,
    /// and the budget is not empty.
    /// - Parameter failing: called with the last attempt where it failed.
    /// - Throws: the error of the last attempt.
    func perform<Value: Sendable>(
        on host: any AgentHost, _ attempt: (RequestAttempt) async throws -> Value,
        failing: (AgentError, RequestAttempt) -> Void = { _, _ in }
    ) async throws -> Value {
        handleRequest()
        var retries = 0
        while true {
            let progress = RequestAttempt()
            do {
                return try await attempt(progress)
            } catch let error as AgentError {
                guard let delay = delay(after: error, of: progress, retries: &retries) else {
                    failing(error, progress)
                    throw error
                }
                try await host.sleep(for: delay)
            }
        }
    }

    /// Counts the first attempt of a request.
    func handleRequest() { budget.handleRequest() }

    /// The delay before a failed request is retried; nil when it must not be.
    /// - Parameter retries: how often it was retried so far; incremented with each delay.
    func delay(
        after error: AgentError, of attempt: RequestAttempt, retries: inout Int
    ) -> Duration? {
        guard retries < maxRetries, attempt.mayBeRepeated, Self.isTransient(error),
            let delay = delay(before: retries, asked: attempt.retryAfter), budget.takeRetry()
        else { return nil }
        retries += 1
        return delay
    }

    /// Half of the exponential delay plus a random part of the other half, but not less than the
    /// service asks for. Nil when the service asks for more than `maxDelay`.
    private func delay(before retry: Int, asked: Duration?) -> Duration? {
        if let asked, asked > maxDelay { return nil }
        let doubled = firstDelay.wholeMilliseconds << min(retry, 20)
        let half = min(doubled, maxDelay.wholeMilliseconds) / 2
        let delay = Duration.milliseconds(half + drawMilliseconds(half))
        return max(delay, asked ?? .zero)
    }

    /// Whether the same request may succeed a moment later: there was no answer, or its status says
    /// so (RFC 9110 §15.5.9 and §15.6, RFC 6585 §4; 529 is Anthropic's "overloaded").
    private static func isTransient(_ error: AgentError) -> Bool {
        guard case .upstream(let status, _) = error else { return false }
        return [0, 408, 425, 429, 500, 502, 503, 504, 529].contains(status)
    }
}

/// One attempt at a request: what decides whether another may follow.
final class RequestAttempt: Sendable {
    private let delivered = Atomic(false)
    private let answered = Atomic(false)
    private let forgotten = Atomic(false)
    private let tooLate = Atomic(false)
    private let asked = Mutex<Duration?>(nil)
    /// The refusal by the service. An object, since most attempts have none.
    private let refusal = Mutex<Refusal?>(nil)

    private final class Refusal: Sendable {
        let evidence: ServiceEvidence
        let parameters: String

        init(_ evidence: ServiceEvidence, _ parameters: String) {
            self.evidence = evidence
            self.parameters = parameters
        }
    }

    /// Whether a part of its answer has been passed on.
    var hasDelivered: Bool { delivered.load(ordering: .relaxed) }
    /// Whether a byte of its answer has come.
    var hasAnswered: Bool { answered.load(ordering: .relaxed) }
    /// Whether a retry is still useful and would not make the service act twice.
    var mayBeRepeated: Bool {
        !hasDelivered && !answered.load(ordering: .relaxed) && !tooLate.load(ordering: .relaxed)
    }
    /// The delay that the service asked for (`Retry-After`), or nil.
    var retryAfter: Duration? { asked.withLock { $0 } }

    /// Whether a failure says that the service does not remember what the request goes on from. It
    /// has done nothing, so that the request may be made in another form.
    /// - Parameter error: of the attempt. A status 404 may concern something else; then the other
    ///   form has the same error.
    func hasForgotten(by error: AgentError) -> Bool {
        guard !hasDelivered else { return false }
        return switch error {
        case .upstream(let status, _), .brokenOff(let status, _):
            status == 404 || forgotten.load(ordering: .relaxed)
        default: false
        }
    }

    /// The evidence of a refusal, or of an answer that may prove to be none of the API's. Nil where
    /// there is no evidence yet.
    var evidence: ServiceEvidence? { refusal.withLock { $0?.evidence } }

    /// The service's words on the parameters that it refuses. They are empty where it refuses none.
    var refusedParameters: String { refusal.withLock { $0?.parameters ?? "" } }

    /// Notes that the service has refused, or that its answer may prove to be none.
    /// - Parameter parameters: the service's words about the parameters of the request.
    func handleRefusal(_ evidence: ServiceEvidence, parameters: String = "") {
        refusal.withLock { $0 = Refusal(evidence, parameters) }
    }

    /// A byte of the answer has come.
    func handleAnswer() { answered.store(true, ordering: .relaxed) }

    /// Notes that the service does not remember the conversation that the request continues.
    func handleForgotten() { forgotten.store(true, ordering: .relaxed) }

    /// A part of the answer is passed on.
    func handleDelivery() { delivered.store(true, ordering: .relaxed) }

    /// Notes that the time limit of the answer has passed, so that a retry is useless.
    func handleTooLate() { tooLate.store(true, ordering: .relaxed) }

    /// The service asks for a delay before the next request.
    func handleRetryAfter(_ duration: Duration?) { asked.withLock { $0 = duration } }
}
