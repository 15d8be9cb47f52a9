// G.711: 16-bit samples ↔ the 8-bit logarithmic codes of telephony (ITU-T G.711, 1988).
//
// A code is sign (1 bit), segment (3), step in the segment (4); each segment's steps are twice as
// wide as those of the one below. Both directions are closed forms, which vectorise and need no
// tables. Negative samples are folded by their one's complement, as in the ITU's reference
// software (G.191), so that -32,768 needs no special case. Packing into packets is not done here.

/// The companding laws of ITU-T G.711.
public enum G711 {
    /// A companding law.
    public enum Law: Sendable, CaseIterable {
        /// µ-law: North America and Japan; `audio/pcmu`. Reaches ±32,124.
        case mu
        /// A-law: elsewhere; `audio/pcma`. Reaches ±32,256.
        case a
    }

    /// The bias of a magnitude in µ-law: segments begin at powers of two (33 at 14 bits).
    private static let muBias: Int32 = 33 << 2
    /// The largest magnitude that µ-law distinguishes, so that adding the bias stays in 15 bits.
    private static let muClip: Int32 = 0x7FFF - muBias

    /// Decodes every byte to a sample.
    /// - Precondition: `samples` has room for as many samples as there are bytes.
    public static func decode(
        _ bytes: RawSpan, law: Law, into samples: UnsafeMutableBufferPointer<Int16>
    ) {
        precondition(samples.count >= bytes.byteCount)
        bytes.withUnsafeBytes { bytes in
            switch law {
            case .mu: for index in bytes.indices { samples[index] = decodeMu(bytes[index]) }
            case .a: for index in bytes.indices { samples[index] = decodeA(bytes[index]) }
            }
        }
    }

    /// Appends the code of every sample.
    public static func encode(
        _ samples: UnsafeBufferPointer<Int16>, law: Law, into bytes: inout [UInt8]
    ) {
        switch law {
        case .mu: bytes.append(contentsOf: samples.lazy.map(encodeMu))
        case .a: bytes.append(contentsOf: samples.lazy.map(encodeA))
        }
    }

    /// The µ-law code of one sample.
    static func muLawCode(of sample: Int16) -> UInt8 { encodeMu(sample) }

    /// The sample of one µ-law code.
    static func muLawSample(of code: UInt8) -> Int16 { decodeMu(code) }

    // MARK: - µ-law: all bits inverted; ((step + 16.5) · 2^(segment + 3)) - bias

    private static func decodeMu(_ code: UInt8) -> Int16 {
        let bits = Int32(~code)
        let segment = bits >> 4 & 7
        let magnitude = ((bits & 15) << 3 + muBias) << segment - muBias
        return Int16(truncatingIfNeeded: bits & 0x80 != 0 ? -magnitude : magnitude)
    }

    private static func encodeMu(_ sample: Int16) -> UInt8 {
        let sign: UInt8 = sample < 0 ? 0x80 : 0
        let folded = min(Int32(sample ^ (sample >> 15)), muClip) + muBias
        // The bias puts the highest bit at 7…14: that is the segment.
        let segment = Int32(24 - folded.leadingZeroBitCount)
        let step = folded >> (segment + 3) & 15
        return ~(sign | UInt8(truncatingIfNeeded: segment << 4 | step))
    }

    // MARK: - A-law: even bits inverted, sign bit set for positive; segment 0 is linear

    private static func decodeA(_ code: UInt8) -> Int16 {
        let bits = Int32(code ^ 0x55)
        let segment = bits >> 4 & 7
        // Half a step in, so that a code stands for the middle of its interval.
        let step = (bits & 15) << 4 + 8
        let magnitude = segment == 0 ? step : (step + 0x100) << (segment - 1)
        return Int16(truncatingIfNeeded: bits & 0x80 != 0 ? magnitude : -magnitude)
    }

    private static func encodeA(_ sample: Int16) -> UInt8 {
        let sign: UInt8 = sample < 0 ? 0 : 0x80
        let folded = Int32(sample ^ (sample >> 15))
        // Below 256 the steps are as wide as in segment 1, and there is no hidden bit.
        let segment = max(0, Int32(24 - folded.leadingZeroBitCount))
        let step = folded >> (max(segment, 1) + 3) & 15
        return (sign | UInt8(truncatingIfNeeded: segment << 4 | step)) ^ 0x55
    }
}
