// The sideband's side: a connection whose WebSocket shows a session that may live on another shard.
// It has no session of its own; its messages are posted to the session's shard, and what comes from
// there is sent.
//
// Invariant: when an event is taken, at most `max-sideband-queued-bytes` wait for its sideband,
// between the shards and in its send buffer together. At more the sideband is closed, and the
// session does not notice. For a shard that takes no events, at most this many bytes and one event
// wait on the way to it. Towards the session, at most this many bytes and one message wait, and at
// most `maxInputs` messages.

import Codec
import Session

extension Shard {
    // MARK: Coming and going

    /// A session was joined for a call: the handshake is answered. Where the client no longer waits
    /// for it, the session is left again.
    func handleJoined(_ place: SessionPlace, _ link: SidebandLink, _ call: AwaitedCall?) {
        guard let call, case .join(let upgrade, _) = call.wish,
            let connection = connection(awaiting: call), let http = connection.http
        else { return place.post(.leave(link, place.token)) }
        let peer = http.client
        // The client may have sent its first messages before the answer.
        var rest = http.pending
        sidebands.joined[connection.token] = JoinedSideband(link: link, place: place)
        metrics.add(.sidebandsOpen)
        accept(upgrade, as: .sideband, on: connection)
        guard connection.state == .webSocket else { return endSession(of: connection) }
        noteAnswer(101, to: call.request, sentBy: peer)
        perform([.settle, .rearm, .watch], on: connection)
        guard !rest.isEmpty else { return }
        rest.withUnsafeMutableBytes { receiveMessages($0, on: connection) }
    }

    /// A sideband's connection ends, or closes.
    func leaveSession(of connection: Connection) {
        guard let sideband = sidebands.joined.removeValue(forKey: connection.token)
        else { return }
        metrics.add(.sidebandsOpen, -1)
        sideband.place.post(.leave(sideband.link, sideband.place.token))
        perform(.settle, on: connection)
    }

    /// Handles the end of a sideband, which the session's side has ended.
    func handleEnd(_ end: SidebandEnd, of link: SidebandLink) {
        guard let connection = connection(of: link) else { return }
        switch end {
        case .sessionEnded where connection.role == .operator: showEnd(of: link, on: connection)
        case .sessionEnded:
            closeWebSocket(connection, .normalClosure, reason: "The session has ended.")
        case .tooSlow: cutOffSideband(connection)
        }
    }

    private func connection(of link: SidebandLink) -> Connection? {
        guard let connection = connections[link.observer], connection.state == .webSocket,
            sidebands.joined[link.observer]?.link === link
        else { return nil }
        return connection
    }

    // MARK: Out

    /// An event of the session has come.
    func deliver(_ text: [UInt8], isError: Bool, to link: SidebandLink) {
        link.noteTaken(text.count)
        guard let connection = connection(of: link) else { return }
        let waiting = connection.output.count + link.eventBytes + text.count
        guard waiting <= configuration.maxBytesForSideband else {
            return cutOffSideband(connection)
        }
        if connection.role == .operator { return showEvent(text, on: connection) }
        text.withUnsafeBytes { _ = send(.text, $0, on: connection) }
        connection.lastMessage = peerClock
        if isError { spendFloodBudget(1, of: connection) }
    }

    /// Closes a sideband that reads too slowly. Its Close waits behind the output that it has not
    /// read.
    private func cutOffSideband(_ connection: Connection) {
        metrics.add(.sidebandsCutOff)
        logger.info(
            "slow sideband cut off",
            metadata: [
                "session": "\(sidebands.joined[connection.token]?.place.sessionID ?? "none")",
                "queued_bytes": "\(connection.output.count)",
                "reason": "max-sideband-queued-bytes",
            ])
        closeWebSocket(
            connection, .tryAgainLater, reason: "The sideband reads more slowly than events come.")
    }

    // MARK: In

    /// A message of a sideband.
    func receive(
        _ opcode: WebSocketOpcode, _ message: UnsafeRawBufferPointer,
        ofSideband connection: Connection
    ) {
        guard connection.state == .webSocket, let sideband = sidebands.joined[connection.token]
        else { return }
        guard opcode == .text else {
            return closeWebSocket(
                connection, .unsupportedData, reason: "A sideband sends no binary messages.")
        }
        guard sideband.link.inputBytes <= configuration.sidebands.maxQueuedBytes,
            sideband.link.inputCount < SidebandLink.maxInputs
        else {
            metrics.add(.sidebandsCutOff)
            return closeWebSocket(
                connection, .tryAgainLater,
                reason: "Events come faster than the session takes them.")
        }
        sideband.link.send(Array(message), to: sideband.place)
        perform(.settle, on: connection)
    }

    /// Adds the memory that a sideband takes to its connection's ledger.
    func addSideband(at token: EventToken, to ledger: inout MemoryLedger) {
        guard let sideband = sidebands.joined[token] else { return }
        ledger.session += sideband.heldBytes
        ledger.send += sideband.link.eventBytes
        ledger.receive += sideband.link.inputBytes
    }
}

extension ServerConfiguration {
    /// Bytes that may wait for a sideband. No more than for any connection, so that it gets its Close.
    var maxBytesForSideband: Int {
        min(sidebands.maxQueuedBytes, connection.maxQueuedOutputBytes)
    }
}
