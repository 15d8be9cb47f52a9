// Text turns and conversation items, as a client sees them.

import Codec
import TestMaterial
import Testing

@testable import Session

/// A user's text message.
private func message(_ text: String, id: String = "") -> ClientEvent {
    .conversationItemCreate(
        item: ConversationItem(
            id: id, kind: .message(role: .user, content: [.inputText(text)])),
        previousItemID: nil)
}

private func types(_ script: ScriptedSession) -> [String] {
    script.events.compactMap { $0["type"] as? String }
}

private func errorCodes(_ script: ScriptedSession) -> [String] {
    script.events.compactMap { ($0["error"] as? [String: Any])?["code"] as? String }
}

private func lastStatus(_ script: ScriptedSession) -> String? {
    let done = script.events.last { $0["type"] as? String == "response.done" }
    return (done?["response"] as? [String: Any])?["status"] as? String
}

@Suite struct TextTurnTests {
    @Test func aTextTurnIsToldInOrder() throws {
        let script = ScriptedSession({ $0.outputModality = .text })
        script.replies = [.text("Hello to you.")]
        script.send(message("Hi"), at: 10)
        script.send(.responseCreate(ResponseParameters()), at: 20)
        script.run(until: 1_000)
        try expectGolden(script, "text-turn")
        #expect(script.violations == [])
        #expect(script.requests.map(\.messages) == [[.user("Hi")]])
        #expect(script.session.isIdle)
    }

    @Test func theNextRequestHoldsTheReply() {
        let script = ScriptedSession({ $0.outputModality = .text })
        script.replies = [.text("One."), .text("Two.")]
        script.send(message("first"), at: 0)
        script.send(.responseCreate(ResponseParameters()), at: 10)
        script.send(message("second"), at: 1_000)
        script.send(.responseCreate(ResponseParameters()), at: 1_010)
        script.run(until: 2_000)
        #expect(
            script.requests.last?.messages
                == [.user("first"), .assistant("One."), .user("second")])
    }

    @Test func oneResponseAtATime() throws {
        let script = ScriptedSession({ $0.outputModality = .text })
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.send(.responseCreate(ResponseParameters()), at: 10, eventID: "mine")
        script.run(until: 1_000)
        #expect(errorCodes(script) == ["conversation_already_has_active_response"])
        let error = script.events.first { $0["type"] as? String == "error" }
        #expect((error?["error"] as? [String: Any])?["event_id"] as? String == "mine")
        #expect(types(script).count { $0 == "response.done" } == 1)
        #expect(script.violations == [])
    }

    /// The usual slip: the item's id in place of the call's.
    @Test func theOutputOfAnUnknownCallIsRefused() throws {
        let script = ScriptedSession({ $0.outputModality = .text })
        script.replies = [
            ScriptedReply(pieces: [
                (.milliseconds(10), .functionCallStarted(callID: "call_1", name: "f")),
                (.zero, .functionCallArguments("{}")),
            ])
        ]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        func answer(_ callID: String, at milliseconds: Int) {
            let output = ConversationItem.Kind.functionCallOutput(callID: callID, output: "x")
            script.send(
                .conversationItemCreate(
                    item: ConversationItem(id: "", kind: output), previousItemID: nil),
                at: milliseconds, eventID: "mine")
        }
        answer("item_1", at: 500)
        answer("call_1", at: 600)
        script.run(until: 1_000)
        #expect(errorCodes(script) == ["invalid_tool_call_id"])
        let error = script.events.first { $0["type"] as? String == "error" }
        let fields = error?["error"] as? [String: Any]
        #expect(fields?["event_id"] as? String == "mine")
        #expect(fields?["param"] as? String == "item.call_id")
        #expect(types(script).count { $0 == "conversation.item.added" } == 2)
    }

    @Test func outOfBandResponsesLeaveTheConversationAlone() throws {
        let script = ScriptedSession({ $0.outputModality = .text })
        var aside = ResponseParameters()
        aside.isInConversation = false
        aside.input = [
            ConversationItem(
                id: "", kind: .message(role: .user, content: [.inputText("Summarise.")]))
        ]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.send(.responseCreate(aside), at: 10)
        script.run(until: 1_000)
        #expect(types(script).count { $0 == "response.done" } == 2)
        #expect(types(script).count { $0 == "conversation.item.added" } == 1)
        #expect(script.requests.last?.messages == [.user("Summarise.")])
        #expect(script.violations == [])
    }

    @Test func aCancelledResponseEndsOnceAndSaysNothingMore() throws {
        let script = ScriptedSession({ $0.outputModality = .text })
        script.replies = [.text("This will never be said to its end.")]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.send(.responseCancel(responseID: nil), at: 150)
        script.send(.responseCancel(responseID: nil), at: 160, eventID: "again")
        script.run(until: 2_000)
        try expectGolden(script, "cancel")
        #expect(script.violations == [])
        #expect(lastStatus(script) == "cancelled")
        #expect(errorCodes(script) == ["response_cancel_not_active"])
    }

    @Test func aModelThatDiesFailsTheResponseAndTheNextTurnWorks() throws {
        let script = ScriptedSession({ $0.outputModality = .text })
        var dying = ScriptedReply.text("Half a")
        dying.end = .some(.upstream(status: 503, message: "overloaded"))
        script.replies = [dying, .text("Fine.")]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.send(.responseCreate(ResponseParameters()), at: 1_000)
        script.run(until: 2_000)
        try expectGolden(script, "model-failure")
        #expect(script.violations == [])
        #expect(lastStatus(script) == "completed")
    }

    @Test func aReplyWithoutEndIsCutAtItsLimit() throws {
        var limits = SessionLimits()
        limits.maxResponseBytes = 100
        let script = ScriptedSession({ $0.outputModality = .text }, limits: limits)
        script.replies = [.text(String(repeating: "endless ", count: 1_000))]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 60_000)
        #expect(lastStatus(script) == "incomplete")
        #expect(script.session.isIdle)
        #expect(script.violations == [])
    }

    @Test func aPieceOverTheLimitIsNotWrittenAtAll() {
        var limits = SessionLimits()
        limits.maxResponseBytes = 100
        let script = ScriptedSession({ $0.outputModality = .text }, limits: limits)
        let piece = String(repeating: "x", count: 101)
        script.replies = [ScriptedReply(pieces: [(.milliseconds(10), .text(piece))])]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 1_000)
        #expect(lastStatus(script) == "incomplete")
        #expect(!types(script).contains("response.output_text.delta"))
    }

    @Test func whatTheModelWasWritingWhenItHadToStopIsIncomplete() throws {
        let script = ScriptedSession({ $0.outputModality = .text })
        script.replies = [
            ScriptedReply(pieces: [
                (.milliseconds(50), .text("Let me look.")),
                (.milliseconds(50), .functionCallStarted(callID: "call_1", name: "weather")),
                (.milliseconds(10), .functionCallArguments("{\"city\":")),
                (.milliseconds(10), .incomplete(reason: "max_output_tokens")),
            ])
        ]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 1_000)
        let items = script.events.filter { $0["type"] as? String == "response.output_item.done" }
            .compactMap { $0["item"] as? [String: Any] }
        #expect(items.map { $0["status"] as? String } == ["completed", "incomplete"])
        #expect(lastStatus(script) == "incomplete")
        #expect(script.violations == [])
    }

    /// Clients parse the arguments of a call: they are a JSON object, whatever the model's server
    /// wrote.
    @Test(arguments: [
        ([], "{}"), (["", " "], "{}"), (["null"], "{}"), (["{\"a\":", "1}"], "{\"a\":1}"),
        (["\"{\\\"a\\\":1}\""], "{\"a\":1}"),
    ])
    func theArgumentsOfACallAreAnObject(pieces: [String], arguments: String) throws {
        let script = ScriptedSession({ $0.outputModality = .text })
        let written = pieces.map {
            (Duration.milliseconds(10), ModelDelta.functionCallArguments($0))
        }
        script.replies = [
            ScriptedReply(
                pieces: [(.milliseconds(50), .functionCallStarted(callID: "a", name: "f"))]
                    + written)
        ]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 1_000)
        let done = script.events.filter {
            $0["type"] as? String == "response.function_call_arguments.done"
        }
        #expect(done.map { $0["arguments"] as? String } == [arguments])
        #expect(lastStatus(script) == "completed")
        #expect(script.violations == [])
    }

    /// A call is never made with other arguments than the model's.
    @Test(arguments: ["[1]", "7", "{\"a\":", "{\"a\":1}{\"a\":2}", "\"x\"", "{},{}"])
    func argumentsThatAreNoObjectFailTheResponse(arguments: String) throws {
        let script = ScriptedSession({ $0.outputModality = .text })
        script.replies = [
            ScriptedReply(pieces: [
                (.milliseconds(50), .functionCallStarted(callID: "a", name: "f")),
                (.milliseconds(10), .functionCallArguments(arguments)),
                (.milliseconds(10), .functionCallStarted(callID: "b", name: "f")),
                (.milliseconds(10), .functionCallArguments("{}")),
            ])
        ]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 1_000)
        let items = script.events.filter { $0["type"] as? String == "response.output_item.done" }
            .compactMap { $0["item"] as? [String: Any] }
        #expect(items.map { $0["status"] as? String } == ["incomplete", "completed"])
        #expect(lastStatus(script) == "failed")
        #expect(script.violations == [])
    }

    @Test func aCancelMayFollowTheTruncationThatEndedItsResponse() throws {
        let script = ScriptedSession()
        script.replies = [.text("All of this is written long before it has been said.")]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 1_500)
        let added = script.events.first { $0["type"] as? String == "response.output_item.added" }
        let item = try #require(added?["item"] as? [String: Any])
        let itemID = try #require(item["id"] as? String)
        script.send(
            .conversationItemTruncate(
                itemID: itemID, contentIndex: 0, audioEndMilliseconds: 500), at: 1_500)
        script.send(.responseCancel(responseID: nil), at: 1_500)
        script.run(until: 1_510)
        #expect(types(script).count { $0 == "response.done" } == 1)
        #expect(errorCodes(script) == [])
        script.send(.responseCancel(responseID: nil), at: 1_510, eventID: "again")
        script.run(until: 1_600)
        #expect(errorCodes(script) == ["response_cancel_not_active"])
        #expect(script.violations == [])
    }

    @Test func functionCallsGoOutAndTheirOutputsComeBack() throws {
        let script = ScriptedSession({
            $0.outputModality = .text
            $0.tools = [FunctionTool(name: "weather", parameters: RawJSON("{}"))]
        })
        script.replies = [
            ScriptedReply(pieces: [
                (.milliseconds(50), .text("Let me look.")),
                (.milliseconds(50), .functionCallStarted(callID: "call_1", name: "weather")),
                (.milliseconds(10), .functionCallArguments("{\"city\":")),
                (.milliseconds(10), .functionCallArguments("\"Kyiv\"}")),
                (.milliseconds(10), .functionCallStarted(callID: "call_2", name: "weather")),
                (.milliseconds(10), .functionCallArguments("{}")),
            ]),
            .text("Sunny."),
        ]
        script.send(message("Weather in Kyiv?"), at: 0)
        script.send(.responseCreate(ResponseParameters()), at: 10)
        let output = ConversationItem(
            id: "", kind: .functionCallOutput(callID: "call_1", output: "sun"))
        script.send(.conversationItemCreate(item: output, previousItemID: nil), at: 1_000)
        script.send(.responseCreate(ResponseParameters()), at: 1_010)
        script.run(until: 2_000)
        try expectGolden(script, "function-call")
        #expect(script.violations == [])
        #expect(
            script.requests.last?.messages == [
                .user("Weather in Kyiv?"), .assistant("Let me look."),
                .functionCall(callID: "call_1", name: "weather", arguments: "{\"city\":\"Kyiv\"}"),
                .functionCall(callID: "call_2", name: "weather", arguments: "{}"),
                .functionOutput(callID: "call_1", output: "sun"),
            ])
    }
}

@Suite struct ConversationEventTests {
    @Test func itemsCanBeReadCutAndDeleted() throws {
        let script = ScriptedSession({ $0.outputModality = .text })
        script.send(message("one", id: "one"), at: 0)
        script.send(message("one", id: "one"), at: 10, eventID: "twice")
        script.send(.conversationItemRetrieve(itemID: "one"), at: 20)
        script.send(.conversationItemDelete(itemID: "one"), at: 30)
        script.send(.conversationItemRetrieve(itemID: "one"), at: 40)
        script.send(.conversationItemDelete(itemID: "one"), at: 50)
        script.send(
            .conversationItemTruncate(
                itemID: "one", contentIndex: 0, audioEndMilliseconds: 0), at: 60)
        script.run(until: 100)
        try expectGolden(script, "conversation-items")
        #expect(script.violations == [])
    }

    @Test func theOldestItemsGoWhenTheConversationIsFull() {
        var limits = SessionLimits()
        limits.maxConversationItems = 2
        let script = ScriptedSession({ $0.outputModality = .text }, limits: limits)
        for id in ["one", "two", "three"] { script.send(message(id, id: id), at: 0) }
        script.run(until: 10)
        let deleted = script.events.filter { $0["type"] as? String == "conversation.item.deleted" }
        #expect(deleted.compactMap { $0["item_id"] as? String } == ["one"])
        script.send(.responseCreate(ResponseParameters()), at: 20)
        script.run(until: 1_000)
        #expect(lastStatus(script) == "completed")
    }

    @Test func withoutTruncationAFullConversationIsAnError() {
        var limits = SessionLimits()
        limits.maxConversationItems = 1
        let script = ScriptedSession(
            {
                $0.outputModality = .text
                $0.truncation = .disabled
            }, limits: limits)
        script.send(message("one", id: "one"), at: 0)
        script.send(message("two", id: "two"), at: 10)
        script.run(until: 100)
        #expect(errorCodes(script) == ["conversation_full"])
    }

    @Test func sessionUpdateReportsTheWholeSession() throws {
        let script = ScriptedSession()
        var update = SessionUpdate()
        update.instructions = .value("Be brief.")
        update.outputModality = .value(.text)
        script.send(.sessionUpdate(update), at: 0)
        script.run(until: 10)
        #expect(script.session.parameters.instructions == "Be brief.")
        #expect(types(script) == ["session.created", "session.updated"])
        #expect(script.violations == [])
    }

    @Test func turnDetectionWithoutItsModelIsRefused() {
        let script = ScriptedSession()
        #expect(script.session.parameters.turnDetection == nil)
        var update = SessionUpdate()
        update.turnDetection = .value(TurnDetectionParameters())
        script.send(.sessionUpdate(update), at: 0, eventID: "vad")
        script.run(until: 10)
        #expect(errorCodes(script) == ["turn_detection_unavailable"])
    }
}
