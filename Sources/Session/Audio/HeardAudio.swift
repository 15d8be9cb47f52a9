// A stretch of the user's audio in a compact form, until recognition or a model that hears audio
// needs its samples. It is decoded on a worker, never on a shard.
//
// It has two forms, one after the other:
//
//     | Opus packets as they were received (PacketLog) | 4-bit codes (CodedSamples) |
//
// Packets are smaller and more exact, where they are what was heard and are small enough. From the
// first sample that they do not represent (another format, reduced noise, a rate above that of the
// codes), codes follow.
//
// Invariant: the samples from `start` to `end` are kept; either form may be empty.

import Codec

/// A stretch of the user's audio, mono at 16 kHz, on the session's audio timeline.
public struct HeardAudio: Equatable, Sendable {
    /// Bytes that packets may take beyond the same audio as codes: two pieces, so that the first
    /// packets of a stretch do not decide.
    private static let slackBytes = 4_096

    private(set) var start: Int
    /// Where the sample after the last would lie.
    private(set) var end: Int
    private var packets: PacketLog
    private var codes: CodedSamples
    private var isInPacket = false

    /// Samples at 16 kHz.
    public var sampleCount: Int { end - start }
    /// Bytes on the heap; parts of the same audio share most of it.
    public var heldBytes: Int { packets.heldBytes + codes.heldBytes }

    /// An empty stretch.
    init(start: Int) {
        self.start = start
        end = start
        packets = PacketLog(start: start)
        codes = CodedSamples(start: start)
    }

    /// Nothing yet.
    public init() { self.init(start: 0) }

    /// Keeps samples at 16 kHz.
    public init(samples: [Int16]) {
        self.init(start: 0)
        samples.withUnsafeBufferPointer { append($0) }
    }

    /// The samples: about 1 ms of work per second of Opus, 0.2 ms of codes.
    /// - Throws: where there is no memory for a decoder.
    public func samples() throws(OpusError) -> [Int16] {
        var output: [Int16] = []
        output.reserveCapacity(sampleCount)
        var packets = packets
        packets.settle()
        let packetsEnd = min(packets.end, end)
        if start < packetsEnd { try packets.decode(start..<packetsEnd, into: &output) }
        if !codes.isEmpty, codes.start < end {
            codes.decode(max(start, codes.start)..<end, into: &output)
        }
        return output
    }

    // MARK: Adding

    /// An Opus packet has come, and its samples are appended until `endPacket()`.
    /// - Parameter missing: packets that were lost before it; nil if they are not numbered.
    mutating func beginPacket(_ packet: RawSpan, missing: Int?) {
        let affordable = Self.slackBytes + (packets.end - packets.start) / 2
        guard codes.isEmpty, packet.byteCount <= PacketLog.maxPacketBytes,
            packets.heldBytes <= affordable
        else { return }
        packets.append(packet, missing: missing)
        isInPacket = true
    }

    /// Ends the packet: samples that come from now on are not part of it.
    mutating func endPacket() { isInPacket = false }

    /// Appends samples.
    mutating func append(_ samples: UnsafeBufferPointer<Int16>) {
        if isInPacket {
            packets.extend(by: samples.count)
        } else {
            if codes.isEmpty { codes = CodedSamples(start: end) }
            codes.append(samples)
        }
        end += samples.count
    }

    // MARK: Parting

    /// Forgets what lies before a position that is kept.
    mutating func discard(before position: Int) {
        precondition((start...end).contains(position))
        guard position < end else { return removeAll() }
        start = position
        packets.discard(before: position)
        codes.discard(before: position)
        if !codes.isEmpty, packets.end <= position { packets = PacketLog(start: codes.start) }
    }

    /// Forgets all audio; more is appended where it ended. The last packets stay, because the next
    /// ones are decoded after them.
    mutating func removeAll() {
        start = end
        if codes.isEmpty {
            packets.discard(before: end)
        } else {
            packets = PacketLog(start: end)
            codes = CodedSamples(start: end)
        }
    }

    /// The next audio does not continue the audio before it: no packets are kept for it.
    /// - Precondition: no packet is being taken.
    mutating func forgetLead() {
        precondition(!isInPacket)
        if start == end { packets = PacketLog(start: end) }
    }

    /// A part that is kept; it shares its memory with the whole.
    func part(_ range: Range<Int>) -> HeardAudio {
        precondition(range.upperBound <= end)
        var part = self
        part.isInPacket = false
        part.discard(before: range.lowerBound)
        part.end = range.upperBound
        return part
    }
}
