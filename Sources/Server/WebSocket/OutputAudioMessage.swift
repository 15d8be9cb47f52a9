// The binary message that carries reply audio when a client asked for `audio.output.transport:
// "binary"`. PROTOCOL.md specifies it for clients; this is the only place that writes it.
//
//    byte 0   1        2 … 3           4 … 7           8 … 23                    24 …
//   ┌──────┬────────┬───────────────┬───────────────┬─────────────────────────┬─────────┐
//   │ kind │ format │ content index │ position      │ item id, ASCII,         │ payload │
//   │  = 1 │        │ (LE UInt16)   │ (LE UInt32)   │ filled up with zeros    │         │
//   └──────┴────────┴───────────────┴───────────────┴─────────────────────────┴─────────┘

import Codec
import Session

/// Writes reply audio as a binary message.
enum OutputAudioMessage {
    /// Reply audio; other kinds may come.
    static let kind: UInt8 = 1
    /// Room for an item's id. The session's own have 15 bytes.
    static let itemIDBytes = 16

    /// Writes the message's payload. The position wraps after 24 hours of Opus in one item.
    /// - Precondition: the item's id has at most `itemIDBytes` bytes and the content index fits 16
    ///   bits; both are the session's own.
    static func write(_ packet: OutputAudioPacket, into writer: inout ByteWriter) {
        precondition(packet.itemID.utf8.count <= itemIDBytes)
        writer.append(kind)
        writer.append(packet.format.code)
        withUnsafeBytes(of: UInt16(packet.contentIndex).littleEndian) { writer.append($0) }
        withUnsafeBytes(of: UInt32(truncatingIfNeeded: packet.position).littleEndian) {
            writer.append($0)
        }
        writer.append(packet.itemID)
        for _ in packet.itemID.utf8.count..<itemIDBytes { writer.append(0) }
        packet.payload.withUnsafeBytes { writer.append($0) }
    }
}
