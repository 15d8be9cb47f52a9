// Builds an Ogg Opus stream (RFC 7845) like a speech service's, for tests and fuzzing. Written
// independently of the reader: it shares no code with OggPage.

/// Builds a stream page by page.
public struct OggOpusStream {
    /// The stream so far.
    public private(set) var bytes: [UInt8] = []
    private let serial: UInt32
    private var sequence: UInt32 = 0

    /// Creates a stream with its two header pages.
    public init(
        serial: UInt32 = 0x5041_524C, channels: UInt8 = 1, preSkip: UInt16 = 0, gain: Int16 = 0,
        mapping: [UInt8] = [0], comments: Int = 0
    ) {
        self.serial = serial
        var head = Array("OpusHead".utf8) + [1, channels]
        head += Self.littleEndian(preSkip) + Self.littleEndian(UInt32(24_000))
        head += Self.littleEndian(UInt16(bitPattern: gain)) + mapping
        append(packets: [head], flags: 2, granule: 0)
        let tags = Array("OpusTags".utf8) + Self.littleEndian(UInt32(6)) + Array("parley".utf8)
        append(
            packets: [
                tags + Self.littleEndian(UInt32(0)) + [UInt8](repeating: 7, count: comments)
            ],
            flags: 0, granule: 0)
    }

    /// Appends packets in as many pages as they need. The last page has the granule position and
    /// the flags.
    public mutating func append(packets: [[UInt8]], flags: UInt8 = 0, granule: Int64) {
        var lacing: [UInt8] = []
        var body: [UInt8] = []
        var isContinued = false
        for packet in packets {
            var rest = packet[...]
            while true {
                if lacing.count == 255 {
                    // Only the last page states the position; the others need not.
                    append(page: lacing, body, flags: isContinued ? 1 : 0, granule: -1)
                    isContinued = rest.count < packet.count
                    lacing = []
                    body = []
                }
                let segment = rest.prefix(255)
                lacing.append(UInt8(segment.count))
                body += segment
                rest = rest.dropFirst(segment.count)
                if segment.count < 255 { break }
            }
        }
        append(page: lacing, body, flags: flags | (isContinued ? 1 : 0), granule: granule)
    }

    /// Appends one page with any content and a correct checksum.
    public mutating func append(
        page lacing: [UInt8], _ body: [UInt8], flags: UInt8, granule: Int64
    ) {
        var page = Array("OggS".utf8) + [0, flags] + Self.littleEndian(granule)
        page += Self.littleEndian(serial) + Self.littleEndian(sequence) + [0, 0, 0, 0]
        page += [UInt8(lacing.count)] + lacing + body
        page.replaceSubrange(22..<26, with: Self.littleEndian(Self.checksum(of: page)))
        bytes += page
        sequence += 1
    }

    /// The checksum computed bit by bit, as RFC 3533 §6 defines it.
    public static func checksum(of page: [UInt8]) -> UInt32 {
        var remainder: UInt32 = 0
        for byte in page {
            remainder ^= UInt32(byte) << 24
            for _ in 0..<8 {
                let carries = remainder & 0x8000_0000 != 0
                remainder = remainder << 1 ^ (carries ? 0x04C1_1DB7 : 0)
            }
        }
        return remainder
    }

    private static func littleEndian(_ value: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: value.littleEndian) { Array($0) }
    }
}
