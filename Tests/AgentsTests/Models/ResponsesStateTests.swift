// Responses of a service that keeps the conversation: what a request goes on from, when it has the
// whole conversation, and what becomes of an answer that the service has forgotten.

import Codec
import Session
import Testing

@testable import Agents

@Suite struct ResponsesStateTests {
    private static let end =
        #"{"type":"response.completed","response":{"id":"r2","status":"completed"}}"#
    private static let forgotten =
        #"{"type":"invalid_request_error","code":"previous_response_not_found","#
        + #""message":"Previous response with id 'r1' not found.","param":"previous_response_id"}"#

    private func model(keepsState: Bool = true) -> any LanguageModel {
        var service = ModelService(baseURL: "http://agent.test/v1")
        service.name = "brain"
        service.keepsState = keepsState
        return ModelServiceKind.responses.model(at: service)
    }

    private static func stream(_ events: [String]) -> ScriptedAgentHost.Answer {
        .init(chunks: [Array(events.map { "data: \($0)\n\n" }.joined().utf8)])
    }

    private static func memento(
        _ text: String = "r1", of provider: String = "brain", known: Int? = 2,
        wasHeard: Bool = true
    ) -> AgentMemento {
        AgentMemento(provider: provider, text: text, knownMessages: known, wasHeard: wasHeard)
    }

    private func request(
        _ mementos: [AgentMemento],
        _ messages: [ModelMessage] = [.user("a"), .assistant("b"), .user("c")]
    ) -> ModelRequest {
        var request = ModelRequest(model: "m", instructions: "be brief", messages: messages)
        request.tools = [FunctionTool(name: "f")]
        request.mementos = mementos
        return request
    }

    /// The bodies of the requests that one turn makes.
    private func bodies(
        of request: ModelRequest, keepsState: Bool = true,
        answers: [ScriptedAgentHost.Answer] = [stream([end])]
    ) async -> [String] {
        let host = ScriptedAgentHost(answers: answers)
        _ = try? await model(keepsState: keepsState).deltas(for: request, on: host)
        return host.requests.map { String(decoding: $0.body, as: UTF8.self) }
    }

    private func body(of request: ModelRequest, keepsState: Bool = true) async throws -> JSONBody {
        try JSONBody(try #require(await bodies(of: request, keepsState: keepsState).first))
    }

    // MARK: Requests

    @Test func aRequestGoesOnFromTheAnswerAndHasWhatIsNew() async throws {
        #expect(
            await bodies(of: request([Self.memento()])) == [
                #"{"model":"m","stream":true,"store":true,"previous_response_id":"r1","#
                    + #""instructions":"be brief","tools":[{"type":"function","name":"f","#
                    + #""parameters":{"type":"object","properties":{}},"strict":false}],"#
                    + #""tool_choice":"auto","#
                    + #""input":[{"type":"message","role":"user","content":"c"}]}"#
            ])
    }

    @Test func theOutputsOfItsCallsComeFirst() async throws {
        let messages: [ModelMessage] = [
            .user("a"), .functionCall(callID: "c1", name: "f", arguments: "{}"),
            .functionCall(callID: "c2", name: "f", arguments: "{}"), .user("and?"),
            .functionOutput(callID: "c2", output: "two"),
            .functionOutput(callID: "c1", output: "one"),
        ]
        let body = try await body(of: request([Self.memento("r1\nc1\nc2", known: 3)], messages))
        #expect(body.previous == "r1")
        #expect(
            body.input == ["function_call_output:two", "function_call_output:one", "user:and?"])
    }

    /// The mementos and messages of requests that have the whole conversation.
    private static var whole: [(String, [AgentMemento], [ModelMessage])] {
        let talk: [ModelMessage] = [.user("a"), .assistant("b"), .user("c")]
        let call = ModelMessage.functionCall(callID: "c1", name: "f", arguments: "{}")
        let output = ModelMessage.functionOutput(callID: "c1", output: "one")
        return [
            ("no memento", [], talk),
            ("another's", [memento(of: "other")], talk),
            ("an item before was changed", [memento(known: nil)], talk),
            ("more is known than there is", [memento(known: 4)], talk),
            ("cut, and nothing before", [memento(wasHeard: false)], talk),
            ("nothing is new", [memento(known: 3)], talk),
            ("not its form", [memento("")], talk),
            ("a call without an output", [memento("r1\nc1")], [.user("a"), call, .user("b")]),
            ("an output of an older call", [memento()], [.user("a"), call, .user("b"), output]),
            // A call of an MCP server has another id and has its output already.
            ("a call under another id", [memento("r1\nc9", known: 3)], [.user("a"), call, output]),
        ]
    }

    @Test(arguments: whole)
    func otherwiseARequestHasTheWholeConversation(
        reason: String, mementos: [AgentMemento], messages: [ModelMessage]
    ) async throws {
        let body = try await body(of: request(mementos, messages))
        let plain = try await self.body(of: request([], messages))
        #expect(body.previous == nil, "\(reason)")
        #expect(body.input == plain.input, "\(reason)")
    }

    @Test func afterACutReplyARequestGoesOnFromTheOneBeforeIt() async throws {
        let messages: [ModelMessage] = [
            .user("a"), .assistant("b"), .user("c"), .assistant("Once upon"), .user("d"),
        ]
        let mementos = [
            Self.memento("r1", known: 2), Self.memento("r2", known: 4, wasHeard: false),
        ]
        let body = try await body(of: request(mementos, messages))
        #expect(body.previous == "r1")
        #expect(body.input == ["user:c", "assistant:Once upon", "user:d"])
    }

    @Test func aServiceThatStoresNothingIsSentTheWholeConversation() async throws {
        let body = try await body(of: request([Self.memento()]), keepsState: false)
        #expect(body.previous == nil && body.stores == false)
        #expect(body.input == ["user:a", "assistant:b", "user:c"])
    }

    // MARK: Answers

    private static let call =
        #"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","#
        + #""call_id":"c1","name":"f","arguments":"{}"}}"#

    private func memento(
        of events: [String], keepsState: Bool = true
    ) async throws -> ModelDelta? {
        let host = ScriptedAgentHost(answers: [Self.stream(events)])
        return try await model(keepsState: keepsState).deltas(for: request([]), on: host)
            .first { if case .memento = $0 { true } else { false } }
    }

    @Test func aCompleteAnswerGivesAMemento() async throws {
        #expect(try await memento(of: [Self.end]) == .memento(provider: "brain", text: "r2"))
        #expect(
            try await memento(of: [Self.call, Self.end])
                == .memento(provider: "brain", text: "r2\nc1"))
        #expect(try await memento(of: [Self.end], keepsState: false) == nil)
        let incomplete = #"{"type":"response.incomplete","response":{"id":"r2","#
        #expect(
            try await memento(of: [
                incomplete + #""status":"incomplete","incomplete_details":{"reason":"x"}}}"#
            ]) == nil)
    }

    @Test(arguments: ["", "a\nb", String(repeating: "x", count: 513)])
    func anIDThatCannotBeKeptGivesNone(id: String) {
        #expect(ResponsesMemento(responseID: id, callIDs: []) == nil)
        #expect(ResponsesMemento(responseID: "r", callIDs: [id]) == nil)
    }

    @Test func aCommentaryIsAMessageOfItsOwn() async throws {
        func message(_ place: Int, _ phase: String, _ text: String) -> String {
            #"{"type":"response.output_item.done","output_index":\#(place),"item":{"#
                + #""type":"message","phase":"\#(phase)","content":[{"type":"output_text","#
                + #""text":"\#(text)"}]}}"#
        }
        let events = [
            #"{"type":"response.output_text.delta","output_index":0,"delta":"One moment."}"#,
            message(0, "commentary", "One moment."), message(1, "commentary", "Still looking."),
            message(2, "final_answer", "Friday."), Self.end,
        ]
        let host = ScriptedAgentHost(answers: [Self.stream(events)])
        #expect(
            try await model(keepsState: false).deltas(for: request([]), on: host) == [
                .text("One moment."), .messageEnded, .text("Still looking."), .messageEnded,
                .text("Friday."),
            ])
    }

    // MARK: A service that has forgotten

    private static func refusal(_ status: Int, _ body: String) -> ScriptedAgentHost.Answer {
        .init(status: status, chunks: [Array(body.utf8)])
    }

    @Test(arguments: [
        refusal(400, #"{"error":\#(forgotten)}"#), refusal(404, #"{"error":\#(forgotten)}"#),
        refusal(400, #"{"detail":{"error":\#(forgotten)}}"#), refusal(400, forgotten),
        refusal(400, #"{"error":{"message":"?","param":"previous_response_id"}}"#),
        refusal(404, #"{"detail":"Not Found"}"#),
        stream([
            #"{"type":"response.created","response":{"id":"r2"}}"#,
            #"{"type":"error","error":\#(forgotten)}"#,
        ]),
        stream([
            #"{"type":"response.failed","response":{"id":"r2","status":"failed","error":"#
                + forgotten + "}}"
        ]),
    ])
    func theWholeConversationIsSentOnce(answer: ScriptedAgentHost.Answer) async throws {
        let bodies = await bodies(
            of: request([Self.memento()]), answers: [answer, Self.stream([Self.end])])
        #expect(bodies.count == 2)
        let (first, second) = (try JSONBody(bodies[0]), try JSONBody(bodies[1]))
        #expect(first.previous == "r1" && first.input == ["user:c"])
        #expect(second.previous == nil && second.stores)
        #expect(second.input == ["user:a", "assistant:b", "user:c"])
        // Where that is refused too, the response fails.
        let twice = await self.bodies(of: request([Self.memento()]), answers: [answer, answer])
        #expect(twice.count == 2)
    }

    @Test(arguments: [
        refusal(400, #"{"error":{"code":"invalid_prompt","message":"no"}}"#), refusal(401, "{}"),
        .init(
            chunks: [
                #"{"type":"response.output_text.delta","output_index":0,"delta":"Once"}"#,
                #"{"type":"error","error":\#(forgotten)}"#,
            ].map { Array("data: \($0)\n\n".utf8) }),
    ])
    func otherFailuresAndLateOnesAreNotRepeated(answer: ScriptedAgentHost.Answer) async {
        let bodies = await bodies(
            of: request([Self.memento()]), answers: [answer, Self.stream([Self.end])])
        #expect(bodies.count == 1)
    }

    @Test func theSecondRequestHasAKeyOfItsOwn() async {
        var turn = request([Self.memento()])
        turn.turn = TurnIdentity(sessionID: "sess_1", responseID: "resp_1")
        let host = ScriptedAgentHost(answers: [
            Self.refusal(404, #"{"error":\#(Self.forgotten)}"#), Self.stream([Self.end]),
        ])
        _ = try? await model().deltas(for: turn, on: host)
        let keys = host.requests.map { sent in
            sent.headers.first { $0.name == "Idempotency-Key" }?.value
        }
        #expect(keys == ["resp_1", "resp_1-whole"])
    }

    @Test func aRequestThatGoesOnFromNothingIsNotRepeated() async {
        let answers = [Self.refusal(404, "{}"), Self.stream([Self.end])]
        #expect(await bodies(of: request([]), answers: answers).count == 1)
    }
}

/// What the tests read of a request's body.
private struct JSONBody {
    let previous: String?
    let stores: Bool
    /// Each item as `role:text`, or as `type:output`.
    let input: [String]

    init(_ text: String) throws {
        let body = try JSONParser().parse(text)
        previous = body["previous_response_id"]?.string
        stores = body["store"]?.bool ?? false
        input = try #require(body["input"]?.elements).map { item in
            let kind = item["role"]?.string ?? item["type"]?.string ?? ""
            return "\(kind):\(item["content"]?.string ?? item["output"]?.string ?? "")"
        }
    }
}
