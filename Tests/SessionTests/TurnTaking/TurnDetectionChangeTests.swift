// A change of `turn_detection` during speech, on a real recording: the speech is kept, each
// announced item comes to its end, and no word is shown twice.

import Codec
import TestMaterial
import Testing

@testable import Session

/// "go forward ten meters": the detector hears speech from 512 to 2,240 ms and says so at 560 ms.
private func script(makesHypotheses: Bool = false) throws -> ScriptedSession {
    let script = ScriptedSession(
        { $0.transcription = TranscriptionParameters(model: "scripted") },
        voiceActivity: .installed, makesHypotheses: makesHypotheses)
    script.transcripts = [.success("go forward ten meters")]
    script.replies = [.text("Going.")]
    script.speak(try SpeechRecording.goForward.packets(silenceMilliseconds: 3_000), from: 0)
    return script
}

private func change(
    _ script: ScriptedSession, to mode: TurnDetectionParameters.Mode?, at milliseconds: Int
) {
    var update = SessionUpdate()
    update.turnDetection = mode.map { .value(TurnDetectionParameters(mode: $0)) } ?? .null
    script.send(.sessionUpdate(update), at: milliseconds)
}

@Suite struct TurnDetectionChangeTests {
    @Test func anotherSilenceCountsForTheSpeechInProgress() throws {
        let script = try script()
        change(script, to: .serverVAD(threshold: 0.5, silenceMilliseconds: 1_000), at: 1_500)
        script.run(until: 6_000)
        #expect(script.lines("input_audio_buffer.speech_started").count == 1)
        #expect(script.lines("input_audio_buffer.committed").first?.hasPrefix("+03260ms") == true)
        #expect(script.violations == [])
    }

    /// The silence that has come already counts: 400 ms of it are more than 200.
    @Test func aShorterSilenceMayHavePassedAlready() throws {
        let script = try script()
        change(script, to: .serverVAD(threshold: 0.5, silenceMilliseconds: 200), at: 2_650)
        script.run(until: 6_000)
        let committed = try #require(script.lines("input_audio_buffer.committed").first)
        #expect(committed.hasPrefix("+02660ms") || committed.hasPrefix("+02680ms"), "\(committed)")
    }

    @Test func semanticDetectionTakesOverAndBack() throws {
        let script = try script()
        change(script, to: .semanticVAD(eagerness: .low), at: 1_000)
        change(script, to: .serverVAD(threshold: 0.5, silenceMilliseconds: 500), at: 1_600)
        script.run(until: 6_000)
        #expect(script.lines("input_audio_buffer.committed").first?.hasPrefix("+02740ms") == true)
        #expect(script.lines("response.done").count == 1)
    }

    @Test func speechThatNobodyListensToAnyMoreIsTheClientsToCommit() throws {
        let script = try script()
        change(script, to: nil, at: 1_500)
        script.send(.inputAudioBufferCommit, at: 4_000)
        script.run(until: 8_000)
        #expect(script.lines("input_audio_buffer.speech_stopped").count == 1)
        let committed = script.lines("input_audio_buffer.committed")
        #expect(committed == ["+04000ms S→C input_audio_buffer.committed item=i1"])
        #expect(script.lines("response.created").isEmpty)
        #expect(script.samplesTranscribed.first.map { $0 / 16 } ?? 0 > 3_700)
    }

    /// Off and on again: the item that was announced is the one that ends.
    @Test(arguments: [1_500, 2_000, 2_600])
    func speechGoesOnWhenDetectionComesBack(milliseconds: Int) throws {
        let script = try script()
        change(script, to: nil, at: 1_000)
        change(
            script, to: .serverVAD(threshold: 0.5, silenceMilliseconds: 500), at: milliseconds)
        script.run(until: 8_000)
        let started = script.lines("input_audio_buffer.speech_started")
        #expect(
            started.count == 2 && started.allSatisfy { $0.contains("item=i1 audio_start_ms=212") })
        #expect(script.lines("input_audio_buffer.speech_stopped").count == 2)
        #expect(script.lines("input_audio_buffer.committed").map { $0.suffix(2) } == ["i1"])
        #expect(script.lines("response.done").count == 1)
        #expect(script.violations == [] && script.session.isIdle)
    }

    /// What was shown before is part of the transcript, and a hypothesis that was in flight is not
    /// taken for all of it.
    @Test func wordsThatWereShownAreNotShownAgain() throws {
        let script = try script(makesHypotheses: true)
        script.hypothesis = { $0 < 1_200 ? "go forward" : "go forward ten" }
        script.hypothesisDelay = .milliseconds(700)
        change(script, to: nil, at: 2_300)
        script.send(.inputAudioBufferCommit, at: 2_400)
        script.run(until: 8_000)
        let shown = script.events
            .filter { $0["type"] as? String == "conversation.item.input_audio_transcription.delta" }
            .compactMap { $0["delta"] as? String }
        #expect(shown.joined() == "go forward ten meters")
        let completed = script.lines("conversation.item.input_audio_transcription.completed")
        #expect(completed.count == 1 && completed[0].contains("go forward ten meters"))
    }
}
