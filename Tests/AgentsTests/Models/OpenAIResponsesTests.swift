// OpenAI's Responses: scripted answers, split in every way, and requests to the byte.

import Agents
import Codec
import Session
import Testing

@Suite struct OpenAIResponsesTests: StreamedModelTests {
    let model = ModelServiceKind.responses.model(
        at: ModelService(baseURL: "https://r.test/v1", apiKey: "secret"))
    let question = ModelRequest(model: "gpt-x", messages: [.user("Hello?")])

    private static func added(_ place: Int, _ item: String) -> String {
        #"{"type":"response.output_item.added","output_index":\#(place),"item":{\#(item)}}"#
    }

    private static func done(_ place: Int, _ item: String) -> String {
        #"{"type":"response.output_item.done","output_index":\#(place),"item":{\#(item)}}"#
    }

    private static func text(_ place: Int, _ delta: String) -> String {
        #"{"type":"response.output_text.delta","output_index":\#(place),"content_index":0,"#
            + #""item_id":"i","delta":"\#(delta)","logprobs":[]}"#
    }

    private static func arguments(_ place: Int, _ delta: String) -> String {
        #"{"type":"response.function_call_arguments.delta","output_index":\#(place),"#
            + #""item_id":"i","delta":"\#(delta)"}"#
    }

    private static func call(_ number: Int, _ arguments: String) -> String {
        #""type":"function_call","id":"i\#(number)","call_id":"c\#(number)","#
            + #""name":"f\#(number)","arguments":"\#(arguments)""#
    }

    private static func end(_ status: String = "completed", _ fields: String = "") -> String {
        #"{"type":"response.\#(status)","response":{"id":"r","status":"\#(status)"\#(fields),"#
            + #""usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"#
            + #""output_tokens":3,"output_tokens_details":{"reasoning_tokens":0},"#
            + #""total_tokens":12}}}"#
    }

    private static let created = #"{"type":"response.created","response":{"id":"r"}}"#
    private static let usage = ModelDelta.usage(inputTokens: 9, cachedTokens: 4, outputTokens: 3)
    private static let message = #""type":"message","role":"assistant","content":[]"#
    private static let told = #""type":"message","content":[{"type":"output_text","text":"Hé!"}]"#

    private static let textAndCalls: [String] = [
        created, added(0, #""type":"reasoning","summary":[]"#), done(0, #""type":"reasoning""#),
        added(1, message), text(1, "Hé"), text(1, "!"), done(1, told), added(2, call(1, "")),
        added(3, call(2, "")), arguments(3, "{}"), arguments(2, #"{\"a\":"#), arguments(2, "1}"),
        #"{"type":"response.function_call_arguments.done","output_index":2,"item_id":"i1","#
            + #""arguments":"{\"a\":1}"}"#,
        done(3, call(2, "{}")), done(2, call(1, #"{\"a\":1}"#)), end(),
    ]

    private func failure(of events: [String]) async -> AgentError? {
        let host = ScriptedAgentHost(answers: [.init(chunks: [Self.stream(events)])])
        return await #expect(throws: AgentError.self) {
            try await model.deltas(for: question, on: host)
        }
    }

    // MARK: Answers

    @Test func streamsTextAndInterleavedCalls() async throws {
        try await expect(
            Self.textAndCalls,
            gives: [
                .text("Hé"), .text("!"), .functionCallStarted(callID: "c1", name: "f1"),
                .functionCallArguments(#"{"a":"#), .functionCallArguments("1}"),
                .functionCallStarted(callID: "c2", name: "f2"), .functionCallArguments("{}"),
                Self.usage,
            ])
    }

    @Test func passesOnWholeItemsThatDidNotArriveInPieces() async throws {
        try await expect(
            [Self.done(0, Self.told), Self.done(1, Self.call(1, "{}")), Self.end()],
            gives: [
                .text("Hé!"), .functionCallStarted(callID: "c1", name: "f1"),
                .functionCallArguments("{}"), Self.usage,
            ])
        let whole =
            #"{"object":"response","status":"completed","output":[{\#(Self.told)},"#
            + #"{\#(Self.call(1, ""))}]}"#
        let host = ScriptedAgentHost(answers: [.init(chunks: [Array(whole.utf8)])])
        #expect(
            try await model.deltas(for: question, on: host) == [
                .text("Hé!"), .functionCallStarted(callID: "c1", name: "f1"),
            ])
    }

    @Test(arguments: [
        ("max_output_tokens", "max_output_tokens"), ("content_filter", "content_filter"),
    ])
    func reportsAnIncompleteAnswer(told: String, reason: String) async throws {
        try await expect(
            [Self.end("incomplete", #","incomplete_details":{"reason":"\#(told)"}"#)],
            gives: [.incomplete(reason: reason), Self.usage])
    }

    @Test func aRefusalIsPassedOnAsText() async throws {
        let refusal =
            #"{"type":"response.refusal.delta","output_index":0,"content_index":0,"delta":"No."}"#
        try await expect([refusal, Self.end()], gives: [.text("No."), Self.usage])
    }

    @Test func errorsHaveTheStatusOfTheirCode() async {
        let failed = Self.end(
            "failed", #","error":{"code":"rate_limit_exceeded","message":"Slow down."}"#)
        #expect(
            await failure(of: [Self.created, failed])
                == .brokenOff(status: 429, message: "The model server broke off: Slow down."))
        let error = #"{"type":"error","code":"server_error","message":"Oh.","param":null}"#
        #expect(
            await failure(of: [error])
                == .brokenOff(status: 500, message: "The model server broke off: Oh."))
    }

    @Test func anAnswerThatIsCutOffAnywhereFails() async throws {
        let bytes = Self.stream(Self.textAndCalls)
        for count in stride(from: 0, to: bytes.count - Self.end().utf8.count, by: 7) {
            let host = ScriptedAgentHost(answers: [.init(chunks: [Array(bytes[..<count])])])
            let error = await #expect(throws: AgentError.self) {
                try await model.deltas(for: question, on: host)
            }
            guard case .malformedReply? = error else {
                Issue.record("\(count) bytes gave \(String(describing: error))")
                return
            }
        }
    }

    @Test func badBytesNeverTrap() async throws {
        var random = SplitMix(state: 9)
        for _ in 0..<400 {
            var bytes = Self.stream(Self.textAndCalls)
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

    // MARK: Requests

    @Test func writesTheConversationAsItems() async throws {
        let host = ScriptedAgentHost(answers: [.init(chunks: [Self.stream([Self.end()])])])
        try await model.respond(
            to: ModelRequest(
                model: "gpt-x", instructions: "be brief",
                messages: [
                    .system("s"), .user("a"), .assistant("b"),
                    .functionCall(callID: "1", name: "f", arguments: ""),
                    .functionOutput(callID: "1", output: "one"),
                    .userParts([.text("?"), .image(url: "https://a.test/b", detail: .high)]),
                ],
                tools: [FunctionTool(name: "f", description: "does")],
                toolChoice: .function(name: "f"), parallelToolCalls: false, maxOutputTokens: 8),
            on: host
        ) { _ in }
        let request = try #require(host.requests.first)
        #expect(request.url == "https://r.test/v1/responses")
        #expect(request.headers.contains { $0 == ("Authorization", "Bearer secret") })
        let expected = [
            #"{"model":"gpt-x","stream":true,"store":false,"instructions":"be brief","#,
            #""max_output_tokens":16,"tools":[{"type":"function","name":"f","#,
            #""description":"does","parameters":{"type":"object","properties":{}},"strict":false}],"#,
            #""parallel_tool_calls":false,"tool_choice":{"type":"function","name":"f"},"#,
            #""input":[{"type":"message","role":"system","content":"s"},"#,
            #"{"type":"message","role":"user","content":"a"},"#,
            #"{"type":"message","role":"assistant","content":"b"},"#,
            #"{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},"#,
            #"{"type":"function_call_output","call_id":"1","output":"one"},"#,
            #"{"type":"message","role":"user","content":[{"type":"input_text","text":"?"},"#,
            #"{"type":"input_image","image_url":"https://a.test/b","detail":"high"}]}]}"#,
        ]
        #expect(String(decoding: request.body, as: UTF8.self) == expected.joined())
    }
}
