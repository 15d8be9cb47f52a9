// Ogg pages off a stream of bytes, RFC 3533: framing and checksum. What the packets in them mean
// is OggOpusReader's.
//
//   "OggS" version(1) flags(1) granule position(8) serial(4) sequence(4) CRC(4)
//   segments(1) lacing values(segments) body(sum of the lacing values)       all little-endian
//
// A packet is cut into segments of 255 bytes, and ends with the first shorter one; it goes on in
// the next page when the last is not (§5). Bytes come from a peer: whatever they are, reading ends
// in pages or an `OggError`. A page that is not where it should be is an error and not searched
// for (§3): the bytes come over TCP, so that nothing of a good stream is ever missing.

/// Why bytes are no Ogg stream of Opus that can be read.
public enum OggError: Error, Equatable, Sendable {
    /// No page begins where one should (RFC 3533 §6, field 1).
    case notOgg
    /// Another version of the page format than 0 (RFC 3533 §6, field 2).
    case unsupportedVersion(UInt8)
    /// A page's checksum is wrong (RFC 3533 §6, field 7).
    case checksumMismatch
    /// A page is missing: pages of a stream are numbered without gaps (RFC 3533 §6, field 6).
    case pageMissing
    /// A page continues a packet that does not exist, or fails to continue one that does.
    case inconsistentContinuation
    /// A packet is longer than `OggOpusReader` takes.
    case packetTooLong
    /// The stream does not begin with an Opus identification header (RFC 7845 §5.1).
    case notOpus
    /// The identification header cannot be understood or is of another major version.
    case invalidHeader
    /// More than one coded stream, or more than two channels (RFC 7845 §5.1.1).
    case unsupportedChannels(Int)
    /// The second packet is no comment header (RFC 7845 §5.2).
    case missingComments
    /// An audio packet breaks RFC 6716 §3.4.
    case invalidPacket
    /// The bytes end within a page or a packet, or before any audio could have come.
    case truncated
}

/// One page.
struct OggPage {
    /// Bytes of the largest page there is: head, 255 lacing values of 255 (RFC 3533 §6).
    static let maxBytes = 27 + 255 + 255 * 255
    /// Bytes before the lacing values.
    static let fixedBytes = 27

    /// Whether its first segment goes on with the packet of the page before.
    let continuesPacket: Bool
    /// Whether it is the first of its stream.
    let beginsStream: Bool
    /// Whether it is the last of its stream.
    let endsStream: Bool
    /// Where the audio stands at the end of the page's last complete packet; nil when none ends
    /// in it. For Opus in samples at 48 kHz (RFC 7845 §4).
    let granulePosition: Int64?
    /// Which stream it belongs to.
    let serial: UInt32
    /// Its number in the stream.
    let sequence: UInt32
    /// Lacing values.
    let lacing: [UInt8]
    /// Where its body begins, from the start of the page.
    let bodyStart: Int
    /// Bytes of the whole page.
    let byteCount: Int

    /// Reads the page at the start of some bytes, or returns nil when they do not hold all of it.
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

    /// Bytes that the page at the start of some bytes takes, as far as they tell: the whole page,
    /// or what must be there to know more.
    static func byteCount(beginning bytes: UnsafeRawBufferPointer) -> Int {
        guard bytes.count >= 4 else { return 4 }
        guard bytes.count >= fixedBytes else { return fixedBytes }
        let bodyStart = fixedBytes + Int(bytes[26])
        guard bytes.count >= bodyStart else { return bodyStart }
        return bytes[fixedBytes..<bodyStart].reduce(bodyStart) { $0 + Int($1) }
    }

    /// CRC-32 with polynomial 0x04C11DB7, most significant bit first, initially and finally 0, the
    /// checksum's own four bytes taken as 0 (RFC 3533 §6, field 7).
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
    /// - Precondition: all of its bytes are there.
    func littleEndian<Value: FixedWidthInteger & BitwiseCopyable>(
        at offset: Int, as type: Value.Type
    ) -> Value {
        Value(littleEndian: loadUnaligned(fromByteOffset: offset, as: type))
    }
}
