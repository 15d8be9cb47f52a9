// Packets whose numbers jump: what is made up for them is no more than the time that has passed.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct GapAllowanceTests {
    @Test func aGapIsFilledUpToASecond() {
        var gaps = GapAllowance()
        #expect(gaps.take(0, packetSamples: 320, at: .milliseconds(0)) == 0)
        #expect(gaps.take(3, packetSamples: 320, at: .milliseconds(0)) == 3)
        #expect(gaps.take(3_000, packetSamples: 320, at: .milliseconds(0)) == 47)
        #expect(gaps.take(1, packetSamples: 320, at: .milliseconds(0)) == 0)
    }

    @Test func timeThatPassesMayBeFilled() {
        var gaps = GapAllowance()
        #expect(gaps.take(50, packetSamples: 320, at: .milliseconds(0)) == 50)
        #expect(gaps.take(50, packetSamples: 320, at: .milliseconds(100)) == 5)
        #expect(gaps.take(50, packetSamples: 1_920, at: .milliseconds(1_000)) == 7)
        // No more than a second is saved up, however long the stream pauses.
        #expect(gaps.take(3_000, packetSamples: 320, at: .milliseconds(90_000_000)) == 50)
    }

    /// Three thousand packets at once, each a second after the one before by its number.
    @Test func aFloodOfJumpsMakesNoAudio() throws {
        let packet = try #require(
            try OpusSender().packets(
                of: SpeechRecording.goForward.samplesAt48Kilohertz(), length: 960
            )
            .first)
        let script = ScriptedSession {
            $0.inputFormat = .opus
            $0.inputIsNumbered = true
            $0.turnDetection = nil
        }
        script.run(until: 10)
        var number: UInt16 = 0
        for _ in 0..<3_000 {
            script.append(packet, sequence: number, at: 10)
            number &+= 51
        }
        script.run(until: 20)
        let counters = script.context.counters
        #expect(counters.samplesIn == 3_000 * 320 + GapAllowance.maxSamples)
        #expect(counters.packetsConcealed + counters.packetsRecovered == 2_999 * 50)
    }

    /// A stream that loses half of its packets in real time has no holes.
    @Test func aBadNetworkIsFilled() throws {
        let packets = try OpusSender().packets(
            of: SpeechRecording.goForward.samplesAt48Kilohertz(), length: 960)
        let script = ScriptedSession {
            $0.inputFormat = .opus
            $0.inputIsNumbered = true
            $0.turnDetection = nil
        }
        for (index, packet) in packets.enumerated() where index % 8 == 0 {
            script.append(packet, sequence: UInt16(index), at: index * 20)
        }
        script.run(until: packets.count * 20 + 10)
        let last = (packets.count - 1) / 8 * 8
        #expect(script.context.counters.samplesIn == (last + 1) * 320)
    }
}
