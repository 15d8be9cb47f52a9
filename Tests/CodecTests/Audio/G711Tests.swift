// G.711 over all 256 codes and all 65,536 samples.

import Codec
import Testing

private func decode(_ codes: [UInt8], _ law: G711.Law) -> [Int16] {
    Array(unsafeUninitializedCapacity: codes.count) { samples, count in
        G711.decode(codes.span.bytes, law: law, into: samples)
        count = codes.count
    }
}

private func encode(_ samples: [Int16], _ law: G711.Law) -> [UInt8] {
    var codes: [UInt8] = []
    samples.withUnsafeBufferPointer { G711.encode($0, law: law, into: &codes) }
    return codes
}

private let allCodes = (0...255).map { UInt8($0) }
private let allSamples = (Int(Int16.min)...Int(Int16.max)).map { Int16($0) }

@Suite struct G711Tests {
    /// First and last code of each segment, positive, from tables 1a and 2a of the recommendation
    /// (their values are of 13 and 14 bits; here shifted to 16).
    static let knownValues: [(G711.Law, UInt8, Int16)] = [
        (.mu, 0x80, 32_124), (.mu, 0x8F, 16_764), (.mu, 0x90, 15_996), (.mu, 0x9F, 8_316),
        (.mu, 0xA0, 7_932), (.mu, 0xAF, 4_092), (.mu, 0xB0, 3_900), (.mu, 0xBF, 1_980),
        (.mu, 0xC0, 1_884), (.mu, 0xCF, 924), (.mu, 0xD0, 876), (.mu, 0xDF, 396),
        (.mu, 0xE0, 372), (.mu, 0xEF, 132), (.mu, 0xF0, 120), (.mu, 0xFE, 8), (.mu, 0xFF, 0),
        (.a, 0xAA, 32_256), (.a, 0xA5, 16_896), (.a, 0xBA, 16_128), (.a, 0xB5, 8_448),
        (.a, 0x8A, 8_064), (.a, 0x85, 4_224), (.a, 0x9A, 4_032), (.a, 0x95, 2_112),
        (.a, 0xEA, 2_016), (.a, 0xE5, 1_056), (.a, 0xFA, 1_008), (.a, 0xF5, 528),
        (.a, 0xCA, 504), (.a, 0xC5, 264), (.a, 0xDA, 248), (.a, 0xD5, 8),
    ]

    @Test(arguments: knownValues)
    func decodesTheRecommendationsValues(_ law: G711.Law, _ code: UInt8, _ sample: Int16) {
        #expect(decode([code, code ^ 0x80], law) == [sample, -sample])
    }

    @Test(arguments: G711.Law.allCases)
    func stepsDoubleFromSegmentToSegment(_ law: G711.Law) {
        // Undoing the inversion orders the positive codes by magnitude.
        let inversion: UInt8 = law == .mu ? 0xFF : 0xD5
        let levels = decode((0..<128).map { UInt8($0) ^ inversion }, law)
        for (index, (low, high)) in zip(levels, levels.dropFirst()).enumerated() {
            let segment = index / 16
            if index % 16 < 15 {
                #expect(high - low == (law == .mu ? 8 << segment : 16 << max(segment - 1, 0)))
            } else {
                #expect(high > low)
            }
        }
    }

    @Test(arguments: G711.Law.allCases)
    func everyCodeSurvivesTheRoundTrip(_ law: G711.Law) {
        let back = encode(decode(allCodes, law), law)
        for code in allCodes {
            // µ-law has two zeros; the negative one is encoded back as the positive one.
            let expected = law == .mu && code == 0x7F ? 0xFF : code
            #expect(back[Int(code)] == expected)
        }
    }

    /// In both tables a code's value is the middle between its two decision values.
    @Test(arguments: G711.Law.allCases)
    func everyCodeStandsForTheMiddleOfItsSamples(_ law: G711.Law) {
        let samples = Array(allSamples[32_768...])
        let codes = encode(samples, law)
        var first = 0
        var intervals = 0
        while first < samples.count {
            let code = codes[first]
            let last = codes[first...].firstIndex { $0 != code } ?? samples.count
            let level = Int(decode([code], law)[0])
            switch (law, code) {
            case (.mu, 0xFF): #expect((first, last) == (0, 4) && level == 0)
            // Samples louder than the last interval are clipped to it.
            case (.mu, 0x80): #expect((first, last) == (31_612, 32_768) && level == 32_124)
            default: #expect((first + last) / 2 == level, "code \(code)")
            }
            first = last
            intervals += 1
        }
        #expect(intervals == 128)
    }

    @Test(arguments: G711.Law.allCases)
    func negativeSamplesMirrorPositiveOnes(_ law: G711.Law) {
        let codes = encode(allSamples, law)
        let strays = (0..<32_768).filter { codes[32_768 + $0] != codes[32_767 - $0] ^ 0x80 }
        #expect(strays.isEmpty)
    }

    @Test func appendsToWhatIsThere() {
        var codes: [UInt8] = [1]
        [Int16]([0, -1]).withUnsafeBufferPointer { G711.encode($0, law: .mu, into: &codes) }
        #expect(codes == [1, 0xFF, 0x7F])
    }
}
