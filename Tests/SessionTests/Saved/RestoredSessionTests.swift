// What was in flight when a process ended, beside speech: words, calls, turns, agents' states. Each is
// settled in the process that goes on, and the client can see how.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct RestoredSessionTests {
    private func types(_ script: ScriptedSession) -> [String] {
        script.events.compactMap { $0["type"] as? String }
    }

    private func restore(
        _ saved: SavedSession, announcesItems: Bool = true, replies: [ScriptedReply] = [],
        toolServers: ToolServerPolicy? = nil, _ prepare: (ScriptedSession) -> Void = { _ in }
    ) throws -> ScriptedSession {
        let script = try ScriptedSession(restoring: saved, toolServers: toolServers)
        script.replies = replies
        prepare(script)
        script.startRestored(saved, announcesItems: announcesItems)
        return script
    }

    private func userText(_ id: String, _ text: String) -> ClientEvent {
        .conversationItemCreate(
            item: ConversationItem(
                id: id, kind: .message(role: .user, content: [.inputText(text)])),
            previousItemID: nil)
    }

    @Test func aConversationGoesOnWithItsItemsAndIDs() throws {
        let first = ScriptedSession({
            $0.outputModality = .text
            $0.instructions = "Be brief."
        })
        first.replies = [.text("One.")]
        first.send(userText("u1", "First?"), at: 0)
        first.send(.responseCreate(ResponseParameters()), at: 1)
        first.run(until: 1_000)
        let second = try restore(try first.save(), replies: [.text("Two.")])
        #expect(second.session.id == first.session.id)
        #expect(second.session.conversationID == first.session.conversationID)
        let announced = second.events.compactMap { $0["item"] as? [String: Any] }
            .compactMap { $0["id"] as? String }
        let ids = first.session.conversation.itemIDs
        #expect(announced == ids.flatMap { [$0, $0] })
        second.send(userText("u2", "Second?"), at: 10)
        second.send(.responseCreate(ResponseParameters()), at: 11)
        second.run(until: 1_000)
        #expect(
            second.requests.last?.messages
                == [.user("First?"), .assistant("One."), .user("Second?")])
        #expect(second.requests.last?.instructions == "Be brief.")
        #expect(second.violations == [])
    }

    @Test func onlyWhatHasChangedIsIncluded() throws {
        let script = ScriptedSession({ $0.outputModality = .text })
        for index in 0..<5 { script.send(userText("u\(index)", "\(index)"), at: index) }
        script.run(until: 100)
        let saved = script.session.saved(items: ["u3", "unknown"], at: .milliseconds(100))
        #expect(saved.itemIDs.count == 5)
        #expect(saved.fields(.head).map(\.name) == ["head", "item:u3"])
    }

    @Test func halfATextIsWrittenAgain() throws {
        let first = ScriptedSession({ $0.outputModality = .text })
        first.replies = [.text("This is a text of many words and never the last")]
        first.send(userText("u1", "Write."), at: 0)
        first.send(.responseCreate(ResponseParameters()), at: 1)
        first.run(until: 180)
        #expect(types(first).contains("response.output_text.delta"))
        let second = try restore(try first.save(), replies: [.text("All of it.")])
        second.run(until: 1_000)
        #expect(second.requests.map(\.messages) == [[.user("Write.")]])
        #expect(second.session.conversation.items.count == 2)
        #expect(second.session.conversation.modelMessages().last == .assistant("All of it."))
    }

    @Test func theResponseIsRunAgainAsTheClientAskedForIt() throws {
        let first = ScriptedSession()
        var parameters = ResponseParameters()
        parameters.instructions = "Only now."
        parameters.outputModality = .text
        parameters.metadata = RawJSON("{\"k\":\"v\"}")
        first.send(.responseCreate(parameters), at: 0)
        first.run(until: 10)
        let second = try restore(try first.save())
        second.run(until: 1_000)
        #expect(second.requests.count == 1)
        #expect(second.requests.first?.instructions == "Only now.")
        let created = second.events.first { $0["type"] as? String == "response.created" }
        let response = created?["response"] as? [String: Any]
        #expect((response?["metadata"] as? [String: String]) == ["k": "v"])
        #expect(response?["output_modalities"] as? [String] == ["text"])
    }

    @Test func wordsThatWereBeingRecognisedAreLostAndTheClientIsTold() throws {
        let first = ScriptedSession({
            $0.turnDetection = nil
            $0.transcription = TranscriptionParameters(model: "w")
        })
        first.recognitionDelay = .seconds(10)
        first.append([UInt8](repeating: 0, count: 48_000), at: 0)
        first.send(.inputAudioBufferCommit, at: 1)
        first.send(.responseCreate(ResponseParameters()), at: 2)
        first.run(until: 100)
        #expect(!first.session.canBeHandedOver)
        let second = try restore(try first.save())
        second.run(until: 1_000)
        #expect(types(second).contains("conversation.item.input_audio_transcription.failed"))
        // An answer would be a guess.
        #expect(second.requests.isEmpty && second.session.isIdle)
        #expect(second.violations == [])
    }

    @Test func wordsThatNobodyHasAnsweredAreAnswered() throws {
        let talk = BargeIn(isResumable: true) { $0.turnDetection?.interruptResponse = false }
        talk.script.transcripts = [.success("go forward")]
        try talk.speak(milliseconds: 1_700, at: 1_000)
        talk.script.run(until: 3_900)
        #expect(talk.script.session.state == .replying && talk.statuses.isEmpty)
        let second = try restore(try talk.script.save(), replies: [.text("I go.")])
        second.run(until: 20_000)
        #expect(second.requests.count == 1)
        #expect(second.requests.first?.messages.contains(.user("go forward")) == true)
        #expect(types(second).count { $0 == "response.done" } == 2)
    }

    @Test func aCallOfTheClientsIsAnsweredByTheClient() throws {
        let call = ScriptedReply(pieces: [
            (.milliseconds(10), .functionCallStarted(callID: "c1", name: "look")),
            (.milliseconds(10), .functionCallArguments("{}")),
        ])
        let first = ScriptedSession()
        first.replies = [call]
        first.send(.responseCreate(ResponseParameters()), at: 0)
        first.run(until: 1_000)
        #expect(first.session.canBeHandedOver)
        let second = try restore(try first.save(), replies: [.text("Found.")])
        second.run(until: 500)
        #expect(second.requests.isEmpty)
        second.send(
            .conversationItemCreate(
                item: ConversationItem(
                    id: "o1", kind: .functionCallOutput(callID: "c1", output: "42")),
                previousItemID: nil), at: 501)
        second.send(.responseCreate(ResponseParameters()), at: 502)
        second.run(until: 5_000)
        #expect(
            second.requests.first?.messages
                == [
                    .functionCall(callID: "c1", name: "look", arguments: "{}"),
                    .functionOutput(callID: "c1", output: "42"),
                ])
    }

    @Test func aCallThatWasCutOffWasNeverMade() throws {
        let call = ScriptedReply(
            pieces: [
                (.milliseconds(10), .functionCallStarted(callID: "c1", name: "look")),
                (.milliseconds(10), .functionCallArguments("{\"a\":")),
            ], end: nil)
        let first = ScriptedSession()
        first.replies = [call]
        first.send(userText("u1", "Look."), at: 0)
        first.send(.responseCreate(ResponseParameters()), at: 0)
        first.run(until: 1_000)
        let second = try restore(try first.save(), announcesItems: false)
        second.run(until: 1_000)
        #expect(second.requests.map(\.messages) == [[.user("Look.")]])
        let done = second.events.first { $0["type"] as? String == "conversation.item.done" }
        #expect((done?["item"] as? [String: Any])?["status"] as? String == "incomplete")
    }

    @Test func aCallOfAToolThatWasInFlightHasFailedAndTheModelIsTold() throws {
        let tools = ToolServerPolicy(clientURLs: .any)
        let first = ScriptedSession(voiceActivity: .installed, toolServers: tools)
        var server = MCPTool(serverLabel: "s", serverURL: "https://mcp.example/")
        server.requireApproval = .never
        var update = SessionUpdate()
        update.mcpTools = .value([server])
        first.send(.sessionUpdate(update), at: 0)
        first.toolServer.lists["s"] = .success([MCPToolDescription(name: "t")])
        first.replies = [
            ScriptedReply(pieces: [
                (.milliseconds(10), .functionCallStarted(callID: "c1", name: "s__t")),
                (.milliseconds(10), .functionCallArguments("{}")),
            ])
        ]
        first.send(userText("u1", "Call it."), at: 100)
        first.send(.responseCreate(ResponseParameters()), at: 100)
        first.run(until: 1_000)
        #expect(first.toolCalls.count == 1 && !first.session.canBeHandedOver)
        let second = try restore(
            try first.save(), replies: [.text("It failed.")], toolServers: tools
        ) { $0.toolServer.lists["s"] = .success([MCPToolDescription(name: "t")]) }
        second.run(until: 5_000)
        #expect(second.toolCalls.isEmpty && second.requests.count == 1)
        guard case .functionOutput(_, let output)? = second.requests.first?.messages.last else {
            Issue.record("the model is not told")
            return
        }
        #expect(output.contains("restarted"))
        #expect(second.violations == [])
    }

    @Test func whatAgentsWantBackTheyGetBack() throws {
        let first = ScriptedSession({ $0.outputModality = .text })
        var reply = ScriptedReply.text("One.")
        reply.pieces.append((.milliseconds(1), .memento(provider: "p", text: "state 1")))
        first.replies = [reply]
        first.send(userText("u1", "First?"), at: 0)
        first.send(.responseCreate(ResponseParameters()), at: 1)
        first.run(until: 1_000)
        #expect(first.session.conversation.mementos.count == 1)
        let second = try restore(try first.save())
        #expect(second.session.conversation.mementos == first.session.conversation.mementos)
        second.send(userText("u2", "Second?"), at: 10)
        second.send(.responseCreate(ResponseParameters()), at: 11)
        second.run(until: 1_000)
        #expect(second.requests.last?.mementos.first?.text == "state 1")
    }

    @Test func theVoiceStaysSettled() throws {
        let first = ScriptedSession()
        first.send(.responseCreate(ResponseParameters()), at: 0)
        first.run(until: 5_000)
        let second = try restore(try first.save())
        var update = SessionUpdate()
        update.voice = .value("another")
        second.send(.sessionUpdate(update), at: 10)
        second.run(until: 20)
        #expect(types(second).contains("error"))
    }

    @Test func theOldestItemsBeyondTheLimitsAreLeftOut() throws {
        let first = ScriptedSession({ $0.outputModality = .text })
        for index in 0..<10 { first.send(userText("u\(index)", "\(index)"), at: index) }
        first.run(until: 100)
        let saved = try first.save()
        var limits = SessionLimits()
        limits.maxConversationItems = 4
        let second = try ScriptedSession(restoring: saved, limits: limits)
        #expect(second.session.conversation.itemIDs == ["u6", "u7", "u8", "u9"])
    }

    @Test func anIdleSessionIsNotLargerForIt() {
        #expect(VoiceSession.objectBytes == 256)
    }
}
