// Chat completions against scripted answers: every stream whole, byte by byte and in random splits.

import Agents
import Codec
import Session
import Testing

@Suite struct ChatCompletionsTests {
    private let model = ModelServiceKind.chat.model(
        at: ModelService(baseURL: "http://models.test/v1/", apiKey: "secret"))
    private let question = ModelRequest(model: "tiny", messages: [.user("Hello?")])

    /// An event stream of these data lines.
    private static func stream(_ events: [String]) -> [UInt8] {
        Array(events.map { "data: \($0)\n\n" }.joined().utf8)
    }

    /// A chunk with this `delta` object.
    private static func chunk(_ delta: String, finish: String = "null") -> String {
        #"{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":\#(delta),"#
            + #""finish_reason":\#(finish)}]}"#
    }

    private static func call(_ fields: String) -> String {
        chunk(#"{"tool_calls":[{\#(fields)}]}"#)
    }

    private func expect(
        _ events: [String], gives expected: [ModelDelta],
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        for chunks in Splits.all(of: Self.stream(events)) {
            let host = ScriptedAgentHost(answers: [.init(chunks: chunks)])
            let deltas = try await model.deltas(for: question, on: host)
            #expect(deltas == expected, sourceLocation: sourceLocation)
        }
    }

    private func expect(
        _ answer: ScriptedAgentHost.Answer, fails expected: AgentError,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        await #expect(throws: expected, sourceLocation: sourceLocation) {
            try await model.deltas(for: question, on: ScriptedAgentHost(answers: [answer]))
        }
    }

    // MARK: Answers

    @Test func streamsText() async throws {
        try await expect(
            [
                Self.chunk(#"{"role":"assistant","content":""}"#), Self.chunk(#"{"content":"Hé"}"#),
                Self.chunk(#"{"content":"llo \"you\" 👋"}"#), Self.chunk("{}", finish: #""stop""#),
                #"{"id":"c1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"#
                    + #""prompt_tokens_details":{"cached_tokens":4}}}"#,
                "[DONE]",
            ],
            gives: [
                .text("Hé"), .text("llo \"you\" 👋"),
                .usage(inputTokens: 9, cachedTokens: 4, outputTokens: 3),
            ])
    }

    @Test func streamsAFunctionCall() async throws {
        try await expect(
            [
                Self.call(#""index":0,"id":"a","function":{"name":"get","arguments":""}"#),
                Self.call(#""index":0,"function":{"arguments":"{\"city\":"}"#),
                Self.call(#""index":0,"function":{"arguments":"\"Oslo\"}"}"#),
                Self.chunk("{}", finish: #""tool_calls""#), "[DONE]",
            ],
            gives: [
                .functionCallStarted(callID: "a", name: "get"),
                .functionCallArguments(#"{"city":"#), .functionCallArguments(#""Oslo"}"#),
            ])
    }

    @Test func keepsParallelCallsApartEvenInterleaved() async throws {
        try await expect(
            [
                Self.chunk(#"{"content":"Wait."}"#),
                Self.call(#""index":0,"id":"a","function":{"name":"f","arguments":"{"}"#),
                Self.call(#""index":1,"id":"b","function":{"name":"g","arguments":"["}"#),
                Self.call(#""index":0,"function":{"arguments":"}"}"#),
                Self.call(#""index":1,"function":{"arguments":"]"}"#),
                Self.chunk("{}", finish: #""tool_calls""#), "[DONE]",
            ],
            gives: [
                .text("Wait."), .functionCallStarted(callID: "a", name: "f"),
                .functionCallArguments("{"), .functionCallArguments("}"),
                .functionCallStarted(callID: "b", name: "g"), .functionCallArguments("[]"),
            ])
    }

    @Test func separatesCallsThatShareAnIndexOrHaveNone() async throws {
        let both =
            #"{"id":"a","index":0,"function":{"name":"f","arguments":"1"}},"#
            + #"{"id":"b","index":0,"function":{"name":"g","arguments":"2"}}"#
        let bare =
            #"{"id":"a","function":{"name":"f","arguments":"1"}},"#
            + #"{"id":"b","function":{"name":"g","arguments":"2"}}"#
        for calls in [both, bare] {
            try await expect(
                [
                    Self.chunk(#"{"tool_calls":[\#(calls)]}"#, finish: #""tool_calls""#), "[DONE]",
                ],
                gives: [
                    .functionCallStarted(callID: "a", name: "f"), .functionCallArguments("1"),
                    .functionCallStarted(callID: "b", name: "g"), .functionCallArguments("2"),
                ])
        }
    }

    @Test func makesAnIDForACallWithoutOne() async throws {
        try await expect(
            [
                Self.call(#""index":0,"id":null,"function":{"name":"f","arguments":"{}"}"#),
                Self.chunk("{}", finish: #""tool_calls""#), "[DONE]",
            ],
            gives: [
                .functionCallStarted(callID: "call_c1_0", name: "f"), .functionCallArguments("{}"),
            ])
    }

    @Test(arguments: [("length", "max_output_tokens"), ("content_filter", "content_filter")])
    func reportsAnIncompleteAnswer(finish: String, reason: String) async throws {
        try await expect(
            [Self.chunk(#"{"content":"Once"}"#, finish: "\"\(finish)\""), "[DONE]"],
            gives: [.text("Once"), .incomplete(reason: reason)])
    }

    @Test func keepsTheLastUsageAndNeedsNoDoneMark() async throws {
        let usage = #""usage":{"prompt_tokens":1,"completion_tokens":"#
        try await expect(
            [
                #"{"choices":[{"delta":{"content":"a"},"finish_reason":null}],\#(usage)1}}"#,
                #"{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}],\#(usage)2}}"#,
            ],
            gives: [
                .text("a"), .text("b"), .usage(inputTokens: 1, cachedTokens: 0, outputTokens: 2),
            ])
    }

    @Test func ignoresCommentsAndEventsAfterDone() async throws {
        let bytes =
            Array(": ping\r\n\r\ndata: \(Self.chunk(#"{"content":"x"}"#))\r\n\r\n".utf8)
            + Self.stream(["[DONE]", "not json"])
        for chunks in Splits.all(of: bytes) {
            let host = ScriptedAgentHost(answers: [.init(chunks: chunks)])
            #expect(try await model.deltas(for: question, on: host) == [.text("x")])
        }
    }

    @Test func readsAnAnswerThatIsNotStreamed() async throws {
        let body = #"""
             {"id":"c9","choices":[{"message":{"role":"assistant","content":"Hi","tool_calls":
            [{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},
            "finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1}}
            """#
        for chunks in Splits.all(of: Array(body.utf8)) {
            let host = ScriptedAgentHost(answers: [.init(chunks: chunks)])
            #expect(
                try await model.deltas(for: question, on: host) == [
                    .text("Hi"), .functionCallStarted(callID: "a", name: "f"),
                    .functionCallArguments("{}"),
                    .usage(inputTokens: 5, cachedTokens: 0, outputTokens: 1),
                ])
        }
    }

    @Test func stopsWhenTheReplyIsRefused() async throws {
        let host = ScriptedAgentHost(answers: [
            .init(chunks: [Self.stream([Self.chunk(#"{"content":"x"}"#), "[DONE]"])])
        ])
        await #expect(throws: CancellationError.self) {
            try await model.respond(to: question, on: host) { _ in throw CancellationError() }
        }
    }

    // MARK: Failures

    @Test(arguments: [
        (
            429, #"{"error":{"message":"Rate limit reached","type":"requests"}}"#,
            "Rate limit reached"
        ),
        (404, #"{"error":"model not found"}"#, "model not found"),
        (400, #"{"object":"error","message":"too long","code":400}"#, "too long"),
        (
            422, #"{"detail":[{"loc":["body"],"msg":"missing"}]}"#,
            #"[{"loc":["body"],"msg":"missing"}]"#
        ),
        (401, #"{"detail":"Not authenticated"}"#, "Not authenticated"),
        (502, "<html>\n <h1>Bad Gateway</h1>\n</html>", "<html> <h1>Bad Gateway</h1> </html>"),
        (500, "", "it gave no reason"),
    ])
    func reportsTheServicesErrorMessage(status: Int, body: String, message: String) async {
        await expect(
            .init(status: status, chunks: body.utf8.map { [$0] }),
            fails: .upstream(status: status, message: message))
    }

    @Test func failsWhenTheServiceReportsAnErrorWithinTheStream() async {
        let events = [Self.chunk(#"{"content":"x"}"#), #"{"error":{"message":"out of memory"}}"#]
        await expect(
            .init(chunks: [Self.stream(events)]),
            fails: .brokenOff(status: 0, message: "The model server broke off: out of memory"))
    }

    @Test(arguments: [
        [], [chunk(#"{"content":"x"}"#)],
        [call(#""index":0,"id":"a","function":{"name":"f","arguments":"{"}"#)],
    ])
    func failsWhenTheStreamEndsEarly(events: [String]) async {
        await expect(
            .init(chunks: [Self.stream(events)]),
            fails: .malformedReply(
                message: "The model server's answer ended before it was complete."))
    }

    @Test func failsWhenTheConnectionBreaks() async {
        let failure = AgentError.upstream(status: 0, message: "broken")
        await expect(
            .init(chunks: [Self.stream([Self.chunk(#"{"content":"x"}"#)])], failure: failure),
            fails: failure)
    }

    @Test(arguments: [
        "data: {\"choices\":[\n\n", "data: nonsense\n\n", "{\"choices\":[}", "data: 7\n\n",
    ])
    func failsOnAnAnswerThatIsNotJSON(body: String) async throws {
        let host = ScriptedAgentHost(answers: [.init(chunks: [Array(body.utf8)])])
        do {
            _ = try await model.deltas(for: question, on: host)
            Issue.record("the answer was accepted")
        } catch AgentError.malformedReply(let message, _) {
            #expect(message.hasPrefix("The model server's answer cannot be read: "))
        }
    }

    @Test(arguments: [
        "{}", #"{"choices":7}"#, #"{"choices":[7]}"#, #"{"choices":[{"delta":7}]}"#,
        #"{"choices":[{"delta":{"content":[1],"tool_calls":{}}}]}"#,
        #"{"choices":[{"delta":{"tool_calls":[7,{"index":-1},{"index":1e300}]}}],"usage":7}"#,
    ])
    func refusesEventsOfTheWrongShape(event: String) async throws {
        let host = ScriptedAgentHost(answers: [.init(chunks: [Self.stream([event, "[DONE]"])])])
        do {
            _ = try await model.deltas(for: question, on: host)
            Issue.record("the answer was accepted")
        } catch AgentError.malformedReply {
        }
    }

    @Test func boundsAnEndlessAnswer() async {
        let opening = [UInt8](repeating: UInt8(ascii: "{"), count: 1 << 20)
        await expect(
            .init(chunks: Array(repeating: opening, count: 17)),
            fails: .malformedReply(message: "The model server's answer is too large."))
    }
}

/// A small seeded generator, so that a failing split can be reproduced.
struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
