// Where a side's audio lies on the timeline of its recording, by when it came.

import Codec
import Testing

@testable import Session

@Suite struct RecordedTrackTests {
    /// Packets of 20 ms, each with the time at which it had come, in milliseconds, and how many were
    /// lost before it.
    private static func audio(_ packets: [(at: Int, lost: Int)]) -> RecordedAudio {
        var audio = RecordedAudio()
        for (index, packet) in packets.enumerated() {
            audio.append(
                ([0x48, UInt8(index)] as [UInt8]).span.bytes, format: .opus, missing: packet.lost,
                end: .milliseconds(packet.at))
        }
        return audio
    }

    /// The pieces as words: `2` for the third packet, `-80` for 80 ms of silence, `?20` for 20 ms
    /// that were lost.
    private static func words(
        _ track: inout RecordedTrack, at now: Int? = nil
    ) -> [String] {
        var words: [String] = []
        while let piece = track.next(at: now.map { .milliseconds($0) }) {
            switch piece {
            case .silence(let samples): words.append("-\(samples / 48)")
            case .loss(let samples): words.append("?\(samples / 48)")
            case .audio(_, let bytes, _): words.append("\(bytes.last!)")
            }
        }
        return words
    }

    private static func pieces(
        _ packets: [(at: Int, lost: Int)], jitter: Duration = RecordedTrack.jitter
    ) -> String {
        var track = RecordedTrack(start: .milliseconds(0), jitter: jitter)
        track.append(audio(packets))
        return words(&track).joined(separator: " ")
    }

    @Test func audioThatComesInTimeFollowsItself() {
        #expect(Self.pieces([(20, 0), (40, 0), (60, 0)]) == "0 1 2")
        // A jitter of less than the tolerance moves nothing.
        #expect(Self.pieces([(20, 0), (75, 0), (80, 0), (90, 0)]) == "0 1 2 3")
    }

    @Test func whatComesLateIsAPause() {
        #expect(Self.pieces([(500, 0), (520, 0)]) == "-480 0 1")
        #expect(Self.pieces([(20, 0), (340, 0), (360, 0)]) == "0 -300 1 2")
        // More than the jitter later, what follows says nothing about it.
        #expect(Self.pieces([(20, 0), (2_040, 0), (3_060, 0)]) == "0 -2000 1 -1000 2")
    }

    @Test func whatIsDelayedAndComesAtOnceIsNoPause() {
        #expect(
            Self.pieces([(20, 0), (120, 0), (121, 0), (122, 0), (123, 0), (124, 0), (140, 0)])
                == "0 1 2 3 4 5 6")
        // The pause is what is left when all has come.
        #expect(Self.pieces([(20, 0), (320, 0), (320, 0), (320, 0), (340, 0)]) == "0 -240 1 2 3 4")
    }

    @Test func aTrackOfTheServerWaitsForNothing() {
        var track = RecordedTrack(start: .milliseconds(0), jitter: .zero)
        track.append(Self.audio([(20, 0), (1_040, 0)]))
        #expect(Self.words(&track, at: 1_040) == ["0", "-1000", "1"])
    }

    @Test func aPauseIsKnownOnceTheJitterIsOver() {
        var track = RecordedTrack(start: .milliseconds(0), jitter: .seconds(1))
        track.append(Self.audio([(20, 0), (400, 0)]))
        #expect(Self.words(&track, at: 410) == ["0"])
        #expect(Self.words(&track, at: 1_399) == [])
        #expect(Self.words(&track, at: 1_400) == ["-360", "1"])
        #expect(track.position == 48 * 400)
        // A chunk that came meanwhile shows that there is none.
        track.append(Self.audio([(800, 0), (800, 0), (801, 0), (802, 0), (803, 0)]))
        #expect(Self.words(&track, at: 810) == [])
        var more = RecordedAudio()
        let packet: [UInt8] = [0x48, 9]
        for _ in 0..<20 {
            more.append(packet.span.bytes, format: .opus, end: .milliseconds(811))
        }
        track.append(more)
        #expect(Self.words(&track, at: 811).prefix(2) == ["0", "1"])
    }

    @Test func aDelayThatIsMadeUpForHidesNoLaterPause() {
        var track = RecordedTrack(start: .milliseconds(0), jitter: .seconds(1))
        track.append(Self.audio([(20, 0)] + Array(repeating: (300, 0), count: 14)))
        #expect(Self.words(&track, at: 300).count == 15)
        track.append(Self.audio([(1_000, 0), (1_020, 0)]))
        #expect(Self.words(&track, at: 1_020) == [])
        #expect(Self.words(&track) == ["-680", "0", "1"])
        // What is lost takes no more time than there was, although the numbers say so.
        #expect(
            Self.pieces([(20, 0), (200, 3_000), (1_190, 0), (3_400, 0)])
                == "0 ?1160 1 2 -2160 3")
    }

    @Test func lostPacketsTakeTheirTime() {
        #expect(Self.pieces([(20, 0), (60, 1), (80, 0)]) == "0 ?20 1 2")
        #expect(Self.pieces([(20, 0), (120, 4), (140, 0)]) == "0 ?80 1 2")
        // Lost, and a pause beside it.
        #expect(Self.pieces([(20, 0), (560, 1), (580, 0)]) == "0 -500 ?20 1 2")
    }

    @Test func aJumpOfTheNumbersIsNoMinuteOfSpeech() {
        // 3,000 packets are said to be lost within 20 ms.
        #expect(Self.pieces([(20, 0), (40, 3_000), (60, 0)]) == "0 ?1000 1 2")
    }

    @Test func audioThatComesTooFastIsNotShortened() {
        var track = RecordedTrack(start: .milliseconds(0), jitter: .seconds(1))
        track.append(Self.audio([(20, 0), (20, 0), (20, 0), (20, 0)]))
        #expect(Self.words(&track) == ["0", "1", "2", "3"])
        #expect(track.position == 4 * 960)
    }

    @Test func whatIsNoPacketIsLeftOut() {
        var audio = RecordedAudio()
        audio.append(RawSpan(), format: .opus, end: .milliseconds(0))
        audio.append(([1] as [UInt8]).span.bytes, format: .pcm, end: .milliseconds(0))
        audio.append(RawSpan(), format: .pcmu, end: .milliseconds(0))
        #expect(audio.isEmpty)
        audio.append(([1, 2, 3] as [UInt8]).span.bytes, format: .pcmu, end: .milliseconds(0))
        audio.append(([1, 2] as [UInt8]).span.bytes, format: .pcm, end: .milliseconds(0))
        #expect(audio.runs.map(\.samples) == [18, 2])
    }
}
