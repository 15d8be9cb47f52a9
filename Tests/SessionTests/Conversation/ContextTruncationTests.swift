// What of a conversation a model is shown that has no room for all of it, by `truncation`.

import Codec
import TestMaterial
import Testing

@testable import Session

private func text(_ text: String, _ role: ConversationItem.Role = .user, id: String = "")
    -> ClientEvent
{
    let part: ContentPart = role == .assistant ? .outputText(text) : .inputText(text)
    return .conversationItemCreate(
        item: ConversationItem(id: id, kind: .message(role: role, content: [part])),
        previousItemID: nil)
}

private func item(_ kind: ConversationItem.Kind, id: String) -> ClientEvent {
    .conversationItemCreate(item: ConversationItem(id: id, kind: kind), previousItemID: nil)
}

private func lastResponse(_ script: ScriptedSession) -> [String: Any]? {
    script.events.last { $0["type"] as? String == "response.done" }?["response"]
        as? [String: Any]
}

private func errors(_ script: ScriptedSession) -> [String] {
    script.events.compactMap { event in
        guard let error = event["error"] as? [String: Any] else { return nil }
        return "\(error["code"] ?? "") \(error["param"] ?? "")"
    }
}

@Suite struct ContextTruncationTests {
    /// A message of 4,000 bytes, 1,004 tokens by the estimate.
    private static let long = String(repeating: "word", count: 1_000)

    /// A context of 6,048 tokens, 2,000 of them for the reply: room for four long messages.
    private func script(
        _ truncation: Truncation, _ configure: (inout SessionParameters) -> Void = { _ in }
    ) -> ScriptedSession {
        var limits = SessionLimits()
        limits.modelContextTokens = 6_048
        return ScriptedSession(
            {
                $0.outputModality = .text
                $0.maxOutputTokens = 2_000
                $0.truncation = truncation
                configure(&$0)
            }, limits: limits)
    }

    /// Adds long messages "0…", "1…" and so on, 10 ms apart.
    private func add(_ range: Range<Int>, to script: ScriptedSession) {
        for index in range {
            script.send(text("\(index)" + Self.long.dropFirst(), id: "m\(index)"), at: 10 * index)
        }
    }

    private func shown(_ script: ScriptedSession) -> String {
        (script.requests.last?.messages ?? []).map { message in
            if case .user(let text) = message { String(text.prefix(1)) } else { "." }
        }.joined()
    }

    @Test func theOldestItemsAreNotShownAndStayInTheConversation() {
        let script = script(.auto)
        add(0..<6, to: script)
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.send(.conversationItemRetrieve(itemID: "m0"), at: 900)
        script.run(until: 1_000)
        #expect(shown(script) == "2345")
        #expect(lastResponse(script)?["status"] as? String == "completed")
        #expect(errors(script) == [])
        #expect(script.events.contains { $0["type"] as? String == "conversation.item.retrieved" })
        #expect(!script.events.contains { $0["type"] as? String == "conversation.item.deleted" })
    }

    @Test func aRatioLeavesOutMoreAtOnceAndThenNothingForAWhile() {
        let script = script(.retentionRatio(0.5, postInstructionTokens: nil))
        add(0..<5, to: script)
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.run(until: 1_000)
        #expect(shown(script) == "34")
        script.send(text("x" + Self.long.dropFirst()), at: 1_100)
        script.send(.responseCreate(ResponseParameters()), at: 1_200)
        script.run(until: 2_000)
        #expect(shown(script) == "34.x", "the beginning stays the same")
    }

    @Test func theLimitAfterTheInstructionsMayBeLower() {
        let script = script(.retentionRatio(1, postInstructionTokens: 2_100))
        add(0..<4, to: script)
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.run(until: 1_000)
        #expect(shown(script) == "23")
    }

    @Test func instructionsAndToolsTakeOfTheRoom() {
        let script = script(.auto) {
            $0.instructions = Self.long
            $0.tools = [FunctionTool(name: "f", description: Self.long)]
        }
        add(0..<4, to: script)
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.run(until: 1_000)
        #expect(shown(script) == "23")
    }

    @Test func withoutTruncationTheResponseFailsAndTheSessionLives() {
        let script = script(.disabled)
        add(0..<5, to: script)
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.send(.conversationItemDelete(itemID: "m0"), at: 200)
        script.send(.responseCreate(ResponseParameters()), at: 300)
        script.run(until: 1_000)
        let failed = script.events.first { $0["type"] as? String == "response.done" }
        let response = failed?["response"] as? [String: Any]
        #expect(response?["status"] as? String == "failed")
        let details = response?["status_details"] as? [String: Any]
        let error = details?["error"] as? [String: Any]
        #expect(error?["code"] as? String == "context_length_exceeded")
        #expect(error?["type"] as? String == "invalid_request_error")
        #expect(lastResponse(script)?["status"] as? String == "completed")
        #expect(shown(script) == "1234")
    }

    @Test func whatNoTruncationCanMakeFitFails() {
        let script = script(.auto)
        script.send(text(String(repeating: "word", count: 5_000)), at: 0)
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.run(until: 1_000)
        #expect(script.requests.isEmpty)
        #expect(lastResponse(script)?["status"] as? String == "failed")
    }

    /// Two calls at once, answered in one go: neither answer is shown without its call.
    @Test func aCallAndItsOutcomeAreCutTogether() {
        let script = script(.auto)
        let first = ConversationItem.Kind.functionCall(
            callID: "c1", name: "f", arguments: Self.long)
        script.send(item(first, id: "call1"), at: 0)
        script.send(
            item(.functionCall(callID: "c2", name: "f", arguments: "{}"), id: "call2"), at: 1)
        script.send(item(.functionCallOutput(callID: "c1", output: "one"), id: "out1"), at: 2)
        script.send(item(.functionCallOutput(callID: "c2", output: "two"), id: "out2"), at: 3)
        add(1..<5, to: script)
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.run(until: 1_000)
        let messages = script.requests.last?.messages ?? []
        let calls = messages.compactMap { message in
            if case .functionCall(let id, _, _) = message { id } else { nil }
        }
        let outcomes = messages.compactMap { message in
            if case .functionOutput(let id, _) = message { id } else { nil }
        }
        #expect(calls == outcomes && shown(script).hasSuffix("234"))
        #expect(!calls.contains("c1"))
    }

    @Test func theNewestOutcomeKeepsItsCallHoweverLongItIs() {
        var conversation = Conversation(maxItems: 10, maxBytes: 1 << 20)
        _ = conversation.append(
            ConversationItem(id: "a", kind: .message(role: .user, content: [.inputText("hi")])))
        _ = conversation.append(
            ConversationItem(
                id: "b", kind: .functionCall(callID: "c", name: "f", arguments: Self.long)))
        _ = conversation.append(
            ConversationItem(id: "d", kind: .functionCallOutput(callID: "c", output: "1")))
        let fits = conversation.fitContext(limit: 100, target: 100)
        #expect(!fits && conversation.modelMessages().count == 2)
    }

    /// The client may delete all that a model was still shown.
    @Test func whereTheItemsThatWereShownAreDeletedNothingIsShown() throws {
        var conversation = Conversation(maxItems: 10, maxBytes: 1 << 20)
        for id in ["a", "b", "c"] {
            _ = conversation.append(
                ConversationItem(
                    id: id, kind: .message(role: .user, content: [.inputText(Self.long)])))
        }
        _ = conversation.fitContext(limit: 100, target: 100)
        try conversation.remove("c")
        #expect(conversation.modelMessages().isEmpty)
        _ = conversation.append(
            ConversationItem(id: "d", kind: .message(role: .user, content: [.inputText("hi")])))
        #expect(conversation.modelMessages() == [.user("hi")])
    }

    @Test func aLimitBeyondTheContextIsRefused() {
        let script = script(.auto)
        script.send(
            #"{"type":"session.update","session":{"type":"realtime","truncation":{"type":"#
                + #""retention_ratio","retention_ratio":0.5,"token_limits":"#
                + #"{"post_instructions":4049}}}}"#, at: 0)
        script.run(until: 10)
        #expect(
            errors(script) == ["invalid_value session.truncation.token_limits.post_instructions"])
        #expect(script.session.parameters.truncation == .auto)
    }

    // MARK: Items that a client gives instead

    @Test func aResponseMayBeShownItemsOfTheConversation() {
        let script = script(.auto)
        script.send(text("first", id: "a"), at: 0)
        script.send(text("second", id: "b"), at: 10)
        script.send(
            #"{"type":"response.create","response":{"conversation":"none","input":["#
                + #"{"type":"item_reference","id":"a"},{"type":"message","role":"user","#
                + #""content":[{"type":"input_text","text":"Translate."}]}]}}"#, at: 20)
        script.run(until: 1_000)
        #expect(script.requests.last?.messages == [.user("first"), .user("Translate.")])
        #expect(errors(script) == [])
    }

    @Test(arguments: [
        (#"{"type":"item_reference","id":"x"}"#, "invalid_item_reference response.input[0].id"),
        (
            #"{"type":"message","role":"user","content":[{"type":"input_audio","audio":"AAA="}]}"#,
            "unsupported_audio response.input[0].content[0].audio"
        ),
    ])
    func whatTheModelCouldNotBeShownIsRefused(_ item: String, _ error: String) {
        let script = script(.auto)
        script.send(#"{"type":"response.create","response":{"input":[\#(item)]}}"#, at: 0)
        script.run(until: 1_000)
        #expect(errors(script) == [error] && script.requests.isEmpty)
    }
}
