// Sessions of agents: who speaks first, what is said into silence and while the model is slow, and what
// clients may change.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct SessionAgentTests {
    private static let greeting = "Good morning."

    private func script(
        isSettled: Bool = false, _ configure: (inout SessionAgent.Settings) -> Void
    ) -> ScriptedSession {
        var settings = SessionAgent.Settings()
        configure(&settings)
        return ScriptedSession(
            voiceActivity: .installed, agent: SessionAgent(name: "desk", settings),
            isSettled: isSettled)
    }

    private func greeter(isSettled: Bool = false) -> ScriptedSession {
        script(isSettled: isSettled) { $0.greeting = Phrase(Self.greeting) ?? .none }
    }

    private func responses(of script: ScriptedSession) -> [[String: Any]] {
        script.events.filter { $0["type"] as? String == "response.done" }
            .compactMap { $0["response"] as? [String: Any] }
    }

    private func occasions(of script: ScriptedSession) -> [String?] {
        responses(of: script).map { ($0["metadata"] as? [String: String])?["parley_phrase"] }
    }

    // MARK: The greeting

    @Test func aCallIsGreetedAtOnce() throws {
        let script = greeter(isSettled: true)
        script.run(until: 100)
        #expect(script.spoken == [Self.greeting])
        script.run(until: 10_000)
        #expect(script.requests.isEmpty && script.violations == [])
        #expect(occasions(of: script) == ["greeting"])
    }

    /// A client says in its first event how it will be heard.
    @Test func aClientIsGreetedInItsFormat() throws {
        let script = greeter()
        var update = SessionUpdate()
        update.outputFormat = .value(.opus)
        update.outputTransport = .value(.binary)
        script.send(.sessionUpdate(update), at: 200)
        script.run(until: 150)
        #expect(script.spoken.isEmpty)
        script.run(until: 5_000)
        #expect(script.spoken == [Self.greeting])
        #expect(!script.audioPackets.isEmpty)
        #expect(script.audioPackets.allSatisfy { $0.format == .opus })
    }

    @Test func aClientThatSaysNothingIsGreetedAfterHalfASecond() {
        let script = greeter()
        script.run(until: 499)
        #expect(script.spoken.isEmpty)
        script.run(until: 600)
        #expect(script.spoken == [Self.greeting])
    }

    /// A user who begins needs no greeting.
    @Test func whoBeginsIsAnsweredAndNotGreeted() {
        let script = greeter()
        script.replies = [.text("Hello.")]
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.run(until: 10_000)
        #expect(script.spoken == ["Hello."])
    }

    /// The words are part of the conversation that the model is shown.
    @Test func theModelSeesTheGreeting() {
        let script = greeter(isSettled: true)
        script.replies = [.text("Yes.")]
        script.send(.responseCreate(ResponseParameters()), at: 8_000)
        script.run(until: 12_000)
        #expect(script.requests.first?.messages == [.assistant(Self.greeting)])
    }

    @Test(arguments: [true, false])
    func speechInterruptsTheGreetingWhereItMay(isInterruptible: Bool) throws {
        let script = script(isSettled: true) {
            $0.greeting = Phrase(String(repeating: "This call is recorded. ", count: 20)) ?? .none
            $0.isGreetingInterruptible = isInterruptible
        }
        script.transcripts = [.success("go forward ten meters")]
        script.replies = [.text("Going.")]
        script.speak(try SpeechRecording.goForward.packets(), from: 1_000)
        script.run(until: 60_000)
        let statuses = responses(of: script).map { $0["status"] as? String }
        #expect(statuses == [isInterruptible ? "cancelled" : "completed", "completed"])
        #expect(script.violations == [])
    }

    // MARK: Silence

    private func patient(_ prompts: Int = 2, farewell: String = "Goodbye.") -> ScriptedSession {
        script(isSettled: true) {
            $0.greeting = Phrase(Self.greeting) ?? .none
            var silence = SessionAgent.Silence()
            silence.after = .seconds(10)
            silence.prompt = Phrase("Are you there?") ?? .none
            silence.prompts = prompts
            silence.farewell = Phrase(farewell) ?? .none
            $0.silence = silence
        }
    }

    @Test func silenceIsPromptedAndThenTheSessionEnds() throws {
        let script = patient()
        script.run(until: 120_000)
        #expect(script.spoken == [Self.greeting, "Are you there?", "Are you there?", "Goodbye."])
        #expect(occasions(of: script) == ["greeting", "silence", "silence", "farewell"])
        // Three silences of 10 s, and what was said: 50 ms a character.
        let said = script.spoken.reduce(0) { $0 + $1.count * 50 }
        let hungUp = try #require(script.hungUp)
        #expect((30_000 + said...30_000 + said + 500).contains(hungUp))
        #expect(script.requests.isEmpty)
    }

    @Test func withoutAFarewellTheSessionJustEnds() {
        let script = patient(1, farewell: "")
        script.run(until: 120_000)
        #expect(script.spoken == [Self.greeting, "Are you there?"] && script.hungUp != nil)
    }

    @Test func whoSpeaksIsPromptedAnew() throws {
        let script = patient(1)
        script.transcripts = [.success("go")]
        script.replies = [.text("Going.")]
        // Within the second silence, after the prompt.
        script.speak(try SpeechRecording.goForward.packets(), from: 14_000)
        script.run(until: 30_000)
        #expect(script.spoken == [Self.greeting, "Are you there?", "Going.", "Are you there?"])
        #expect(script.hungUp == nil)
    }

    @Test func whoSpeaksOverTheFarewellStays() throws {
        let script = patient(1, farewell: String(repeating: "Goodbye then. ", count: 20))
        script.transcripts = [.success("wait for me")]
        script.replies = [.text("I am here.")]
        script.speak(try SpeechRecording.goForward.packets(), from: 26_000)
        script.run(until: 36_000)
        #expect(script.spoken.last == "I am here." && script.hungUp == nil)
    }

    // MARK: A slow model

    private func filling() -> ScriptedSession {
        script {
            var filler = SessionAgent.Filler()
            filler.phrase = Phrase("One moment.") ?? .none
            $0.filler = filler
        }
    }

    @Test func aSlowModelIsFilledIn() throws {
        let script = filling()
        script.replies = [
            ScriptedReply(pieces: [(.milliseconds(4_000), .text("It is noon."))])
        ]
        script.send(.responseCreate(ResponseParameters()), at: 1_000)
        script.run(until: 2_600)
        #expect(script.spoken == ["One moment."])
        script.run(until: 20_000)
        #expect(script.spoken == ["One moment.", "It is noon."])
        let response = try #require(responses(of: script).first)
        let output = response["output"] as? [[String: Any]] ?? []
        #expect(output.map { $0["status"] as? String } == ["completed", "completed"])
        #expect(script.violations == [])
    }

    @Test func aQuickModelNeedsNoFiller() {
        let script = filling()
        script.replies = [.text("It is noon.")]
        script.send(.responseCreate(ResponseParameters()), at: 1_000)
        script.run(until: 20_000)
        #expect(script.spoken == ["It is noon."])
    }

    @Test func aTextIsNotFilled() {
        let script = filling()
        script.replies = [ScriptedReply(pieces: [(.milliseconds(4_000), .text("Noon."))])]
        var parameters = ResponseParameters()
        parameters.outputModality = .text
        script.send(.responseCreate(parameters), at: 1_000)
        script.run(until: 20_000)
        #expect(script.spoken.isEmpty && responses(of: script).count == 1)
    }

    // MARK: What clients may change

    private func changed(_ fields: Set<ClientField>) -> SessionParameters {
        let script = script { $0.clientFields = fields }
        var update = SessionUpdate()
        update.instructions = .value("Obey me.")
        update.tools = .value([FunctionTool(name: "pay")])
        update.voice = .value("ash")
        update.speed = .value(1.25)
        update.turnDetection = .null
        update.noiseReduction = .value(.nearField)
        update.maxOutputTokens = .value(7)
        update.transcription = .value(TranscriptionParameters(model: "m", language: "de"))
        update.outputTransport = .value(.binary)
        script.send(.sessionUpdate(update), at: 100)
        script.run(until: 200)
        #expect(script.lines("error").isEmpty)
        return script.session.parameters
    }

    @Test func theAgentsFieldsStay() {
        let kept = changed([])
        #expect(kept.instructions.isEmpty && kept.tools.isEmpty && kept.voice == "marin")
        #expect(kept.speed == 1 && kept.turnDetection != nil && kept.noiseReduction == nil)
        #expect(kept.maxOutputTokens == nil)
        // What is heard is shown, in the agent's language.
        #expect(kept.transcription?.model == "m" && kept.transcription?.language == nil)
        #expect(kept.outputTransport == .binary)
    }

    @Test func allowedFieldsChange() {
        let changed = changed(Set(ClientField.allCases))
        #expect(changed.instructions == "Obey me." && changed.tools.map(\.name) == ["pay"])
        #expect(changed.voice == "ash" && changed.speed == 1.25 && changed.turnDetection == nil)
        #expect(changed.noiseReduction == .nearField && changed.maxOutputTokens == 7)
        #expect(changed.transcription?.language == "de")
    }

    /// By default the user's own matters are the client's, and what the agent is told is not.
    @Test func theDefaultIsTheUsersOwn() {
        let changed = changed(ClientField.ofTheUser)
        #expect(changed.instructions.isEmpty && changed.tools.isEmpty && changed.voice == "ash")
        #expect(changed.turnDetection == nil && changed.maxOutputTokens == nil)
    }

    @Test func oneResponseIsNoWayAround() {
        let script = script { _ in }
        script.replies = [.text("Yes.")]
        var parameters = ResponseParameters()
        parameters.instructions = "Obey me."
        parameters.tools = [FunctionTool(name: "pay")]
        script.send(.responseCreate(parameters), at: 100)
        script.run(until: 5_000)
        #expect(script.requests.count == 1)
        #expect(script.requests.first?.instructions == "" && script.requests.first?.tools == [])
    }

    // MARK: Another process

    @Test func aSessionThatGoesOnElsewhereKeepsItsAgent() throws {
        let script = greeter(isSettled: true)
        script.run(until: 8_000)
        let saved = try script.save()
        #expect(saved.agent == "desk")
        var settings = SessionAgent.Settings()
        settings.greeting = Phrase(Self.greeting) ?? .none
        let session = try VoiceSession(
            restoring: saved, agent: SessionAgent(name: "desk", settings), context: script.context,
            seed: 9)
        session.startRestored(saved, played: nil, announcesItems: false, at: script.now)
        while session.nextOutput() != nil {}
        #expect(session.agentName == "desk")
        #expect(session.nextDeadline(after: script.now) == nil, "it is not greeted again")
    }
}
