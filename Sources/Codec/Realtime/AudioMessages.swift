// Audio in binary messages, in both directions: what stands in for base64 in events. PROTOCOL.md specifies
// the messages for clients. Nothing else reads or writes their headers.

/// Audio of the user.
///
///        byte 0 … 1             2 …
///       ┌──────────────────────┬─────────┐
///       │ number (BE UInt16),  │ payload │
///       │ if they are numbered │         │
///       └──────────────────────┴─────────┘
public struct InputAudioMessage {
    /// The packet's number, one more than the last. Nil means that the client does not number them.
    public let number: UInt16?
    /// The audio in the session's input format. It is the message's own memory.
    public let payload: UnsafeRawBufferPointer

    /// Reads a message.
    /// - Throws: `invalid_audio` for a message without its number, and for a JSON event.
    public init(
        _ message: UnsafeRawBufferPointer, isNumbered: Bool
    ) throws(ClientEventError) {
        guard !message.bytes.beginsAsEvent else { throw .eventInBinaryMessage }
        guard isNumbered else {
            (number, payload) = (nil, message)
            return
        }
        guard message.count >= 2 else { throw .messageWithoutNumber }
        number = UInt16(message[0]) << 8 | UInt16(message[1])
        payload = UnsafeRawBufferPointer(rebasing: message[2...])
    }
}

/// Audio of a reply, for a client that has asked for `audio.output.transport: "binary"`.
///
///        byte 0   1        2 … 3           4 … 7           8 … 23                    24 …
///       ┌──────┬────────┬───────────────┬───────────────┬─────────────────────────┬─────────┐
///       │ kind │ format │ content index │ position      │ item id, ASCII,         │ payload │
///       │  = 1 │        │ (LE UInt16)   │ (LE UInt32)   │ filled up with zeros    │         │
///       └──────┴────────┴───────────────┴───────────────┴─────────────────────────┴─────────┘
public struct OutputAudioMessage: Equatable {
    /// The first byte. Other kinds may come.
    public static let kind: UInt8 = 1
    /// Room for an item's id. The session's own have 15 bytes.
    private static let itemIDBytes = 16
    private static let headerBytes = 8 + itemIDBytes

    /// The item that the audio belongs to.
    public let itemID: String
    /// The part's place in the item, from 0.
    public let contentIndex: Int
    /// Where in the item's audio it starts, in samples at the format's `sampleRate`. It wraps after 24
    /// hours of Opus in one item.
    public let position: Int
    /// The format of the payload.
    public let format: AudioFormat
    /// Samples, or one Opus packet.
    public let payload: ArraySlice<UInt8>

    /// Describes a message.
    public init(
        itemID: String, contentIndex: Int, position: Int, format: AudioFormat,
        payload: ArraySlice<UInt8>
    ) {
        self.itemID = itemID
        self.contentIndex = contentIndex
        self.position = position
        self.format = format
        self.payload = payload
    }

    /// Reads a message, or returns nil where it is no audio in this format.
    public init?(_ message: [UInt8], format: AudioFormat) {
        guard message.count >= Self.headerBytes, message[0] == Self.kind,
            message[1] == format.code
        else { return nil }
        contentIndex = Int(message[2]) | Int(message[3]) << 8
        position = (0..<4).reduce(0) { $0 | Int(message[4 + $1]) << (8 * $1) }
        itemID = String(
            decoding: message[8..<Self.headerBytes].prefix { $0 != 0 }, as: UTF8.self)
        self.format = format
        payload = message[Self.headerBytes...]
    }

    /// Writes the message's payload.
    /// - Precondition: the item's id has at most 16 bytes and the content index fits 16 bits; both are
    ///   the session's own.
    public func write(into writer: inout ByteWriter) {
        precondition(itemID.utf8.count <= Self.itemIDBytes)
        writer.append(Self.kind)
        writer.append(format.code)
        withUnsafeBytes(of: UInt16(contentIndex).littleEndian) { writer.append($0) }
        withUnsafeBytes(of: UInt32(truncatingIfNeeded: position).littleEndian) {
            writer.append($0)
        }
        writer.append(itemID)
        for _ in itemID.utf8.count..<Self.itemIDBytes { writer.append(0) }
        payload.withUnsafeBytes { writer.append($0) }
    }
}

extension RawSpan {
    /// Whether a binary message begins as a JSON object does, with a name of lower-case letters: a
    /// client has sent an event as if it were audio. By chance, audio begins like that once in many
    /// years.
    fileprivate var beginsAsEvent: Bool {
        var offset = 0
        func byte() -> UInt8? {
            offset < byteCount ? unsafeLoad(fromByteOffset: offset, as: UInt8.self) : nil
        }
        func skip(_ isSkipped: (UInt8) -> Bool) -> Bool {
            let start = offset
            while offset - start < 64, let next = byte(), isSkipped(next) { offset += 1 }
            return offset > start
        }
        func take(_ character: Unicode.Scalar) -> Bool {
            _ = skip { $0 == 32 || (9...13).contains($0) }
            guard byte() == UInt8(ascii: character) else { return false }
            offset += 1
            return true
        }
        let isName = { (byte: UInt8) in byte == UInt8(ascii: "_") || (97...122).contains(byte) }
        return take("{") && take("\"") && skip(isName) && take("\"") && take(":")
    }
}
