// TLS in a shard's connections: ciphertext in, plaintext to `receive`; plaintext out, ciphertext to
// the socket; and how a connection's end is told. A connection without TLS comes here for nothing
// but one comparison with nil.
//
// Invariant: what is in `output` is plaintext and may still be taken back; what is in the TLS
// connection's `unsent` is part of the stream. A connection that has closed_notify to say says it
// only when nothing that was promised is left unsent: a peer must be able to tell a whole stream
// from a part (RFC 8446 §6.1).

import COpenSSL
import Codec
import Session

extension Connection {
    /// Whether bytes wait for the socket, encrypted or not.
    var hasOutput: Bool { !output.isEmpty || tls.map { !$0.unsent.isEmpty } ?? false }
}

extension Shard {
    // MARK: In

    /// Gives a connection that was just accepted its TLS, if the server speaks it.
    /// - Returns: false when there is no memory for it.
    func secure(_ connection: Connection) -> Bool {
        guard let wire else { return true }
        connection.tls = wire.makeConnection()
        return connection.tls != nil
    }

    /// Whether the tick has room for what a read of this connection may cost. A storm of new
    /// clients must not hold up the others' audio: a handshake takes as long as 50 packets.
    func admitsRead(of connection: Connection) -> Bool {
        guard let wire, let tls = connection.tls else { return true }
        return connection.state == .lingering || wire.admitsStep(of: tls)
    }

    /// Ciphertext came.
    func receiveRecords(_ bytes: UnsafeMutableRawBufferPointer, on connection: Connection) {
        guard let wire, let tls = connection.tls, connection.state != .lingering else { return }
        let isHandshake = tls.stage == .handshake
        let (plaintext, end) = wire.decrypt(UnsafeRawBufferPointer(bytes), of: tls)
        if isHandshake, tls.stage == .established {
            let isResumed = SSL_session_reused(tls.ssl) == 1
            metrics.add(isResumed ? .tlsHandshakesResumed : .tlsHandshakesFull)
        }
        // A read handler writes no socket: the handshake's answers leave with everything else.
        if !tls.unsent.isEmpty { markDirty(connection) }
        if !plaintext.isEmpty { receive(plaintext, on: connection) }
        guard connection.state != .closed else { return }
        switch end {
        case .more: break
        case .ended: handleEnd(of: connection)
        case .failed(let failure): handleFailure(failure, isHandshake, of: connection, tls)
        }
    }

    private func handleFailure(
        _ failure: TLSFailure, _ isHandshake: Bool, of connection: Connection,
        _ tls: TLSConnection
    ) {
        metrics.add(isHandshake ? .tlsHandshakesFailed : .protocolErrors)
        logger.debug(
            isHandshake ? "TLS handshake failed" : "TLS broken",
            metadata: ["reason": "\(failure.reason)"])
        if failure.isPlainHTTP {
            // Whoever typed http:// deserves a sentence that he can read.
            tls.unsent.removeAll(into: chunks)
            connection.tls = nil
            return refuse(RouteFailure.plainHTTP.response, on: connection)
        }
        // What was not encrypted yet never will be; the alert is in the records.
        connection.output.removeAll(into: chunks)
        linger(connection)
    }

    /// The stream has ended without a word. Within a message or an answer that may be an attack.
    func noteTruncation(of connection: Connection) {
        guard let tls = connection.tls, !tls.hasPeerFinished else { return }
        switch connection.state {
        case .http where connection.http?.pending.isEmpty == true && connection.output.isEmpty:
            break
        case .http, .webSocket:
            guard tls.stage == .established else { return }
            metrics.add(.tlsTruncations)
        case .proxyHeader, .closing, .lingering, .closed: break
        }
    }

    // MARK: Out

    /// Writes a piece of the connection's output, through TLS if it has that.
    /// - Returns: how much of the piece is done with, as of a write to the socket.
    func write(_ piece: UnsafeRawBufferPointer, of connection: Connection) -> IOOutcome {
        guard let tls = connection.tls, let wire else { return io.write(connection.handle, piece) }
        let (outcome, sentBytes) = wire.write(piece, of: tls, to: connection.handle)
        // The caller counts what it gave; records are longer, and may have waited.
        if case .done(let count) = outcome {
            metrics.add(.bytesSent, sentBytes - count)
        } else {
            metrics.add(.bytesSent, sentBytes)
        }
        return outcome
    }

    /// The output is empty: sees to it that its last records leave too, and behind them, if the
    /// connection sends no more, the word that this is the end.
    /// - Returns: false when the socket is full; room is watched for then.
    func finishRecords(of connection: Connection) -> Bool {
        guard let tls = connection.tls, let wire else { return true }
        if connection.state == .lingering { wire.finishWriting(tls) }
        let (outcome, sentBytes) = wire.drain(tls, to: connection.handle)
        metrics.add(.bytesSent, sentBytes)
        switch outcome {
        case .done: return true
        case .wouldBlock, .ended: watchForRoom(connection)
        case .failed: close(connection)
        }
        return false
    }

    // MARK: The end

    /// Takes leave of a connection that is about to be removed.
    func endRecords(of connection: Connection) {
        guard let tls = connection.tls, let wire else { return }
        if tls.stage == .handshake, tls.hasBegun {
            metrics.add(.tlsHandshakesFailed)
            logger.debug("TLS handshake failed", metadata: ["reason": "not finished"])
        }
        // As well as one write goes; a peer that is gone does not matter.
        if !connection.hasOutput, !connection.isFinished {
            wire.finishWriting(tls)
            metrics.add(.bytesSent, wire.drain(tls, to: connection.handle).sentBytes)
        }
        tls.unsent.removeAll(into: chunks)
    }

    // MARK: Keys

    /// Makes new connections from another context; open ones keep theirs.
    func renew(_ context: TLSContext) { wire?.context = context }

    /// Rotates the tickets' keys when that is due, and sees to it that somebody does next time:
    /// a key that is too old must go even when nobody comes.
    func rotateTicketKeys() {
        guard let wire else { return }
        _ = deadlines.schedule(.ticketRotation, at: wire.context.tickets.rotate(at: now))
    }
}

extension RouteFailure {
    /// The answer to plain HTTP where TLS is spoken.
    fileprivate static let plainHTTP = RouteFailure(
        status: 400, code: "tls_required",
        message: "This port speaks TLS: use https:// or wss:// instead of http:// or ws://.")
}
