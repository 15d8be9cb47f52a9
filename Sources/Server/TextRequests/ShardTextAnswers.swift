// Answers that come later and in pieces on a shard's HTTP connections: parts of a ReplyLog become
// server-sent events in chunks, or one JSON object, as fast as the client reads. ShardTextRequests
// owns the reply and asks the model.
//
// Invariant: of an answer at most `answerWindow` bytes and one piece wait in the send buffer; the
// rest waits in the log, whose owner then pauses the model. An answer that breaks off never looks
// complete: its last chunk is missing.

import Codec
import Session

extension Shard {
    /// Bytes in the send buffer at which no more of an answer is added.
    private var answerWindow: Int {
        min(configuration.maxWriteBytesPerTick, configuration.softQueuedOutputBytes)
    }

    /// About how many bytes of a reply become events at once. 16 KiB: a chunk of the send buffer.
    private static var pieceBytes: Int { 16 << 10 }

    // MARK: The beginning

    /// Shows a reply on a connection, from its beginning.
    func show(
        _ log: ReplyLog, of chat: ChatKey?, as style: TextAnswer.Style, _ request: HTTPRequest,
        fields: HTTPFields, on connection: Connection
    ) {
        guard let http = connection.http else { return }
        let reader = ReplyReader(shard: services.index, token: connection.token)
        let keepAlive = request.wantsKeepAlive && shutdown.keepsConnections
        let answer = TextAnswer(
            log: log, reader: reader, chat: chat, style: style, fields: fields,
            answering: request, keepAlive: keepAlive, at: peerClock)
        http.beginAnswer(.reply(answer))
        log.addReader(reader, needsAll: answer.needsAll, wake: continueTextAnswer)
        if case .uiMessages(var writer) = answer.style {
            // At once: the page gets the message's id, and a sign that the server answers.
            sendHead(of: answer, on: connection)
            var begun = ByteWriter(capacity: 256)
            writer.begin(into: &begun)
            answer.style = .uiMessages(writer)
            send(begun, of: answer, on: connection)
        }
        continueAnswer(on: connection)
        perform(.rearm, on: connection)
    }

    // MARK: Its pieces

    /// More of the reply that a connection waits for is there.
    func continueAnswer(of token: EventToken) {
        if let connection = connections[token] { continueAnswer(on: connection) }
    }

    /// Moves as much of the reply into the send buffer as is there and has room.
    func continueAnswer(on connection: Connection) {
        while connection.state == .http, let answer = connection.http?.reply {
            guard connection.output.count < answerWindow else {
                if answer.stalledSince == nil {
                    answer.stalledSince = peerClock
                    perform(.rearm, on: connection)
                }
                return
            }
            let parts = answer.log.read(as: answer.reader, atMost: Self.pieceBytes)
            guard !parts.isEmpty else { return }
            send(parts, of: answer, on: connection)
        }
    }

    /// The output has left: the client reads.
    func handleAnswerFlushed(on connection: Connection) {
        connection.http?.reply?.stalledSince = nil
        continueAnswer(on: connection)
    }

    private func send(_ parts: [ReplyPart], of answer: TextAnswer, on connection: Connection) {
        // Before the first piece is sent, a failure can still be the status.
        if !answer.hasSentHead,
            case .failed(let code, let message, let isRequestError)? = parts.last,
            answer.needsAll || parts.count == 1
        {
            return fail(code, message, isRequestError, answer, on: connection)
        }
        let isLast = parts.last?.isLast ?? false
        switch answer.style {
        case .whole(let heading):
            var body = ByteWriter(capacity: 1_024)
            ChatCompletionWriter.completion(parts, heading, into: &body)
            return respond(200, body.copiedBytes, answer, on: connection)
        case .chunks(var writer):
            if !answer.hasSentHead { sendHead(of: answer, on: connection) }
            var bytes = ByteWriter(capacity: 1_024)
            for part in parts { writer.write(part, into: &bytes) }
            answer.style = .chunks(writer)
            send(bytes, of: answer, isLast: isLast, on: connection)
        case .uiMessages(var writer):
            var bytes = ByteWriter(capacity: 1_024)
            for part in parts { writer.write(part, into: &bytes) }
            answer.style = .uiMessages(writer)
            send(bytes, of: answer, isLast: isLast, on: connection)
        }
        if isLast { finish(answer, on: connection) }
    }

    private func sendHead(of answer: TextAnswer, on connection: Connection) {
        answer.hasSentHead = true
        var fields = answer.fields
        fields.append("Content-Type", "text/event-stream")
        fields.append("Cache-Control", "no-cache")
        // Asks proxies to pass events on without collecting them.
        fields.append("X-Accel-Buffering", "no")
        if case .uiMessages = answer.style {
            fields.append(
                UIMessageStreamWriter.versionField.name, UIMessageStreamWriter.versionField.value)
        }
        scratch.removeAll()
        HTTPResponseHead.writeStream(
            status: 200, headers: fields, isChunked: answer.isChunked,
            keepAlive: answer.keepAlive, into: &scratch)
        enqueueScratch(on: connection)
    }

    private func send(
        _ bytes: borrowing ByteWriter, of answer: TextAnswer, isLast: Bool = false,
        on connection: Connection
    ) {
        guard connection.state == .http else { return }
        scratch.removeAll()
        bytes.withUnsafeBytes {
            if answer.isChunked {
                HTTPResponseHead.writeChunk($0, into: &scratch)
            } else {
                scratch.append($0)
            }
        }
        if isLast, answer.isChunked { scratch.append(HTTPResponseHead.lastChunk) }
        enqueueScratch(on: connection)
        answer.lastSent = peerClock
    }

    // MARK: The end

    /// The reply failed before anything of it was sent.
    private func fail(
        _ code: String, _ message: String, _ isRequestError: Bool, _ answer: TextAnswer,
        on connection: Connection
    ) {
        let status = isRequestError ? 400 : Self.status(of: code)
        var body = ByteWriter(capacity: 256)
        ChatCompletionWriter.error(
            code: code, message: message, isRequestError: status < 500, param: nil, into: &body)
        respond(status, body.copiedBytes, answer, on: connection)
    }

    /// The status for an agent's error (`AgentError.code`).
    private static func status(of code: String) -> Int {
        switch code {
        case "model_not_found": 404
        case "agent_unavailable", "server_overloaded": 503
        case "upstream_error", "upstream_malformed_reply": 502
        default: 500
        }
    }

    private func respond(
        _ status: Int, _ body: [UInt8], _ answer: TextAnswer, on connection: Connection
    ) {
        var fields = answer.fields
        fields.append("Content-Type", "application/json")
        if status == 503 { fields.append("Retry-After", "\(configuration.retryAfterSeconds)") }
        answer.hasSentHead = true
        enqueue(
            HTTPResponse(status: status, fields: fields, body: body), answering: .post,
            keepAlive: answer.keepAlive, on: connection)
        finish(answer, on: connection)
    }

    /// All of the answer is queued: the connection goes on with its next request, if it is kept.
    private func finish(_ answer: TextAnswer, on connection: Connection) {
        guard connection.state == .http, let http = connection.http else { return }
        let keepsConnection = answer.keepAlive && shutdown.keepsConnections
        http.endAnswer(keepsConnection: keepsConnection, at: peerClock)
        // A delivered reply need not be found again.
        if let chat = answer.chat { services.replies.remove(answer.log, of: chat) }
        answer.log.removeReader(answer.reader)
        connection.lastReceived = peerClock
        guard keepsConnection else { return linger(connection) }
        answerWaiting(on: connection)
    }

    /// The connection closes: its answer loses this reader.
    func abandonAnswer(of connection: Connection) {
        guard let answer = connection.http?.end() else { return }
        answer.log.removeReader(answer.reader)
    }

    /// No byte was sent for a while, or the client does not read.
    func handleAnswerSilence(_ answer: TextAnswer, on connection: Connection) {
        if let since = answer.stalledSince, peerClock >= since + configuration.slowReaderTimeout {
            return cutOff(connection, by: .slowReaderCloses, reason: "slow-reader-timeout-ms")
        }
        answer.lastSent = peerClock
        guard answer.hasSentHead, !connection.hasOutput else { return }
        // A comment shows proxies that the stream lives, and finds a client that is gone.
        var comment = ByteWriter(capacity: 16)
        comment.append(": ping\n\n")
        send(comment, of: answer, on: connection)
    }
}
