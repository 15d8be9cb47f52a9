// A reply that is held because the user makes a sound, and everything that may happen before the
// sound is judged: the reply ends once, or is resumed.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct HeldReplyTests {
    /// What a client may do while a reply is held, and what becomes of the reply.
    private func held(
        _ transport: AudioTransport = .binary, until end: Int = 15_000,
        speaking milliseconds: Int = 260,
        _ act: (BargeIn, _ held: Int) -> Void
    ) throws -> BargeIn {
        let talk = BargeIn(transport: transport)
        talk.script.transcripts = [.success("")]
        try talk.speak(milliseconds: milliseconds, at: 2_000)
        talk.script.run(until: 2_200)
        let held = try #require(talk.time(of: "drops queued audio"))
        #expect(talk.script.session.playback?.timeline?.isHeld == true)
        act(talk, held)
        talk.script.run(until: end)
        #expect(talk.script.session.playback?.timeline?.isHeld != true)
        #expect(talk.types.count { $0 == "response.done" } == 1)
        #expect(talk.script.violations == [])
        return talk
    }

    @Test func aStockClientsTruncateEndsIt() throws {
        let talk = try held { talk, _ in
            talk.script.send(
                .conversationItemTruncate(
                    itemID: talk.replyItem, contentIndex: 0, audioEndMilliseconds: 1_700),
                at: 2_250)
        }
        #expect(talk.statuses == ["cancelled"])
        let response = talk.events("response.done").first?["response"] as? [String: Any]
        let details = response?["status_details"] as? [String: Any]
        #expect(details?["reason"] as? String == "turn_detected")
        #expect(talk.events("conversation.item.truncated").count == 1)
        #expect(talk.events("conversation.item.truncated").first?["audio_end_ms"] as? Int == 1_700)
        talk.script.send(.responseCreate(ResponseParameters()), at: 15_000)
        talk.script.run(until: 15_500)
        // 1,700 ms are 34 letters.
        #expect(
            talk.script.requests.last?.messages
                == [.assistant("The first sentence of this reply")])
    }

    @Test func aTruncateBeyondTheAudioIsRefusedAndChangesNothing() throws {
        let talk = try held { talk, _ in
            talk.script.send(
                .conversationItemTruncate(
                    itemID: talk.replyItem, contentIndex: 0, audioEndMilliseconds: 5_000),
                at: 2_250)
        }
        #expect(talk.statuses == ["completed"])
        #expect(talk.events("error").count == 1)
    }

    @Test func aCancelEndsItAndWhatWasHeardStays() throws {
        let talk = try held { talk, _ in
            talk.script.send(.responseCancel(responseID: nil), at: 2_250)
        }
        #expect(talk.statuses == ["cancelled"])
        let end = talk.events("conversation.item.truncated").first?["audio_end_ms"] as? Int
        #expect(
            try #require(end) == talk.time(of: "drops queued audio")!
                - talk.script.audioTimes.first!)
    }

    @Test func turnDetectionSwitchedOffLetsItGoOn() throws {
        let talk = try held { talk, _ in
            var update = SessionUpdate()
            update.turnDetection = .null
            talk.script.send(.sessionUpdate(update), at: 2_250)
        }
        #expect(talk.statuses == ["completed"])
        #expect(talk.rewinds.count == 1)
        #expect(talk.script.audioTimes.contains(2_250))
    }

    @Test func clearedInputLetsItGoOn() throws {
        let talk = try held { talk, _ in talk.script.send(.inputAudioBufferClear, at: 2_250) }
        #expect(talk.statuses == ["completed"])
        #expect(talk.script.audioTimes.contains(2_250))
    }

    @Test func aClientsOwnCommitLetsItGoOn() throws {
        let talk = try held { talk, _ in talk.script.send(.inputAudioBufferCommit, at: 2_250) }
        #expect(talk.statuses == ["completed"])
    }

    @Test func clearedOutputIsGoneAndTheTextGoesOn() throws {
        let talk = try held { talk, _ in talk.script.send(.outputAudioBufferClear, at: 2_250) }
        #expect(talk.statuses == ["completed"])
        #expect(talk.rewinds.isEmpty)
        #expect(talk.events("conversation.item.truncated").count == 1)
        let done = talk.events("response.output_audio_transcript.done").first
        #expect(done?["transcript"] as? String == BargeIn.reply)
    }

    @Test func theClientsWordOnWhatItHeardDecidesWhereItGoesOn() throws {
        let talk = try held(.json) { talk, held in
            talk.script.send(
                .outputAudioBufferPlayed(
                    itemID: talk.replyItem, contentIndex: 0, audioEndMilliseconds: 1_750),
                at: 2_250)
        }
        let starts = talk.events("response.output_audio.delta").compactMap {
            $0["audio_start_ms"] as? Int
        }
        #expect(starts.first == 1_750)
        #expect(talk.statuses == ["completed"])
    }

    @Test func aStockClientIsToldNoPositions() throws {
        let talk = try held(.json) { _, _ in }
        let deltas = talk.events("response.output_audio.delta")
        #expect(deltas.count > 20 && deltas.allSatisfy { $0["audio_start_ms"] == nil })
    }

    @Test(arguments: [false, true])
    func aClientThatStopsSendingDoesNotHoldItForever(needsWords: Bool) throws {
        let talk = BargeIn { $0.turnDetection?.interruption = needsWords ? .words : .any }
        talk.script.transcripts = [.success("")]
        try talk.speak(milliseconds: 260, at: 2_000, silence: 0)
        talk.script.run(until: 15_000)
        let held = try #require(talk.time(of: "drops queued audio"))
        let next = try #require(talk.script.audioTimes.first { $0 > held })
        // A second after the last packet.
        #expect(next == 2_220 + 1_000)
        #expect(talk.statuses == ["completed"])
        #expect(talk.script.violations == [])
    }

    @Test func soundWithoutWordsHoldsItForFiveSecondsAtMost() throws {
        let talk = BargeIn(makesHypotheses: true) {
            $0.turnDetection?.interruption = .words
        }
        talk.script.hypothesis = { _ in "Mhm." }
        let speech = SpeechRecording.goForward.samples[(16 * 520)..<(16 * 1_900)]
        let television = SpeechRecording(samples: Array((0..<6).map { _ in speech }.joined()))
        talk.script.speak(try television.packets(silenceMilliseconds: 0), from: 1_500)
        talk.script.run(until: 9_000)
        let held = try #require(talk.time(of: "drops queued audio"))
        let next = try #require(talk.script.audioTimes.first { $0 > held })
        #expect(next - held > 4_500 && next - held < 5_100)
        #expect(talk.types.contains("input_audio_buffer.speech_stopped") == false)
    }

    @Test func theHalfOfAWordInterruptsNothing() throws {
        let talk = BargeIn(makesHypotheses: true) {
            $0.turnDetection?.interruption = .words
        }
        // "Yes" is heard as "Here" before it is complete.
        talk.script.hypothesis = { $0 < 900 ? "Here" : "Yes." }
        talk.script.transcripts = [.success("Yes.")]
        try talk.speak(milliseconds: 1_100, at: 2_000)
        talk.script.run(until: 15_000)
        #expect(!talk.script.hypotheses.isEmpty)
        #expect(talk.statuses == ["completed"])
    }

    @Test func aFailingModelEndsItOnce() throws {
        var reply = ScriptedReply.text("This much is said before the model breaks down at last.")
        reply.pieces.append((.milliseconds(1_200), .text(" More.")))
        reply.end = .some(.overloaded)
        let talk = BargeIn(reply: [reply])
        talk.script.transcripts = [.success("go forward")]
        try talk.speak(milliseconds: 1_700, at: 1_800)
        talk.script.run(until: 15_000)
        #expect(talk.statuses.first == "failed")
        #expect(talk.statuses.count == 2)
        #expect(talk.script.session.playback?.timeline?.isHeld != true)
        #expect(talk.script.session.isIdle)
    }

    @Test func aModelThatFailsWhileItIsHeldEndsItAtWhatWasHeard() throws {
        var reply = ScriptedReply.text(BargeIn.reply)
        reply.pieces.append((.milliseconds(1_710), .text(" More.")))
        reply.end = .some(.overloaded)
        let talk = BargeIn(reply: [reply])
        talk.script.transcripts = [.success("")]
        try talk.speak(milliseconds: 260, at: 2_000)
        talk.script.run(until: 15_000)
        let held = try #require(talk.time(of: "drops queued audio"))
        let failed = try #require(talk.time(of: "response.done"))
        let begun = try #require(talk.script.audioTimes.first)
        #expect(held < failed && talk.statuses.first == "failed")
        let cuts = talk.events("conversation.item.truncated").map { $0["audio_end_ms"] as? Int }
        #expect(cuts == [held - begun])
        #expect(talk.script.audioTimes.allSatisfy { $0 <= held })
    }

    @Test func aSecondSoundWhileTheFirstOnesWordsAreAwaitedHoldsItOn() throws {
        let talk = BargeIn { $0.turnDetection?.interruption = .words }
        talk.script.recognitionDelay = .milliseconds(1_500)
        talk.script.transcripts = [.success(""), .success("")]
        try talk.speak(milliseconds: 600, at: 2_000)
        try talk.speak(milliseconds: 600, at: 3_900)
        talk.script.run(until: 25_000)
        #expect(talk.statuses == ["completed"])
        #expect(talk.types.count { $0 == "input_audio_buffer.speech_started" } == 2)
        #expect(talk.script.session.playback?.timeline?.isHeld != true)
    }
}
