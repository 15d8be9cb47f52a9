// A load session that speaks: its schedule, and the delays that it measures from the server's
// audio. The test sets the clock.

import Testing

@testable import parley_load

@Suite struct SpeakerTests {
    private static let packet = SpokenLoop.packetNanoseconds
    private var latencies = LatencyRecorder()
    private var counts = LoadCounts()

    /// A packet of reply audio (PROTOCOL.md, binary output).
    private func audio(item: UInt8, position: UInt32) -> [UInt8] {
        var bytes = [UInt8](repeating: item, count: 40)
        bytes[0] = 1
        for index in 0..<4 {
            bytes[4 + index] = UInt8(truncatingIfNeeded: position >> (8 * UInt32(index)))
        }
        return bytes
    }

    private mutating func hear(
        _ bytes: [UInt8], at now: Int64, _ speaker: inout Speaker
    ) {
        bytes.withUnsafeBytes { speaker.handleAudio($0, at: now, into: &latencies, &counts) }
    }

    @Test mutating func aRecordingIsRepeated() {
        var speaker = Speaker(
            packets: 3, speechPackets: 2, firstLoudPacket: 1, interruptsAfter: nil)
        let said = (0..<7).map {
            speaker.nextPacket(due: Int64($0) * Self.packet, into: &latencies, &counts)
        }
        #expect(said == [0, 1, 2, 0, 1, 2, 0])
    }

    @Test mutating func delaysCountFromTheEndOfSpeech() {
        var speaker = Speaker(
            packets: 10, speechPackets: 2, firstLoudPacket: 0, interruptsAfter: nil)
        _ = speaker.nextPacket(due: 0, into: &latencies, &counts)
        _ = speaker.nextPacket(due: Self.packet, into: &latencies, &counts)
        speaker.handleTranscript(at: Self.packet + 300_000_000, into: &latencies)
        speaker.handleResponse()
        hear(audio(item: 7, position: 0), at: Self.packet + 500_000_000, &speaker)
        hear(audio(item: 7, position: 960), at: Self.packet + 530_000_000, &speaker)
        #expect(latencies[.transcript]?.milliseconds(atPercentile: 100)?.rounded() == 300)
        #expect(latencies[.firstAudio]?.milliseconds(atPercentile: 100)?.rounded() == 500)
        // 960 samples at 48 kHz are 20 ms, and the packet arrived after 30.
        #expect(latencies[.audioLateness]?.milliseconds(atPercentile: 100)?.rounded() == 10)
        #expect((counts.audioPackets, counts.latePackets) == (2, 1))
    }

    @Test mutating func aReplyIsInterruptedAndItsEndMeasured() {
        var speaker = Speaker(
            packets: 100, speechPackets: 3, firstLoudPacket: 1, interruptsAfter: 100_000_000)
        var due: Int64 = 0
        var said: [Int] = []
        func pass(_ packets: Int, _ test: inout Self) {
            for _ in 0..<packets {
                said.append(
                    speaker.nextPacket(due: due, into: &test.latencies, &test.counts))
                due += Self.packet
            }
        }
        pass(5, &self)
        #expect(said == [1, 2, 3, 4, 5])
        speaker.handleResponse()
        hear(audio(item: 7, position: 0), at: due, &speaker)
        pass(5, &self)
        #expect(counts.interruptions == 0)
        // After 100 ms of the reply, the next packet is the first loud one.
        let began = due
        pass(1, &self)
        #expect((counts.interruptions, said.last) == (1, 1))
        speaker.handleSpeechStarted(at: began + 50_000_000, into: &latencies)
        hear(audio(item: 7, position: 9_600), at: began + 80_000_000, &speaker)
        pass(51, &self)
        #expect(latencies[.speechStarted]?.milliseconds(atPercentile: 100)?.rounded() == 50)
        #expect(latencies[.replyStopped]?.milliseconds(atPercentile: 100)?.rounded() == 80)
    }

    @Test(arguments: [true, false])
    mutating func aTurnWithoutAReplyFailsIfRepliesAreAwaited(awaitsReplies: Bool) {
        var speaker = Speaker(
            packets: 3, speechPackets: 2, firstLoudPacket: 0, interruptsAfter: nil,
            awaitsReplies: awaitsReplies)
        // Four turns: the second is answered, and the last may still be.
        for number in 0..<11 {
            _ = speaker.nextPacket(
                due: Int64(number) * Self.packet, into: &latencies, &counts)
            guard number == 4 else { continue }
            speaker.handleResponse()
            hear(audio(item: 7, position: 0), at: 5 * Self.packet, &speaker)
        }
        #expect(counts.turnsFailed == (awaitsReplies ? 2 : 0))
    }

    @Test mutating func anUnansweredTurnIsRepeated() {
        var speaker = Speaker(
            packets: 10, speechPackets: 2, firstLoudPacket: 1, interruptsAfter: 100_000_000)
        var last = 0
        for number in 0..<800 {
            last = speaker.nextPacket(
                due: Int64(number) * Self.packet, into: &latencies, &counts)
        }
        #expect(counts.turnsFailed == 1)
        #expect(last == 9)
    }
}
