// The demo agent's replies and function calls.

import Agents
import Codec
import Session
import Testing

@Suite struct DemoAgentTests {
    private let weather = FunctionTool(
        name: "get_weather",
        parameters: RawJSON(
            #"{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"#
                + #""exact":{"type":"boolean"},"unit":{"enum":["C","F"]}}}"#))

    private func deltas(_ request: ModelRequest) async throws -> [ModelDelta] {
        try await DemoAgent().deltas(for: request, on: ScriptedAgentHost())
    }

    private func answer(_ messages: [ModelMessage]) async throws -> String {
        try await deltas(ModelRequest(model: "demo", messages: messages)).text
    }

    @Test(arguments: [
        ("Go forward ten meters.", "You said: Go forward ten meters."),
        ("  what\na day ", "You said: what a day."),
        (
            "Is it time to say hello to everybody here?",
            "You said: Is it time to say hello to everybody here?"
        ),
        ("", "I did not catch that. Could you say it again?"),
        ("...", "I did not catch that. Could you say it again?"),
        ("Hello!", "Hello! I am Parley's demo agent. Say something and I will repeat it."),
        ("Thank you.", "You are welcome."),
        ("Count to five", "1, 2, 3, 4, 5."),
        ("Please count up to 3!", "1, 2, 3."),
        ("You can count on me to be there", "You said: You can count on me to be there."),
    ])
    func answersTheLastMessage(text: String, expected: String) async throws {
        #expect(try await answer([.system("Be nice."), .user(text)]) == expected)
    }

    @Test(arguments: [
        ("What is Parley?", "voice session server"), ("Who are you?", "demo agent"),
        ("What can you do?", "repeat"), ("What time is it?", "no clock"),
    ])
    func answersQuestionsAboutItself(text: String, part: String) async throws {
        #expect(try await answer([.user(text)]).contains(part))
    }

    @Test func greetsWhereTheUserHasSaidNothing() async throws {
        #expect(try await answer([]).hasPrefix("Hello!"))
        #expect(try await answer([.system("x")]).hasPrefix("Hello!"))
    }

    @Test func countsToAHundredAtMost() async throws {
        #expect(try await answer([.user("count to 99999999999")]).hasSuffix("99, 100."))
        #expect(try await answer([.user("count to 99999999999999999999")]).hasPrefix("You said"))
    }

    @Test func streamsWordByWordAndCountsTheWords() async throws {
        let request = ModelRequest(model: "demo", messages: [.user("Testing one two")])
        #expect(
            try await deltas(request) == [
                .text("You"), .text(" said:"), .text(" Testing"), .text(" one"), .text(" two."),
                .usage(inputTokens: 4, cachedTokens: 0, outputTokens: 5),
            ])
    }

    @Test func stopsAtTheTokenLimit() async throws {
        let request = ModelRequest(
            model: "demo", messages: [.user("Testing one two")], maxOutputTokens: 2)
        #expect(
            try await deltas(request) == [
                .text("You"), .text(" said:"), .incomplete(reason: "max_output_tokens"),
                .usage(inputTokens: 4, cachedTokens: 0, outputTokens: 2),
            ])
    }

    /// The agent's work must not grow with the length of a message.
    @Test(arguments: ["word ", "\u{e9}\u{301}", "🇩🇪", "x"])
    func readsOnlyTheBeginningOfALongMessage(unit: String) async throws {
        let text = String(repeating: unit, count: 1_000_000 / unit.utf8.count)
        let request = ModelRequest(model: "demo", messages: [.assistant(text), .user(text)])
        let deltas = try await deltas(request)
        #expect(deltas.text.utf8.count < 2_100)
        #expect(deltas.text.hasPrefix("You said: " + unit.prefix(4)) == (unit != "🇩🇪"))
        #expect(!deltas.text.contains("\u{FFFD}"), "nothing is cut within a scalar")
        let tokens = (2 * text.utf8.count + 3) / 4
        guard case .usage(tokens, 0, _)? = deltas.last else {
            Issue.record("\(String(describing: deltas.last))")
            return
        }
    }

    @Test func stopsBetweenWordsWhenCancelled() async throws {
        let request = ModelRequest(model: "demo", messages: [.user("count to 100")])
        let replied = Collected<ModelDelta>()
        let task = Task {
            try await DemoAgent().respond(to: request, on: ScriptedAgentHost()) { delta in
                replied.append(delta)
                if replied.all.count == 3 { withUnsafeCurrentTask { $0?.cancel() } }
            }
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(replied.all == [.text("1,"), .text(" 2,"), .text(" 3,")])
    }

    // MARK: Functions

    private func call(
        _ text: String, tools: [FunctionTool], choice: ToolChoice = .auto
    ) async throws -> [ModelDelta] {
        let request = ModelRequest(
            model: "demo", messages: [.user(text)], tools: tools, toolChoice: choice)
        return try await deltas(request).filter {
            if case .usage = $0 { false } else { true }
        }
    }

    @Test func callsAFunctionThatTheUserNames() async throws {
        #expect(
            try await call("What is the weather in New York for 3 days?", tools: [weather]) == [
                .functionCallStarted(callID: "call_demo_1", name: "get_weather"),
                .functionCallArguments(#"{"city":"3 days","days":3,"exact":true,"unit":"C"}"#),
            ])
        #expect(
            try await call("Tell me the weather in New York!", tools: [weather]).last
                == .functionCallArguments(#"{"city":"New York","days":0,"exact":true,"unit":"C"}"#))
    }

    @Test(arguments: ["getWeather", "get-weather", "weather", "GET_WEATHER"])
    func recognisesFunctionNamesInAnyStyle(name: String) async throws {
        let deltas = try await call("weather please", tools: [FunctionTool(name: name)])
        #expect(
            deltas == [
                .functionCallStarted(callID: "call_demo_1", name: name),
                .functionCallArguments("{}"),
            ])
    }

    @Test func obeysTheToolChoice() async throws {
        #expect(try await call("Hello there friend", tools: [weather]).count > 2)
        #expect(try await call("the weather", tools: [weather], choice: .none).count > 2)
        let other = FunctionTool(name: "turn_on_light")
        #expect(
            try await call("Hello there", tools: [other, weather], choice: .required).first
                == .functionCallStarted(callID: "call_demo_1", name: "turn_on_light"))
        #expect(
            try await call(
                "Hello there", tools: [other, weather], choice: .function(name: "get_weather")
            ).first == .functionCallStarted(callID: "call_demo_1", name: "get_weather"))
    }

    @Test(arguments: [
        "{", "[]", "7", #"{"properties":7}"#, #"{"properties":{"a\"b":{"type":"number"}}}"#,
    ])
    func writesValidArgumentsForAnySchema(schema: String) async throws {
        let tool = FunctionTool(name: "weather", parameters: RawJSON(schema))
        let deltas = try await call("weather 2.5", tools: [tool])
        guard case .functionCallArguments(let arguments)? = deltas.last else {
            Issue.record("no arguments")
            return
        }
        let parser = JSONParser()
        #expect(try parser.parse(arguments).kind == .object)
    }

    @Test(arguments: [
        (
            #"{"temperature_celsius": 21, "sky": "clear"}"#,
            "Get weather answered: temperature celsius: 21, sky: clear."
        ),
        ("It is sunny.", "Get weather answered: It is sunny."),
        ("", "Get weather answered nothing."), ("[]", "Get weather answered nothing."),
    ])
    func speaksTheOutputOfAFunction(output: String, expected: String) async throws {
        let messages: [ModelMessage] = [
            .user("the weather"),
            .functionCall(callID: "1", name: "get_weather", arguments: "{}"),
            .functionOutput(callID: "1", output: output),
        ]
        #expect(try await answer(messages) == expected)
        let request = ModelRequest(model: "demo", messages: messages, tools: [weather])
        #expect(try await deltas(request).text == expected)
    }
}
