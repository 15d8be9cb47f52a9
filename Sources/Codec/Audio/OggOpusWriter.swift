// Writes Opus packets into an Ogg stream, RFC 3533 and RFC 7845: header pages, pages of at most one
// second, and an end page. OggOpusReader reads such streams; Opus encodes; RecordedTrack (Session)
// decides where on the timeline a packet belongs.
//
// Every moment of the stream is covered by packets, because a position may only grow by the samples
// of packets (RFC 7845 §4.1). A packet that was lost is replaced by one that asks the decoder to
// conceal it: a table of contents alone. Time without audio is filled with packets of digital
// silence, because concealment would go on with the last sound.
//
// Invariant: a page holds whole packets, at least one, and its position is the end of its last one.

/// Writes one mono stream. A value: a copy that was made before a page goes back to before it.
public struct OggOpusWriter: Sendable {
    /// The longest time in a page, in samples at 48 kHz: a second (RFC 7845 §6 advises it).
    public static let maxPageSamples = 48_000
    /// Samples at 48 kHz that a decoder skips at the start. It is 312, the delay of libopus's
    /// encoder for speech. Sounds then have the place on the timeline at which they were encoded.
    public static let preSkip = 312
    /// The shortest packet, in samples at 48 kHz: 2.5 ms.
    public static let leastSamples = 120

    /// Samples at 48 kHz of all packets so far, those of the page in progress included.
    public private(set) var position: Int
    private let serial: UInt32
    private var sequence: UInt32
    private var lacing: [UInt8] = []
    private var body: [UInt8] = []
    /// Samples of the page in progress.
    private var pageSamples = 0
    /// The table of contents of the last packet that was appended, or nil where silence is to be
    /// written before the next one.
    private var lastContents: UInt8?

    /// Creates a writer at the start of a stream.
    /// - Parameter serial: identifies the stream; any number.
    public init(serial: UInt32) {
        self.init(continuing: serial, sequence: 0, position: 0)
    }

    /// Creates a writer that continues a stream after a whole page.
    /// - Parameters:
    ///   - sequence: the number of the next page.
    ///   - position: the position of the last page.
    public init(continuing serial: UInt32, sequence: UInt32, position: Int) {
        self.serial = serial
        self.sequence = sequence
        self.position = position
    }

    /// Samples at 48 kHz that a decoder has played at the end of the packets so far.
    public var playedSamples: Int { max(0, position - Self.preSkip) }

    /// Whether packets wait for the end of their page.
    public var hasPage: Bool { !lacing.isEmpty }

    // MARK: Packets

    /// Writes the two header pages (RFC 7845 §5).
    /// - Parameter comments: of the form `NAME=text`.
    public mutating func begin(comments: [String], into stream: inout [UInt8]) {
        var head = Array("OpusHead".utf8) + [1, 1]
        head.append(littleEndian: UInt16(Self.preSkip))
        head.append(littleEndian: UInt32(48_000))
        head += [0, 0, 0]
        writePage([UInt8(head.count)], head, flags: 2, position: 0, into: &stream)
        var tags = Array("OpusTags".utf8)
        tags.append(text: "parley")
        tags.append(littleEndian: UInt32(comments.count))
        for comment in comments { tags.append(text: comment) }
        precondition(tags.count < 255 * 255, "comments fit in a page")
        writePage(Self.lacing(of: tags.count), tags, flags: 0, position: 0, into: &stream)
    }

    /// Appends a packet. Pages that are full are written.
    /// - Throws: `.invalidPacket` for bytes that are no packet; nothing is appended.
    public mutating func append(_ packet: RawSpan, into stream: inout [UInt8]) throws(OpusError) {
        guard packet.byteCount <= OggOpusReader.maxPacketBytes else { throw .invalidPacket }
        let samples = try OpusDecoder.sampleCount(of: packet, at: .hz48000)
        makeRoom(bytes: packet.byteCount, samples: samples, into: &stream)
        packet.withUnsafeBytes { body.append(contentsOf: $0) }
        add(bytes: packet.byteCount, samples: samples)
        lastContents = packet.unsafeLoad(as: UInt8.self)
    }

    /// Fills the place of lost packets: the decoder conceals them as if they had been of the kind
    /// of the packet before (RFC 7845 §4.1). A rest that is no whole frame becomes silence.
    /// - Parameter samples: at 48 kHz. A rest of less than 2.5 ms is left out.
    public mutating func appendLoss(samples: Int, into stream: inout [UInt8]) {
        var rest = samples
        if let lastContents {
            // The same mode, bandwidth and duration, mono, one frame of no bytes.
            let contents = lastContents & 0xF8
            let frame = Self.frameSamples(of: contents)
            while rest >= frame {
                makeRoom(bytes: 1, samples: frame, into: &stream)
                body.append(contents)
                add(bytes: 1, samples: frame)
                rest -= frame
            }
        }
        appendSilence(samples: rest, into: &stream)
    }

    /// Fills time with silence.
    /// - Parameter samples: at 48 kHz. A rest of less than 2.5 ms is left out.
    public mutating func appendSilence(samples: Int, into stream: inout [UInt8]) {
        var rest = samples
        guard rest >= Self.leastSamples else { return }
        // CELT at full band, in frames of 20, 10, 5 and 2.5 ms (RFC 6716 §3.1, table 2), whose
        // first symbol says that they are silent.
        for (configuration, frame) in [(31, 960), (30, 480), (29, 240), (28, 120)] {
            while rest >= frame {
                makeRoom(bytes: 3, samples: frame, into: &stream)
                body.append(UInt8(configuration << 3))
                body.append(0xFF)
                body.append(0xFE)
                add(bytes: 3, samples: frame)
                rest -= frame
            }
        }
        lastContents = nil
    }

    // MARK: Pages

    /// Writes the page in progress, if it has packets.
    public mutating func flush(into stream: inout [UInt8]) { flush(flags: 0, into: &stream) }

    /// Ends the stream.
    /// - Parameter samples: how much of it is played, at 48 kHz. Missing samples are filled with
    ///   silence. Audio that was written already is not shortened.
    public mutating func finish(playing samples: Int, into stream: inout [UInt8]) {
        let end = max(samples + Self.preSkip, position)
        let missing = end - position
        let packets = (missing + Self.leastSamples - 1) / Self.leastSamples
        appendSilence(samples: packets * Self.leastSamples, into: &stream)
        // The end page has a packet, although all of it is trimmed.
        if lacing.isEmpty { appendSilence(samples: Self.leastSamples, into: &stream) }
        writePage(lacing, body, flags: 4, position: end, into: &stream)
        clearPage()
    }

    private mutating func makeRoom(bytes: Int, samples: Int, into stream: inout [UInt8]) {
        guard
            lacing.count + bytes / 255 + 1 > 255 || pageSamples + samples > Self.maxPageSamples
        else { return }
        flush(flags: 0, into: &stream)
    }

    private mutating func add(bytes: Int, samples: Int) {
        lacing += Self.lacing(of: bytes)
        pageSamples += samples
        position += samples
    }

    private mutating func flush(flags: UInt8, into stream: inout [UInt8]) {
        guard !lacing.isEmpty else { return }
        writePage(lacing, body, flags: flags, position: position, into: &stream)
        clearPage()
    }

    private mutating func clearPage() {
        lacing.removeAll(keepingCapacity: true)
        body.removeAll(keepingCapacity: true)
        pageSamples = 0
    }

    private mutating func writePage(
        _ lacing: [UInt8], _ body: [UInt8], flags: UInt8, position: Int, into stream: inout [UInt8]
    ) {
        let start = stream.count
        stream += Array("OggS".utf8)
        stream += [0, flags]
        stream.append(littleEndian: UInt64(position))
        stream.append(littleEndian: serial)
        stream.append(littleEndian: sequence)
        stream += [0, 0, 0, 0, UInt8(lacing.count)]
        stream += lacing
        stream += body
        let checksum = stream.withUnsafeBytes { OggPage.checksum(of: $0[start...]) }
        for index in 0..<4 {
            stream[start + 22 + index] = UInt8(truncatingIfNeeded: checksum >> (8 * index))
        }
        sequence &+= 1
    }

    /// RFC 3533 §5: segments of 255 bytes, and a shorter one at the end.
    private static func lacing(of bytes: Int) -> [UInt8] {
        [UInt8](repeating: 255, count: bytes / 255) + [UInt8(bytes % 255)]
    }

    /// Samples at 48 kHz of a frame (RFC 6716 §3.1, table 2).
    private static func frameSamples(of contents: UInt8) -> Int {
        let packet = [contents]
        return (try? OpusDecoder.sampleCount(of: packet.span.bytes, at: .hz48000)) ?? 960
    }
}

extension [UInt8] {
    /// A text of a comment header, after its length.
    fileprivate mutating func append(text: String) {
        append(littleEndian: UInt32(text.utf8.count))
        append(contentsOf: text.utf8)
    }

    fileprivate mutating func append(littleEndian value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.littleEndian) { append(contentsOf: $0) }
    }
}
