// Answers that come later and in pieces on a shard's HTTP connections: moves TextAnswer's form of a
// ReplyLog into the send buffer, as fast as the client reads. ShardTextRequests owns the reply and
// asks the model.
//
// Invariant: at most `answerWindow` bytes of an answer and one piece wait in the send buffer; the
// rest waits in the log, whose owner then pauses the model.

import Codec
import Session

extension Shard {
    /// Bytes in the send buffer at which no more of an answer is added.
    var answerWindow: Int {
        min(configuration.loop.maxWriteBytesPerTick, configuration.connection.softQueuedOutputBytes)
    }

    /// About how many bytes of a reply become events at once. 16 KiB: a chunk of the send buffer.
    private static var pieceBytes: Int { 16 << 10 }

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
        scratch.removeAll()
        answer.begin(into: &scratch)
        if scratch.count > 0 { enqueueScratch(on: connection) }
        continueAnswer(on: connection)
        perform(.rearm, on: connection)
    }

    /// Continues an answer: more of the reply that its connection waits for has come.
    func continueAnswer(of token: EventToken) {
        if let connection = connections[token] { continueAnswer(on: connection) }
    }

    /// Moves the reply into the send buffer, as far as it has come and there is room.
    private func continueAnswer(on connection: Connection) {
        while connection.state == .http, let answer = connection.http?.reply {
            guard connection.output.count < answerWindow else {
                if answer.noteStall(at: peerClock) { perform(.rearm, on: connection) }
                return
            }
            let parts = answer.log.read(as: answer.reader, atMost: Self.pieceBytes)
            guard let last = parts.last else { return }
            scratch.removeAll()
            answer.write(
                parts, at: peerClock, retryAfterSeconds: configuration.admission.retryAfterSeconds,
                into: &scratch)
            enqueueScratch(on: connection)
            if last.isLast { finish(answer, on: connection) }
        }
    }

    /// The output has left: the client reads.
    func handleAnswerFlushed(on connection: Connection) {
        connection.http?.reply?.noteProgress()
        continueAnswer(on: connection)
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

    /// The connection closes: its answer loses this reader, or its relay ends.
    func abandonAnswer(of connection: Connection) {
        if let relay = connection.http?.relay { end(relay) }
        guard let answer = connection.http?.end() else { return }
        answer.log.removeReader(answer.reader)
    }

    /// Handles an answer of which no byte was sent for a while, or whose client does not read.
    func handleAnswerSilence(_ answer: TextAnswer, on connection: Connection) {
        if answer.handleSilence(
            at: peerClock, patience: configuration.connection.slowReaderTimeout)
        {
            return cutOff(connection, by: .slowReaderCloses, reason: "slow-reader-timeout-ms")
        }
        guard answer.hasSentHead, !connection.hasOutput else { return }
        scratch.removeAll()
        answer.writePing(into: &scratch)
        enqueueScratch(on: connection)
    }
}
