// What a session that is spoken to takes, counted: the decoder, voice activity, noise reduction and
// prosody with the audio itself. The target is 64 kB for a session that speaks Opus.

import COpus
import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct SpeakingMemoryTests {
    /// Speech without a pause that lasts at least so long.
    private static func speech(seconds: Int) throws -> [Int16] {
        let sentence = try SpeechRecording.sentence.samplesAt48Kilohertz()
        var speech: [Int16] = []
        while speech.count < seconds * 48_000 { speech += sentence }
        return Array(speech[..<(seconds * 48_000)])
    }

    private static func packets(seconds: Int, bitrate: Int32) throws -> [[UInt8]] {
        try OpusSender((OPUS_SET_BITRATE_REQUEST, bitrate))
            .packets(of: speech(seconds: seconds), length: 960)
    }

    /// The most that a session takes while it hears packets, and what has been said by then.
    private func mostResident(
        _ packets: [[UInt8]], _ configure: (inout SessionParameters) -> Void
    ) -> (bytes: Int, script: ScriptedSession) {
        let script = ScriptedSession(configure, voiceActivity: .installed, makesHypotheses: true)
        script.hypothesis = { _ in "words" }
        script.hypothesisDelay = .milliseconds(40)
        script.speak(packets, from: 0)
        var most = 0
        for packet in 1...packets.count {
            script.run(until: 20 * packet)
            most = max(most, script.session.heldBytes)
        }
        return (most, script)
    }

    private func vad(
        _ mode: TurnDetectionParameters.Mode
    ) -> (inout SessionParameters) -> Void {
        {
            $0.inputFormat = .opus
            $0.turnDetection = TurnDetectionParameters(mode: mode)
        }
    }

    /// The packets are all but 25 kB of it: at 24 kb/s there is room for 10 s of them.
    @Test(arguments: [(15, Int32(16_000)), (10, 24_000)])
    func opusWithoutAPauseTakesLessThan64Kilobytes(seconds: Int, bitrate: Int32) throws {
        let packets = try Self.packets(seconds: seconds, bitrate: bitrate)
        let (resident, script) = mostResident(
            packets, vad(.serverVAD(threshold: 0.5, silenceMilliseconds: 1_000)))
        // One utterance, with nothing taken yet.
        #expect(script.transcript.contains { $0.contains("speech_started") })
        #expect(!script.transcript.contains { $0.contains("speech_stopped") })
        #expect(resident <= 64_000, "\(resident) bytes, packets of \(packets.joined().count)")
        #expect(resident > OpusDecoder.stateBytes + packets.joined().count * 9 / 10)
    }

    @Test func sixSecondsDoWithProsodyToo() throws {
        let packets = try Self.packets(seconds: 6, bitrate: 24_000)
        let (resident, script) = mostResident(packets, vad(.semanticVAD(eagerness: .low)))
        #expect(!script.transcript.contains { $0.contains("speech_stopped") })
        #expect(resident <= 64_000, "\(resident) bytes, packets of \(packets.joined().count)")
    }

    @Test func silentInputKeepsItsDecoderAndLittleMore() throws {
        let silence = [Int16](repeating: 0, count: 48_000 * 3)
        let packets = try OpusSender().packets(of: silence, length: 960)
        let (resident, _) = mostResident(
            packets, vad(.serverVAD(threshold: 0.5, silenceMilliseconds: 500)))
        #expect(resident < OpusDecoder.stateBytes + 20_000, "\(resident)")
    }

    @Test func samplesTakeAQuarterOfTheirSize() throws {
        let speech = SpeechRecording.sentence
        let (resident, _) = mostResident(try speech.packets(silenceMilliseconds: 0)) {
            $0.turnDetection = nil
        }
        #expect(resident < speech.samples.count * 2 * 3 / 10 + 4_000, "\(resident)")
    }

    @Test func noiseReductionIsCounted() throws {
        let packets = try Self.packets(seconds: 1, bitrate: 24_000)
        let plain = mostResident(packets) { $0.inputFormat = .opus }
        let reduced = mostResident(packets) {
            $0.inputFormat = .opus
            $0.noiseReduction = .nearField
        }
        #expect(reduced.bytes > plain.bytes + NoiseReducer.stateBytes)
    }

    @Test func nothingIsKeptOnceAllHasBeenSaidAndAnswered() throws {
        let packets = try Self.packets(seconds: 2, bitrate: 24_000)
        let (resident, script) = mostResident(packets) {
            $0.inputFormat = .opus
            $0.turnDetection = nil
            $0.outputModality = .text
        }
        #expect(resident > 20_000)
        script.send(.inputAudioBufferCommit, at: 2_010)
        script.run(until: 20_000)
        let left = script.session.ledger
        #expect(left.inputAudio + left.codec + left.response < 500)
        #expect(left.conversation < script.session.conversation.audioBytes + 1_000)
    }
}
