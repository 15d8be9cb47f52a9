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
    mutating func handle(event data: String) throws(AgentError) -> [ModelDelta]

    /// Takes a whole answer that was not streamed.
    mutating func handle(whole body: [UInt8]) throws(AgentError) -> [ModelDelta]

    /// The stream has ended.
    /// - Returns: the deltas that had to wait for the end.
    /// - Throws: `.malformedReply` when the answer is not complete.
    mutating func finish() throws(AgentError) -> [ModelDelta]
}

/// Posts requests to a model service and passes on its answers.
struct AnswerStream<Answer: StreamedAnswer> {
    let service: UpstreamService
    /// Under the service's base URL.
    let path: String
    /// Limit of the time until the first delta, retries included, or nil: only silence is limited.
    let firstTokenTimeout: Duration?

    /// Bytes of one answer, its framing included, that are read at most: 16 MiB, far above any
    /// model's longest reply at about 200 bytes of framing per token.
    static var maxReplyBytes: Int { 16 << 20 }

    /// Posts a request and passes on what is answered, as it comes.
    /// - Parameter encoded: makes the request's body.
    func pass(
        _ request: ModelRequest, _ encoded: @escaping @Sendable () -> [UInt8],
        on host: any AgentHost, _ reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        // Audio has to be decoded, and images are megabytes: no other session waits for that.
        let isLong = request.messages.neededAbilities != ModelAbilities()
        let body = isLong ? try await host.compute(encoded) : encoded()
        try await pass(body, on: host, reply)
    }

    private func pass(
        _ body: [UInt8], on host: any AgentHost,
        _ reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        let patience = Patience(limit: firstTokenTimeout, start: await host.now(), host: host)
        try await service.retries.perform(on: host) { attempt in
            let response = try await patience.wait(attempt) {
                try await service.post(
                    body, "application/json", to: path, accepting: "text/event-stream", on: host,
                    attempt)
            }
            try await read(response, patience, attempt, reply)
        }
    }

    private func read(
        _ response: any UpstreamResponse, _ patience: Patience, _ attempt: RequestAttempt,
        _ reply: (ModelDelta) async throws -> Void
    ) async throws {
        var answer = Answer()
        var events = ServerSentEventsParser()
        // Servers that do not stream answer with one JSON object, which no event stream begins
        // with.
        var plain: [UInt8] = []
        var isPlain: Bool?
        var received = 0
        func pass(_ deltas: [ModelDelta]) async throws {
            for delta in deltas {
                attempt.handleDelivery()
                try await reply(delta)
            }
        }
        func nextChunk() async throws -> [UInt8]? {
            if attempt.hasDelivered { return try await response.nextChunk() }
            return try await patience.wait(attempt) { try await response.nextChunk() }
        }
        while let chunk = try await nextChunk() {
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
                try await pass(Self.deltas(in: chunk, events: &events, answer: &answer))
            }
        }
        if isPlain == true { try await pass(answer.handle(whole: plain)) }
        try await pass(answer.finish())
    }

    private static func deltas(
        in chunk: [UInt8], events: inout ServerSentEventsParser, answer: inout Answer
    ) throws -> [ModelDelta] {
        var deltas: [ModelDelta] = []
        do {
            try chunk.withUnsafeBytes { bytes in
                try events.append(bytes) { deltas += try answer.handle(event: $0.data) }
            }
        } catch let error as ServerSentEventsError {
            throw AgentError.malformedReply(
                message: "The model server's event stream cannot be read.", detail: "\(error)")
        }
        return deltas
    }
}

/// How long is waited for the first word of an answer.
private struct Patience: Sendable {
    let limit: Duration?
    let start: Instant
    let host: any AgentHost

    /// Waits for a step of the answer, within what is left of the limit.
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
