// How many requests are with one provider at a time, and which of the others is next. Shared by all
// shards: one lock, taken twice for each request and never while one waits.
//
// Order: callers take turns, and the requests of one caller keep their order. A request gets the
// round after the last one of its caller, and the lowest round is served first. Where as many wait
// as may, a request takes the place of the newest one of a caller that has more waiting.
//
// Invariant: a request waits only where all places are taken, and at most `maxWaiting` wait. A place
// that is given back goes to the next request at once.

import Session
import Synchronization

/// The places of one provider.
public final class RequestQueue: Sendable {
    /// Most requests that wait, where the operator sets no limit. The default is 64: with 16 at a
    /// time and 2 s each, the last waits for 8 s. A caller on the telephone waits no longer.
    public static let defaultMaxWaiting = 64
    /// The shortest time until a refused request may come back: `Retry-After` has whole seconds.
    static let minRetryAfter = Duration.seconds(1)
    /// The longest estimate of that time. 60 s: the estimate follows the requests of the last
    /// minutes, and says nothing about later ones. The service's own `Retry-After` may be longer.
    static let maxRetryAfter = Duration.seconds(60)
    /// The share of a new duration in the average, as a divisor. 8: some dozen requests.
    private static let averageDivisor = 8

    private struct Waiter {
        let number: UInt64
        let caller: String
        let round: Int
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var inFlight = 0
        var refused = 0
        /// By round, and within one by arrival.
        var waiting: [Waiter] = []
        /// The round of the request that was served last.
        var round = 0
        /// The average time of recent requests. It is nil until one has ended.
        var average: Duration?
        /// Until when the service wants no request (`Retry-After`).
        var closedUntil = Instant(nanoseconds: 0)
    }

    private let state = Mutex(State())
    private let numbers = Atomic<UInt64>(0)
    private let concurrency: Int
    private let maxWaiting: Int
    private let maxWait: Duration

    /// Creates a queue.
    /// - Parameters:
    ///   - concurrency: requests at a time; 0: no limit, the default.
    ///   - maxWaiting: requests that may wait, 0 or more.
    ///   - maxWait: how long one may wait. 60 s: the limit until a model's first word.
    public init(
        concurrency: Int = 0, maxWaiting: Int = RequestQueue.defaultMaxWaiting,
        maxWait: Duration = .seconds(60)
    ) {
        precondition(concurrency >= 0 && maxWaiting >= 0)
        self.concurrency = concurrency
        self.maxWaiting = maxWaiting
        self.maxWait = maxWait
    }

    /// Requests now, and those refused since the start.
    var counts: (inFlight: Int, waiting: Int, refused: Int) {
        state.withLock { ($0.inFlight, $0.waiting.count, $0.refused) }
    }

    /// Takes a place, after the requests before it. `leave` gives it back.
    /// - Parameter caller: callers take turns.
    /// - Returns: whether it had to wait.
    /// - Throws: `AgentError.rateLimited` where too many wait or it has waited too long;
    ///   `CancellationError`.
    func enter(as caller: String, on host: any AgentHost) async throws -> Bool {
        let hasPlace = state.withLock { state in
            guard concurrency == 0 || state.inFlight < concurrency else { return false }
            state.inFlight += 1
            return true
        }
        if hasPlace { return false }
        try await wait(as: caller, on: host)
        return true
    }

    /// Gives a place back. The next request that waits gets it.
    /// - Parameter start: when the place was taken, or nil where its time is not measured.
    func leave(since start: Instant?, at now: Instant) {
        let next = state.withLock { state -> Waiter? in
            if let start {
                let time = now - start
                let average = state.average ?? time
                state.average = average + (time - average) / Self.averageDivisor
            }
            guard !state.waiting.isEmpty else {
                state.inFlight -= 1
                return nil
            }
            let next = state.waiting.removeFirst()
            state.round = next.round
            return next
        }
        next?.continuation.resume()
    }

    /// The service wants no request for a while.
    func handleLimited(until instant: Instant) {
        state.withLock { $0.closedUntil = max($0.closedUntil, instant) }
    }

    // MARK: Waiting

    private func wait(as caller: String, on host: any AgentHost) async throws {
        let now = await host.now()
        // The result is true where the request has a place.
        try await withThrowingTaskGroup(of: Bool.self) { [self] group in
            group.addTask {
                try await self.place(as: caller, at: now)
                return true
            }
            group.addTask { [maxWait] in
                try await host.sleep(for: maxWait)
                return false
            }
            let first = await group.nextResult()
            group.cancelAll()
            if case .success(true)? = first { return }
            // The place may have come in the same moment as the end of the wait.
            if case .success(true)? = await group.nextResult() { return }
            _ = try first?.get()
            throw refusal(at: now + maxWait)
        }
    }

    /// Waits for a place.
    private func place(as caller: String, at now: Instant) async throws {
        let number = numbers.add(1, ordering: .relaxed).newValue
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                var evicted: (waiter: Waiter, refusal: AgentError)?
                let outcome = state.withLock { state -> Result<Void, any Error>? in
                    if state.inFlight < concurrency {
                        state.inFlight += 1
                        return .success(())
                    }
                    if state.waiting.count >= maxWaiting {
                        guard let waiter = evict(for: caller, from: &state) else {
                            return .failure(refusal(by: &state, at: now))
                        }
                        evicted = (waiter, refusal(by: &state, at: now))
                    }
                    insert(number, caller, continuation, into: &state)
                    return nil
                }
                if let evicted {
                    evicted.waiter.continuation.resume(throwing: evicted.refusal)
                }
                if let outcome { continuation.resume(with: outcome) }
                // The handler below found nothing where the task was cancelled before.
                if outcome == nil, Task.isCancelled { withdraw(number) }
            }
        } onCancel: {
            withdraw(number)
        }
    }

    private func insert(
        _ number: UInt64, _ caller: String,
        _ continuation: CheckedContinuation<Void, any Error>, into state: inout State
    ) {
        let last = state.waiting.last { $0.caller == caller }?.round ?? state.round
        let round = max(last, state.round) + 1
        let place = state.waiting.lastIndex { $0.round <= round }.map { $0 + 1 } ?? 0
        state.waiting.insert(
            Waiter(number: number, caller: caller, round: round, continuation: continuation),
            at: place)
    }

    /// Takes out the newest request of the caller that has the most waiting.
    /// - Parameter caller: gets its place.
    /// - Returns: nil where that caller would then have no fewer waiting than this one.
    private func evict(for caller: String, from state: inout State) -> Waiter? {
        var counts: [String: Int] = [:]
        for waiter in state.waiting { counts[waiter.caller, default: 0] += 1 }
        let own = counts[caller] ?? 0
        // Among callers with the same number, this is the one whose request is served last.
        guard let most = counts.values.max(), most > own + 1,
            let place = state.waiting.lastIndex(where: { counts[$0.caller] == most })
        else { return nil }
        return state.waiting.remove(at: place)
    }

    /// Removes a request that waits no more.
    private func withdraw(_ number: UInt64) {
        let waiter = state.withLock { state -> Waiter? in
            guard let place = state.waiting.firstIndex(where: { $0.number == number }) else {
                return nil
            }
            return state.waiting.remove(at: place)
        }
        waiter?.continuation.resume(throwing: CancellationError())
    }

    // MARK: Refusing

    private func refusal(at now: Instant) -> AgentError {
        state.withLock { refusal(by: &$0, at: now) }
    }

    private func refusal(by state: inout State, at now: Instant) -> AgentError {
        state.refused += 1
        // The time until all that wait, and one more, have got a place.
        let turns = (state.waiting.count + concurrency) / max(concurrency, 1)
        let estimate = (state.average ?? Self.minRetryAfter) * turns
        let bounded = min(max(estimate, Self.minRetryAfter), Self.maxRetryAfter)
        return .rateLimited(retryAfter: max(bounded, state.closedUntil - now))
    }
}
