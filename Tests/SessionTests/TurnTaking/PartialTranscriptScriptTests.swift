// Words before the turn has ended, on a real recording and the real voice activity model: which
// words are shown when, and that the transcript is there when the turn ends.

import Codec
import TestMaterial
import Testing

@testable import Session

/// "go forward ten meters" starts at 0; silence follows it. Speech is noticed at 560 ms, its item
/// starts at 212 ms, the detector hears it until 2,240 ms.
private func script(
    speaking packets: [[UInt8]]? = nil, _ configure: (inout SessionParameters) -> Void = { _ in }
) throws -> ScriptedSession {
    let script = ScriptedSession(
        {
            $0.transcription = TranscriptionParameters(model: "scripted")
            configure(&$0)
        }, voiceActivity: .installed, makesHypotheses: true)
    script.hypothesis = ScriptedSession.goForward
    script.transcripts = [.success("go forward ten meters")]
    script.replies = [.text("Going.")]
    script.speak(try packets ?? SpeechRecording.goForward.packets(), from: 0)
    return script
}

private let delta = "conversation.item.input_audio_transcription.delta"
private let completed = "conversation.item.input_audio_transcription.completed"

@Suite struct PartialTranscriptScriptTests {
    @Test func wordsAreShownWhileTheyAreSpokenAndTheTranscriptIsThereWhenTheTurnEnds() throws {
        let script = try script()
        script.run(until: 6_000)
        try expectGolden(script, "partial-transcripts")
        #expect(script.violations == [])
        #expect(script.samplesTranscribed.isEmpty, "the pause's hypothesis is the transcript")
        #expect(script.lines(completed).first?.hasPrefix("+02740ms") == true)
        let shown = script.events.filter { $0["type"] as? String == delta }
            .compactMap { $0["delta"] as? String }
        #expect(shown.count > 1 && shown.joined() == "go forward ten meters")
        #expect(script.requests.last?.messages == [.user("go forward ten meters")])
        #expect(script.measured.first == .transcript)
        #expect(script.session.isIdle)
    }

    @Test func aHypothesisInFlightWhenTheTurnEndsBecomesItsTranscript() throws {
        let script = try script()
        script.hypothesisDelay = .milliseconds(400)
        script.run(until: 6_000)
        #expect(script.samplesTranscribed.isEmpty)
        let asked = try #require(script.hypotheses.last { $0.use == .probableTranscript }?.at)
        let due = asked + 400
        #expect(due > 2_740)
        #expect(script.lines(completed).first?.hasPrefix("+0\(due)ms") == true)
        #expect(script.requests.count == 1)
    }

    @Test func whereNobodyIsFreeTheTurnIsTranscribedWhenItEnds() throws {
        let script = try script()
        script.hypothesis = { _ in nil }
        script.run(until: 6_000)
        #expect(script.samplesTranscribed.count == 1)
        #expect(script.lines(delta) == [script.lines(delta).last])
        #expect(script.lines(completed).first?.hasPrefix("+02860ms") == true)
        let earlier = script.earlierRecognitions.compactMap { $0 }.map(ObjectIdentifier.init)
        #expect(earlier.count == script.hypotheses.count + 1 && Set(earlier).count == 1)
    }

    /// The user goes on after a pause whose words no worker has recognised yet.
    @Test func theWordsOfAPauseAreWithdrawnWhereTheUserGoesOn() throws {
        let sentence = SpeechRecording.goForward
        let packets = try sentence.packets(silenceMilliseconds: 300)
        let script = try script(speaking: packets + packets) {
            $0.turnDetection?.mode = .serverVAD(threshold: 0.5, silenceMilliseconds: 2_000)
        }
        script.hypothesisDelay = .seconds(60)
        script.run(until: 2_800)
        let asked = script.session.speechInput?.partial?.inFlight
        #expect(asked?.isPause == true && script.withdrawals == 0)
        script.run(until: 20 * packets.count + 1_500)
        #expect(script.withdrawals == 1, "once, however much follows")
        #expect(script.session.speechInput?.partial?.inFlight == asked, "it may still come")
        #expect(script.lines("input_audio_buffer.speech_stopped").isEmpty, "it is one turn")
    }

    @Test func aHypothesisThatFailsAfterTheTurnsEndIsMadeUpFor() throws {
        let script = try script()
        script.hypothesisDelay = .seconds(1)
        script.run(until: 3_000)
        let itemID = try #require(script.session.userTurn.awaited.first?.itemID)
        #expect(script.samplesTranscribed.isEmpty)
        #expect(script.session.heldBytes > 20_000)
        script.fail(hypothesisOf: itemID)
        #expect(script.samplesTranscribed.count == 1)
        script.run(until: 6_000)
        #expect(script.lines(completed).count == 1)
        #expect(script.session.isIdle)
    }

    @Test func aTranscriptThatDisagreesWithWhatWasShownComesWhole() throws {
        let script = try script()
        script.hypothesis = { milliseconds in
            milliseconds > 2_000 ? "no fort in metres" : ScriptedSession.goForward(milliseconds)
        }
        script.run(until: 6_000)
        let shown = script.events.filter { $0["type"] as? String == delta }
            .compactMap { $0["delta"] as? String }.joined()
        #expect("go forward ten meters".hasPrefix(shown) && !shown.isEmpty)
        #expect(script.lines(completed).first?.contains("\"no fort in metres\"") == true)
        #expect(script.requests.last?.messages == [.user("no fort in metres")])
    }

    @Test func withoutTranscriptionNothingIsShownAndOnlyPausesAreRecognised() throws {
        let script = try script { $0.transcription = nil }
        script.run(until: 6_000)
        #expect(script.hypotheses.allSatisfy { $0.use == .probableTranscript })
        #expect(script.hypotheses.count <= 2 && !script.hypotheses.isEmpty)
        #expect(!script.transcript.contains { $0.contains("input_audio_transcription") })
        #expect(script.requests.last?.messages == [.user("go forward ten meters")])
    }

    @Test func theWorkStaysWithinItsBudget() throws {
        let script = try script()
        script.run(until: 6_000)
        let growing = script.hypotheses.filter { $0.use == .display }
        let recognised = growing.reduce(0) { $0 + $1.milliseconds }
        #expect(growing.count >= 3)
        #expect(recognised <= PartialTranscript.workFactor * growing.last!.milliseconds)
    }

    /// Nothing but the words that were shown is left of speech that the client clears.
    @Test func clearedSpeechLeavesNoTrace() throws {
        let script = try script()
        script.hypothesisDelay = .seconds(2)
        script.send(.inputAudioBufferClear, at: 1_500)
        script.run(until: 1_600)
        #expect(script.hypotheses.count == 1)
        script.run(until: 2_000)
        #expect(script.lines(delta).isEmpty && script.lines(completed).isEmpty)
        #expect(script.session.userTurn.awaited.isEmpty)
    }

    @Test func anItemThatIsDeletedBeforeItsWordsComeGetsNone() throws {
        let script = try script()
        script.hypothesisDelay = .seconds(1)
        script.run(until: 2_800)
        let itemID = try #require(script.session.userTurn.awaited.first?.itemID)
        script.send(.conversationItemDelete(itemID: itemID), at: 2_800)
        script.run(until: 6_000)
        #expect(script.lines(completed).isEmpty && script.requests.isEmpty)
        #expect(script.session.isIdle)
    }

    @Test func aCommitByTheClientTakesTheWordsOfThePauseBeforeIt() throws {
        let script = try script {
            $0.turnDetection = TurnDetectionParameters(
                mode: .serverVAD(threshold: 0.5, silenceMilliseconds: 2_000))
        }
        script.send(.inputAudioBufferCommit, at: 3_000)
        script.run(until: 6_000)
        #expect(script.lines(completed).first?.hasPrefix("+03000ms") == true)
        #expect(script.samplesTranscribed.isEmpty)
    }
}

@Suite struct SemanticTurnTests {
    /// The silence, in milliseconds, that ends a turn of these words. The detector hears speech
    /// until 2,240 ms, and it sounds final: a sentence waits 400 ms instead of 489, an open end 860
    /// instead of 1,202. TurnEndEstimatorTests has the other words.
    @Test(arguments: [
        ("go forward ten meters.", TurnDetectionParameters.Eagerness.medium, 400),
        ("can you go forward?", .low, 800), ("go forward ten", .auto, 860),
        ("go forward and", .high, 2_000),
    ])
    func theWordsSetTheWait(
        words: String, eagerness: TurnDetectionParameters.Eagerness, silence: Int
    ) throws {
        let script = ScriptedSession(
            {
                $0.transcription = nil
                $0.turnDetection = TurnDetectionParameters(
                    mode: .semanticVAD(eagerness: eagerness))
            }, voiceActivity: .installed, makesHypotheses: true)
        script.hypothesis = { _ in words }
        script.speak(
            try SpeechRecording.goForward.packets(silenceMilliseconds: silence - 400), from: 0)
        script.run(until: 6_000)
        // Silence counts in windows of 32 ms, which are complete with the packet of their last
        // sample; that packet was sent when its first one was spoken.
        let end = 2_240 + (silence + 31) / 32 * 32
        let stopped = try #require(script.lines("input_audio_buffer.speech_stopped").first)
        #expect(stopped.hasPrefix("+0\((end + 19) / 20 * 20 - 20)ms"))
        #expect(stopped.hasSuffix("audio_end_ms=2240"))
        #expect(script.requests.last?.messages == [.user(words)])
        #expect(script.samplesTranscribed.isEmpty)
    }

    @Test func whoPausesAfterAConjunctionIsNotCutOff() throws {
        let script = ScriptedSession(
            {
                $0.transcription = TranscriptionParameters(model: "scripted")
                $0.turnDetection = TurnDetectionParameters(mode: .semanticVAD(eagerness: .medium))
            }, voiceActivity: .installed, makesHypotheses: true)
        script.hypothesis = { milliseconds in
            milliseconds < 4_000
                ? "Go forward ten meters and." : "Go forward ten meters and then turn left."
        }
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 700)
        script.speak(packets, from: 0)
        script.speak(packets, from: 20 * packets.count)
        script.speak(
            [[UInt8]](repeating: [UInt8](repeating: 0, count: 960), count: 100),
            from: 40 * packets.count)
        script.run(until: 12_000)
        try expectGolden(script, "semantic-pause")
        #expect(script.violations == [])
        #expect(script.lines("input_audio_buffer.committed").count == 1)
        #expect(
            script.requests.last?.messages == [.user("Go forward ten meters and then turn left.")])
    }
}
