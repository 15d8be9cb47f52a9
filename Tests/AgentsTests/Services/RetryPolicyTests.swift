// When a request is retried. The host records the requests and delays; its clock stands still.

import Session
import Synchronization
import Testing

@testable import Agents

@Suite struct RetryPolicyTests {
    private let failure = AgentError.upstream(status: 503, message: "busy")

    /// The result of a request whose attempts end as scripted; `nil` is a success.
    private func run(
        _ outcomes: [AgentError?], policy: RetryPolicy, delivers: Bool = false,
        retryAfter: Duration? = nil
    ) async -> (attempts: Int, delays: [Int], error: AgentError?) {
        let host = ScriptedAgentHost()
        let count = Mutex(0)
        do {
            try await policy.perform(on: host) { attempt in
                let number = count.withLock { count in
                    count += 1
                    return count - 1
                }
                if delivers { attempt.handleDelivery() }
                attempt.handleRetryAfter(retryAfter)
                if let error = outcomes[number] { throw error }
            }
            return (count.withLock { $0 }, delays(of: host), nil)
        } catch {
            return (count.withLock { $0 }, delays(of: host), error as? AgentError)
        }
    }

    private func policy(retries: Int = 2, budget: RetryBudget = RetryBudget()) -> RetryPolicy {
        var policy = RetryPolicy(maxRetries: retries, budget: budget)
        policy.drawMilliseconds = { $0 }
        return policy
    }

    private func delays(of host: ScriptedAgentHost) -> [Int] {
        host.sleeps.map(\.wholeMilliseconds)
    }

    @Test(arguments: [0, 408, 425, 429, 500, 502, 503, 504])
    func transientFailuresAreRetried(status: Int) async {
        let error = AgentError.upstream(status: status, message: "")
        let done = await run([error, error, nil], policy: policy())
        #expect(done.attempts == 3 && done.error == nil)
        #expect(done.delays == [100, 200])
    }

    @Test(arguments: [
        AgentError.upstream(status: 400, message: ""), .upstream(status: 401, message: ""),
        .upstream(status: 404, message: ""), .malformedReply(message: ""), .overloaded,
        .unavailable(message: ""),
    ])
    func otherFailuresAreNotRetried(error: AgentError) async {
        let done = await run([error, nil], policy: policy())
        #expect(done.attempts == 1 && done.error == error)
    }

    @Test func theLastErrorIsThrown() async {
        let last = AgentError.upstream(status: 429, message: "")
        let done = await run([failure, failure, last], policy: policy())
        #expect(done.attempts == 3 && done.error == last)
    }

    @Test func thereIsNoRetryAfterADelivery() async {
        let done = await run([failure, nil], policy: policy(), delivers: true)
        #expect(done.attempts == 1 && done.error == failure)
    }

    @Test func halfOfEachDelayIsRandom() async {
        var policy = policy(retries: 6, budget: RetryBudget(percent: 100))
        policy.drawMilliseconds = { _ in 0 }
        let done = await run(Array(repeating: failure, count: 7), policy: policy)
        #expect(done.delays == [50, 100, 200, 400, 800, 1_000])
    }

    @Test func aServicesRetryAfterIsRespected() async {
        let soon = await run([failure, nil], policy: policy(), retryAfter: .seconds(1))
        #expect(soon.delays == [1_000] && soon.error == nil)
        // The delay is never shorter than without the field, and at most `maxDelay`.
        let hasty = await run([failure, nil], policy: policy(), retryAfter: .milliseconds(10))
        #expect(hasty.delays == [100])
        let patient = await run([failure, nil], policy: policy(), retryAfter: .seconds(2))
        #expect(patient.delays == [2_000] && patient.error == nil)
        // A minute is longer than `maxDelay`.
        let late = await run([failure, nil], policy: policy(), retryAfter: .seconds(60))
        #expect(late.attempts == 1 && late.error == failure)
    }

    @Test func retriesInAnOutageStayWithinABurstAndATenth() async {
        let budget = RetryBudget(percent: 10)
        var attempts = 0
        for _ in 0..<1_000 {
            attempts += await run([failure, failure, failure], policy: policy(budget: budget))
                .attempts
        }
        // First the burst, then a tenth of the requests.
        #expect(attempts <= 1_000 + RetryBudget.burst + 100)
        #expect(attempts >= 1_000 + 100)
    }

    @Test func successesFillTheBudgetToTheBurstOnly() async {
        let budget = RetryBudget(percent: 100)
        for _ in 0..<100 { _ = await run([nil], policy: policy(budget: budget)) }
        var retries = 0
        while budget.takeRetry() { retries += 1 }
        #expect(retries == RetryBudget.burst)
    }

    @Test func aBudgetOfZeroPercentAllowsNoRetry() async {
        let done = await run([failure, nil], policy: policy(budget: RetryBudget(percent: 0)))
        #expect(done.attempts == 1)
    }

    @Test func cancellationEndsTheDelay() async {
        let task = Task { await run([failure, nil], policy: policy()) }
        task.cancel()
        #expect(await task.value.attempts <= 1)
    }
}
