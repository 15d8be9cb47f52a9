// Chat completions as the servers in use write them: one table of answers and what becomes of each.
// The forms were seen in the servers' sources and in reports about them; a name says whose it is.

import Agents
import Session
import Testing

@Suite struct ChatDialectsTests {
    private static let question = ModelRequest(model: "m", messages: [.user("Hello?")])

    /// What becomes of an answer.
    enum Outcome: Sendable {
        case deltas([ModelDelta])
        /// An error within the answer, and its status.
        case error(Int)
        case malformed
    }

    struct Dialect: Sendable, CustomTestStringConvertible {
        let name: String
        let lines: [String]
        let outcome: Outcome

        var testDescription: String { name }

        init(_ name: String, _ lines: [String], _ outcome: Outcome) {
            (self.name, self.lines, self.outcome) = (name, lines, outcome)
        }
    }

    private static func chunk(_ delta: String, _ finish: String = "null") -> String {
        #"data: {"id":"c","choices":[{"index":0,"delta":\#(delta),"finish_reason":\#(finish)}]}"#
    }

    private static let role = chunk(#"{"role":"assistant","content":""}"#)
    private static let word = chunk(#"{"content":"Fine."}"#)
    private static let stop = chunk("{}", #""stop""#)
    private static let done = "data: [DONE]"
    private static let usage =
        #"data: {"id":"c","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#
    private static let counted = ModelDelta.usage(inputTokens: 1, cachedTokens: 0, outputTokens: 2)

    private static func call(_ fields: String, _ finish: String = "null") -> String {
        chunk(#"{"tool_calls":[{\#(fields)}]}"#, finish)
    }

    /// A call without arguments, and what the session is told of it.
    private static let bare: [ModelDelta] = [.functionCallStarted(callID: "a", name: "f")]
    private static let city: [ModelDelta] = bare + [.functionCallArguments(#"{"city":"Oslo"}"#)]

    static let dialects: [Dialect] = answers + calls + errors

    private static let answers: [Dialect] = [
        Dialect("OpenAI", [role, word, stop, usage, done], .deltas([.text("Fine."), counted])),
        Dialect("OpenAI, an empty answer", [role, stop, done], .deltas([])),
        Dialect(
            "Azure: a first piece without a choice",
            [#"data: {"choices":[],"prompt_filter_results":[]}"#, role, word, stop, done],
            .deltas([.text("Fine.")])),
        Dialect(
            "Ollama: text in the last piece", [chunk(#"{"content":"Fine."}"#, #""stop""#), done],
            .deltas([.text("Fine.")])),
        Dialect("mistral.rs: no [DONE]", [word, stop], .deltas([.text("Fine.")])),
        Dialect(
            "one-api: an empty reason", [chunk(#"{"content":"Fine."}"#, #""""#), stop, done],
            .deltas([.text("Fine.")])),
        Dialect(
            "one-api: an empty reason, cut off", [chunk(#"{"content":"Fine."}"#, #""""#)],
            .malformed),
        Dialect(
            "Gemini: a reason in every piece",
            [
                chunk(#"{"content":"Fi"}"#, #""stop""#), chunk(#"{"content":"ne."}"#, #""stop""#),
                done,
            ],
            .deltas([.text("Fi"), .text("ne.")])),
        Dialect(
            "Mistral: parts, and thoughts among them",
            [
                chunk(
                    #"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]},"#
                        + #"{"type":"text","text":"Fine."}]}"#), stop, done,
            ], .deltas([.text("Fine.")])),
        Dialect(
            "LiteLLM: nulls",
            [
                chunk(#"{"content":null,"role":null,"tool_calls":null}"#), word, stop,
                #"data: {"id":"c","choices":null,"usage":null,"error":null}"#, done,
            ], .deltas([.text("Fine.")])),
        Dialect("a number as text", [chunk(#"{"content":7}"#), stop, done], .malformed),
        Dialect("[DONE] alone", [done], .malformed),
        Dialect("a role and [DONE]", [role, done], .malformed),
        Dialect("counts and [DONE]", [usage, done], .malformed),
    ]

    private static let calls: [Dialect] = [
        Dialect(
            "llama.cpp: arguments \"\"",
            [
                call(
                    #""index":0,"id":"a","function":{"name":"f","arguments":""}"#, #""tool_calls""#),
                done,
            ], .deltas(bare)),
        Dialect(
            "Bedrock gateways: no arguments",
            [
                call(#""index":0,"id":"a","function":{"name":"f"}"#, #""tool_calls""#), done,
            ], .deltas(bare)),
        Dialect(
            "vLLM: arguments null",
            [
                call(
                    #""index":0,"id":"a","function":{"name":"f","arguments":null}"#,
                    #""tool_calls""#),
                done,
            ], .deltas(bare)),
        Dialect(
            "Ollama: arguments as an object",
            [
                call(
                    #""id":"a","function":{"name":"f","arguments":{"city":"Oslo"}}"#,
                    #""tool_calls""#),
                done,
            ], .deltas(city)),
        Dialect(
            "SGLang: an index as text, a reason \"stop\"",
            [
                call(#""index":"0","id":"a","function":{"name":"f","arguments":"{\"city\":"}"#),
                call(#""index":"0","id":null,"function":{"name":null,"arguments":"\"Oslo\"}"}"#),
                stop, done,
            ],
            .deltas(
                bare + [
                    .functionCallArguments(#"{"city":"#), .functionCallArguments(#""Oslo"}"#),
                ])),
        Dialect(
            "a number as id",
            [
                call(#""index":0,"id":5,"function":{"name":"f","arguments":"{}"}"#), stop, done,
            ],
            .deltas([.functionCallStarted(callID: "5", name: "f"), .functionCallArguments("{}")])),
        Dialect(
            "a call without a list",
            [
                chunk(#"{"tool_calls":{"id":"a","function":{"name":"f","arguments":"{}"}}}"#), stop,
                done,
            ], .deltas(bare + [.functionCallArguments("{}")])),
        Dialect(
            "a list as arguments",
            [
                call(#""id":"a","function":{"name":"f","arguments":["Oslo"]}"#), stop, done,
            ], .malformed),
    ]

    private static let errors: [Dialect] = [
        Dialect(
            "OpenAI, LiteLLM",
            [
                #"data: {"error":{"message":"m","type":"server_error","code":500}}"#, done,
            ], .error(500)),
        Dialect(
            "OpenAI: a word as code",
            [
                #"data: {"error":{"message":"m","type":"x","code":"rate_limit_exceeded"}}"#
            ], .error(429)),
        Dialect("Ollama: an error as text", [#"data: {"error":"out of memory"}"#], .error(0)),
        Dialect(
            "llama.cpp until 2025",
            [
                role, #"error: {"code":500,"message":"m","type":"server_error"}"#, done,
            ], .error(500)),
        Dialect(
            "llama.cpp",
            [
                #"data: {"error":{"code":400,"message":"m","type":"exceed_context_size_error"}}"#
            ], .error(400)),
        Dialect(
            "vLLM, SGLang",
            [
                #"data: {"object":"error","message":"m","type":"BadRequestError","param":null,"code":400}"#,
                done,
            ], .error(400)),
        Dialect(
            "Mistral",
            [
                #"data: {"object":"error","message":"m","type":"rate_limited","code":"429"}"#
            ], .error(429)),
        Dialect(
            "Venice", [#"data: {"error_type":"server_error","error_message":"m"}"#, done],
            .error(500)),
        Dialect(
            "OpenRouter",
            [
                #"data: {"id":"c","error":{"code":"server_error","message":"m"},"choices":[{"index":0,"#
                    + #""delta":{"content":""},"finish_reason":"error"}]}"#
            ], .error(500)),
        Dialect(
            "OpenRouter: in the choice",
            [
                #"data: {"choices":[{"error":{"code":502,"message":"m"},"delta":{}}]}"#
            ], .error(502)),
        Dialect("a reason \"error\"", [role, chunk("{}", #""error""#), done], .error(0)),
        Dialect("Bedrock", [#"data: {"throttlingException":{"message":"m"}}"#], .error(429)),
        Dialect("FastAPI", [#"data: {"detail":"m"}"#], .error(0)),
        Dialect("sse-starlette", ["event: error\ndata: m"], .error(0)),
        Dialect(
            "an empty error is none",
            [
                #"data: {"id":"c","error":{},"choices":[{"delta":{"content":"Fine."}}]}"#, stop,
                done,
            ], .deltas([.text("Fine.")])),
    ]

    @Test(arguments: dialects)
    func anAnswerIsWhatItsServerMeans(dialect: Dialect) async throws {
        let bytes = Array(dialect.lines.map { $0 + "\n\n" }.joined().utf8)
        let model = ModelServiceKind.chat.model(at: ModelService(baseURL: "http://models.test/v1"))
        for chunks in Splits.all(of: bytes) {
            let host = ScriptedAgentHost(answers: [.init(chunks: chunks)])
            let result: Result<[ModelDelta], any Error>
            do {
                result = .success(try await model.deltas(for: Self.question, on: host))
            } catch {
                result = .failure(error)
            }
            switch (result, dialect.outcome) {
            case (.success(let deltas), .deltas(let expected)): #expect(deltas == expected)
            case (.failure(AgentError.brokenOff(let status, _)), .error(let expected)):
                #expect(status == expected)
            case (.failure(AgentError.malformedReply), .malformed): break
            default: Issue.record("\(result)")
            }
        }
    }

    /// The answer is over at `[DONE]`: what would come after it is not awaited.
    @Test func nothingIsAwaitedAfterTheTerminalEvent() async throws {
        let cases: [(ModelServiceKind, [String])] = [
            (.chat, [Self.word, Self.stop, Self.done]),
            (
                .anthropic,
                [
                    #"data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Fine."}}"#,
                    #"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
                    #"data: {"type":"message_stop"}"#,
                ]
            ),
            (
                .responses,
                [
                    #"data: {"type":"response.output_text.delta","output_index":0,"delta":"Fine."}"#,
                    #"data: {"type":"response.completed","response":{"status":"completed"}}"#,
                ]
            ),
            (
                .agUI,
                [
                    #"data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"Fine."}"#,
                    #"data: {"type":"RUN_FINISHED"}"#,
                ]
            ),
        ]
        for (kind, lines) in cases {
            let model = kind.model(at: ModelService(baseURL: "http://models.test/v1"))
            let chunks = lines.map { Array("\($0)\n\n".utf8) }
            let host = ScriptedAgentHost(answers: [
                .init(chunks: chunks, failure: .upstream(status: 0, message: "it was awaited"))
            ])
            #expect(try await model.deltas(for: Self.question, on: host).text == "Fine.", "\(kind)")
        }
    }
}
