// A request to a model service and the stream of its answer, whatever the API: the time limits, the
// retries, and the memory that is charged meanwhile. StreamedAnswer reads the answer's bytes.

import Codec
import Session

/// Time limits of a model's answer.
public struct AnswerTimeLimits: Equatable, Sendable {
    /// Until its first word or function call, all retries included; nil: no limit but the service's
    /// timeout.
    public var firstToken: Duration?
    /// Until the end of the answer to one request; nil: no limit. Time in which the session accepts
    /// no more of the answer does not count.
    public var total: Duration?

    /// Creates limits; none by default.
    public init(firstToken: Duration? = nil, total: Duration? = nil) {
        self.firstToken = firstToken
        self.total = total
    }
}

/// Posts requests to a model service and passes on its answers.
struct AnswerStream<Answer: StreamedAnswer> {
    let service: UpstreamService
    /// Appended to the service's base URL.
    let path: String
    /// Limit of the time until the first delta, retries included; nil: only the service's timeout
    /// applies.
    let firstTokenTimeout: Duration?

    /// Posts a request and passes on the answer while it arrives.
    ///
    /// It is one function from the request to the last delta, to save memory. A further function in
    /// between would stay suspended until the next delta and cost about 1 kB for every response in
    /// progress.
    /// - Parameter encoded: makes the request's body.
    func pass(
        _ request: ModelRequest, _ encoded: @escaping @Sendable () -> [UInt8],
        on host: any AgentHost, _ reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        // Audio must be decoded and images are megabytes: a worker thread does that, so that no
        // other session waits.
        let isLong = request.messages.neededAbilities != ModelAbilities()
        var body = isLong ? try await host.compute(encoded) : encoded()
        let firstTokenLimit = FirstTokenLimit(
            limit: firstTokenTimeout, start: await host.now(), host: host)
        service.retries.handleRequest()
        var retries = 0
        // Memory that only this function knows: the request's body, and an incomplete answer.
        var charged = 0
        defer { host.charge(-charged) }
        while true {
            host.charge(body.heapBytes, insteadOf: &charged)
            let attempt = RequestAttempt()
            do {
                let response = try await firstTokenLimit.wait(attempt) { [body] in
                    try await service.post(
                        body, "application/json", to: path, accepting: "text/event-stream",
                        on: host, attempt)
                }
                var reading = AnswerReading<Answer>()
                var isOver = false
                while !isOver {
                    let chunk =
                        attempt.hasDelivered
                        ? try await response.nextChunk()
                        : try await firstTokenLimit.wait(attempt) { try await response.nextChunk() }
                    isOver = chunk == nil
                    if let chunk { try reading.take(chunk) } else { try reading.finish() }
                    // There is no retry from here on, so free the body: it may be the whole
                    // conversation.
                    if !reading.deltas.isEmpty { body = [] }
                    host.charge(body.heapBytes + reading.bufferedBytes, insteadOf: &charged)
                    for delta in reading.deltas {
                        attempt.handleDelivery()
                        try await reply(delta)
                    }
                }
                return
            } catch let error as AgentError {
                guard
                    let delay = service.retries.delay(after: error, of: attempt, retries: &retries)
                else { throw error }
                try await host.sleep(for: delay)
            }
        }
    }
}

/// The time limit until the first word of an answer.
private struct FirstTokenLimit: Sendable {
    let limit: Duration?
    let start: Instant
    let host: any AgentHost

    /// Waits for a step of the answer within the rest of the limit. Not inlined: the group's state
    /// would become part of the caller's, and stay in memory until the end of the answer.
    @inline(never)
    func wait<Value: Sendable>(
        _ attempt: RequestAttempt, for step: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        guard let limit else { return try await step() }
        let left = limit - (await host.now() - start)
        return try await withThrowingTaskGroup(of: Value.self) { [host] group in
            group.addTask { try await step() }
            group.addTask {
                try await host.sleep(for: max(.zero, left))
                attempt.handleTooLate()
                throw AgentError.upstream(
                    status: 0,
                    message: "The model server said nothing within \(limit.wholeMilliseconds) ms.")
            }
            defer { group.cancelAll() }
            guard let first = try await group.next() else { throw CancellationError() }
            return first
        }
    }
}
