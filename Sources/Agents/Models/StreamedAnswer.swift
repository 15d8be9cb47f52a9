// A model service's answer while it arrives: an event stream, or one JSON object from a service
// that does not stream. This file splits the bytes into events, limits the size and the time until
// the first word, and makes retries. A StreamedAnswer reads the events.

import Codec
import Session

/// Reads the events of one API. One value collects one answer.
protocol StreamedAnswer: SendableMetatype {
    init()

    /// Reads the data of one event of the stream.
    /// - Returns: what can be passed on at once.
    /// - Throws: `.malformedReply`, or `.upstream` when the service reports an error.
    mutating func handle(event data: UnsafeRawBufferPointer) throws(AgentError) -> [ModelDelta]

    /// A fast path: the text of an event that holds nothing else and changes no state. Nil, the
    /// default, where the event must be handled.
    func text(ofEvent data: UnsafeRawBufferPointer) -> String?

    /// Reads a whole answer that was not streamed.
    mutating func handle(whole body: [UInt8]) throws(AgentError) -> [ModelDelta]

    /// The stream has ended.
    /// - Returns: the deltas that had to wait for the end.
    /// - Throws: `.malformedReply` when the answer is not complete.
    mutating func finish() throws(AgentError) -> [ModelDelta]
}

extension StreamedAnswer {
    /// No fast path.
    func text(ofEvent data: UnsafeRawBufferPointer) -> String? { nil }
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

/// One answer as far as it has arrived.
struct AnswerReading<Answer: StreamedAnswer> {
    /// Most bytes of one answer, its framing included. 16 MiB: far above any model's longest reply
    /// at about 200 bytes of framing per token.
    static var maxReplyBytes: Int { 16 << 20 }

    /// The deltas in the last piece.
    private(set) var deltas: [ModelDelta] = []
    private var answer = Answer()
    private var events = ServerSentEventsParser()
    /// The body of an answer that is not streamed: one JSON object. It is recognised by its first
    /// character, which no event stream begins with.
    private var plain: [UInt8] = []
    private var isPlain: Bool?
    private var received = 0

    /// Memory of the bytes that have arrived and could not be read yet.
    var bufferedBytes: Int { plain.heapBytes + events.heldBytes }

    /// Reads the next piece.
    mutating func take(_ chunk: [UInt8]) throws {
        deltas.removeAll(keepingCapacity: true)
        received += chunk.count
        guard received <= Self.maxReplyBytes else {
            throw AgentError.malformedReply(message: "The model server's answer is too large.")
        }
        if isPlain == nil {
            isPlain = chunk.first { !$0.isJSONSpace }.map { $0 == UInt8(ascii: "{") }
        }
        if isPlain == true {
            plain += chunk
        } else {
            try takeEvents(chunk)
        }
    }

    /// The answer has ended.
    mutating func finish() throws {
        deltas = isPlain == true ? try answer.handle(whole: plain) : []
        deltas += try answer.finish()
    }

    private mutating func takeEvents(_ chunk: [UInt8]) throws {
        // The closure below changes `answer` and `deltas`, so the parser must not be a part of
        // `self`.
        var parser = ServerSentEventsParser()
        swap(&parser, &events)
        defer { swap(&parser, &events) }
        do {
            try chunk.withUnsafeBytes { bytes in
                try parser.appendLending(bytes) { _, data in
                    if let text = answer.text(ofEvent: data) {
                        deltas.append(.text(text))
                    } else {
                        deltas += try answer.handle(event: data)
                    }
                }
            }
        } catch let error as ServerSentEventsError {
            throw AgentError.malformedReply(
                message: "The model server's event stream cannot be read.", detail: "\(error)")
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

extension JSONLimits {
    /// Limits of a parser for answers: it frees the memory that one long piece took.
    static var ofAnAnswer: JSONLimits {
        var limits = JSONLimits()
        limits.retainedDocumentBytes = 4 << 10
        return limits
    }
}

extension AgentError {
    /// The answer stops without a mark of its end.
    static let cutOff = AgentError.malformedReply(
        message: "The model server's answer ended before it was complete.")

    /// The service reports an error within an answer that began with a 2xx status.
    /// - Parameter status: the HTTP status of the same error before an answer; 0 where it is
    ///   unknown.
    static func brokenOff(status: Int, _ reason: String?) -> AgentError {
        .upstream(
            status: status,
            message: "The model server broke off: " + (reason ?? "it gave no reason"))
    }
}

extension UInt8 {
    /// White space of RFC 8259 §2.
    fileprivate var isJSONSpace: Bool { self == 32 || self == 9 || self == 10 || self == 13 }
}
