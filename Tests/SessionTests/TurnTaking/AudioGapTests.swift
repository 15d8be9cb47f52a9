// Audio that stops in the middle of speech: a microphone that is muted, a client that sends nothing
// in silence. The speech is over after a gap, with what was heard.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct AudioGapTests {
    /// The recording says "go forward ten meters" from about 0.5 s to 2.3 s.
    private func packets(until milliseconds: Int) throws -> [[UInt8]] {
        Array(try SpeechRecording.goForward.packets().prefix(milliseconds / 20))
    }

    private func script(
        gap: Int = 1_000, _ configure: (inout SessionParameters) -> Void = { _ in }
    ) -> ScriptedSession {
        var limits = SessionLimits()
        limits.audioGapMilliseconds = gap
        let script = ScriptedSession(configure, limits: limits, voiceActivity: .installed)
        script.transcripts = [.success("go forward"), .success("ten meters")]
        return script
    }

    private func times(_ type: String, in script: ScriptedSession) -> [Int] {
        script.lines("S→C \(type)").compactMap { Int($0.dropFirst().prefix(while: \.isNumber)) }
    }

    @Test(arguments: [300, 1_000, 2_500])
    func theTurnEndsAfterTheGapAndIsAnswered(gap: Int) throws {
        let script = script(gap: gap)
        script.replies = [.text("Going.")]
        script.speak(try packets(until: 1_200), from: 0)
        script.run(until: 10_000)
        // The last packet is sent at 1,180 ms. Silence that the client would have sent ends a turn
        // after 500 ms, so a shorter gap does not.
        let stopped = times("input_audio_buffer.speech_stopped", in: script)
        #expect(stopped.count == 1)
        #expect(stopped.allSatisfy { (1_180 + max(gap, 400)...1_180 + max(gap, 500)).contains($0) })
        #expect(script.requests.map(\.messages.last) == [.user("go forward")])
        #expect(script.session.isIdle)
    }

    @Test func aShorterGapDoesNotEndTheTurn() throws {
        let script = script()
        let whole = try SpeechRecording.goForward.packets()
        script.speak(Array(whole.prefix(60)), from: 0)
        script.speak(Array(whole.dropFirst(60)), from: 1_180 + 900)
        script.run(until: 10_000)
        #expect(times("input_audio_buffer.speech_stopped", in: script).count == 1)
        #expect(script.requests.count == 1)
    }

    @Test func aClientThatEndsItsTurnsMayPauseForEver() throws {
        let script = script { $0.turnDetection = nil }
        script.speak(try packets(until: 1_200), from: 0)
        script.run(until: 60_000)
        #expect(script.lines("input_audio_buffer.committed").isEmpty)
        #expect(script.lines("input_audio_buffer.speech_stopped").isEmpty)
    }

    @Test func audioThatComesBackBeginsAnotherTurn() throws {
        let script = script()
        script.replies = [.text("Going."), .text("Ten meters.")]
        script.speak(try packets(until: 1_200), from: 0)
        script.speak(try SpeechRecording.goForward.packets(), from: 10_000)
        script.run(until: 20_000)
        #expect(
            script.requests.map(\.messages.last) == [.user("go forward"), .user("ten meters")])
    }

    /// A cough over a reply, after which the microphone is muted: the reply goes on.
    @Test func aHeldReplyGoesOnAfterTheGap() throws {
        let script = ScriptedSession(voiceActivity: .installed)
        script.transcripts = [.success("go forward"), .success("mhm")]
        script.replies = [.text(String(repeating: "A long answer follows here. ", count: 8))]
        let whole = try SpeechRecording.goForward.packets(silenceMilliseconds: 800)
        script.speak(whole, from: 0)
        let over = 20 * whole.count + 1_500
        script.speak(try packets(until: 760), from: over)
        script.run(until: 60_000)
        let stopped = times("input_audio_buffer.speech_stopped", in: script)
        #expect(stopped.count == 2)
        #expect(stopped.last.map { (over + 1_700...over + 1_800).contains($0) } == true)
        let done = script.events.filter { $0["type"] as? String == "response.done" }
        let statuses = done.compactMap { ($0["response"] as? [String: Any])?["status"] as? String }
        #expect(statuses == ["completed"])
        #expect(script.context.counters.falseInterruptions == 1)
    }
}
