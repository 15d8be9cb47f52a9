// One answer of a model service while it arrives: an event stream, or one JSON object from a
// service that does not stream. AnswerReading splits the bytes into events and limits their size; a
// StreamedAnswer reads the events of one API. ModelAPI makes the request.

import Codec
import Session

/// Reads the events of one API. One value collects one answer.
protocol StreamedAnswer: SendableMetatype {
    /// Reads an answer on its own.
    init()

    /// Reads the answer to a request. The default is the function above, for APIs whose answers can
    /// be read without the request.
    init(to request: ModelRequest, from service: ModelService)

    /// Memory of the parts that were read and are kept until the answer is over. 0 by default.
    var heldBytes: Int { get }

    /// Reads the data of one event of the stream.
    /// - Returns: the deltas that can be passed on at once.
    /// - Throws: `.malformedReply`, or `.upstream` when the service reports an error.
    mutating func handle(event data: UnsafeRawBufferPointer) throws(AgentError) -> [ModelDelta]

    /// A fast path: the text of an event that contains nothing else and changes no state. Nil, the
    /// default, where the event must be handled.
    func text(ofEvent data: UnsafeRawBufferPointer) -> String?

    /// Reads a whole answer that was not streamed.
    mutating func handle(whole answer: JSONValue) throws(AgentError) -> [ModelDelta]

    /// Whether the answer's own terminal event has come. Later events are no part of the answer.
    var isOver: Bool { get }

    /// Whether only parts can follow that may be left out, such as the count of tokens. By default
    /// `isOver`.
    var isComplete: Bool { get }

    /// The answer is over, or the stream has ended. Called once.
    /// - Returns: the deltas that had to wait for the end.
    /// - Throws: `.malformedReply` when the answer is not complete.
    mutating func finish() throws(AgentError) -> [ModelDelta]
}

extension StreamedAnswer {
    init(to request: ModelRequest, from service: ModelService) { self.init() }

    var heldBytes: Int { 0 }
    var isComplete: Bool { isOver }

    /// No fast path.
    func text(ofEvent data: UnsafeRawBufferPointer) -> String? { nil }
}

/// One answer as far as it has arrived.
struct AnswerReading<Answer: StreamedAnswer> {
    /// Most bytes of one answer, its framing included. 16 MiB: far above any model's longest reply
    /// at about 200 bytes of framing per token.
    static var maxReplyBytes: Int { 16 << 20 }

    /// The deltas in the last piece.
    private(set) var deltas: [ModelDelta] = []
    private var answer: Answer
    private var events = ServerSentEventsParser()
    /// The body of an answer that is not streamed: one JSON object. It is recognised by its first
    /// character, which no event stream begins with.
    private var plain: [UInt8] = []
    private var isPlain: Bool?
    private var received = 0
    /// The first bytes, until an event was read from them. They show the kind of an answer that
    /// cannot be read.
    private(set) var beginning: [UInt8] = []
    private var hasDeltas = false
    /// Whether the answer's own terminal event has come, and its last deltas with it.
    private(set) var isOver = false

    /// Begins an answer.
    init(_ answer: Answer) { self.answer = answer }

    /// Whether only what may be left out can follow.
    var isComplete: Bool { answer.isComplete }

    /// Memory of the bytes that have arrived and were not passed on yet.
    var bufferedBytes: Int { plain.heapBytes + events.heldBytes + answer.heldBytes }

    /// Reads the next piece.
    mutating func take(_ chunk: [UInt8]) throws {
        deltas.removeAll(keepingCapacity: true)
        received += chunk.count
        guard received <= Self.maxReplyBytes else {
            throw AgentError.malformedReply(message: "The model server's answer is too large.")
        }
        if !hasDeltas, beginning.count < ServiceEvidence.maxBeginningBytes {
            beginning += chunk.prefix(ServiceEvidence.maxBeginningBytes - beginning.count)
        }
        if isPlain == nil {
            isPlain = chunk.first { !$0.isJSONSpace }.map { $0 == UInt8(ascii: "{") }
        }
        if isPlain == true {
            plain += chunk
        } else {
            try takeEvents(chunk)
            if answer.isOver {
                deltas += try answer.finish()
                isOver = true
            }
        }
        guard !hasDeltas, !deltas.isEmpty else { return }
        hasDeltas = true
        beginning = []
    }

    /// The stream has ended, and no terminal event has come.
    mutating func finish() throws {
        deltas = isPlain == true ? try takeWhole() : []
        deltas += try answer.finish()
    }

    private mutating func takeWhole() throws(AgentError) -> [ModelDelta] {
        // `answer` changes while the bytes are read, so they must not be a part of `self`.
        let bytes = plain
        return try bytes.span.bytes.withUnsafeBytes { (bytes) throws(AgentError) in
            try AnswerParsers.read(bytes) { (whole) throws(AgentError) in
                try answer.handle(whole: whole)
            }
        }
    }

    private mutating func takeEvents(_ chunk: [UInt8]) throws {
        // The closure below changes `answer` and `deltas`, so the parser must not be a part of
        // `self`.
        var parser = ServerSentEventsParser()
        swap(&parser, &events)
        defer { swap(&parser, &events) }
        do {
            try chunk.withUnsafeBytes { bytes in
                try parser.appendLending(bytes) { type, data in
                    guard !answer.isOver else { return }
                    guard type != "error" else { throw ReportedError(event: data).agentError }
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

extension ModelDelta {
    /// A text as a delta; none where it is empty.
    static func texts(_ text: String) -> [ModelDelta] { text.isEmpty ? [] : [.text(text)] }
}

extension AgentError {
    /// The answer stops without a mark of its end.
    static let cutOff = AgentError.malformedReply(
        message: "The model server's answer ended before it was complete.")

    /// The same failure, as a rate limit where the service is asked too often and says when to
    /// retry.
    /// - Parameter retryAfter: the time to wait, as the service says it.
    func asLimit(retryAfter: Duration?) -> AgentError {
        guard case .upstream(status: 429, _) = self, let retryAfter else { return self }
        return .rateLimited(retryAfter: retryAfter, detail: detail)
    }
}

extension UInt8 {
    /// White space of RFC 8259 §2.
    fileprivate var isJSONSpace: Bool { self == 32 || self == 9 || self == 10 || self == 13 }
}
