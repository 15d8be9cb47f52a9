// A model service's answer while it comes: an event stream, or one JSON object from a service that
// does not stream. What the pieces mean is a StreamedAnswer's business; here they are framed, the
// limits on size and on the time until the first word are kept, and retries made.

import Codec
import Session

/// What the pieces of one service's answers mean. One value collects one answer.
protocol StreamedAnswer: SendableMetatype {
    init()

    /// Takes the data of one event of the stream.
    /// - Returns: what can be passed on at once.
    /// - Throws: `.malformedReply`, or `.upstream` when the service reports an error.
    mutating func handle(event data: UnsafeRawBufferPointer) throws(AgentError) -> [ModelDelta]

    /// The text of an event that brings nothing else and changes nothing here, where that is told
    /// faster than by handling it; nil, the default: it must be handled.
    func text(ofEvent data: UnsafeRawBufferPointer) -> String?

    /// Takes a whole answer that was not streamed.
    mutating func handle(whole body: [UInt8]) throws(AgentError) -> [ModelDelta]

    /// The stream has ended.
    /// - Returns: the deltas that had to wait for the end.
    /// - Throws: `.malformedReply` when the answer is not complete.
    mutating func finish() throws(AgentError) -> [ModelDelta]
}

extension StreamedAnswer {
    /// Every event is handled.
    func text(ofEvent data: UnsafeRawBufferPointer) -> String? { nil }
}

/// Posts requests to a model service and passes on its answers.
struct AnswerStream<Answer: StreamedAnswer> {
    let service: UpstreamService
    /// Under the service's base URL.
    let path: String
    /// Limit of the time until the first delta, retries included, or nil: only silence is limited.
    let firstTokenTimeout: Duration?

    /// Posts a request and passes on what is answered, as it comes.
    ///
    /// One function from the request to its last delta: what lies suspended between two deltas is
    /// memory of every turn in flight, about 1 kB for each function that calls the next.
    /// - Parameter encoded: makes the request's body.
    func pass(
        _ request: ModelRequest, _ encoded: @escaping @Sendable () -> [UInt8],
        on host: any AgentHost, _ reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        // Audio has to be decoded, and images are megabytes: no other session waits for that.
        let isLong = request.messages.neededAbilities != ModelAbilities()
        var body = isLong ? try await host.compute(encoded) : encoded()
        let patience = Patience(limit: firstTokenTimeout, start: await host.now(), host: host)
        service.retries.handleRequest()
        var retries = 0
        // Memory of this turn that nobody else knows: the body, and an answer that is not complete.
        var charged = 0
        defer { host.charge(-charged) }
        while true {
            host.charge(body.heapBytes, insteadOf: &charged)
            let attempt = RequestAttempt()
            do {
                let response = try await patience.wait(attempt) { [body] in
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
                        : try await patience.wait(attempt) { try await response.nextChunk() }
                    isOver = chunk == nil
                    if let chunk { try reading.take(chunk) } else { try reading.finish() }
                    // It is asked for once only, and may be the whole conversation.
                    if !reading.deltas.isEmpty { body = [] }
                    host.charge(body.heapBytes + reading.heldBytes, insteadOf: &charged)
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

/// One answer as far as it has come.
struct AnswerReading<Answer: StreamedAnswer> {
    /// Bytes of one answer, its framing included, that are read at most: 16 MiB, far above any
    /// model's longest reply at about 200 bytes of framing per token.
    static var maxReplyBytes: Int { 16 << 20 }

    /// What the last piece has brought.
    private(set) var deltas: [ModelDelta] = []
    private var answer = Answer()
    private var events = ServerSentEventsParser()
    /// Servers that do not stream answer with one JSON object, which no event stream begins with.
    private var plain: [UInt8] = []
    private var isPlain: Bool?
    private var received = 0

    /// Bytes of what has come and could not be read yet.
    var heldBytes: Int { plain.heapBytes + events.heldBytes }

    /// Takes the next piece.
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
        // Taken out, so that the rest can change while it works.
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

/// How long is waited for the first word of an answer.
private struct Patience: Sendable {
    let limit: Duration?
    let start: Instant
    let host: any AgentHost

    /// Waits for a step of the answer, within what is left of the limit. Not inlined: the group's
    /// state would be part of the caller's, and suspended with it to the end of the answer.
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
    /// Limits of a parser per turn in flight: it gives back what one long piece took.
    static var ofAnAnswer: JSONLimits {
        var limits = JSONLimits()
        limits.retainedDocumentBytes = 4 << 10
        return limits
    }
}

extension JSONParser {
    /// Reads a piece of an answer.
    func piece(_ text: String) throws(AgentError) -> JSONValue {
        do {
            return try parse(text)
        } catch {
            throw .malformedReply(
                message: "The model server's answer cannot be read: \(error.explanation).")
        }
    }
}

extension AgentError {
    /// An answer stops before it says that it is over.
    static let cutOff = AgentError.malformedReply(
        message: "The model server's answer ended before it was complete.")

    /// The service reports an error within an answer that it had begun with a good status.
    /// - Parameter status: what it would have answered with, 0 where that is not known.
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
