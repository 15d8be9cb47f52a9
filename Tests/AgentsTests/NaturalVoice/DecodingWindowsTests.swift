// The pieces in which a clause becomes sound.

import Testing

@testable import Agents

@Suite struct DecodingWindowsTests {
    @Test func theFirstWindowIsShortAndLaterOnesGrow() {
        let lengths = DecodingWindows(frames: 600).map(\.frames.count)
        #expect(lengths == [16, 32, 64, 128, 128, 128, 104])
    }

    @Test(arguments: [0, 1, 10, 16, 17, 26, 27, 48, 58, 59, 112, 240, 251, 5_000])
    func theWindowsAreTheWholeClauseInOrder(frames: Int) {
        let windows = Array(DecodingWindows(frames: frames))
        #expect(windows.flatMap(\.frames) == Array(0..<frames))
        for window in windows {
            let (wanted, input) = (window.frames, window.input)
            #expect(input.lowerBound == max(0, wanted.lowerBound - 10))
            #expect(input.upperBound == min(frames, wanted.upperBound + 10))
            // The longest one, and a rest that joins it.
            #expect(wanted.count <= 128 + 10)
        }
    }

    @Test func aNegativeLengthHasNoWindow() {
        #expect(Array(DecodingWindows(frames: -1)).isEmpty)
    }

    @Test func aPartOfTheFramesKeepsTheirChannels() throws {
        let count = 5
        // The channel in the tens of thousands, the frame in the ones.
        let values = (0..<VoiceFrames.channels).flatMap { channel in
            (0..<count).map { Float(channel * 10_000 + $0) }
        }
        let frames = try #require(VoiceFrames(values: values))
        #expect(frames.count == count)
        let part = frames.part(1..<4)
        #expect(part.count == VoiceFrames.channels * 3)
        #expect(Array(part[3..<6]) == [10_001, 10_002, 10_003])
        #expect(part.last == 1_910_003)
        #expect(VoiceFrames(values: Array(values.dropLast())) == nil)
    }
}
