// Cuts a long utterance at quiet points into segments that a recogniser can take. Pure arithmetic
// on samples; the recogniser chooses the lengths.

/// Cuts utterances into segments of bounded length.
struct UtteranceSplitter {
    /// Most samples of a segment.
    var maxSamples: Int
    /// The range before the limit in which a cut may be, in samples.
    var searchSamples: Int
    /// Length of the stretch whose loudness is measured, in samples: about a pause between words.
    var quietSamples: Int

    /// The segments of an utterance, in order and without gaps; a cut lies in the middle of the
    /// quietest stretch of the search range before each limit.
    func segments(of samples: [Int16]) -> [Range<Int>] {
        precondition(0 < quietSamples && quietSamples <= searchSamples)
        precondition(searchSamples < maxSamples)
        var segments: [Range<Int>] = []
        var start = 0
        while samples.count - start > maxSamples {
            let limit = start + maxSamples
            let cut = Self.quietestPoint(
                of: samples[...], in: limit - searchSamples..<limit, quietSamples: quietSamples)
            segments.append(start..<cut)
            start = cut
        }
        if start < samples.count { segments.append(start..<samples.count) }
        return segments
    }

    /// The middle of the stretch with the least energy in a range; of equal ones, the last.
    /// - Parameter quietSamples: the length of the stretch.
    static func quietestPoint(
        of samples: ArraySlice<Int16>, in range: Range<Int>, quietSamples: Int
    ) -> Int {
        samples.withUnsafeBufferPointer { buffer in
            let first = samples.startIndex
            var energy: UInt64 = 0
            var least = UInt64.max
            var quietest = range.upperBound
            for end in range {
                energy += square(buffer[end - first])
                let start = end - quietSamples
                if start >= range.lowerBound { energy -= square(buffer[start - first]) }
                if start + 1 >= range.lowerBound, energy <= least {
                    least = energy
                    quietest = end + 1 - quietSamples / 2
                }
            }
            return quietest
        }
    }

    private static func square(_ sample: Int16) -> UInt64 { UInt64(Int(sample) * Int(sample)) }
}
