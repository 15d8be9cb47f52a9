// AG-UI: runs that were recorded from pydantic-ai 2.68.0 and ag-ui-langgraph 0.0.47 (without times
// and raw events), split in every way, and what the agent gets back with the next run.

import Codec
import Session
import Testing

@testable import Agents

@Suite struct AGUITests: StreamedModelTests {
    static let agent: AGUI = {
        var service = ModelService(baseURL: "http://a.test/run/", apiKey: "secret")
        service.name = "brain"
        return AGUI(service)
    }()
    let model: any LanguageModel = agent
    let question = AGUITests.request([.user("Hello?")])

    static let weather = FunctionTool(name: "get_weather", description: "tells")

    static func request(_ messages: [ModelMessage], memento: AgentMemento? = nil) -> ModelRequest {
        var request = ModelRequest(model: "m", messages: messages, tools: [weather])
        request.turn = TurnIdentity(sessionID: "sess_1", responseID: "resp_1")
        if let memento { request.mementos = [memento] }
        return request
    }

    // MARK: Recorded runs

    static let started = #"{"type":"RUN_STARTED","threadId":"sess_1","runId":"resp_1"}"#
    static let finished = #"{"type":"RUN_FINISHED","threadId":"sess_1","runId":"resp_1"}"#

    static func finished(_ outcome: String) -> String {
        #"{"type":"RUN_FINISHED","threadId":"sess_1","runId":"resp_1","outcome":\#(outcome)}"#
    }

    static func say(_ id: String, _ pieces: String...) -> [String] {
        [#"{"type":"TEXT_MESSAGE_START","messageId":"\#(id)","role":"assistant"}"#]
            + pieces.map {
                #"{"type":"TEXT_MESSAGE_CONTENT","messageId":"\#(id)","delta":"\#($0)"}"#
            } + [#"{"type":"TEXT_MESSAGE_END","messageId":"\#(id)"}"#]
    }

    static func call(
        _ id: String, _ name: String, of message: String, _ pieces: String...
    ) -> [String] {
        [
            #"{"type":"TOOL_CALL_START","toolCallId":"\#(id)","toolCallName":"\#(name)","#
                + #""parentMessageId":"\#(message)"}"#
        ]
            + pieces.map { #"{"type":"TOOL_CALL_ARGS","toolCallId":"\#(id)","delta":"\#($0)"}"# }
            + [#"{"type":"TOOL_CALL_END","toolCallId":"\#(id)"}"#]
    }

    static func result(_ id: String, of call: String, _ text: String) -> String {
        #"{"type":"TOOL_CALL_RESULT","messageId":"\#(id)","toolCallId":"\#(call)","#
            + #""content":"\#(text)","role":"tool"}"#
    }

    static let approval =
        #"{"properties":{"approved":{"type":"boolean"},"editedArgs":{"type":"object"},"#
        + #""reason":{"type":"string"}},"required":["approved"],"type":"object"}"#

    /// Pydantic AI: a tool that needs approval.
    static let interrupted =
        [started] + say("m1", "One ", "moment.")
        + call("c1", "cancel_order", of: "m1", #"{\"number\":"#, "42}")
        + [
            finished(
                #"{"type":"interrupt","interrupts":[{"id":"int-c1","reason":"tool_call","#
                    + #""message":"Approve cancel_order({\"number\":42})?","toolCallId":"c1","#
                    + #""responseSchema":\#(approval),"metadata":{"speech":"Really cancel it?"}}]}"#
            )
        ]

    /// Pydantic AI: a tool of its own. The first message has no text.
    static let ownTool =
        [started] + say("m1") + call("c1", "look_up", of: "m1", #"{\"number\":42}"#)
        + [result("r1", of: "c1", "42 ships Friday")] + say("m2", "On ", "Friday.")
        + [finished(#"{"type":"success"}"#)]

    /// LangGraph: a node that does not stream. Its text is only in snapshots.
    static let notStreamed = [
        started, #"{"type":"STEP_STARTED","stepName":"chat","rawEvent":{"a":1}}"#,
        #"{"type":"RAW","event":{"anything":[1,2]}}"#,
        #"{"type":"STATE_SNAPSHOT","snapshot":{"messages":[{"content":"plain"}],"name":"N"}}"#,
        #"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"u1","role":"user","content":"plain"},"#
            + #"{"id":"a1","role":"assistant","content":"Not streamed."}]}"#,
        finished,
    ]

    // MARK: What is said

    /// The deltas without the memento.
    func deltas(
        _ events: [String], for request: ModelRequest? = nil
    ) async throws -> (spoken: [ModelDelta], events: [String], memento: AgentMemento?) {
        let host = ScriptedAgentHost(answers: [.init(chunks: [Self.stream(events)])])
        let all = try await model.deltas(for: request ?? question, on: host)
        var spoken: [ModelDelta] = []
        var types: [String] = []
        var memento: AgentMemento?
        for delta in all {
            switch delta {
            case .agentEvent(let type, _): types.append(type)
            case .memento(let provider, let text):
                #expect(memento == nil)
                memento = AgentMemento(provider: provider, text: text, knownMessages: nil)
            default: spoken.append(delta)
            }
        }
        return (spoken, types, memento)
    }

    @Test func textIsSpokenMessageByMessage() async throws {
        let events =
            [Self.started] + Self.say("m1", "Hello ", "", "there.") + Self.say("m2", "Bye.")
            + [Self.finished(#"{"type":"success"}"#)]
        let memento =
            #"{"version":1,"messages":[{"id":"m1","head":"Hello there."},{"id":"m2","head":"Bye."}]}"#
        try await expect(
            events,
            gives: [
                .text("Hello "), .text("there."), .messageEnded, .text("Bye."), .messageEnded,
                .memento(provider: "brain", text: memento),
            ])
    }

    @Test func chunksAreMessages() async throws {
        let said = try await deltas([
            Self.started,
            #"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m1","role":"assistant","delta":"One"}"#,
            #"{"type":"TEXT_MESSAGE_CHUNK","delta":" two"}"#,
            #"{"type":"TOOL_CALL_CHUNK","toolCallId":"c1","toolCallName":"get_weather","#
                + #""parentMessageId":"m1","delta":"{\"a\""}"#,
            #"{"type":"TOOL_CALL_CHUNK","delta":":1}"}"#,
            #"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m2","delta":"three"}"#, Self.finished,
        ])
        #expect(
            said.spoken == [
                .text("One"), .text(" two"), .messageEnded, .text("three"), .messageEnded,
                .functionCallStarted(callID: "c1", name: "get_weather"),
                .functionCallArguments(#"{"a":1}"#),
            ])
    }

    @Test func onlyTheAgentsTextIsSpoken() async throws {
        let said = try await deltas([
            Self.started,
            #"{"type":"REASONING_START","messageId":"r"}"#,
            #"{"type":"REASONING_MESSAGE_CONTENT","messageId":"r","delta":"hm"}"#,
            #"{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"hm"}"#,
            #"{"type":"TEXT_MESSAGE_START","messageId":"u","role":"user"}"#,
            #"{"type":"TEXT_MESSAGE_CONTENT","messageId":"u","delta":"echo"}"#,
            #"{"type":"TEXT_MESSAGE_CONTENT","messageId":"s","subagentRunId":"x","delta":"inner"}"#,
            #"{"type":"SOMETHING_NEW","delta":"?"}"#,
            #"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"yes"}"#,
            Self.finished,
        ])
        #expect(said.spoken == [.text("yes"), .messageEnded])
        #expect(said.events.isEmpty)
    }

    @Test func textThatIsOnlyInASnapshotIsSpoken() async throws {
        let said = try await deltas(Self.notStreamed)
        #expect(said.spoken == [.text("Not streamed."), .messageEnded])
        #expect(said.events == ["STEP_STARTED", "STATE_SNAPSHOT"])
    }

    @Test func theClientGetsTheStateAsItIsKept() async throws {
        let host = ScriptedAgentHost(answers: [.init(chunks: [Self.stream(Self.notStreamed)])])
        let values = try await model.deltas(for: question, on: host).compactMap { delta in
            if case .agentEvent("STATE_SNAPSHOT", let value) = delta { value.text } else { nil }
        }
        #expect(values == [#"{"type":"STATE_SNAPSHOT","snapshot":{"name":"N"}}"#])
    }

    @Test func aSnapshotRepeatsNothing() async throws {
        let snapshot =
            #"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"u","role":"user","content":"?"},"#
            + #"{"id":"other","role":"assistant","content":"On Friday."}]}"#
        let said = try await deltas(
            [Self.started] + Self.say("m2", "On ", "Friday.") + [snapshot, Self.finished])
        #expect(said.spoken == [.text("On "), .text("Friday."), .messageEnded])
        // Nor does a stream repeat a snapshot.
        let again = try await deltas(
            [Self.started, snapshot] + Self.say("other", "On Friday.") + [Self.finished])
        #expect(again.spoken == [.text("On Friday."), .messageEnded])
    }

    // MARK: Calls

    @Test func callsOfOfferedFunctionsAreTheClients() async throws {
        let said = try await deltas(
            [Self.started] + Self.say("m1", "Let me look.")
                + Self.call("c1", "get_weather", of: "m1", #"{\"city\":"#, #"\"Oslo\"}"#)
                + Self.call("c2", "get_weather", of: "m1")
                + [Self.finished(#"{"type":"success","pendingToolCallIds":["c1","c2"]}"#)])
        #expect(
            said.spoken == [
                .text("Let me look."), .messageEnded,
                .functionCallStarted(callID: "c1", name: "get_weather"),
                .functionCallArguments(#"{"city":"Oslo"}"#),
                .functionCallStarted(callID: "c2", name: "get_weather"),
            ])
        #expect(said.events.isEmpty)
    }

    @Test func callsThatTheAgentAnswersAreEventsForTheClient() async throws {
        let said = try await deltas(Self.ownTool)
        #expect(said.spoken == [.text("On "), .text("Friday."), .messageEnded])
        #expect(
            said.events == [
                "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT",
            ])
        // A function of the client's name that the agent answers itself.
        let own = try await deltas(
            [Self.started] + Self.call("c1", "get_weather", of: "m1", "{}")
                + [Self.result("r1", of: "c1", "sunny"), Self.finished])
        #expect(own.spoken.isEmpty)
    }

    /// ag-ui-langgraph 0.0.47 leaves out arguments that come with the call's first piece.
    @Test func argumentsThatAreOnlyInASnapshotAreUsed() async throws {
        let snapshot =
            #"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"u","role":"user","content":"?"},"#
            + #"{"id":"m1","role":"assistant","content":"","toolCalls":[{"id":"c1","type":"#
            + #""function","function":{"name":"get_weather","arguments":"{\"a\": 1}"}},"#
            + #"{"id":"c2","type":"function","function":{"name":"get_weather","arguments":"{}"}}]}]}"#
        let said = try await deltas(
            [Self.started] + Self.call("c1", "get_weather", of: "m1") + [snapshot, Self.finished])
        #expect(
            said.spoken == [
                .functionCallStarted(callID: "c1", name: "get_weather"),
                .functionCallArguments(#"{"a": 1}"#),
                .functionCallStarted(callID: "c2", name: "get_weather"),
                .functionCallArguments("{}"),
            ])
    }

    // MARK: Events

    @Test func eventsArePassedOnWithoutTheirRawForm() async throws {
        let host = ScriptedAgentHost(answers: [
            .init(chunks: [
                Self.stream([
                    #"{"type":"CUSTOM","name":"x","value":{"a":[1]},"rawEvent":{"b":2}}"#,
                    #"{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"t","patch":[]}"#,
                    #"{"type":"CUSTOM","name":"big","value":"\#(String(repeating: "x", count: 70_000))"}"#,
                    Self.finished,
                ])
            ])
        ])
        let all = try await model.deltas(for: question, on: host)
        #expect(
            Array(all.dropLast()) == [
                .agentEvent(
                    type: "CUSTOM",
                    value: RawJSON(#"{"type":"CUSTOM","name":"x","value":{"a":[1]}}"#)),
                .agentEvent(
                    type: "ACTIVITY_DELTA",
                    value: RawJSON(
                        #"{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"t","patch":[]}"#)
                ),
            ])
    }

    @Test func usageIsTheSumOfTheModels() async throws {
        let said = try await deltas([
            #"{"type":"RUN_FINISHED","usage":[{"inputTokens":9,"cachedInputTokens":4,"#
                + #""outputTokens":3},{"inputTokens":1,"outputTokens":2}]}"#
        ])
        #expect(said.spoken == [.usage(inputTokens: 10, cachedTokens: 4, outputTokens: 5)])
    }

    // MARK: Failures

    func failure(of events: [String]) async -> AgentError? {
        let host = ScriptedAgentHost(answers: [.init(chunks: [Self.stream(events)])])
        return await #expect(throws: AgentError.self) {
            try await model.deltas(for: question, on: host)
        }
    }

    @Test func aRunErrorFailsTheResponse() async {
        let error = #"{"type":"RUN_ERROR","message":"broken"}"#
        #expect(
            await failure(of: [Self.started] + Self.say("m", "Oh") + [error])
                == .brokenOff(status: 0, message: "The model server broke off: broken"))
        #expect(
            await failure(of: [#"{"type":"RUN_ERROR","message":"busy","code":"429"}"#])
                == .brokenOff(status: 429, message: "The model server broke off: busy"))
    }

    @Test func aRunWithoutAnEndIsMalformed() async {
        #expect(await failure(of: Array(Self.ownTool.dropLast())) == .cutOff)
        #expect(await failure(of: []) == .cutOff)
        for other in [
            #"{"detail":"no stream"}"#, "data: {\"no\":\"type\"}\n\n", "data: nonsense\n\n",
        ] {
            let host = ScriptedAgentHost(answers: [.init(chunks: [Array(other.utf8)])])
            await #expect(throws: AgentError.self) {
                try await model.deltas(for: question, on: host)
            }
        }
    }

    @Test func callsAreLimited() async {
        let many = (0...AGUIReply.maxCalls).flatMap { Self.call("c\($0)", "f", of: "m") }
        let long = Self.call("c", "f", of: "m", String(repeating: "x", count: (1 << 20) + 1))
        for events in [many, long] {
            guard case .malformedReply? = await failure(of: events + [Self.finished]) else {
                Issue.record("not refused")
                continue
            }
        }
    }

    @Test func badBytesNeverTrap() async throws {
        var random = SplitMix(state: 9)
        let run =
            Self.interrupted.dropLast() + Self.ownTool.dropLast() + Self.notStreamed.dropLast()
            + [#"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":{"b":1}}]}"#]
            + [Self.interrupted.last!]
        for _ in 0..<600 {
            var bytes = Self.stream(Array(run))
            for _ in 0..<6 {
                bytes[Int.random(in: bytes.indices, using: &random)] = UInt8.random(
                    in: .min ... .max, using: &random)
            }
            let host = ScriptedAgentHost(answers: [.init(chunks: [bytes])])
            do {
                _ = try await model.deltas(for: question, on: host)
            } catch is AgentError {
                continue
            }
        }
    }

    /// Values of other types than the protocol's, in every place.
    @Test(arguments: ["null", "1", #""x""#, "[]", "{}", "[null,1,{}]", "true"])
    func otherTypesNeverTrap(value: String) async throws {
        let keys = [
            "messageId", "delta", "role", "toolCallId", "toolCallName", "parentMessageId",
            "content", "snapshot", "messages", "name", "value", "outcome", "usage", "code",
        ]
        let types = [
            "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CHUNK", "TEXT_MESSAGE_END",
            "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_CHUNK", "TOOL_CALL_END",
            "TOOL_CALL_RESULT", "STATE_SNAPSHOT", "STATE_DELTA", "MESSAGES_SNAPSHOT", "CUSTOM",
            "RUN_FINISHED",
        ]
        let members = keys.map { "\"\($0)\":\(value)" }.joined(separator: ",")
        let events = types.map { #"{"type":"\#($0)",\#(members)}"# }
        _ = try await deltas(events)
        let nested = [
            #"{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"assistant","id":"a","toolCalls":\#(value)},"#
                + #"{"role":"tool","toolCallId":"c","id":"t","content":\#(value)}]}"#,
            #"{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":\#(value)}}"#,
        ]
        _ = try await deltas(nested)
    }
}
