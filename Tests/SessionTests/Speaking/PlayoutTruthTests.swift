// The conversation keeps of a reply what was heard of it, and no more: by the client's word where
// it gives it, else by the pace of sending.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct PlayoutTruthTests {
    private func truncations(_ talk: BargeIn) -> [Int] {
        talk.events("conversation.item.truncated").compactMap { $0["audio_end_ms"] as? Int }
    }

    /// The reply ends at 6,150 ms for a client that plays at once; its response is done before.
    @Test func speechAfterResponseDoneStillCutsWhatWasNotHeard() throws {
        let talk = BargeIn()
        talk.script.transcripts = [.success("wait go forward")]
        try talk.speak(milliseconds: 1_700, at: 5_750)
        talk.script.run(until: 9_000)
        let done = try #require(talk.time(of: "response.done"))
        let started = try #require(talk.time(of: "speech_started"))
        #expect(done < started)
        #expect(talk.statuses.first == "completed")
        let begun = try #require(talk.script.audioTimes.first)
        #expect(truncations(talk) == [started - begun])
        guard case .assistant(let heard)? = talk.script.requests.last?.messages.first else {
            Issue.record("the reply is not in the context")
            return
        }
        #expect(BargeIn.reply.hasPrefix(heard) && heard.count < BargeIn.reply.count)
    }

    @Test func aShortYesAfterResponseDoneIsAnAnswer() throws {
        let talk = BargeIn()
        talk.script.transcripts = [.success("Yes.")]
        try talk.speak(milliseconds: 260, at: 5_750)
        talk.script.run(until: 9_000)
        #expect(talk.script.requests.last?.messages.last == .user("Yes."))
    }

    @Test func aCoughAfterResponseDoneChangesNothing() throws {
        let talk = BargeIn()
        talk.script.transcripts = [.success("")]
        try talk.speak(milliseconds: 260, at: 5_750)
        talk.script.run(until: 9_000)
        #expect(talk.types.contains("input_audio_buffer.speech_stopped"))
        #expect(truncations(talk).isEmpty)
        #expect(talk.script.requests.count == 1)
        #expect(talk.script.session.playback?.timeline == nil)
    }

    @Test func whatTheClientAcknowledgesIsWhatWasHeard() throws {
        let talk = BargeIn()
        talk.script.transcripts = [.success("go forward")]
        // It plays 250 ms late, and says so ten times a second.
        for time in stride(from: 500, through: 4_000, by: 100) {
            talk.script.run(until: time)
            if talk.time(of: "drops queued audio") != nil { break }
            guard let begun = talk.script.audioTimes.first else { continue }
            talk.script.send(
                .outputAudioBufferPlayed(
                    itemID: talk.replyItem, contentIndex: 0,
                    audioEndMilliseconds: time - begun - 250), at: time)
            if time == 1_500 { try talk.speak(milliseconds: 1_700, at: 2_000) }
        }
        talk.script.run(until: 9_000)
        let held = try #require(talk.time(of: "drops queued audio"))
        let begun = try #require(talk.script.audioTimes.first)
        let end = try #require(truncations(talk).first)
        #expect(end == held - begun - 250)
        // A client that acknowledges is sent the words that are left.
        let left = talk.events("conversation.item.truncated").first?["transcript"] as? String
        #expect(left.map { BargeIn.reply.hasPrefix($0) } == true)
        #expect(!talk.types.contains("error"))
    }

    @Test func moreThanWasSentCannotHaveBeenHeard() throws {
        let talk = BargeIn()
        talk.script.run(until: 1_000)
        let sent = talk.script.context.counters.millisecondsOut
        func play(_ item: String, _ part: Int, _ milliseconds: Int) {
            talk.script.send(
                .outputAudioBufferPlayed(
                    itemID: item, contentIndex: part, audioEndMilliseconds: milliseconds),
                at: 1_000)
        }
        play(talk.replyItem, 0, sent)
        play(talk.replyItem, 0, sent + 1_000)
        play(talk.replyItem, 1, 10)
        play("item_unknown", 0, 10)
        talk.script.run(until: 1_001)
        let codes = talk.events("error").compactMap { ($0["error"] as? [String: Any])?["code"] }
        #expect(
            codes as? [String]
                == ["invalid_value", "invalid_value", "item_played_invalid_item_id"])
        // Long after it was heard, it is known and of no interest.
        talk.script.run(until: 9_000)
        play(talk.replyItem, 0, 5_900)
        talk.script.run(until: 9_010)
        #expect(talk.events("error").count == 3)
    }

    @Test func theClientsOwnTruncationCountsAfterTheServers() throws {
        let talk = BargeIn()
        talk.script.transcripts = [.success("go forward")]
        try talk.speak(milliseconds: 1_700, at: 2_000)
        talk.script.run(until: 3_000)
        let estimate = try #require(truncations(talk).first)
        talk.script.send(
            .conversationItemTruncate(
                itemID: talk.replyItem, contentIndex: 0, audioEndMilliseconds: estimate + 400),
            at: 3_000)
        talk.script.run(until: 9_000)
        #expect(truncations(talk) == [estimate, estimate + 400])
        #expect(
            talk.script.requests.last?.messages.first
                == .assistant("The first sentence of this reply is quite"))
    }

    @Test func aTruncateOfAReplyInProgressSilencesItAndItsWords() throws {
        let talk = BargeIn()
        talk.script.send(
            .conversationItemTruncate(
                itemID: "", contentIndex: 0, audioEndMilliseconds: 0), at: 10)
        talk.script.run(until: 300)
        talk.script.send(
            .conversationItemTruncate(
                itemID: talk.replyItem, contentIndex: 0, audioEndMilliseconds: 450), at: 300)
        talk.script.send(.responseCreate(ResponseParameters()), at: 5_000)
        talk.script.run(until: 9_000)
        #expect(talk.script.audioTimes.allSatisfy { $0 <= 300 || $0 > 5_000 })
        #expect(talk.events("error").count == 1)
        #expect(talk.statuses.count == 2)
        #expect(talk.script.requests.last?.messages == [.assistant("The")])
    }

    @Test func textThatWasNeverSpokenIsNotSaidToHaveBeen() throws {
        let talk = BargeIn()
        talk.script.send(.responseCancel(responseID: nil), at: 400)
        talk.script.send(.responseCreate(ResponseParameters()), at: 500)
        talk.script.run(until: 3_000)
        let begun = try #require(talk.script.audioTimes.first)
        #expect(truncations(talk).first == 400 - begun)
        #expect(talk.script.requests.last?.messages == [.user("")])
    }

    @Test func whatWasSentBeforeTheModelFailedIsHeard() throws {
        var reply = ScriptedReply.text(BargeIn.reply)
        reply.pieces.append((.milliseconds(700), .text(" More.")))
        reply.end = .some(.overloaded)
        let talk = BargeIn(reply: [reply])
        talk.script.run(until: 9_000)
        #expect(talk.statuses == ["failed"])
        #expect(talk.time(of: "drops queued audio") == nil)
        let sent = talk.script.audioPackets.reduce(0) { $0 + $1.payload.count } / 48
        #expect(sent > 0 && truncations(talk) == [sent])
    }

    @Test(arguments: [true, false])
    func whatACancelDropsIsNotSaidToBeHeard(isInConversation: Bool) throws {
        let talk = BargeIn()
        if !isInConversation {
            var parameters = ResponseParameters()
            parameters.isInConversation = false
            talk.script.replies.append(.text("Beside the conversation."))
            talk.script.send(.responseCreate(parameters), at: 100)
        }
        talk.script.run(until: 700)
        let ids = talk.events("response.created").compactMap {
            ($0["response"] as? [String: Any])?["id"] as? String
        }
        talk.script.send(.responseCancel(responseID: ids.last), at: 700)
        talk.script.run(until: 701)
        #expect(talk.time(of: "drops queued audio") == 700)
        #expect(truncations(talk).isEmpty == !isInConversation)
    }

    @Test func aTextReplyIsNotCut() throws {
        let talk = BargeIn { $0.outputModality = .text }
        try talk.speak(milliseconds: 1_700, at: 500)
        talk.script.run(until: 9_000)
        #expect(talk.statuses.first == "completed" || talk.statuses.first == "cancelled")
        #expect(truncations(talk).isEmpty)
        #expect(talk.script.session.playback?.timeline == nil)
    }

    @Test func aCallThatWasCutOffWasNeverMade() throws {
        let call = ScriptedReply(
            pieces: [
                (.milliseconds(100), .text("Let me look that up for you right now, one moment.")),
                (.milliseconds(20), .functionCallStarted(callID: "call_1", name: "look")),
                (.milliseconds(20), .functionCallArguments("{\"what\":")),
            ], end: nil)
        let talk = BargeIn(reply: [call])
        talk.script.send(.responseCancel(responseID: nil), at: 1_200)
        talk.script.send(.responseCreate(ResponseParameters()), at: 1_300)
        talk.script.run(until: 5_000)
        #expect(
            talk.script.requests.last?.messages.allSatisfy {
                if case .assistant = $0 { true } else { false }
            } == true)
        #expect(talk.script.requests.last?.messages.count == 1)
    }

    @Test func ofTwoItemsEachIsCutWhereItWasHeard() throws {
        let call = ScriptedReply(
            pieces: [
                (.milliseconds(100), .text("First I say this.")),
                (.milliseconds(20), .functionCallStarted(callID: "call_1", name: "look")),
                (.milliseconds(20), .functionCallArguments("{}")),
                (.milliseconds(20), .text("And now I say something that takes long.")),
            ])
        let talk = BargeIn(reply: [call])
        talk.script.transcripts = [.success("go forward")]
        try talk.speak(milliseconds: 1_700, at: 1_900)
        talk.script.run(until: 9_000)
        let begun = try #require(talk.script.audioTimes.first)
        let held = try #require(talk.time(of: "drops queued audio"))
        // The first item lasts 17 letters.
        #expect(truncations(talk) == [held - begun - 17 * 50])
        let messages = talk.script.requests.last?.messages ?? []
        #expect(messages.first == .assistant("First I say this."))
        #expect(messages.dropFirst(2).first == .assistant("And now I say"))
    }
}
