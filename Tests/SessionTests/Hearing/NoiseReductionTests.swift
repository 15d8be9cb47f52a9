// Noise reduction in a session: it is reported, and speech is found through it where it was.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct NoiseReductionTests {
    /// The start of the only speech in a conversation, in milliseconds.
    private func speechStart(_ reduction: NoiseReduction?) throws -> Int {
        let script = ScriptedSession(
            { $0.noiseReduction = reduction }, voiceActivity: .installed)
        script.transcripts = [.success("go forward ten meters")]
        script.replies = [.text("Yes.")]
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        script.run(until: 8_000)
        #expect(script.violations == [])
        let starts = script.events.filter {
            $0["type"] as? String == "input_audio_buffer.speech_started"
        }
        try #require(starts.count == 1 && script.samplesTranscribed.count == 1)
        return try #require(starts[0]["audio_start_ms"] as? Int)
    }

    @Test(arguments: [NoiseReduction.nearField, .farField])
    func speechIsFoundWhereItIsWithoutIt(reduction: NoiseReduction) throws {
        let plain = try speechStart(nil)
        // 10 ms of lag, and two windows of 32 ms.
        #expect(abs(try speechStart(reduction) - plain) <= 74)
    }
}
