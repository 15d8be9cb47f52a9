// Turns in which no words are recognised, and the phrase that answers them.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct NotUnderstoodTests {
    private static let phrase = "Sorry, I did not understand that."

    private func script(
        phrase: String? = Self.phrase, modelHearsAudio: Bool = false,
        _ configure: (inout SessionParameters) -> Void = { _ in }
    ) -> ScriptedSession {
        ScriptedSession(
            configure, voiceActivity: .installed, modelHearsAudio: modelHearsAudio,
            notUnderstood: Phrase(phrase ?? "") ?? .none)
    }

    /// Speaks the recording once for each transcript, ten seconds apart.
    private func speak(_ transcripts: [String], to script: ScriptedSession) throws {
        script.transcripts = transcripts.map { .success($0) }
        for turn in transcripts.indices {
            script.speak(try SpeechRecording.goForward.packets(), from: turn * 10_000)
        }
        script.run(until: transcripts.count * 10_000 + 10_000)
        #expect(script.violations == [])
    }

    private func responses(of script: ScriptedSession) -> [[String: Any]] {
        script.events.filter { $0["type"] as? String == "response.done" }
            .compactMap { $0["response"] as? [String: Any] }
    }

    @Test(arguments: ["", ".", "[BLANK_AUDIO]", "♪"])
    func thePhraseAnswersWithoutTheModel(transcript: String) throws {
        let script = script()
        try speak([transcript], to: script)
        #expect(script.requests.isEmpty)
        #expect(script.spoken.joined() == Self.phrase)
        let response = try #require(responses(of: script).first)
        #expect(response["status"] as? String == "completed")
        let committed = script.events.first {
            $0["type"] as? String == "input_audio_buffer.committed"
        }
        let itemID = try #require(committed?["item_id"] as? String)
        #expect(response["metadata"] as? [String: String] == ["parley_not_understood": itemID])
        #expect(script.context.counters.turnsWithoutWords == 1)
        #expect(script.session.isIdle)
    }

    @Test func withoutAPhraseNothingAnswers() throws {
        let script = script(phrase: nil)
        try speak(["", "[Music]"], to: script)
        #expect(script.requests.isEmpty && responses(of: script).isEmpty)
        #expect(script.context.counters.turnsWithoutWords == 2)
    }

    /// What makes sound on and on is no user. A turn with words begins the count anew.
    @Test func itIsSaidTwiceInARow() throws {
        let script = script()
        script.replies = [.text("Hello.")]
        try speak(["", "", "", "", "hello", "", "", ""], to: script)
        #expect(script.requests.count == 1)
        #expect(responses(of: script).count == 2 + 1 + 2)
    }

    /// The recording begins with the word "go" at about 0.5 s.
    @Test func aCoughIsNoTurn() throws {
        let script = script()
        script.transcripts = [.success("")]
        let whole = try SpeechRecording.goForward.packets()
        script.speak(Array(whole.prefix(38)), from: 0)
        script.run(until: 10_000)
        #expect(script.lines("input_audio_buffer.speech_stopped").count == 1)
        #expect(script.spoken.isEmpty && responses(of: script).isEmpty)
    }

    /// A client that ends turns itself asks for a response, and gets the phrase: not an answer to
    /// what was said before.
    @Test func aRequestedResponseSaysIt() throws {
        let script = script { $0.turnDetection = nil }
        script.transcripts = [.success(""), .success("go")]
        script.replies = [.text("Going.")]
        let packets = try SpeechRecording.goForward.packets()
        for start in [0, 10_000] {
            script.speak(packets, from: start)
            script.send(.inputAudioBufferCommit, at: start + 5_000)
            script.send(.responseCreate(ResponseParameters()), at: start + 5_000)
        }
        script.run(until: 20_000)
        #expect(script.spoken == [Self.phrase, "Going."])
        #expect(script.requests.map(\.messages.last) == [.user("go")])
        // What the client writes after a turn without words is answered by the model.
        script.transcripts = [.success("")]
        script.replies = [.text("You are welcome.")]
        script.speak(packets, from: 20_000)
        script.send(.inputAudioBufferCommit, at: 25_000)
        script.send(
            .conversationItemCreate(
                item: ConversationItem(
                    id: "item_typed",
                    kind: .message(role: .user, content: [.inputText("Thank you.")])),
                previousItemID: nil), at: 26_000)
        script.send(.responseCreate(ResponseParameters()), at: 26_100)
        script.run(until: 40_000)
        #expect(script.requests.count == 2)
        #expect(script.requests.last?.messages.last == .user("Thank you."))
        #expect(script.violations == [])
    }

    /// The idle timeout commits a turn without audio, and asks the model to go on.
    @Test func silenceIsNotATurnThatWasNotUnderstood() throws {
        let script = script {
            $0.turnDetection?.idleTimeoutMilliseconds = 5_000
        }
        script.replies = [.text("Hello."), .text("Are you there?")]
        script.transcripts = [.success("hello"), .success("")]
        let packets = try SpeechRecording.goForward.packets()
        script.speak(packets, from: 0)
        script.speak(packets, from: 7_000)
        script.run(until: 25_000)
        #expect(script.spoken.prefix(3) == ["Hello.", Self.phrase, "Are you there?"])
        #expect(script.violations == [])
    }

    /// Words that wait for an answer are answered by the model, whatever sound follows them.
    @Test func aHumBehindWordsTakesThemFromNoModel() throws {
        let script = script()
        script.replies = [.text("A table, then.")]
        script.transcripts = [.success("book a table"), .success("")]
        // The first one's words come after the second is over.
        script.recognitionDelay = .milliseconds(4_000)
        let packets = try SpeechRecording.goForward.packets()
        script.speak(packets, from: 0)
        script.speak(packets, from: 20 * packets.count)
        script.run(until: 30_000)
        #expect(script.requests.map { $0.messages.last } == [.user("book a table")])
        #expect(script.spoken == ["A table, then."])
        #expect(script.violations == [])
    }

    /// A turn without words during a reply that it does not interrupt is answered after it.
    @Test func thePhraseWaitsForTheReply() throws {
        let script = script { $0.turnDetection?.interruptResponse = false }
        script.replies = [.text(String(repeating: "A long answer follows here. ", count: 8))]
        script.transcripts = [.success("go"), .success("")]
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 800)
        script.speak(packets, from: 0)
        script.speak(packets, from: 20 * packets.count + 1_500)
        script.run(until: 40_000)
        #expect(script.spoken.last == Self.phrase)
        #expect(
            responses(of: script).map { $0["status"] as? String } == ["completed", "completed"])
        #expect(script.violations == [])
    }

    /// Good turns of a client that ends them itself begin the count anew, too.
    @Test func understoodTurnsCountWhoeverEndsThem() throws {
        let script = script { $0.turnDetection?.createResponse = false }
        try speak(["", "one", "", "two", ""], to: script)
        #expect(script.spoken.isEmpty && responses(of: script).isEmpty)
        script.transcripts = [.success("")]
        var update = SessionUpdate()
        update.turnDetection = .value(TurnDetectionParameters())
        script.send(.sessionUpdate(update), at: 61_000)
        script.speak(try SpeechRecording.goForward.packets(), from: 62_000)
        script.run(until: 80_000)
        #expect(script.spoken == [Self.phrase])
    }

    /// Instructions of its own are no answer to the turn.
    @Test func aResponseWithInstructionsAsksTheModel() throws {
        let script = script { $0.turnDetection = nil }
        script.transcripts = [.success("")]
        script.replies = [.text("Welcome.")]
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        script.send(.inputAudioBufferCommit, at: 5_000)
        var parameters = ResponseParameters()
        parameters.instructions = "Greet the caller."
        script.send(.responseCreate(parameters), at: 6_000)
        script.run(until: 20_000)
        #expect(script.spoken == ["Welcome."])
    }

    @Test func aModelThatHearsIsAsked() throws {
        let script = script(modelHearsAudio: true)
        script.replies = [.text("I heard a whistle.")]
        try speak([""], to: script)
        #expect(script.spoken == ["I heard a whistle."])
    }
}
