// Dispatches the messages of WebSockets, and the outputs of sessions to their clients. The role of a
// connection decides: Realtime clients have RealtimeFront, others an object in `fronts`, and peers
// without a session of their own are served by Sideband and Administration.

import Codec
import Session

extension Shard {
    /// A text or binary message of a peer.
    /// - Parameter before: when the message before it came or went.
    /// - Returns: the messages that it counts as in the tick's share of its connection.
    @inline(__always)
    func receive(
        _ opcode: WebSocketOpcode, _ message: UnsafeRawBufferPointer, on connection: Connection,
        after before: Instant
    ) -> Int {
        switch connection.role {
        case .echo:
            // After our Close nothing may follow (RFC 6455 §5.5.1).
            if connection.state == .webSocket { send(opcode, message, on: connection) }
            return 1
        case .client:
            // None: the session has ended, and the connection is closing.
            guard let live = connection.live else { return 1 }
            guard opcode == .text else {
                handleBinary(message, of: live, on: connection)
                return 1
            }
            return handleText(message, of: live, on: connection, after: before)
        case .front:
            guard connection.state == .webSocket else { return 1 }
            return clients.fronts[connection.token]?.receive(opcode, message, on: connection, self)
                ?? 1
        case .sideband:
            receive(opcode, message, ofSideband: connection)
            return spendWork(0, byteCount: message.count, of: connection)
        case .operator:
            receiveCommand(opcode, message, on: connection)
            return spendWork(0, byteCount: message.count, of: connection)
        case .http: return 1
        }
    }

    /// Sends an event of a session to its client, in the client's protocol: to the readers of a reply over
    /// HTTP, by a front, or as the event that it is. Events that a client misses while away are kept.
    func send(_ event: ServerEvent, of live: LiveSession) {
        if live.dialect != .ga, !live.dialect.has(event) { return }
        if live.connection == nil, let request = textRequests[live.token] {
            request.take(event)
        } else if let (front, connection) = front(of: live) {
            if connection.state == .webSocket { front.show(event, on: connection, self) }
        } else {
            sendToClient(event, of: live)
        }
    }

    /// Sends audio of a session to its client, in the client's protocol.
    func send(_ packet: OutputAudioPacket, of live: LiveSession) {
        guard let connection = live.connection else { return }
        if let (front, _) = front(of: live) {
            metrics.add(.eventsOutAudioPacket)
            front.play(packet, on: connection, self)
        } else {
            sendToClient(packet, of: live, on: connection)
        }
    }

    /// Tells a client what to do with the audio that it has. Realtime clients learn it from events.
    func tell(_ command: PlaybackCommand, to live: LiveSession) {
        guard let (front, connection) = front(of: live), connection.state == .webSocket else {
            return
        }
        front.tell(command, on: connection, self)
    }

    /// The front of a session's client, with its connection. Nil where the client speaks Realtime,
    /// or is away.
    @inline(__always)
    func front(of live: LiveSession) -> (any Front, Connection)? {
        guard let connection = live.connection, connection.role == .front,
            let front = clients.fronts[connection.token]
        else { return nil }
        return (front, connection)
    }

    // MARK: Coming and going

    /// Answers a request for a WebSocket of a protocol whose session begins at once.
    func begin(
        _ make: FrontMaker, _ request: HTTPRequest, by caller: Caller, on connection: Connection
    ) {
        guard
            let (upgrade, place) = takePlace(
                for: request, by: caller, to: fixtures.routes.session(for: request), isMoved: false,
                on: connection)
        else { return }
        let front = make(place.seeker)
        accept(upgrade, as: .front, selecting: front.subprotocol, on: connection)
        guard connection.state == .webSocket else { return release(place) }
        clients.fronts[connection.token] = front
        var parameters = place.parameters
        front.adapt(&parameters)
        let live = openSession(parameters, in: .ga, at: place, on: connection)
        beginRecord(of: live.session, owner: place.owner)
        if caller.hasRecordingConsent { beginRecording(live, hasConsent: true) }
        step(live) { $0.start(at: now) }
    }

    /// The connection of a front ends, or its session.
    func endFront(of connection: Connection) {
        clients.fronts.removeValue(forKey: connection.token)?.end(on: connection, self)
    }
}

extension Shard: FrontHost {
    var defaultModel: String { configuration.defaultModel }

    func parseEvent(
        _ text: [UInt8]
    ) throws(ClientEventError) -> (event: ClientEvent, wishes: ClientWishes) {
        let parsed = text.withUnsafeBytes { bytes in
            Result { () throws(ClientEventError) in try workspace.parser.parse(bytes).event }
        }
        return (try parsed.get(), workspace.parser.wishes)
    }

    func send(
        as opcode: WebSocketOpcode, on connection: Connection, _ write: (inout ByteWriter) -> Void
    ) {
        scratch.removeAll()
        write(&scratch)
        guard scratch.count > 0 else { return }
        _ = scratch.withUnsafeBytes { send(opcode, $0, on: connection) }
        scratch.removeAll()
        connection.lastMessage = peerClock
    }

    func queue(
        as opcode: WebSocketOpcode, on connection: Connection, _ write: (inout ByteWriter) -> Void
    ) {
        scratch.removeAll()
        write(&scratch)
        guard scratch.count > 0 else { return }
        scratch.withUnsafeBytes { queue(opcode, $0, on: connection) }
        scratch.removeAll()
    }

    func admitAudio(from start: Int, _ packet: OutputAudioPacket, on connection: Connection) {
        noteAudio(packet, from: start, on: connection)
        connection.lastMessage = peerClock
        admitOutput(of: connection)
    }
}
