// What a run sends: the conversation under stable ids, the answers to interrupts, the state. The
// bodies have the form that the Python packages accept; Tests/clients/test_brain.py sends them.

import Codec
import Session
import Testing

@testable import Agents

@Suite struct AGUIRunTests {
    private let suite = AGUITests()

    /// The body of the request as JSON text.
    private func body(_ request: ModelRequest) -> String {
        String(decoding: AGUITests.agent.encoded(request, model: "m", form: []), as: UTF8.self)
    }

    /// The part of the body from `key` up to the next member named `end`.
    private func part(_ key: String, to end: String, of request: ModelRequest) throws -> String {
        let body = body(request)
        let start = try #require(body.firstRange(of: "\"\(key)\":"))
        let rest = body[start.upperBound...]
        let stop = try #require(rest.firstRange(of: ",\"\(end)\":"))
        return String(rest[..<stop.lowerBound])
    }

    private func messages(_ request: ModelRequest) throws -> String {
        try part("messages", to: "tools", of: request)
    }

    /// The memento of a run, as the session gives it back.
    private func memento(
        of events: [String], for request: ModelRequest, known: Int?
    ) async throws -> AgentMemento {
        var memento = try #require(try await suite.deltas(events, for: request).memento)
        #expect(memento.provider == "brain")
        memento.knownMessages = known
        return memento
    }

    @Test func writesTheWholeInput() throws {
        var request = AGUITests.request([
            .system("s"), .user("a"), .user("a"), .assistant("b"),
            .functionCall(callID: "1", name: "f", arguments: ""),
            .functionOutput(callID: "1", output: "one \"two\""),
            .functionCall(callID: "2", name: "f", arguments: "{}"),
            .userParts([
                .text("?"), .image(url: "https://a.test/b", detail: .high),
                .image(url: "data:image/png;base64,AAAA", detail: .auto),
            ]),
        ])
        request.instructions = "be brief"
        request.heard = HeardReply(itemID: "item_1", characters: 1)
        #expect(
            body(request)
                == #"{"threadId":"sess_1","runId":"resp_1","protocolVersion":"1.0","state":{},"#
                + #""messages":[{"id":"instructions","role":"system","content":"be brief"},"#
                + #"{"id":"system-af63ee4c86020b22-1","role":"system","content":"s"},"#
                + #"{"id":"user-af63dc4c8601ec8c-1","role":"user","content":"a"},"#
                + #"{"id":"user-af63dc4c8601ec8c-2","role":"user","content":"a"},"#
                + #"{"id":"assistant-af63df4c8601f1a5-1","role":"assistant","content":"b","#
                + #""toolCalls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},"#
                + #"{"id":"result-1","role":"tool","toolCallId":"1","content":"one \"two\""},"#
                + #"{"id":"assistant-af63af4c8601a015-1","role":"assistant","#
                + #""toolCalls":[{"id":"2","type":"function","function":{"name":"f","arguments":"{}"}}]},"#
                + #"{"id":"result-2","role":"tool","toolCallId":"2","content":"In progress: this call "#
                + #"has not returned yet. Its result will follow; do not repeat the call."},"#
                + #"{"id":"user-ID","role":"user","content":[{"type":"text","text":"?"},"#
                .replacing("user-ID", with: partsID(request))
                + #"{"type":"image","source":{"type":"url","value":"https://a.test/b"}},"#
                + #"{"type":"image","source":{"type":"data","value":"AAAA","mimeType":"image/png"}}]}],"#
                + #""tools":[{"name":"get_weather","description":"tells","#
                + #""parameters":{"type":"object","properties":{}}}],"#
                + #""context":[{"description":"The user interrupted the last reply and heard only "#
                + #"this beginning of it.","value":"b"}],"forwardedProps":{}}"#)
    }

    private func partsID(_ request: ModelRequest) -> String {
        AGUIRun(request, provider: "brain").messages.last?.id ?? ""
    }

    @Test func isPostedToTheAgentsAddressAsItIs() async throws {
        let host = ScriptedAgentHost(answers: [
            .init(chunks: [AGUITests.stream([AGUITests.finished])])
        ])
        _ = try await suite.model.deltas(for: suite.question, on: host)
        let request = try #require(host.requests.first)
        #expect(request.url == "http://a.test/run/")
        #expect(request.headers.contains { $0 == ("Authorization", "Bearer secret") })
        #expect(request.headers.contains { $0 == ("Accept", "text/event-stream") })
    }

    @Test func aRequestWithoutASessionIsAConversationOfItsOwn() {
        var request = suite.question
        request.turn = nil
        let one = AGUIRun(request, provider: "")
        let two = AGUIRun(request, provider: "")
        #expect(one.threadID != two.threadID && one.runID != two.runID)
        request.toolChoice = .none
        #expect(body(request).contains(#""tools":[],"#))
        #expect(AGUIRun(request, provider: "").offered.isEmpty)
    }

    // MARK: Ids

    @Test func theAgentsMessagesKeepTheirIDs() async throws {
        let first = AGUITests.request([.user("Hello?")])
        let kept = try await memento(
            of: [AGUITests.started] + AGUITests.say("m1", "Hello ", "there, how are you today?")
                + AGUITests.say("m2", "Hm.") + [AGUITests.finished],
            for: first, known: 3)
        let next = AGUITests.request(
            [
                .user("Hello?"), .assistant("Hello there, how are you today?"), .assistant("Hm."),
                .user("Hello?"),
            ], memento: kept)
        #expect(
            AGUIRun(next, provider: "brain").messages.map(\.id)
                == [
                    "user-922506e07c5a0bbc-1", "m1", "m2", "user-922506e07c5a0bbc-2",
                ])
        // The user heard a part of the first message and nothing of the second.
        for heard in ["Hello there, how are you", "Hel"] {
            let cut = AGUITests.request(
                [.user("Hello?"), .assistant(heard), .user("Wait.")], memento: kept)
            #expect(AGUIRun(cut, provider: "brain").messages[1].id == "m1")
        }
        // Another provider's memento is not read.
        #expect(AGUIRun(next, provider: "other").messages[1].id.hasPrefix("assistant-"))
    }

    @Test func aClientsCallBelongsToTheAgentsMessage() async throws {
        let first = AGUITests.request([.user("Weather?")])
        let kept = try await memento(
            of: [AGUITests.started] + AGUITests.say("m1")
                + AGUITests.call("c1", "get_weather", of: "m1", "{}") + [AGUITests.finished],
            for: first, known: 2)
        let next = AGUITests.request(
            [
                .user("Weather?"),
                .functionCall(callID: "c1", name: "get_weather", arguments: "{}"),
                .functionOutput(callID: "c1", output: "sunny"),
            ], memento: kept)
        #expect(
            AGUIRun(next, provider: "brain").messages.map(\.id).dropFirst() == ["m1", "result-c1"])
    }

    // MARK: The agent's own calls

    @Test func theAgentGetsItsOwnCallsBack() async throws {
        let first = AGUITests.request([.user("Where?")])
        let kept = try await memento(of: AGUITests.ownTool, for: first, known: 2)
        let next = AGUITests.request(
            [.user("Where?"), .assistant("On Friday."), .user("Thanks.")], memento: kept)
        let sent = try messages(next)
        #expect(
            sent.contains(
                #"{"id":"m1","role":"assistant","toolCalls":[{"id":"c1","type":"function","#
                    + #""function":{"name":"look_up","arguments":"{\"number\":42}"}}]},"#
                    + #"{"id":"r1","role":"tool","toolCallId":"c1","content":"42 ships Friday"},"#
                    + #"{"id":"m2","role":"assistant","content":"On Friday."}"#))
        // They are left out where a message of that time was changed.
        var changed = next
        changed.mementos[0].knownMessages = nil
        #expect(!(try messages(changed).contains("look_up")))
        #expect(try messages(changed).contains(#"{"id":"m2","#))
    }

    @Test func aLongResultIsNotKept() async throws {
        let long = String(repeating: "x", count: AGUIReply.maxResultBytes)
        var events = AGUITests.ownTool
        events = events.map { $0.replacing("42 ships Friday", with: long) }
        let kept = try await memento(of: events, for: suite.question, known: 2)
        #expect(kept.text.contains("too long to be kept"))
        #expect(kept.text.utf8.count < 1_024)
    }

    // MARK: Interrupts

    private let asked = AGUITests.request([.user("Cancel it.")])

    @Test func theQuestionIsSpokenAndTheAnswerResumesTheRun() async throws {
        let said = try await suite.deltas(AGUITests.interrupted, for: asked)
        #expect(
            said.spoken == [
                .text("One "), .text("moment."), .messageEnded, .text("Really cancel it?"),
                .messageEnded,
            ])
        #expect(said.events.last == "RUN_FINISHED")
        let kept = try await memento(of: AGUITests.interrupted, for: asked, known: 3)
        let answered: [ModelMessage] = [
            .user("Cancel it."), .assistant("One moment."), .assistant("Really cancel it?"),
            .user("Yes, please."),
        ]
        let next = AGUITests.request(answered, memento: kept)
        #expect(
            body(next).hasSuffix(
                #","forwardedProps":{},"resume":[{"interruptId":"int-c1","status":"resolved","#
                    + #""payload":{"approved":true}}]}"#))
        let sent = try messages(next)
        // The question is no message of the agent. The words are sent, as the payload lacks them.
        #expect(
            sent.hasSuffix(
                #"{"id":"m1","role":"assistant","content":"One moment.","toolCalls":[{"id":"c1","#
                    + #""type":"function","function":{"name":"cancel_order","#
                    + #""arguments":"{\"number\":42}"}}]},{"id":"\#(lastID(next))","role":"user","#
                    + #""content":"Yes, please."}]"#))

        // The result of the resumed run belongs to the call of the run before.
        let resumed =
            [AGUITests.started, AGUITests.result("r1", of: "c1", "cancelled")]
            + AGUITests.say("m2", "Done.") + [AGUITests.finished]
        let later = try await memento(of: resumed, for: next, known: 5)
        let third = AGUITests.request(
            answered + [.assistant("Done."), .user("Bye.")], memento: later)
        #expect(!body(third).contains("resume"))
        let ids = AGUIRun(third, provider: "brain").messages.map(\.id)
        #expect(ids[1...2] == ["m1", "r1"] && ids[4] == "m2" && ids.count == 6)
    }

    private func lastID(_ request: ModelRequest) -> String {
        AGUIRun(request, provider: "brain").messages.last?.id ?? ""
    }

    @Test func aRefusalHasItsReason() async throws {
        let kept = try await memento(of: AGUITests.interrupted, for: asked, known: 3)
        let next = AGUITests.request(
            [
                .user("Cancel it."), .assistant("One moment."), .assistant("Really c"),
                .user("No, keep it."),
            ], memento: kept)
        let body = body(next)
        #expect(body.contains(#""payload":{"approved":false,"reason":"No, keep it."}"#))
        #expect(!(try messages(next).contains("keep it")))
        #expect(!(try messages(next).contains("Really")))
    }

    @Test(arguments: [
        (#"{"type":"string"}"#, "Blue.", #""Blue.""#), ("null", "Blue.", #""Blue.""#),
        (#"{"type":"boolean"}"#, "Sure, go ahead.", "true"),
        (#"{"type":"boolean"}"#, "Yes, but how much is it?", "false"),
        (
            #"{"type":"object","properties":{"color":{"type":"string"}}}"#, "Blue.",
            #"{"color":"Blue."}"#
        ),
        (#"{"type":"object","properties":{"ok":{"type":"boolean"}}}"#, "No.", #"{"ok":false}"#),
        (#"{"type":"object","properties":{"a":{"type":"number"}}}"#, "Two.", #""Two.""#),
        (#"{"type":"object","properties":7}"#, "Two.", #""Two.""#),
    ])
    func theAnswerHasTheFormOfTheSchema(schema: String, words: String, payload: String) async throws
    {
        let kept = try await memento(
            of: [
                AGUITests.finished(
                    #"{"type":"interrupt","interrupts":[{"id":"i","reason":"input","message":"?","#
                        + #""responseSchema":\#(schema)}]}"#)
            ], for: asked, known: 2)
        let next = AGUITests.request(
            [.user("Cancel it."), .assistant("?"), .user(words)], memento: kept)
        #expect(
            body(next).contains(#""interruptId":"i","status":"resolved","payload":\#(payload)"#))
    }

    /// ag-ui-langgraph without `emit_interrupt_outcome`.
    @Test(arguments: [
        #""Really cancel?""#, #""{\"message\": \"Really cancel?\", \"x\": 1}""#,
        #"{"message":"Really cancel?"}"#,
    ])
    func aCustomInterruptIsResumedWithACommand(value: String) async throws {
        let events = [
            AGUITests.started, #"{"type":"CUSTOM","name":"on_interrupt","value":\#(value)}"#,
            AGUITests.finished,
        ]
        let said = try await suite.deltas(events, for: asked)
        #expect(said.spoken == [.text("Really cancel?"), .messageEnded])
        let kept = try await memento(of: events, for: asked, known: 2)
        let next = AGUITests.request(
            [.user("Cancel it."), .assistant("Really cancel?"), .user("Yes."), .user("Now.")],
            memento: kept)
        #expect(body(next).hasSuffix(#""forwardedProps":{"command":{"resume":"Yes. Now."}}}"#))
        #expect(AGUIRun(next, provider: "brain").messages.count == 1)
    }

    @Test func anInterruptWithoutWordsWaits() async throws {
        let kept = try await memento(of: AGUITests.interrupted, for: asked, known: 3)
        let next = AGUITests.request(
            [.user("Cancel it."), .assistant("One moment."), .assistant("Really cancel it?")],
            memento: kept)
        #expect(!body(next).contains("resume"))
        #expect(try messages(next).contains("Really cancel it?"))
    }

    @Test func anInterruptIsResumedThoughAMessageHasChanged() async throws {
        let kept = try await memento(of: AGUITests.interrupted, for: asked, known: nil)
        let next = AGUITests.request(
            [.user("Cancel it!"), .assistant("Really cancel it?"), .user("Yes.")], memento: kept)
        #expect(body(next).contains(#""payload":{"approved":true}"#))
        #expect(try messages(next).contains("cancel_order"))
    }

    // MARK: State

    private func state(after events: [String], from memento: AgentMemento? = nil) async throws
        -> String
    {
        let request = AGUITests.request([.user("Hello?")], memento: memento)
        let kept = try await self.memento(of: events + [AGUITests.finished], for: request, known: 1)
        return try part(
            "state", to: "messages", of: AGUITests.request([.user("Hello?")], memento: kept))
    }

    @Test func theStateComesBack() async throws {
        #expect(try await state(after: []) == "{}")
        let set = #"{"type":"STATE_SNAPSHOT","snapshot":{"messages":[1],"name":"Ada","n":[]}}"#
        #expect(try await state(after: [set]) == #"{"name":"Ada","n":[]}"#)
        let patch =
            #"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/n/-","value":1},"#
            + #"{"op":"add","path":"/messages/-","value":1}]}"#
        #expect(try await state(after: [set, patch]) == #"{"name":"Ada","n":[1]}"#)
        #expect(
            try await state(after: [
                #"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":1}]}"#
            ]) == #"{"a":1}"#)
        let kept = AgentMemento(
            provider: "brain", text: #"{"version":1,"state":{"n":[7]}}"#, knownMessages: 1)
        #expect(try await state(after: [patch], from: kept) == #"{"n":[7,1]}"#)
        #expect(try await state(after: [], from: kept) == #"{"n":[7]}"#)
        #expect(
            try await state(after: [#"{"type":"STATE_SNAPSHOT","snapshot":null}"#], from: kept)
                == "{}")
    }

    @Test(arguments: [
        (#"{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/x"}]}"#, "patch_failed"),
        (#"{"type":"STATE_DELTA","delta":{}}"#, "patch_failed"),
        (
            #"{"type":"STATE_SNAPSHOT","snapshot":{"a":"\#(String(repeating: "x", count: 65_600))"}}"#,
            "too_large"
        ),
        (
            #"{"type":"STATE_SNAPSHOT","snapshot":\#(String(repeating: "[", count: 60) + String(repeating: "]", count: 60))}"#,
            "too_large"
        ),
    ])
    func aStateThatCannotBeKeptIsDropped(event: String, reason: String) async throws {
        let set = #"{"type":"STATE_SNAPSHOT","snapshot":{"a":1}}"#
        let later = #"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/b","value":1}]}"#
        let events = [set, event, later, AGUITests.finished]
        let host = ScriptedAgentHost(answers: [.init(chunks: [AGUITests.stream(events)])])
        let all = try await suite.model.deltas(for: asked, on: host)
        #expect(
            all.contains(
                .agentEvent(
                    type: "parley.state.dropped", value: RawJSON(#"{"reason":"\#(reason)"}"#))))
        #expect(try await state(after: [set, event, later]) == "{}")
        #expect(try await state(after: [set, event, set, later]) == #"{"a":1,"b":1}"#)
    }

    @Test func changesOfOneRunAreLimited() async throws {
        let tests = Array(repeating: #"{"op":"test","path":"","value":{}}"#, count: 1_000)
        let delta = #"{"type":"STATE_DELTA","delta":[\#(tests.joined(separator: ","))]}"#
        let said = try await suite.deltas(
            Array(repeating: delta, count: 11) + [AGUITests.finished], for: asked)
        #expect(said.events.contains("parley.state.dropped"))
    }

    // MARK: Mementos

    @Test(arguments: [
        "", "null", "[]", #"{"version":2}"#, "{",
        #"{"version":1,"own":[{"turn":-9,"steps":[{}]}],"hidden":[-1,99999],"interrupts":[{}],"messages":[7]}"#,
    ])
    func aBrokenMementoIsNoMemory(text: String) {
        for known in [nil, 0, 1, 7, -3] {
            let memento = AgentMemento(provider: "brain", text: text, knownMessages: known)
            let request = AGUITests.request([.user("Hello?")], memento: memento)
            #expect(body(request).contains(#""threadId":"sess_1""#))
        }
    }

    @Test func aMementoIsBounded() async throws {
        let long = String(repeating: "word ", count: 20)
        let many = (0..<900).flatMap { AGUITests.say("message-\($0)-\(long)", "\($0) \(long)") }
        let kept = try await memento(of: many + [AGUITests.finished], for: asked, known: nil)
        #expect(kept.text.utf8.count < 2 * AGUIMemento.maxMessageBytes)
        #expect(kept.text.contains("message-899-"))
        let calls = (0..<200).flatMap { number in
            AGUITests.call("c\(number)", "look_up", of: "m\(number)", "{}")
                + [AGUITests.result("r\(number)", of: "c\(number)", String(long.prefix(90)))]
        }
        let own = try await memento(of: calls + [AGUITests.finished], for: asked, known: 1)
        #expect(own.text.utf8.count < 2 * AGUIMemento.maxOwnBytes)
    }
}
