// The model's head start, on a real recording and the real voice activity model: the time that it
// saves, and that the client notices nothing of an unused one, whenever it is dropped.

import Codec
import TestMaterial
import Testing

@testable import Session

/// The model's head start: its words are known at 2,560 ms, the turn ends at 2,740 ms.
@Suite struct SpeculativeResponseTests {
    private func speculative(
        speaking packets: [[UInt8]]? = nil,
        _ configure: (inout SessionParameters) -> Void = { _ in }
    ) throws -> ScriptedSession {
        let script = ScriptedSession(
            {
                $0.transcription = TranscriptionParameters(model: "scripted")
                $0.turnDetection?.speculativeResponse = true
                $0.outputModality = .text
                configure(&$0)
            }, voiceActivity: .installed, makesHypotheses: true)
        script.hypothesis = ScriptedSession.goForward
        script.transcripts = [.success("go forward ten meters")]
        script.replies = [.text("Going.")]
        script.speak(try packets ?? SpeechRecording.goForward.packets(), from: 0)
        return script
    }

    /// The user goes on so many milliseconds after the detector's last speech (2,240 ms), with all
    /// of "go forward ten meters" again, of which the detector hears the first at 512 ms.
    private func goingOn(after milliseconds: Int) throws -> ScriptedSession {
        let packets = try SpeechRecording.goForward.packets()
        let resumed = (2_240 + milliseconds) / 20
        let silence = [[UInt8]](
            repeating: [UInt8](repeating: 0, count: 960), count: max(0, resumed - 115))
        let script = try speculative(speaking: packets[..<115] + silence + packets[26...])
        script.hypothesis = {
            $0 < 2_700 ? ScriptedSession.goForward($0) : "go forward ten meters and go on"
        }
        return script
    }

    @Test func theModelsWaitRunsBesideTheSilence() throws {
        let script = try speculative()
        script.run(until: 6_000)
        try expectGolden(script, "speculative-response")
        #expect(script.violations == [])
        #expect(script.requests.map(\.messages) == [[.user("go forward ten meters")]])
        #expect(script.responsesStopped == 0)
        // The first word is 100 ms old when the turn ends, and comes with its response.
        #expect(script.lines("response.output_text.delta").first?.hasPrefix("+02740ms") == true)
        #expect(script.lines("response.done").count == 1)
        #expect(script.session.isIdle && script.session.answerer.speculation.reply == nil)
    }

    @Test func itIsOffByDefault() throws {
        let script = try speculative { $0.turnDetection?.speculativeResponse = false }
        script.run(until: 2_730)
        #expect(script.requests.isEmpty)
    }

    @Test func itLeavesNoTraceIfSomebodyGoesOn() throws {
        // 400 ms after the detector's last speech, the same again.
        let packets = try SpeechRecording.goForward.packets()
        let script = try speculative(speaking: Array(packets[..<132]) + packets[25...])
        script.hypothesis = {
            $0 < 3_000 ? ScriptedSession.goForward($0) : "go forward ten meters and go on"
        }
        script.run(until: 8_000)
        #expect(script.requests.count == 2 && script.responsesStopped == 1)
        #expect(script.requests.last?.messages == [.user("go forward ten meters and go on")])
        #expect(script.lines("response.created").count == 1)
        #expect(script.lines("input_audio_buffer.committed").count == 1)
        #expect(script.violations == [])
    }

    @Test func anAnswerToAnotherQuestionIsNotUsed() throws {
        let script = try speculative()
        let item = ConversationItem(
            id: "mine", kind: .message(role: .system, content: [.inputText("Be brief.")]))
        script.replies = [.text("Wrong."), .text("Right.")]
        script.send(.conversationItemCreate(item: item, previousItemID: nil), at: 2_700)
        script.run(until: 6_000)
        #expect(script.requests.count == 2)
        let done = script.lines("response.output_text.done")
        #expect(done.count == 1 && done[0].contains("Right."))
    }

    @Test func aModelThatFailsAheadIsAskedAgain() throws {
        let script = try speculative()
        script.replies = [
            ScriptedReply(pieces: [], end: .some(.overloaded)), .text("Going."),
        ]
        script.run(until: 6_000)
        #expect(script.requests.count == 2)
        #expect(script.lines("response.done").first?.contains("completed") == true)
    }

    @Test func wordsThatWantMoreGiveNoHeadStart() throws {
        let script = try speculative()
        script.hypothesis = { _ in "go forward and" }
        script.run(until: 2_730)
        #expect(script.requests.isEmpty)
    }

    @Test func clearingTheInputStopsTheModel() throws {
        let script = try speculative()
        script.send(.inputAudioBufferClear, at: 2_700)
        script.run(until: 6_000)
        #expect(script.requests.count == 1 && script.responsesStopped == 1)
        #expect(script.lines("response.created").isEmpty)
        #expect(script.session.answerer.speculation.reply == nil)
    }

    // MARK: Races

    /// The words are known at 2,560 ms and the model writes at 2,660 ms; speech is heard again
    /// before, just as, and after it has.
    @Test(arguments: [340, 400, 420, 440, 460])
    func whateverTheModelHasWrittenWhenSomebodyGoesOnIsForgotten(milliseconds: Int) throws {
        let script = try goingOn(after: milliseconds)
        script.replies = [.text("Too early."), .text("Going.")]
        script.run(until: 9_000)
        #expect(script.requests.count == 2 && script.responsesStopped == 1)
        #expect(script.requests.last?.messages == [.user("go forward ten meters and go on")])
        #expect(script.lines("response.created").count == 1)
        #expect(script.lines("response.done").count == 1)
        #expect(!script.transcript.contains { $0.contains("early") })
        #expect(script.lines("input_audio_buffer.speech_stopped").count == 1)
        #expect(script.lines("conversation.item.added").count == 2)
        #expect(script.violations == [])
        #expect(script.session.isIdle && script.session.answerer.speculation.reply == nil)
    }

    @Test func anUpdateThatChangesTheQuestionMakesTheAnswerUseless() throws {
        let script = try speculative()
        script.replies = [.text("Wrong."), .text("Right.")]
        var update = SessionUpdate()
        update.instructions = .value("Be brief.")
        script.send(.sessionUpdate(update), at: 2_700)
        script.run(until: 6_000)
        #expect(script.requests.map(\.instructions) == ["", "Be brief."])
        #expect(script.responsesStopped == 1)
        let done = script.lines("response.output_text.done")
        #expect(done.count == 1 && done[0].contains("Right."))
    }

    @Test func anUpdateThatChangesNothingOfTheQuestionKeepsTheAnswer() throws {
        let script = try speculative()
        var update = SessionUpdate()
        update.speed = .value(1.2)
        script.send(.sessionUpdate(update), at: 2_700)
        script.run(until: 6_000)
        #expect(script.requests.count == 1 && script.responsesStopped == 0)
    }

    @Test(arguments: [false, true])
    func switchingTheHeadStartOffStopsIt(isManual: Bool) throws {
        let script = try speculative()
        var update = SessionUpdate()
        update.turnDetection = isManual ? .null : .value(TurnDetectionParameters())
        script.send(.sessionUpdate(update), at: 2_700)
        script.run(until: 2_730)
        #expect(script.responsesStopped == 1 && script.session.answerer.speculation.reply == nil)
        script.run(until: 6_000)
        #expect(script.requests.count == (isManual ? 1 : 2))
        #expect(script.lines("response.created").count == (isManual ? 0 : 1))
    }

    @Test func aFunctionCallAheadIsCalledOnceTheTurnHasEnded() throws {
        let script = try speculative()
        script.replies = [
            ScriptedReply(pieces: [
                (.milliseconds(50), .functionCallStarted(callID: "call_1", name: "go")),
                (.milliseconds(20), .functionCallArguments("{\"meters\":")),
                (.milliseconds(20), .functionCallArguments("10}")),
            ])
        ]
        script.run(until: 2_730)
        #expect(script.lines("response.").isEmpty)
        script.run(until: 6_000)
        #expect(script.requests.count == 1)
        let call = script.lines("response.function_call_arguments.done")
        #expect(call.count == 1 && call[0].contains("{\"meters\":10}"))
        #expect(call[0].hasPrefix("+02740ms"))
        #expect(script.violations == [])
    }

    @Test func aFunctionCallIsNotCalledWhenSomebodyGoesOn() throws {
        let script = try goingOn(after: 460)
        script.replies = [
            ScriptedReply(pieces: [
                (.milliseconds(20), .functionCallStarted(callID: "call_1", name: "go"))
            ]), .text("Going."),
        ]
        script.run(until: 9_000)
        #expect(!script.transcript.contains { $0.contains("function_call") })
        #expect(script.lines("response.done").count == 1)
    }

    @Test func aResponseThatTheClientCreatesMeanwhileAsksItsOwnQuestion() throws {
        let script = try speculative()
        script.replies = [.text("Ahead."), .text("Asked."), .text("Answered.")]
        script.send(.responseCreate(ResponseParameters()), at: 2_600)
        script.run(until: 8_000)
        // The words of the turn are not in the conversation yet when the client asks.
        #expect(
            script.requests.map(\.messages).prefix(2) == [
                [.user("go forward ten meters")], [.user("")],
            ])
        #expect(!script.transcript.contains { $0.contains("Ahead.") })
        #expect(
            Set(script.lines("response.created")).count == script.lines("response.created").count)
        #expect(script.violations == [])
        #expect(script.session.isIdle && script.session.answerer.speculation.reply == nil)
    }

    @Test func cancellingTheResponseThatTookItUpEndsIt() throws {
        let script = try speculative()
        script.replies = [
            ScriptedReply(pieces: [(.milliseconds(3_000), .text("Late."))], end: nil)
        ]
        script.send(.responseCancel(responseID: nil), at: 3_000)
        script.run(until: 8_000)
        #expect(script.requests.count == 1 && script.responsesStopped == 1)
        #expect(script.lines("response.done").first?.contains("cancelled") == true)
        #expect(!script.transcript.contains { $0.contains("Late.") })
    }
}
