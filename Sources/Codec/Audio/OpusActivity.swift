// What an Opus packet says of its content before it is decoded, RFC 6716 §3.1 and §4.2.3: whether
// its sender heard any voice. Decoding is OpusDecoder's.
//
// A packet of SILK (alone, or below CELT) begins with a bit per 20 ms that says whether the
// encoder's own voice detection fired, then a bit for redundancy; a stereo packet has both once
// more for the side channel. They are the first bits of the range coder, each with even odds, so
// that they stand in the first byte as they are:
//
//     0 1 2 3 4 5 6 7   0 …              table of contents: configuration, stereo, count code
//    | config  |s| c | |V|…|V|L|…        V: voice in these 20 ms; L: redundancy follows
//
// The sender is a peer: what its packet claims is a hint, never a proof.

/// Hints about Opus packets.
public enum OpusActivity {
    /// The longest packet of discontinuous transmission: a table of contents, and a byte at most.
    public static let maxSilenceBytes = 2

    /// Whether the sender heard nothing: a packet of discontinuous transmission, or one of SILK
    /// whose encoder found no voice in it. False for CELT alone and for packets of several frames,
    /// which do not say.
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
