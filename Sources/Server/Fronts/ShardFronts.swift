// Fronts: each turns the messages of one kind of peer into inputs, and the outputs of a session into
// messages to its client. The role of a connection says which it has. RealtimeFront.swift has that of
// the Realtime protocol, Telephony those of the carriers, Sideband and Administration those of peers
// without a session of their own.

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
                handleAudio(message, of: live, on: connection)
                return 1
            }
            return handleText(message, of: live, on: connection, after: before)
        case .line: return receiveLine(opcode, message, on: connection)
        case .sideband:
            receive(opcode, message, ofSideband: connection)
            return spendWork(0, byteCount: message.count, of: connection)
        case .operator:
            receiveCommand(opcode, message, on: connection)
            return spendWork(0, byteCount: message.count, of: connection)
        case .http: return 1
        }
    }

    /// Sends an event of a session to its client, in the client's protocol. What a client that is away
    /// will have missed is kept.
    func send(_ event: ServerEvent, of live: LiveSession) {
        if live.dialect != .ga, !live.dialect.has(event) { return }
        sessionLog.note(event, of: live.session.id)
        if let connection = live.connection, connection.role == .line {
            sendToCarrier(event, on: connection)
        } else {
            sendToClient(event, of: live)
        }
    }

    /// Sends audio of a session to its client, in the client's protocol.
    func send(_ packet: OutputAudioPacket, of live: LiveSession) {
        live.session.recorder?.note(packet.itemID, at: now)
        metrics.add(.eventsOutAudioPacket)
        guard let connection = live.connection else {
            live.resume?.stored?.noteProgress(packet.itemID, at: now)
            return
        }
        if connection.role == .line {
            play(packet, on: connection)
        } else {
            sendToClient(packet, of: live, on: connection)
        }
    }
}
