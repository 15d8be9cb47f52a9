// Reads Opus packets from an Ogg stream while it arrives, RFC 7845. OggPage has pages and
// checksums, Opus decodes, OpusRepacketizer cuts packets to 20 ms.
//
//   page: identification header │ pages: comment header │ pages: audio … last page (end of stream)
//
// Invariant: at most one page and one packet are buffered, both of bounded size, and the packets
// are the same however the bytes were split. Streams that follow one another (chained, §3) are read
// as one: services that join files produce them. Streams multiplexed beside the first are skipped.

/// An Opus packet, and which part of it is played.
public struct OggOpusPacket: Equatable, Sendable {
    /// The packet (RFC 6716 §3). Never empty.
    public var bytes: [UInt8]
    /// How long it lasts, in samples at 48 kHz: 120…5,760.
    public var samples: Int
    /// Samples to skip at its start: the encoder's delay (RFC 7845 §4.2).
    public var skipped: Int
    /// Samples to drop at its end: the encoder's padding (RFC 7845 §4.4).
    public var trimmed: Int

    /// Creates a packet.
    public init(bytes: [UInt8], samples: Int, skipped: Int = 0, trimmed: Int = 0) {
        self.bytes = bytes
        self.samples = samples
        self.skipped = skipped
        self.trimmed = trimmed
    }

    /// Whether any of its samples are played.
    public var isAudible: Bool { skipped + trimmed < samples }
}

/// Reads one stream.
public struct OggOpusReader {
    /// Bytes of the longest audio packet: 120 ms in 48 frames of 1,275 bytes, each with a two-byte
    /// length, and the header (RFC 6716 §3.2.5, R2 and R5).
    public static let maxPacketBytes = 48 * 1_277 + 2
    /// Maximum bytes of a comment header, pictures included. It is not kept. 1 MiB: speech needs no
    /// cover.
    public static let maxCommentBytes = 1 << 20

    /// Kind of the packet that comes next.
    private enum Expectation {
        case identification
        case comments
        case audio
    }

    /// Bytes of a page that is not yet complete.
    private var held: [UInt8] = []
    /// Size that `held` must reach before its first page is parsed again.
    private var awaitedBytes = 0
    private var expectation = Expectation.identification
    private var serial: UInt32?
    private var nextSequence: UInt32 = 0
    private var hasEnded = false
    /// The start of a packet that continues in the next page.
    private var partial: [UInt8] = []
    private var partialBytes = 0
    private var isPartial = false
    /// Samples of the encoder's delay that are still to be skipped.
    private var toSkip = 0
    /// Samples of all packets of this stream so far, counted from the start of its first page.
    private var position: Int64 = 0
    /// Position at which the first page of audio began; nil until known.
    private var firstPosition: Int64?
    /// Complete packets of the page in progress, each with its length in samples.
    private var complete: [(bytes: [UInt8], samples: Int)] = []

    /// Gain to apply to decoded samples, in 1/256 dB (RFC 7845 §5.1, field 6). 0 for nearly all
    /// streams. Known before the first packet is delivered.
    public private(set) var outputGain = 0

    /// Creates a reader at the start of a stream.
    public init() {}

    /// Appends more bytes of the stream; calls `each` for every audio packet that they complete.
    /// - Throws: what is wrong with the stream. The reader is unusable afterwards.
    public mutating func append(
        _ bytes: UnsafeRawBufferPointer, each: (OggOpusPacket) -> Void
    ) throws(OggError) {
        held.append(contentsOf: bytes)
        // The first four bytes are always checked, so that other formats are refused at once.
        guard held.count <= 4 || held.count >= awaitedBytes else { return }
        var start = 0
        while start < held.count {
            let size = try handlePage(from: start, each)
            guard size > 0 else { break }
            start += size
        }
        held.removeFirst(start)
    }

    /// Checks that the stream may end here.
    /// - Throws: `.truncated` when it ends too early. A missing last page is not an error:
    ///   streaming services may end without one.
    public mutating func finish() throws(OggError) {
        guard held.isEmpty, !isPartial, expectation == .audio else { throw .truncated }
    }

    // MARK: Pages

    /// Reads the page at the start of `held`; returns its size, or 0 when it is incomplete.
    private mutating func handlePage(
        from start: Int, _ each: (OggOpusPacket) -> Void
    ) throws(OggError) -> Int {
        let page = try held.span.bytes.extracting(start..<held.count)
            .withUnsafeBytes { (bytes) throws(OggError) in try OggPage(parsing: bytes) }
        guard let page else {
            awaitedBytes = held.span.bytes.extracting(start..<held.count)
                .withUnsafeBytes { OggPage.byteCount(beginning: $0) }
            return 0
        }
        awaitedBytes = 0
        if page.beginsStream { try handleBeginning(page, at: start) }
        guard page.serial == serial else { return page.byteCount }
        guard !hasEnded, page.sequence == nextSequence else { throw .pageMissing }
        nextSequence &+= 1
        guard page.continuesPacket == isPartial else { throw .inconsistentContinuation }
        try takePackets(of: page, at: start)
        deliver(page, each)
        if page.endsStream {
            guard !isPartial else { throw .truncated }
            hasEnded = true
        }
        return page.byteCount
    }

    /// Handles the first page of a stream. The stream is read if it holds Opus and no other is in
    /// progress.
    private mutating func handleBeginning(_ page: OggPage, at start: Int) throws(OggError) {
        let body = start + page.bodyStart
        let isOpus = held[body..<start + page.byteCount].starts(with: "OpusHead".utf8)
        guard serial == nil || hasEnded else { return }
        guard isOpus else {
            // Other streams may begin before ours, but only at the start (RFC 3533 §4).
            if serial == nil, page.lacing.isEmpty { throw .notOpus }
            return
        }
        serial = page.serial
        nextSequence = page.sequence
        hasEnded = false
        expectation = .identification
        position = 0
        firstPosition = nil
        isPartial = false
        partial = []
        partialBytes = 0
    }

    private mutating func takePackets(of page: OggPage, at start: Int) throws(OggError) {
        var offset = start + page.bodyStart
        for length in page.lacing {
            try extendPacket(held[offset..<offset + Int(length)])
            offset += Int(length)
            isPartial = length == 255
            guard !isPartial else { continue }
            let packet = partial
            partial = []
            partialBytes = 0
            try handlePacket(packet)
        }
    }

    private mutating func extendPacket(_ segment: ArraySlice<UInt8>) throws(OggError) {
        partialBytes += segment.count
        if expectation == .comments {
            guard partialBytes <= Self.maxCommentBytes else { throw .packetTooLong }
            // Only the first 8 bytes are needed: the header's name.
            if partial.count < 8 { partial += segment.prefix(8 - partial.count) }
        } else {
            guard partialBytes <= Self.maxPacketBytes else { throw .packetTooLong }
            partial += segment
        }
    }

    // MARK: Packets

    private mutating func handlePacket(_ packet: [UInt8]) throws(OggError) {
        switch expectation {
        case .identification:
            try handleIdentification(packet)
            expectation = .comments
        case .comments:
            guard packet.elementsEqual("OpusTags".utf8) else { throw .missingComments }
            expectation = .audio
        case .audio:
            do throws(OpusError) {
                let samples = try OpusDecoder.sampleCount(of: packet.span.bytes, at: .hz48000)
                complete.append((packet, samples))
            } catch {
                throw .invalidPacket
            }
        }
    }

    /// RFC 7845 §5.1: "OpusHead" version(1) channels(1) pre-skip(2) rate(4) gain(2) mapping(1) …
    private mutating func handleIdentification(_ packet: [UInt8]) throws(OggError) {
        guard packet.starts(with: "OpusHead".utf8) else { throw .notOpus }
        // The upper half of the version is the major one, and must be 0.
        guard packet.count >= 19, packet[8] & 0xF0 == 0 else { throw .invalidHeader }
        let channels = Int(packet[9])
        guard channels > 0 else { throw .invalidHeader }
        if packet[18] == 0 {
            guard channels <= 2 else { throw .unsupportedChannels(channels) }
        } else {
            // A mapping table: streams(1), coupled(1), one byte per channel.
            guard packet.count >= 21 + channels else { throw .invalidHeader }
            guard packet[19] == 1, channels <= 2 else { throw .unsupportedChannels(channels) }
        }
        toSkip = Int(packet[10]) | Int(packet[11]) << 8
        let gain = UInt16(packet[16]) | UInt16(packet[17]) << 8
        outputGain = Int(Int16(bitPattern: gain))
    }

    /// Delivers the packets of a page, once the page's end position is known.
    private mutating func deliver(_ page: OggPage, _ each: (OggOpusPacket) -> Void) {
        guard !complete.isEmpty else { return }
        let total = complete.reduce(Int64(0)) { $0 + Int64($1.samples) }
        // A stream may have been cut out of a longer one (§4.3), so its first page tells where
        // positions begin. Not so in a stream of one page: its end position is lowered by the
        // samples to trim (§4.4).
        if firstPosition == nil, !page.endsStream, let end = page.granulePosition {
            let (start, overflow) = end.subtractingReportingOverflow(total)
            firstPosition = overflow ? 0 : max(0, start)
        }
        position += total
        let surplus = page.endsStream ? self.surplus(endingAt: page.granulePosition) : 0
        var left = Int(clamping: total)
        for packet in complete {
            left -= packet.samples
            let skipped = min(toSkip, packet.samples)
            toSkip -= skipped
            let trimmed = min(packet.samples - skipped, max(0, surplus - left))
            each(
                OggOpusPacket(
                    bytes: packet.bytes, samples: packet.samples, skipped: skipped,
                    trimmed: trimmed))
        }
        complete.removeAll(keepingCapacity: true)
    }

    /// Samples of the packets so far that lie beyond the stream's end.
    private func surplus(endingAt end: Int64?) -> Int {
        guard let end, end >= 0 else { return 0 }
        let (length, overflow) = end.subtractingReportingOverflow(firstPosition ?? 0)
        guard !overflow, length >= 0, length < position else { return 0 }
        return Int(clamping: position - length)
    }
}
