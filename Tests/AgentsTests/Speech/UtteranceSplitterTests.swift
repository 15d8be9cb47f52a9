// Where long utterances are cut. The samples are synthetic: loud, with quiet pauses.

import Testing

@testable import Agents

@Suite struct UtteranceSplitterTests {
    private let splitter = UtteranceSplitter(
        maxSamples: 1_000, searchSamples: 400, quietSamples: 50)

    /// Samples that are loud except in `pauses`.
    private func speech(_ count: Int, pauses: [Range<Int>] = []) -> [Int16] {
        (0..<count).map { index in pauses.contains { $0.contains(index) } ? 0 : 8_000 }
    }

    @Test(arguments: [0, 1, 999, 1_000])
    func leavesAShortUtteranceWhole(count: Int) {
        #expect(splitter.segments(of: speech(count)) == (count == 0 ? [] : [0..<count]))
    }

    @Test func cutsInTheMiddleOfAPause() {
        let segments = splitter.segments(of: speech(1_500, pauses: [700..<750]))
        #expect(segments == [0..<725, 725..<1_500])
    }

    @Test func prefersTheQuieterOfTwoPauses() {
        var samples = speech(1_500, pauses: [650..<700, 800..<850])
        for index in 650..<700 { samples[index] = 100 }
        #expect(splitter.segments(of: samples) == [0..<825, 825..<1_500])
    }

    @Test func ignoresAPauseBeforeTheSearchRange() {
        let segments = splitter.segments(of: speech(1_500, pauses: [100..<200]))
        #expect(segments.count == 2)
        #expect(segments[0].upperBound > 600)
    }

    @Test(arguments: [1_001, 2_500, 10_000, 12_345])
    func coversEverySampleOnceWithinTheLimit(count: Int) {
        let segments = splitter.segments(of: speech(count, pauses: [300..<420, 1_900..<1_990]))
        var end = 0
        for segment in segments {
            #expect(segment.lowerBound == end)
            #expect(!segment.isEmpty && segment.count <= 1_000)
            end = segment.upperBound
        }
        #expect(end == count)
    }

    @Test func survivesTheLoudestSamples() {
        let samples = [Int16](repeating: .min, count: 3_000)
        #expect(splitter.segments(of: samples).last?.upperBound == 3_000)
    }
}
