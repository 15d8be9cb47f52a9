// The fields of `server_vad`, each with its effect on a whole session, on a real recording. Their
// defaults and ranges on the wire are CodecTests'.

import Codec
import TestMaterial
import Testing

@testable import Session

/// "go forward ten meters": the detector hears speech from 512 to 2,240 ms.
private func script(_ turnDetection: TurnDetectionParameters) throws -> ScriptedSession {
    let script = ScriptedSession(
        {
            $0.transcription = TranscriptionParameters(model: "scripted")
            $0.turnDetection = turnDetection
        }, voiceActivity: .installed)
    script.transcripts = [.success("go forward ten meters")]
    script.replies = [.text("Going.")]
    return script
}

@Suite struct TurnDetectionFieldTests {
    @Test func theDefaultsAreTheProtocols() {
        let defaults = TurnDetectionParameters()
        #expect(defaults.mode == .serverVAD(threshold: 0.5, silenceMilliseconds: 500))
        #expect(defaults.prefixPaddingMilliseconds == 300)
        #expect(defaults.createResponse && defaults.interruptResponse)
        #expect(defaults.idleTimeoutMilliseconds == nil)
    }

    @Test func aThresholdThatNothingReachesHearsNothing() throws {
        let script = try script(
            TurnDetectionParameters(mode: .serverVAD(threshold: 1, silenceMilliseconds: 500)))
        script.speak(try SpeechRecording.goForward.packets(silenceMilliseconds: 0), from: 0)
        script.run(until: 3_000)
        #expect(script.transcript.count == 1)
    }

    @Test(arguments: [(0, 512), (300, 212), (1_000, 0)])
    func prefixPaddingMovesTheStartOfTheAudio(padding: Int, start: Int) throws {
        let script = try script(TurnDetectionParameters(prefixPaddingMilliseconds: padding))
        script.speak(try SpeechRecording.goForward.packets(silenceMilliseconds: 0), from: 0)
        script.run(until: 3_000)
        #expect(
            script.lines("input_audio_buffer.speech_started") == [
                "+00560ms S→C input_audio_buffer.speech_started item=i1 audio_start_ms=\(start)"
            ])
        // The silence is long enough at 2,752 ms, with the packet that ends at 2,760.
        #expect(script.samplesTranscribed == [16 * (2_760 - start)])
    }

    @Test(arguments: [(200, 2_460), (500, 2_740), (800, 3_020)])
    func silenceDurationIsTheWaitAfterSpeech(silence: Int, at: Int) throws {
        let script = try script(
            TurnDetectionParameters(mode: .serverVAD(threshold: 0.5, silenceMilliseconds: silence)))
        script.speak(try SpeechRecording.goForward.packets(silenceMilliseconds: 300), from: 0)
        script.run(until: 4_000)
        #expect(
            script.lines("input_audio_buffer.speech_stopped") == [
                "+0\(at)ms S→C input_audio_buffer.speech_stopped item=i1 audio_end_ms=2240"
            ])
    }

    @Test func withoutCreateResponseTheClientAsksForTheAnswer() throws {
        let script = try script(TurnDetectionParameters(createResponse: false))
        script.speak(try SpeechRecording.goForward.packets(silenceMilliseconds: 0), from: 0)
        script.send(.responseCreate(ResponseParameters()), at: 5_000)
        script.run(until: 4_900)
        #expect(script.lines("response.").isEmpty)
        #expect(
            script.lines("conversation.item.input_audio_transcription.completed").count == 1)
        script.run(until: 8_000)
        #expect(script.lines("response.created").first?.hasPrefix("+05000ms") == true)
        #expect(script.requests.map(\.messages) == [[.user("go forward ten meters")]])
    }

    /// The reply's audio starts at 115 ms and lasts 300 ms; 5 s later the session prompts, with the
    /// place in the client's audio where it began to wait, and where it is now.
    @Test func theIdleTimeoutSaysWhichAudioWasQuiet() throws {
        let script = try script(TurnDetectionParameters(idleTimeoutMilliseconds: 5_000))
        let silence = [[UInt8]](repeating: [UInt8](repeating: 0, count: 960), count: 271)
        script.speak(silence, from: 0)
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 5_430)
        let triggered = try #require(script.lines("input_audio_buffer.timeout_triggered").first)
        #expect(triggered.hasPrefix("+05415ms"))
        let start = try #require(script.events.compactMap { $0["audio_start_ms"] as? Int }.first)
        let end = try #require(script.events.compactMap { $0["audio_end_ms"] as? Int }.first)
        // 271 packets have come; the resampler holds back a little of the last one.
        #expect((5_410...5_420).contains(end))
        #expect((4_990...5_010).contains(end - start))
    }

    @Test func theIdleTimeoutPromptsAgainAfterItsOwnResponse() throws {
        let script = try script(TurnDetectionParameters(idleTimeoutMilliseconds: 5_000))
        script.replies = [.text("Hello."), .text("Hello?"), .text("Hello?")]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 11_000)
        let at = script.lines("input_audio_buffer.timeout_triggered").map { $0.prefix(8) }
        #expect(at == ["+05415ms", "+10830ms"])
        #expect(script.requests.count == 3)
    }

    @Test func withoutAnIdleTimeoutNobodyIsPrompted() throws {
        let script = try script(TurnDetectionParameters())
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 60_000)
        #expect(script.lines("input_audio_buffer.timeout_triggered").isEmpty)
    }
}
