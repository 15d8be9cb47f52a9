// Parses Ogg pages out of a stream of bytes, RFC 3533: framing and checksum. OggOpusReader
// interprets the packets in them.
//
//   "OggS" version(1) flags(1) granule position(8) serial(4) sequence(4) CRC(4)
//   segments(1) lacing values(segments) body(sum of the lacing values)       all little-endian
//
// A packet is cut into segments of 255 bytes and ends with the first shorter one. If a page's last
// segment has 255 bytes, its packet continues in the next page (§5). The bytes come from a peer:
// any of them give pages or an `OggError`. The reader does not search for the next page after an
// error (§3): TCP loses no bytes, so a page that is out of place is an error of the sender.

/// Why bytes are not an Ogg Opus stream that can be read.
public enum OggError: Error, Equatable, Sendable {
    /// No page begins where one should (RFC 3533 §6, field 1).
    case notOgg
    /// A version of the page format other than 0 (RFC 3533 §6, field 2).
    case unsupportedVersion(UInt8)
    /// A page's checksum is wrong (RFC 3533 §6, field 7).
    case checksumMismatch
    /// A page is missing: pages of a stream are numbered without gaps (RFC 3533 §6, field 6).
    case pageMissing
    /// A page continues a packet that does not exist, or fails to continue one that does.
    case inconsistentContinuation
    /// A packet is longer than `OggOpusReader` accepts.
    case packetTooLong
    /// The stream does not begin with an Opus identification header (RFC 7845 §5.1).
    case notOpus
    /// The identification header cannot be understood or is of another major version.
    case invalidHeader
    /// More than one coded stream, or more than two channels (RFC 7845 §5.1.1).
    case unsupportedChannels(Int)
    /// The second packet is not a comment header (RFC 7845 §5.2).
    case missingComments
    /// An audio packet breaks RFC 6716 §3.4.
    case invalidPacket
    /// The bytes end within a page or a packet, or before any audio.
    case truncated
}

/// One page.
struct OggPage {
    /// Maximum bytes of a page: header, 255 lacing values, and a body of 255 segments of 255 bytes
    /// (RFC 3533 §6).
    static let maxBytes = 27 + 255 + 255 * 255
    /// Bytes before the lacing values.
    static let fixedBytes = 27

    /// Whether its first segment continues the last packet of the page before.
    let continuesPacket: Bool
    /// Whether it is the first of its stream.
    let beginsStream: Bool
    /// Whether it is the last of its stream.
    let endsStream: Bool
    /// Position at the end of the page's last complete packet, or nil when no packet ends in the
    /// page. For Opus in samples at 48 kHz (RFC 7845 §4).
    let granulePosition: Int64?
    /// Identifies the stream that the page belongs to.
    let serial: UInt32
    /// Number of the page in its stream.
    let sequence: UInt32
    /// Lacing values.
    let lacing: [UInt8]
    /// Offset of its body from the start of the page.
    let bodyStart: Int
    /// Bytes of the whole page.
    let byteCount: Int

    /// Parses the page at the start of `bytes`; nil when the page is incomplete.
    /// - Throws: `.notOgg`, `.unsupportedVersion`, `.checksumMismatch`.
    init?(parsing bytes: UnsafeRawBufferPointer) throws(OggError) {
        let magic: StaticString = "OggS"
        for index in 0..<min(4, bytes.count) where bytes[index] != magic.utf8Start[index] {
            throw .notOgg
        }
        guard bytes.count >= Self.fixedBytes else { return nil }
        guard bytes[4] == 0 else { throw .unsupportedVersion(bytes[4]) }
        let segments = Int(bytes[26])
        bodyStart = Self.fixedBytes + segments
        guard bytes.count >= bodyStart else { return nil }
        lacing = [UInt8](bytes[Self.fixedBytes..<bodyStart])
        byteCount = bodyStart + lacing.reduce(0) { $0 + Int($1) }
        guard bytes.count >= byteCount else { return nil }
        let checksum = bytes.littleEndian(at: 22, as: UInt32.self)
        guard Self.checksum(of: bytes[..<byteCount]) == checksum else { throw .checksumMismatch }
        continuesPacket = bytes[5] & 1 != 0
        beginsStream = bytes[5] & 2 != 0
        endsStream = bytes[5] & 4 != 0
        let position = bytes.littleEndian(at: 6, as: Int64.self)
        granulePosition = position == -1 ? nil : position
        serial = bytes.littleEndian(at: 14, as: UInt32.self)
        sequence = bytes.littleEndian(at: 18, as: UInt32.self)
    }

    /// Bytes that must be present before the page at the start of `bytes` can be parsed further:
    /// those of the header first, then those of the whole page.
    static func byteCount(beginning bytes: UnsafeRawBufferPointer) -> Int {
        guard bytes.count >= 4 else { return 4 }
        guard bytes.count >= fixedBytes else { return fixedBytes }
        let bodyStart = fixedBytes + Int(bytes[26])
        guard bytes.count >= bodyStart else { return bodyStart }
        return bytes[fixedBytes..<bodyStart].reduce(bodyStart) { $0 + Int($1) }
    }

    /// CRC-32 with polynomial 0x04C11DB7, most significant bit first, initial and final value 0.
    /// The four bytes of the checksum itself count as 0 (RFC 3533 §6, field 7).
    static func checksum(of page: Slice<UnsafeRawBufferPointer>) -> UInt32 {
        var remainder: UInt32 = 0
        for (offset, byte) in page.enumerated() {
            let counted = (22..<26).contains(offset) ? 0 : byte
            let index = UInt8(truncatingIfNeeded: remainder >> 24) ^ counted
            remainder = remainder << 8 ^ table[Int(index)]
        }
        return remainder
    }

    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index) << 24) { remainder, _ in
            remainder & 0x8000_0000 != 0 ? remainder << 1 ^ 0x04C1_1DB7 : remainder << 1
        }
    }
}

extension UnsafeRawBufferPointer {
    /// A little-endian number at an offset.
    /// - Precondition: all of its bytes are present.
    func littleEndian<Value: FixedWidthInteger & BitwiseCopyable>(
        at offset: Int, as type: Value.Type
    ) -> Value {
        Value(littleEndian: loadUnaligned(fromByteOffset: offset, as: type))
    }
}
