// Items in order, limits, and truncation at what was heard.

import Codec
import Testing

@testable import Session

private func text(_ id: String, _ text: String = "hi") -> ConversationItem {
    ConversationItem(id: id, kind: .message(role: .user, content: [.inputText(text)]))
}

private func spoken(_ id: String, _ transcript: String) -> ConversationItem {
    ConversationItem(
        id: id,
        kind: .message(role: .assistant, content: [.outputAudio(transcript: transcript)]))
}

@Suite struct ConversationTests {
    @Test func itemsGoWhereTheClientPutsThem() throws {
        var conversation = Conversation(maxItems: 10, maxBytes: 1_000)
        #expect(try conversation.insert(text("a", "A"), after: nil) == nil)
        #expect(try conversation.insert(text("b", "B"), after: nil) == "a")
        #expect(try conversation.insert(text("c", "C"), after: "root") == nil)
        #expect(try conversation.insert(text("d", "D"), after: "a") == "a")
        #expect(
            conversation.modelMessages() == [.user("C"), .user("A"), .user("D"), .user("B")])
    }

    @Test func anOutputAnswersTheCallsBeforeItAndNoneAfterIt() throws {
        var conversation = Conversation(maxItems: 10, maxBytes: 1_000)
        func call(_ id: String, _ callID: String, _ status: ConversationItem.Status = .completed) {
            _ = conversation.append(
                ConversationItem(
                    id: id, status: status,
                    kind: .functionCall(callID: callID, name: "f", arguments: "{}")))
        }
        call("1", "a")
        call("2", "b")
        call("3", "c", .incomplete)
        call("4", "d")
        let output = ConversationItem.Kind.functionCallOutput(callID: "b", output: "x")
        _ = conversation.append(ConversationItem(id: "5", kind: output))
        #expect(conversation.unansweredCallIDs == ["a", "d"])
        call("6", "b")
        #expect(conversation.unansweredCallIDs == ["a", "d", "b"])
    }

    /// The call stands where the question stands, so the number of messages stays the same.
    @Test func aCallThatNeedsApprovalIsShownFromItsQuestionOn() throws {
        var conversation = Conversation(maxItems: 10, maxBytes: 1_000)
        func add(_ id: String, _ item: MCPItem) throws {
            try conversation.insert(ConversationItem(id: id, kind: .mcp(item)), after: nil)
        }
        func shown(_ outcome: String) -> [ModelMessage] {
            [
                .functionCall(callID: "q1", name: "shop__buy", arguments: "{}"),
                .functionOutput(callID: "q1", output: outcome), .user("hi"),
            ]
        }
        try add("q1", .approvalRequest(serverLabel: "shop", name: "buy", arguments: "{}"))
        try conversation.insert(text("u"), after: nil)
        #expect(conversation.modelMessages() == shown(MCPItem.awaitsApproval))
        try add("r1", .approvalResponse(requestID: "q1", isApproved: true, reason: nil))
        #expect(conversation.modelMessages() == shown(MCPItem.isRunning))
        var call = MCPCall(
            serverLabel: "shop", name: "buy", arguments: "{}", approvalRequestID: "q1")
        try add("c1", .call(call))
        #expect(conversation.modelMessages() == shown(MCPItem.isRunning))
        call.output = "bought"
        conversation.update(ConversationItem(id: "c1", kind: .mcp(.call(call))))
        #expect(conversation.modelMessages() == shown("bought"))
        // Without its question, the call stands for itself.
        try conversation.remove("q1")
        #expect(
            conversation.modelMessages() == [
                .user("hi"), .functionCall(callID: "c1", name: "shop__buy", arguments: "{}"),
                .functionOutput(callID: "c1", output: "bought"),
            ])
    }

    @Test func aCallThatIsNotApprovedIsShownWithTheReason() throws {
        var conversation = Conversation(maxItems: 10, maxBytes: 1_000)
        let question = MCPItem.approvalRequest(serverLabel: "shop", name: "buy", arguments: "")
        let answer = MCPItem.approvalResponse(
            requestID: "q1", isApproved: false, reason: "too dear")
        try conversation.insert(ConversationItem(id: "q1", kind: .mcp(question)), after: nil)
        try conversation.insert(ConversationItem(id: "r1", kind: .mcp(answer)), after: nil)
        #expect(
            conversation.modelMessages() == [
                .functionCall(callID: "q1", name: "shop__buy", arguments: "{}"),
                .functionOutput(
                    callID: "q1",
                    output: "Error: The user did not approve this call. Reason: too dear"),
            ])
    }

    @Test func aCallThatIsStillWrittenIsNotShown() throws {
        var conversation = Conversation(maxItems: 10, maxBytes: 1_000)
        let call = ConversationItem.Kind.functionCall(callID: "a", name: "f", arguments: "")
        _ = conversation.append(ConversationItem(id: "1", status: .inProgress, kind: call))
        #expect(conversation.modelMessages().isEmpty)
    }

    @Test func wrongIDsAreRefusedAndChangeNothing() throws {
        var conversation = Conversation(maxItems: 10, maxBytes: 1_000)
        try conversation.insert(text("a"), after: nil)
        #expect(throws: Conversation.Failure.duplicateID) {
            try conversation.insert(text("a"), after: nil)
        }
        #expect(throws: Conversation.Failure.previousItemMissing) {
            try conversation.insert(text("b"), after: "nobody")
        }
        #expect(throws: Conversation.Failure.itemMissing) { try conversation.remove("nobody") }
        #expect(conversation.modelMessages().count == 1)
    }

    @Test func limitsHold() throws {
        var few = Conversation(maxItems: 1, maxBytes: 1_000)
        try few.insert(text("a"), after: nil)
        #expect(!few.hasRoom(forBytes: 0))
        #expect(throws: Conversation.Failure.full) { try few.insert(text("b"), after: nil) }
        try few.remove("a")
        try few.insert(text("b"), after: nil)

        var small = Conversation(maxItems: 10, maxBytes: 5)
        #expect(throws: Conversation.Failure.full) {
            try small.insert(text("a", "123456"), after: nil)
        }
        try small.insert(text("a", "12345"), after: nil)
        #expect(!small.hasRoom(forBytes: 0))
        #expect(small.removeOldest() == "a")
        #expect(small.hasRoom(forBytes: 5))
    }

    @Test func audioWithoutWordsSaysNothingToTheModel() throws {
        var conversation = Conversation(maxItems: 10, maxBytes: 1_000)
        let item = ConversationItem(
            id: "a", kind: .message(role: .user, content: [.inputAudio(bytes: [], transcript: nil)])
        )
        try conversation.insert(item, after: nil)
        #expect(conversation.modelMessages().isEmpty)
        conversation.setTranscript("go forward", of: "a")
        #expect(conversation.modelMessages() == [.user("go forward")])
    }

    @Test(arguments: [
        (0, ""), (200, ""), (500, "One"), (1_000, "One two."), (1_200, "One two."),
        (1_500, "One two."), (1_700, "One two. Three"), (2_000, "One two. Three four."),
    ])
    func truncationKeepsTheWordsThatWereHeard(milliseconds: Int, expected: String) throws {
        var conversation = Conversation(maxItems: 10, maxBytes: 1_000)
        try conversation.insert(text("q"), after: nil)
        _ = conversation.append(spoken("a", ""))
        conversation.update(
            spoken("a", "One two. Three four."),
            speech: .init(
                marks: [
                    .init(transcriptBytes: 8, audioMilliseconds: 1_000),
                    .init(transcriptBytes: 20, audioMilliseconds: 2_000),
                ], sentMilliseconds: 2_000))
        try conversation.truncate("a", contentIndex: 0, audioMilliseconds: milliseconds)
        let said: [ModelMessage] = expected.isEmpty ? [] : [.assistant(expected)]
        #expect(conversation.modelMessages() == [.user("hi")] + said)
    }

    @Test func truncationOutsideTheAudioIsRefused() throws {
        var conversation = Conversation(maxItems: 10, maxBytes: 1_000)
        try conversation.insert(text("q"), after: nil)
        _ = conversation.append(spoken("a", "One"))
        conversation.update(
            spoken("a", "One"),
            speech: .init(
                marks: [.init(transcriptBytes: 3, audioMilliseconds: 200)],
                sentMilliseconds: 100))
        #expect(throws: Conversation.Failure.notTruncatable(audioMilliseconds: 100)) {
            try conversation.truncate("a", contentIndex: 0, audioMilliseconds: 101)
        }
        #expect(throws: Conversation.Failure.notTruncatable(audioMilliseconds: 0)) {
            try conversation.truncate("a", contentIndex: 1, audioMilliseconds: 50)
        }
        #expect(throws: Conversation.Failure.notTruncatable(audioMilliseconds: 0)) {
            try conversation.truncate("q", contentIndex: 0, audioMilliseconds: 0)
        }
        #expect(throws: Conversation.Failure.itemMissing) {
            try conversation.truncate("nobody", contentIndex: 0, audioMilliseconds: 0)
        }
    }
}
