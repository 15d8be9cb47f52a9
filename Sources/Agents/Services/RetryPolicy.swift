// When a failed request to a service is made again, and when not: exponential backoff with jitter,
// and a budget, so that an outage is not met with a multiple of the usual requests. What a request
// is, and whether anything of its answer has been used, is the caller's to say.
//
// Invariant: nothing is asked for twice once a part of an answer has been passed on; all retries of
// a service, whatever the sessions, stay within its budget.

import Session
import Synchronization

/// How many retries a service may be asked for: a token bucket that requests fill and retries
/// empty. Shared by all shards.
public final class RetryBudget: Sendable {
    /// Retries that may come at once, after requests enough. 10: a restart of the service is borne,
    /// and an outage costs it ten requests more than it would have got, then the percentage.
    public static let burst = 10
    private static let retryCost = 100

    /// Hundredths of a retry.
    private let tokens = Mutex(burst * retryCost)
    private let percent: Int

    /// Creates a full budget.
    /// - Parameter percent: retries per hundred requests, 0…100. 10: half of what would double the
    ///   work of a service that is slow to fail.
    public init(percent: Int = 10) {
        precondition((0...100).contains(percent))
        self.percent = percent
    }

    /// A request is made for the first time.
    func handleRequest() {
        tokens.withLock { $0 = min($0 + percent, Self.burst * Self.retryCost) }
    }

    /// Takes the right to one retry; false: there is none left.
    func takeRetry() -> Bool {
        guard percent > 0 else { return false }
        return tokens.withLock { tokens in
            guard tokens >= Self.retryCost else { return false }
            tokens -= Self.retryCost
            return true
        }
    }
}

/// Makes requests to one service, again where that may help.
public struct RetryPolicy: Sendable {
    /// Retries of one request, 0…. 2: with the delays below some 300 ms, after which a person on
    /// the telephone wonders.
    public var maxRetries: Int
    /// The delay before the first retry; each further one doubles it.
    public var firstDelay: Duration = .milliseconds(100)
    /// The longest delay, also of those that a service asks for: one that asks for more is not
    /// asked again, as nobody waits that long in a conversation.
    public var maxDelay: Duration = .seconds(2)
    /// Draws the part of a delay that is left to chance, so that requests which failed together do
    /// not come back together: up to the given number of milliseconds.
    var drawMilliseconds: @Sendable (_ limit: Int) -> Int = { Int.random(in: 0...$0) }

    private let budget: RetryBudget

    /// Creates a policy.
    public init(maxRetries: Int = 2, budget: RetryBudget = RetryBudget()) {
        self.maxRetries = maxRetries
        self.budget = budget
    }

    /// Nothing is tried again.
    public static var never: RetryPolicy { RetryPolicy(maxRetries: 0) }

    /// Makes a request, and makes it again while it fails for a reason that may pass, nothing of
    /// its answer was passed on, and the budget lasts.
    /// - Throws: what the last attempt threw.
    func perform<Value: Sendable>(
        on host: any AgentHost, _ attempt: (RequestAttempt) async throws -> Value
    ) async throws -> Value {
        handleRequest()
        var retries = 0
        while true {
            let progress = RequestAttempt()
            do {
                return try await attempt(progress)
            } catch let error as AgentError {
                guard let delay = delay(after: error, of: progress, retries: &retries) else {
                    throw error
                }
                try await host.sleep(for: delay)
            }
        }
    }

    /// A request is made for the first time.
    func handleRequest() { budget.handleRequest() }

    /// After what delay a request that has failed is to be made again; nil: not at all.
    /// - Parameter retries: how often it was; counted on.
    func delay(
        after error: AgentError, of attempt: RequestAttempt, retries: inout Int
    ) -> Duration? {
        guard retries < maxRetries, attempt.mayBeRepeated, Self.mayPass(error),
            let delay = delay(before: retries, asked: attempt.retryAfter), budget.takeRetry()
        else { return nil }
        retries += 1
        return delay
    }

    /// Half of an exponential delay, and a random part of the other half; at least what the service
    /// asks for. Nil when that is too long.
    private func delay(before retry: Int, asked: Duration?) -> Duration? {
        if let asked, asked > maxDelay { return nil }
        let doubled = firstDelay.wholeMilliseconds << min(retry, 20)
        let half = min(doubled, maxDelay.wholeMilliseconds) / 2
        let delay = Duration.milliseconds(half + drawMilliseconds(half))
        return max(delay, asked ?? .zero)
    }

    /// Whether the same request may succeed a moment later: no answer, or one that says so (RFC
    /// 9110 §15.5.9 and §15.6, RFC 6585 §4; 529 is Anthropic's "overloaded").
    private static func mayPass(_ error: AgentError) -> Bool {
        guard case .upstream(let status, _) = error else { return false }
        return [0, 408, 425, 429, 500, 502, 503, 504, 529].contains(status)
    }
}

/// What is known of one attempt at a request.
final class RequestAttempt: Sendable {
    private let delivered = Atomic(false)
    private let tooLate = Atomic(false)
    private let asked = Mutex<Duration?>(nil)

    /// Whether something of its answer has been passed on.
    var hasDelivered: Bool { delivered.load(ordering: .relaxed) }
    /// Whether asking again could still be of use to whoever waits.
    var mayBeRepeated: Bool { !hasDelivered && !tooLate.load(ordering: .relaxed) }
    /// How long the service asked to be left alone.
    var retryAfter: Duration? { asked.withLock { $0 } }

    /// Something of the answer is passed on.
    func handleDelivery() { delivered.store(true, ordering: .relaxed) }

    /// An answer would come too late, whenever it is asked for.
    func handleTooLate() { tooLate.store(true, ordering: .relaxed) }

    /// The service asks to be left alone for a while.
    func handleRetryAfter(_ duration: Duration?) { asked.withLock { $0 = duration } }
}
