// A run of encoded speech: Opus packets one after another in one block of memory, so that a packet
// costs no allocation of its own. Opus.swift encodes and decodes the packets.
//
// Invariant: every packet lasts 20 ms, is not empty and has at most `maxPacketBytes`.

/// Opus packets of 20 ms each, in playing order.
public struct OpusPackets: Equatable, Sendable {
    /// Duration of every packet.
    public static let packetMilliseconds = 20
    /// Maximum packets of one run. 3,000: a minute, longer than any clause. Longer speech takes
    /// several runs.
    public static let maxCount = 3_000
    /// Maximum bytes of a packet: one frame of any mode, or two of 10 ms (RFC 6716 §3.4, R2).
    public static let maxPacketBytes = 2 * 1_275 + 3

    private var bytes: [UInt8] = []
    /// Where each packet ends in `bytes`.
    private var ends: [Int32] = []

    /// Creates an empty run.
    public init() {}

    /// Packets held, 0…`maxCount`.
    public var count: Int { ends.count }
    /// Bytes of all packets.
    public var byteCount: Int { bytes.count }
    /// Bytes of heap memory that the run holds.
    public var heapBytes: Int { bytes.heapBytes + ends.heapBytes }
    /// Duration of the run.
    public var milliseconds: Int { count * Self.packetMilliseconds }

    /// Adds a packet at the end.
    /// - Throws: `.invalidPacket` if it does not last 20 ms, `.bufferTooSmall` if the run is full.
    public mutating func append(_ packet: RawSpan) throws(OpusError) {
        guard packet.byteCount <= Self.maxPacketBytes,
            try OpusDecoder.sampleCount(of: packet, at: .hz48000)
                == SampleRate.hz48000.samples(inMilliseconds: Self.packetMilliseconds)
        else { throw .invalidPacket }
        guard count < Self.maxCount else { throw .bufferTooSmall }
        packet.withUnsafeBytes { bytes.append(contentsOf: $0) }
        ends.append(Int32(bytes.count))
    }

    /// A packet's bytes.
    /// - Precondition: `index` is below `count`.
    public subscript(index: Int) -> ArraySlice<UInt8> {
        bytes[(index == 0 ? 0 : Int(ends[index - 1]))..<Int(ends[index])]
    }

    /// Removes all packets and keeps the memory for reuse.
    public mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        ends.removeAll(keepingCapacity: true)
    }
}
