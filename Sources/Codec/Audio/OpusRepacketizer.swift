// Repacks Opus packets of any duration into packets of 20 ms, without decoding, by libopus. RFC
// 6716 §3.2 allows frames of one configuration to be joined and separated.
//
// Frames longer than 20 ms cannot be cut, and frames of different configurations cannot share a
// packet: such audio must be decoded and encoded anew.
//
// Invariant: every output packet lasts 20 ms, and the output decodes to the same samples as the
// input.

import COpus

/// Why packets cannot be repacked into 20 ms.
public enum OpusRepacketizingError: Error, Equatable, Sendable {
    /// The packet breaks RFC 6716 §3.4.
    case invalidPacket
    /// Its frames cannot be divided or joined to exactly 20 ms.
    case indivisible
}

/// Repacks one stream into packets of 20 ms.
public struct OpusRepacketizer: ~Copyable {
    /// Samples in 20 ms at 48 kHz.
    private static let frameSamples = 960
    /// Room for 20 ms in up to eight frames of 1,275 bytes and their lengths.
    private static let maxPacketBytes = 8 * 1_277 + 2

    private let state: OpaquePointer
    /// Packets whose frames wait for more. libopus keeps pointers into them.
    private var waiting: [UnsafeMutableRawBufferPointer] = []
    private var waitingSamples = 0

    /// Creates a repacketizer; about 400 bytes of state.
    public init() {
        guard let state = opus_repacketizer_create() else { fatalError("out of memory") }
        self.state = state
    }

    deinit {
        opus_repacketizer_destroy(state)
        for packet in waiting { packet.deallocate() }
    }

    /// Whether frames of less than 20 ms wait for the next packet.
    public var isWaiting: Bool { waitingSamples > 0 }

    /// Appends a packet; calls `each` for every packet of 20 ms that is complete.
    /// - Throws: an error after which the stream must be decoded from this packet on. Waiting
    ///   frames are lost.
    public mutating func append(
        _ packet: [UInt8], each: ([UInt8]) -> Void
    ) throws(OpusRepacketizingError) {
        guard !packet.isEmpty else { throw .invalidPacket }
        let count = Int32(clamping: packet.count)
        let frames = opus_packet_get_nb_frames(packet, count)
        let frameSamples = Int(opus_packet_get_samples_per_frame(packet, 48_000))
        guard frames > 0, frameSamples > 0 else { throw .invalidPacket }
        let samples = Int(frames) * frameSamples
        if !isWaiting, samples == Self.frameSamples { return each(packet) }
        guard Self.frameSamples.isMultiple(of: frameSamples) else { throw .indivisible }
        try hold(packet)
        waitingSamples += samples
        // Frames that straddle a boundary of 20 ms wait for the next packet. libopus holds up to
        // 120 ms.
        guard waitingSamples.isMultiple(of: Self.frameSamples) else { return }
        let perPacket = Int32(Self.frameSamples / frameSamples)
        for index in 0..<Int32(waitingSamples / Self.frameSamples) {
            each(try take(index * perPacket..<(index + 1) * perPacket))
        }
        forget()
    }

    private mutating func hold(_ packet: [UInt8]) throws(OpusRepacketizingError) {
        if waiting.isEmpty { opus_repacketizer_init(state) }
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: packet.count, alignment: 1)
        copy.copyBytes(from: packet)
        waiting.append(copy)
        let bytes = copy.baseAddress!.assumingMemoryBound(to: UInt8.self)
        guard opus_repacketizer_cat(state, bytes, Int32(clamping: packet.count)) == OPUS_OK else {
            forget()
            throw .indivisible
        }
    }

    private func take(_ frames: Range<Int32>) throws(OpusRepacketizingError) -> [UInt8] {
        var size: Int32 = 0
        let packet = [UInt8](unsafeUninitializedCapacity: Self.maxPacketBytes) { bytes, count in
            size = opus_repacketizer_out_range(
                state, frames.lowerBound, frames.upperBound, bytes.baseAddress!,
                Int32(bytes.count))
            count = max(0, Int(size))
        }
        guard size > 0 else { throw .invalidPacket }
        return packet
    }

    private mutating func forget() {
        for packet in waiting { packet.deallocate() }
        waiting.removeAll(keepingCapacity: true)
        waitingSamples = 0
    }
}
