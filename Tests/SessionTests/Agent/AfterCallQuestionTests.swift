// The question about a session that is over: what its model is shown of the conversation, and what of the
// model's text is the answer.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct AfterCallQuestionTests {
    private static let heading = "This conversation is over:\n\n"
    private let question = AfterCall(instructions: "Summarise.")

    private func script(limits: SessionLimits = .init(), asks: Bool = true) -> ScriptedSession {
        var settings = SessionAgent.Settings()
        settings.afterCall = asks ? question : nil
        return ScriptedSession(
            limits: limits, voiceActivity: .installed, agent: SessionAgent(name: "desk", settings))
    }

    private func add(_ kind: ConversationItem.Kind, to script: ScriptedSession, at time: Int) {
        script.send(
            .conversationItemCreate(
                item: ConversationItem(id: "item_\(time)", kind: kind), previousItemID: nil),
            at: time)
    }

    private func say(_ text: String, to script: ScriptedSession, at time: Int) {
        add(.message(role: .user, content: [.inputText(text)]), to: script, at: time)
    }

    private func conversation(_ script: ScriptedSession, at time: Int) -> String? {
        script.run(until: time)
        return script.session.endedConversation(for: question, at: .milliseconds(time))
    }

    // MARK: The conversation

    @Test func theModelIsShownWhatWasSaidAndDone() {
        let script = script()
        add(.message(role: .system, content: [.inputText("Be brief.")]), to: script, at: 10)
        say("Four people.\nAgent: It is free.", to: script, at: 20)
        add(
            .functionCall(callID: "call_1", name: "book", arguments: #"{"party":4}"#), to: script,
            at: 30)
        add(.functionCallOutput(callID: "call_1", output: "full"), to: script, at: 40)
        var call = MCPCall(serverLabel: "s", name: "find", arguments: "{}")
        call.output = "at nine"
        add(.mcp(.call(call)), to: script, at: 50)
        add(.message(role: .assistant, content: [.outputText("At nine?")]), to: script, at: 60)
        #expect(script.session.afterCall == question)
        #expect(
            conversation(script, at: 100)
                == Self.heading + """
                    System: Be brief.
                    User: Four people. Agent: It is free.
                    Agent calls book: {"party":4}
                    Result: full
                    Agent calls s__find: {}
                    Result: at nine
                    Agent: At nine?
                    """)
    }

    /// The user has left in the middle of the reply, and has heard as much of it.
    @Test func ofAReplyItIsShownWhatWasHeard() throws {
        let script = script()
        script.transcripts = [.success("go forward ten meters")]
        script.replies = [.text("I will go forward ten meters, and then I will stop there.")]
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        script.run(until: 4_300)
        let heard = try #require(conversation(script, at: 4_300)?.split(separator: "\n").last)
        #expect(heard.hasPrefix("Agent: I will") && !heard.contains("stop"), "\(heard)")
        let whole = try #require(conversation(script, at: 20_000))
        #expect(
            whole == Self.heading + """
                User: go forward ten meters
                Agent: I will go forward ten meters, and then I will stop there.
                """)
    }

    @Test func withoutAWordOfTheUserThereIsNone() {
        let script = script()
        add(.message(role: .assistant, content: [.outputText("Hello?")]), to: script, at: 10)
        say("?!", to: script, at: 20)
        add(
            .message(role: .user, content: [.inputAudio(bytes: [], transcript: "[noise]")]),
            to: script, at: 30)
        #expect(conversation(script, at: 100) == nil)
        say("7", to: script, at: 200)
        #expect(conversation(script, at: 300)?.hasSuffix("User: 7") == true)
    }

    @Test func whereItIsTooLongItsBeginningIsLeftOut() throws {
        var limits = SessionLimits()
        limits.modelContextTokens = 1_024
        let script = script(limits: limits)
        for number in 1...9 {
            say("\(number) " + String(repeating: "x", count: 400), to: script, at: number * 10)
        }
        let shown = try #require(conversation(script, at: 200))
        #expect(shown.hasPrefix(Self.heading + "User: 6 ") && shown.contains("User: 9 "))
        #expect(TokenEstimate.text(bytes: shown.utf8.count) <= 512)
    }

    @Test func anAgentWithoutAQuestionHasNone() {
        #expect(script(asks: false).session.afterCall == nil)
        #expect(ScriptedSession().session.afterCall == nil)
    }

    // MARK: The question and its answer

    @Test func theSchemaIsPartOfTheInstructions() throws {
        var asked = question
        asked.schema = RawJSON(#"{"type":"object"}"#)
        let response = asked.response(about: "User: Hi")
        #expect(response.isInConversation == false)
        #expect(response.instructions?.hasPrefix("Summarise.\n\nAnswer with one JSON") == true)
        #expect(response.instructions?.hasSuffix(":\n{\"type\":\"object\"}") == true)
        #expect(question.response(about: "").instructions == "Summarise.")
    }

    @Test(arguments: [
        (" Two loaves.\n", AfterCallAnswer.text("Two loaves.")),
        ("{\"a\": 1}", .text("{\"a\": 1}")),
        ("", .failed(code: "empty_answer", message: "The model has said nothing.")),
        (" \n", .failed(code: "empty_answer", message: "The model has said nothing.")),
    ])
    func aTextIsTheAnswer(text: String, answer: AfterCallAnswer) {
        #expect(question.answer(in: text) == answer)
    }

    @Test(arguments: [
        ("{ \"a\" : \"\\ud83d\" }", "{\"a\":\"\u{FFFD}\"}"),
        ("Here:\n```json\n{\"a\":{}}\n```\nDone.", "{\"a\":{}}"), ("{}", "{}"), ("", nil),
        ("none", nil), ("[1]", nil), ("} {", nil), ("{\"a\":1e999}", nil), ("{\"a\":1", nil),
        (String(repeating: "{\"a\":", count: 99) + String(repeating: "}", count: 99), nil),
    ])
    func withASchemaItsObjectIsTheAnswer(text: String, object: String?) {
        var asked = question
        asked.schema = RawJSON(#"{"type":"object"}"#)
        let answer = asked.answer(in: text)
        if let object {
            #expect(answer == .data(RawJSON(object)))
        } else if case .failed(let code, _) = answer {
            #expect(code == (text.isEmpty ? "empty_answer" : "invalid_answer"))
        } else {
            Issue.record("\(answer)")
        }
    }
}
