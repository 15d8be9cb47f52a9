// TLS in a shard's connections: ciphertext in, plaintext to `receive`; plaintext out, ciphertext to
// the socket; and the end of the stream. A connection without TLS pays one comparison with nil.
//
// Invariants: `output` is plaintext and may still be dropped; the TLS connection's `unsent` is part
// of the stream. close_notify is sent after all output, and only then. With it, a peer can
// distinguish a whole stream from a part (RFC 8446 §6.1).

import COpenSSL
import Codec
import Session

extension Connection {
    /// Whether bytes wait for the socket, encrypted or not.
    var hasOutput: Bool { !output.isEmpty || tls.map { !$0.unsent.isEmpty } ?? false }
}

extension Shard {
    // MARK: In

    /// Adds TLS to a connection that was just accepted, if the server uses it.
    /// - Returns: false when there is no memory for it.
    func secure(_ connection: Connection) -> Bool {
        guard let wire = fixtures.wire else { return true }
        connection.tls = wire.makeConnection()
        return connection.tls != nil
    }

    /// Whether the tick has time for a read of this connection. A storm of new clients must not
    /// delay the others' audio: a handshake takes as long as 50 packets.
    func admitsRead(of connection: Connection) -> Bool {
        guard let wire = fixtures.wire, let tls = connection.tls else { return true }
        return connection.state == .lingering || wire.admitsStep(of: tls)
    }

    /// Ciphertext came.
    func receiveRecords(_ bytes: UnsafeMutableRawBufferPointer, on connection: Connection) {
        guard let wire = fixtures.wire, let tls = connection.tls, connection.state != .lingering
        else { return }
        let isHandshake = tls.stage == .handshake
        let (plaintext, end) = wire.decrypt(UnsafeRawBufferPointer(bytes), of: tls)
        if isHandshake, tls.stage == .established {
            let isResumed = SSL_session_reused(tls.ssl) == 1
            metrics.add(isResumed ? .tlsHandshakesResumed : .tlsHandshakesFull)
        }
        // A read handler writes no socket: the handshake's answers leave with the tick's flush.
        if !tls.unsent.isEmpty { perform(.flush, on: connection) }
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
            // A client of http:// gets an answer that it can read.
            tls.unsent.removeAll(into: fixtures.chunks)
            connection.tls = nil
            return refuse(RouteFailure.plainHTTP.response, on: connection)
        }
        // The output that is not encrypted is dropped; the alert is in the records.
        connection.output.removeAll(into: fixtures.chunks)
        linger(connection)
    }

    /// The stream has ended without close_notify. Within a message or an answer that may be an
    /// attack.
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

    /// Writes a piece of the connection's output, through TLS if the connection has it.
    /// - Returns: how much of the piece was used, like a write to the socket.
    func write(_ piece: UnsafeRawBufferPointer, of connection: Connection) -> IOOutcome {
        guard let tls = connection.tls, let wire = fixtures.wire else {
            return io.write(connection.handle, piece)
        }
        let (outcome, sentBytes) = wire.write(piece, of: tls, to: connection.handle)
        // The caller counts the plaintext; records are longer, and may have waited.
        if case .done(let count) = outcome {
            metrics.add(.bytesSent, sentBytes - count)
        } else {
            metrics.add(.bytesSent, sentBytes)
        }
        return outcome
    }

    /// The output is empty: sends the records that are left, and behind them close_notify, if the
    /// connection sends no more.
    /// - Returns: false when the socket is full; the connection then waits for room.
    func finishRecords(of connection: Connection) -> Bool {
        guard let tls = connection.tls, let wire = fixtures.wire else { return true }
        if connection.state == .lingering { wire.finishWriting(tls) }
        let (outcome, sentBytes) = wire.flush(tls, to: connection.handle)
        metrics.add(.bytesSent, sentBytes)
        switch outcome {
        case .done: return true
        case .wouldBlock, .ended: watchForRoom(connection)
        case .failed: lose(connection)
        }
        return false
    }

    // MARK: The end

    /// Sends close_notify on a connection that is about to be removed, and drops its records.
    func endRecords(of connection: Connection) {
        guard let tls = connection.tls, let wire = fixtures.wire else { return }
        if tls.stage == .handshake, tls.hasBegun {
            metrics.add(.tlsHandshakesFailed)
            logger.debug("TLS handshake failed", metadata: ["reason": "not finished"])
        }
        // One write, without a second attempt: the peer may be gone.
        if !connection.hasOutput, !connection.isFinished {
            wire.finishWriting(tls)
            metrics.add(.bytesSent, wire.flush(tls, to: connection.handle).sentBytes)
        }
        tls.unsent.removeAll(into: fixtures.chunks)
    }

    // MARK: Keys

    /// Makes new connections from another context; open ones keep theirs.
    func renew(_ context: TLSContext) { fixtures.wire?.context = context }

    /// Rotates the tickets' keys if that is due, and schedules the next rotation: an old key must
    /// be overwritten also on a server without connections.
    func rotateTicketKeys() {
        guard let wire = fixtures.wire else { return }
        _ = deadlines.schedule(.ticketRotation, at: wire.context.tickets.rotate(at: now))
    }
}

extension RouteFailure {
    /// The answer to plain HTTP where TLS is spoken.
    fileprivate static let plainHTTP = RouteFailure(
        status: 400, code: "tls_required",
        message: "This port speaks TLS: use https:// or wss:// instead of http:// or ws://.")
}
