// Anthropic's Messages: scripted answers, split in every way, and requests to the byte.

import Agents
import Codec
import Session
import Testing

@Suite struct AnthropicMessagesTests: StreamedModelTests {
    let model = ModelServiceKind.anthropic.model(
        at: ModelService(baseURL: "https://a.test/v1/", apiKey: "secret"))
    let question = ModelRequest(model: "claude-x", messages: [.user("Hello?")])

    private static let start =
        #"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","#
        + #""content":[],"model":"claude-x","stop_reason":null,"stop_sequence":null,"#
        + #""usage":{"input_tokens":10,"cache_creation_input_tokens":3,"#
        + #""cache_read_input_tokens":20,"output_tokens":1}}}"#

    private static func begin(_ index: Int, _ block: String) -> String {
        #"{"type":"content_block_start","index":\#(index),"content_block":{\#(block)}}"#
    }

    private static func delta(_ index: Int, _ delta: String) -> String {
        #"{"type":"content_block_delta","index":\#(index),"delta":{\#(delta)}}"#
    }

    private static func stop(_ index: Int) -> String {
        #"{"type":"content_block_stop","index":\#(index)}"#
    }

    private static func end(_ reason: String = "end_turn") -> [String] {
        [
            #"{"type":"message_delta","delta":{"stop_reason":"\#(reason)","#
                + #""stop_sequence":null},"usage":{"output_tokens":7}}"#,
            #"{"type":"message_stop"}"#,
        ]
    }

    private static let usage = ModelDelta.usage(
        inputTokens: 33, cachedTokens: 20, outputTokens: 7)

    private static let text: [String] =
        [
            start, begin(0, #""type":"text","text":"""#), #"{"type":"ping"}"#,
            delta(0, #""type":"text_delta","text":"Hé""#),
            delta(0, #""type":"text_delta","text":"llo 👋""#), stop(0),
        ] + end()

    private static let parallelCalls: [String] =
        [
            start, begin(0, #""type":"thinking","thinking":"","signature":"""#),
            delta(0, #""type":"thinking_delta","thinking":"Hm.""#),
            delta(0, #""type":"signature_delta","signature":"c2ln""#), stop(0),
            begin(1, #""type":"text","text":"""#), delta(1, #""type":"text_delta","text":"Wait.""#),
            stop(1), begin(2, #""type":"tool_use","id":"t1","name":"f","input":{}"#),
            delta(2, #""type":"input_json_delta","partial_json":"""#),
            delta(2, #""type":"input_json_delta","partial_json":"{\"a\":""#),
            delta(2, #""type":"input_json_delta","partial_json":"1}""#), stop(2),
            begin(3, #""type":"tool_use","id":"t2","name":"g","input":{}"#), stop(3),
        ] + end("tool_use")

    private func failure(of answer: ScriptedAgentHost.Answer) async -> AgentError? {
        let host = ScriptedAgentHost(answers: [answer])
        return await #expect(throws: AgentError.self) {
            try await model.deltas(for: question, on: host)
        }
    }

    // MARK: Answers

    @Test func streamsText() async throws {
        try await expect(Self.text, gives: [.text("Hé"), .text("llo 👋"), Self.usage])
    }

    @Test func streamsCallsInOrderAndSkipsReasoning() async throws {
        try await expect(
            Self.parallelCalls,
            gives: [
                .text("Wait."), .functionCallStarted(callID: "t1", name: "f"),
                .functionCallArguments(#"{"a":"#), .functionCallArguments("1}"),
                .functionCallStarted(callID: "t2", name: "g"),
                Self.usage,
            ])
    }

    @Test func keepsInterleavedCallsApart() async throws {
        let calls =
            [
                Self.start, Self.begin(0, #""type":"tool_use","id":"a","name":"f","input":{}"#),
                Self.begin(1, #""type":"tool_use","id":"b","name":"g","input":{}"#),
                Self.delta(1, #""type":"input_json_delta","partial_json":"{\"b\":2}""#),
                Self.delta(0, #""type":"input_json_delta","partial_json":"{\"a\":1}""#),
                Self.stop(1), Self.stop(0),
            ] + Self.end("tool_use")
        try await expect(
            calls,
            gives: [
                .functionCallStarted(callID: "a", name: "f"), .functionCallArguments(#"{"a":1}"#),
                .functionCallStarted(callID: "b", name: "g"), .functionCallArguments(#"{"b":2}"#),
                Self.usage,
            ])
    }

    @Test(arguments: [
        ("max_tokens", "max_output_tokens"), ("refusal", "content_filter"),
        ("model_context_window_exceeded", "max_output_tokens"),
    ])
    func reportsAnIncompleteAnswer(stop: String, reason: String) async throws {
        try await expect(
            [Self.start] + Self.end(stop), gives: [.incomplete(reason: reason), Self.usage])
    }

    /// A service may send any number, and the sum of two must not overflow.
    @Test(arguments: ["9223372036854775807", "-1", "1000000001", "1e300", "1.5", #""7""#])
    func implausibleTokenCountsAreIgnored(count: String) async throws {
        let whole =
            #"{"type":"message","content":[{"type":"text","text":"Hi"}],"#
            + #""stop_reason":"end_turn","usage":{"input_tokens":\#(count),"#
            + #""cache_read_input_tokens":\#(count),"output_tokens":2}}"#
        let host = ScriptedAgentHost(answers: [.init(chunks: [Array(whole.utf8)])])
        #expect(
            try await model.deltas(for: question, on: host) == [
                .text("Hi"), .usage(inputTokens: 0, cachedTokens: 0, outputTokens: 2),
            ])
    }

    @Test func readsAnAnswerThatIsNotStreamed() async throws {
        let whole =
            #" {"type":"message","content":[{"type":"text","text":"Hi"},{"type":"tool_use","#
            + #""id":"t","name":"f","input":{"a":1}}],"stop_reason":"tool_use","#
            + #""usage":{"input_tokens":1,"output_tokens":2}}"#
        let host = ScriptedAgentHost(answers: [.init(chunks: [Array(whole.utf8)])])
        #expect(
            try await model.deltas(for: question, on: host) == [
                .text("Hi"), .functionCallStarted(callID: "t", name: "f"),
                .functionCallArguments(#"{"a":1}"#),
                .usage(inputTokens: 1, cachedTokens: 0, outputTokens: 2),
            ])
    }

    @Test func anAnswerThatIsCutOffAnywhereFails() async throws {
        let bytes = Self.stream(Self.text)
        let messageDelta = try #require(
            String(decoding: bytes, as: UTF8.self).range(of: "end_turn"))
        let whole = String(decoding: bytes, as: UTF8.self)
        let last = whole[..<messageDelta.lowerBound].utf8.count
        for count in 0..<last {
            let failure = await failure(of: .init(chunks: [Array(bytes[..<count])]))
            guard case .malformedReply? = failure else {
                Issue.record("\(count) bytes gave \(String(describing: failure))")
                return
            }
        }
    }

    @Test func badBytesNeverTrap() async throws {
        var random = SplitMix(state: 7)
        let streams = [Self.stream(Self.text), Self.stream(Self.parallelCalls)]
        for round in 0..<400 {
            var bytes = streams[round % 2]
            for _ in 0..<4 {
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

    @Test(arguments: [("overloaded_error", 529), ("rate_limit_error", 429), ("new_error", 0)])
    func anErrorWithinTheStreamHasTheStatusOfItsType(type: String, status: Int) async {
        let error = #"{"type":"error","error":{"type":"\#(type)","message":"Overloaded"}}"#
        let failure = await failure(of: .init(chunks: [Self.stream([Self.start, error])]))
        #expect(
            failure
                == .brokenOff(status: status, message: "The model server broke off: Overloaded"))
    }

    @Test func aRefusalIsReportedToTheOperator() async {
        let body = #"{"type":"error","error":{"type":"overloaded_error","message":"Busy"}}"#
        let failure = await failure(of: .init(status: 529, chunks: [Array(body.utf8)]))
        #expect(failure == .upstream(status: 529, message: "Busy"))
    }

    // MARK: Requests

    private func sent(_ request: ModelRequest) async throws -> UpstreamRequest {
        let host = ScriptedAgentHost(answers: [.init(chunks: [Self.stream(Self.text)])])
        try await model.respond(to: request, on: host) { _ in }
        return try #require(host.requests.first)
    }

    private func body(_ request: ModelRequest) async throws -> String {
        String(decoding: try await sent(request).body, as: UTF8.self)
    }

    /// The `messages` array as it is sent.
    private func messages(_ messages: [ModelMessage]) async throws -> String {
        let body = try await body(ModelRequest(model: "m", messages: messages))
        return try #require(JSONParser().parse(body)["messages"]).raw.text
    }

    private static let mark = #","cache_control":{"type":"ephemeral"}"#

    private static func user(_ text: String, mark: Bool = true) -> String {
        #"{"role":"user","content":[{"type":"text","text":"\#(text)"\#(mark ? Self.mark : "")}]}"#
    }

    @Test func postsWithItsKeyAndVersion() async throws {
        let request = try await sent(question)
        #expect(request.url == "https://a.test/v1/messages")
        #expect(
            request.headers.map { "\($0.name): \($0.value)" } == [
                "Content-Type: application/json", "Accept: text/event-stream",
                "anthropic-version: 2023-06-01", "x-api-key: secret",
            ])
        #expect(
            String(decoding: request.body, as: UTF8.self)
                == #"{"model":"claude-x","max_tokens":4096,"stream":true,"messages":["#
                + Self.user("Hello?") + "]}")
    }

    @Test(arguments: [
        (ToolChoice.auto, #"{"type":"auto","disable_parallel_tool_use":true}"#),
        (.required, #"{"type":"any","disable_parallel_tool_use":true}"#),
        (.none, #"{"type":"none"}"#),
        (.function(name: "f"), #"{"type":"tool","name":"f","disable_parallel_tool_use":true}"#),
    ])
    func marksAtMostFourBlocksForTheCache(choice: ToolChoice, written: String) async throws {
        let schema = RawJSON(#"{ "type":"object", "properties":{} }"#)
        let body = try await body(
            ModelRequest(
                model: "m", instructions: "be brief",
                messages: [
                    .system("s"), .user("a"), .assistant("b"), .user("c"), .assistant("d"),
                    .user("e"),
                ],
                tools: [
                    FunctionTool(name: "f", description: "does", parameters: schema),
                    FunctionTool(name: "g"),
                ], toolChoice: choice, parallelToolCalls: false, maxOutputTokens: 64))
        #expect(
            body == #"{"model":"m","max_tokens":64,"stream":true,"system":["#
                + #"{"type":"text","text":"be brief"},{"type":"text","text":"s"\#(Self.mark)}],"#
                + #""tools":[{"name":"f","description":"does","input_schema":\#(schema.text)},"#
                + #"{"name":"g","input_schema":{"type":"object","properties":{}}\#(Self.mark)}],"#
                + #""tool_choice":\#(written),"messages":["# + Self.user("a", mark: false)
                + #",{"role":"assistant","content":[{"type":"text","text":"b"}]},"#
                + Self.user("c") + #",{"role":"assistant","content":[{"type":"text","text":"d"}]},"#
                + Self.user("e") + "]}")
    }

    @Test func rolesAlternateInEveryConversation() async throws {
        #expect(try await messages([]) == "[" + Self.user("(The conversation begins.)") + "]")
        let assistant = #"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#
        #expect(
            try await messages([.assistant("a"), .assistant("  ")])
                == "[" + Self.user("(The conversation begins.)") + "," + assistant + ","
                + Self.user("(Go on.)") + "]")
        #expect(
            try await messages([.user("b"), .system("s"), .user("\n"), .user("c")])
                == #"[{"role":"user","content":[{"type":"text","text":"b"},"#
                + #"{"type":"text","text":"<system>s</system>"},{"type":"text","text":"c""#
                + Self.mark + "}]}]")
    }

    @Test func resultsAreWrittenInTheMessageAfterTheirCalls() async throws {
        let written = try await messages([
            .user("?"), .assistant("Let me see."),
            .functionCall(callID: "1", name: "f", arguments: #"{"a":1}"#),
            .functionCall(callID: "call.2", name: "g", arguments: "no JSON"),
            .functionOutput(callID: "call.2", output: "two"), .user("And?"),
            .functionOutput(callID: "1", output: "one"),
        ])
        #expect(
            written == "[" + Self.user("?")
                + #",{"role":"assistant","content":[{"type":"text","text":"Let me see."},"#
                + #"{"type":"tool_use","id":"1","name":"f","input":{"a":1}},"#
                + #"{"type":"tool_use","id":"call_2","name":"g","input":{}}]},"#
                + #"{"role":"user","content":["#
                + #"{"type":"tool_result","tool_use_id":"1","content":"one"},"#
                + #"{"type":"tool_result","tool_use_id":"call_2","content":"two"},"#
                + #"{"type":"text","text":"And?"\#(Self.mark)}]}]"#)
    }

    @Test func writesImagesAsDataOrURL() async throws {
        let written = try await messages([
            .userParts([
                .image(url: "data:image/jpeg;base64,AQID", detail: .low),
                .image(url: "https://a.test/b.png", detail: .auto), .text("?"),
            ])
        ])
        #expect(
            written == #"[{"role":"user","content":[{"type":"image","source":{"type":"base64","#
                + #""media_type":"image/jpeg","data":"AQID"}},{"type":"image","source":{"#
                + #""type":"url","url":"https://a.test/b.png"}},{"type":"text","text":"?""#
                + Self.mark + "}]}]")
    }
}
