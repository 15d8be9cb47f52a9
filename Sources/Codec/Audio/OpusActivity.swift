// Reads from an Opus packet, without decoding it, whether its sender detected voice: RFC 6716 §3.1
// and §4.2.3. OpusDecoder decodes.
//
// A SILK packet (alone, or below CELT) begins with one bit per 20 ms for the encoder's own voice
// detection, then a bit for redundancy. A stereo packet repeats both for the side channel. They are
// the first bits of the range coder and have even odds, so they appear in the first byte unchanged:
//
//     0 1 2 3 4 5 6 7   0 …              table of contents: configuration, stereo, count code
//    | config  |s| c | |V|…|V|L|…        V: voice in these 20 ms; L: redundancy follows
//
// The sender is a peer: treat its claim as a hint, never as a proof.

/// Hints read from Opus packets.
public enum OpusActivity {
    /// Maximum bytes of a packet of discontinuous transmission: a table of contents and one more.
    public static let maxSilenceBytes = 2

    /// Whether the sender detected no voice: a packet of discontinuous transmission, or a SILK
    /// packet whose voice bits are all 0. False for CELT alone and for packets of several frames,
    /// where this is not checked.
    public static func saysSilence(_ packet: RawSpan) -> Bool {
        guard packet.byteCount > maxSilenceBytes else { return packet.byteCount > 0 }
        let contents = packet.unsafeLoad(fromByteOffset: 0, as: UInt8.self)
        guard contents & 3 == 0, let frames = silkFrames(configuration: contents >> 3) else {
            return false
        }
        let bits = packet.unsafeLoad(fromByteOffset: 1, as: UInt8.self)
        let voice = ~(0xFF >> frames as UInt8)
        let isStereo = contents & 4 != 0
        let side = isStereo ? voice >> (UInt8(frames) + 1) : 0
        return bits & (voice | side) == 0
    }

    /// SILK frames of a packet of one Opus frame (RFC 6716 §3.1, table 2); nil for CELT alone.
    private static func silkFrames(configuration: UInt8) -> Int? {
        switch configuration {
        // SILK: 10, 20, 40, 60 ms in each of three bandwidths.
        case 0..<12: max(1, Int(configuration & 3))
        // Hybrid: 10 or 20 ms.
        case 12..<16: 1
        default: nil
        }
    }
}
