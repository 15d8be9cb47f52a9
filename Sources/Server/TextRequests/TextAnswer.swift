// The answer to a text request, in the making, without IO. Parts of the reply come in, and the bytes
// for the connection come out: server-sent events in chunks, or one JSON object. ShardTextAnswers
// moves the bytes.
//
// Invariant: an answer that breaks off never looks complete, as its last chunk is missing.

import Codec
import Session

/// An incomplete answer on a connection. Requests that come meanwhile wait behind it.
final class TextAnswer {
    /// The format of the reply.
    enum Style {
        case chunks(ChatCompletionWriter)
        case whole(ChatCompletionWriter.Heading)
        case uiMessages(UIMessageStreamWriter)
    }

    let log: ReplyLog
    let reader: ReplyReader
    /// The chat by which the reply can be found again, or nil.
    let chat: ChatKey?
    private var style: Style
    /// Fields of the answer, except those of its style.
    private let fields: HTTPFields
    /// Whether the connection may have another request.
    let keepAlive: Bool
    /// Whether the client knows chunks (HTTP/1.1).
    private let isChunked: Bool
    /// Whether the status has been written.
    private(set) var hasSentHead = false
    /// Since when no more is read from the log, as the client does not read; by the peers' clock.
    private var stalledSince: Instant?
    /// When bytes were last written; by the peers' clock.
    private var lastSent: Instant

    init(
        log: ReplyLog, reader: ReplyReader, chat: ChatKey?, style: Style, fields: HTTPFields,
        answering request: HTTPRequest, keepAlive: Bool, at now: Instant
    ) {
        self.log = log
        self.reader = reader
        self.chat = chat
        self.style = style
        self.fields = fields
        isChunked = request.version == .http11
        self.keepAlive = keepAlive && isChunked
        lastSent = now
    }

    /// Whether nothing is sent before the reply is complete.
    var needsAll: Bool { if case .whole = style { true } else { false } }

    /// Bytes of the object itself: the reply is the log's.
    static let objectBytes = HeapBlock.object(TextAnswer.self)

    // MARK: Writing

    /// Writes what is sent before the first part. In the UI message stream that is the stream's
    /// beginning: the page gets the message's id, and a sign that the server answers.
    func begin(into bytes: inout ByteWriter) {
        guard case .uiMessages(var writer) = style else { return }
        writeHead(into: &bytes)
        var event = ByteWriter(capacity: 256)
        writer.begin(into: &event)
        style = .uiMessages(writer)
        write(event, into: &bytes)
    }

    /// Writes the next parts of the reply; with the last one the answer is complete.
    /// - Parameter retryAfterSeconds: for an answer that the service is not available.
    func write(
        _ parts: [ReplyPart], at now: Instant, retryAfterSeconds: Int,
        into bytes: inout ByteWriter
    ) {
        lastSent = now
        // Before the first piece is sent, a failure can still be the status.
        if !hasSentHead, needsAll || parts.count == 1,
            case .failed(let code, let message, let isRequestError, let asked)? = parts.last
        {
            let status = isRequestError ? 400 : Self.status(of: code)
            var body = ByteWriter(capacity: 256)
            ChatCompletionWriter.error(
                code: code, message: message, isRequestError: status < 500, param: nil,
                into: &body)
            return write(
                status: status, body, retryAfterSeconds: asked ?? retryAfterSeconds, into: &bytes)
        }
        var piece = ByteWriter(capacity: 1_024)
        switch style {
        case .whole(let heading):
            ChatCompletionWriter.completion(parts, heading, into: &piece)
            return write(status: 200, piece, retryAfterSeconds: 0, into: &bytes)
        case .chunks(var writer):
            if !hasSentHead { writeHead(into: &bytes) }
            for part in parts { writer.write(part, into: &piece) }
            style = .chunks(writer)
        case .uiMessages(var writer):
            for part in parts { writer.write(part, into: &piece) }
            style = .uiMessages(writer)
        }
        write(piece, into: &bytes)
        if isChunked, parts.last?.isLast == true { bytes.append(HTTPResponseHead.lastChunk) }
    }

    /// Writes a comment, which shows proxies that the stream lives, and finds a client that is
    /// gone.
    func writePing(into bytes: inout ByteWriter) {
        var comment = ByteWriter(capacity: 16)
        comment.append(": ping\n\n")
        write(comment, into: &bytes)
    }

    private func writeHead(into bytes: inout ByteWriter) {
        hasSentHead = true
        var fields = fields
        fields.append("Content-Type", "text/event-stream")
        fields.append("Cache-Control", "no-cache")
        // Asks proxies to pass events on without collecting them.
        fields.append("X-Accel-Buffering", "no")
        if case .uiMessages = style {
            let version = UIMessageStreamWriter.versionField
            fields.append(version.name, version.value)
        }
        HTTPResponseHead.writeStream(
            status: 200, headers: fields, isChunked: isChunked, keepAlive: keepAlive, into: &bytes)
    }

    private func write(_ piece: borrowing ByteWriter, into bytes: inout ByteWriter) {
        piece.withUnsafeBytes {
            if isChunked {
                HTTPResponseHead.writeChunk($0, into: &bytes)
            } else {
                bytes.append($0)
            }
        }
    }

    /// Writes a whole answer.
    private func write(
        status: Int, _ body: consuming ByteWriter, retryAfterSeconds: Int,
        into bytes: inout ByteWriter
    ) {
        hasSentHead = true
        var response = HTTPResponse.json(body, status: status, fields: fields)
        if status == 503 || status == 429 {
            response.fields.append("Retry-After", "\(retryAfterSeconds)")
        }
        response.write(answering: .post, keepAlive: keepAlive, into: &bytes)
    }

    /// The status for an agent's error (`AgentError.code`).
    private static func status(of code: String) -> Int {
        switch code {
        case "model_not_found": 404
        case "rate_limit_exceeded": 429
        case "agent_unavailable", "server_overloaded": 503
        case "upstream_error", "upstream_malformed_reply", "agent_lost": 502
        default: 500
        }
    }

    // MARK: Time

    /// Notes that so many bytes wait to be sent that no more are read from the log.
    /// - Returns: whether that is new.
    func noteStall(at now: Instant) -> Bool {
        guard stalledSince == nil else { return false }
        stalledSince = now
        return true
    }

    /// Notes that the client has read the bytes that waited.
    func noteProgress() { stalledSince = nil }

    /// When the connection must next be handled, by the peers' clock.
    /// - Parameters:
    ///   - interval: the silence after which a sign of life is sent to the client.
    ///   - patience: how long the client may read nothing.
    func deadline(ping interval: Duration, patience: Duration) -> Instant {
        let ping = lastSent + interval
        guard let stalledSince else { return ping }
        return min(ping, stalledSince + patience)
    }

    /// The deadline has passed.
    /// - Returns: whether the client has read nothing for too long.
    func handleSilence(at now: Instant, patience: Duration) -> Bool {
        if let stalledSince, now >= stalledSince + patience { return true }
        lastSent = now
        return false
    }
}
