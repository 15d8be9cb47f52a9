// What the guide does about a request: tool calls, sentences of their results, pauses, and what
// earlier turns change.

import Codec
import Session
import Testing

@testable import Agents

@Suite struct GuideAgentTests {
    /// Tuesday, 24 November 2026, 18:05:09 UTC.
    private static let wallSeconds = 1_795_543_509
    private static let lookups = GuideTool.allCases.map { FunctionTool(name: $0.functionName) }

    private func request(
        _ messages: [ModelMessage], instructions: String = "", tools: [FunctionTool] = lookups,
        choice: ToolChoice = .auto
    ) -> ModelRequest {
        ModelRequest(
            model: "guide", instructions: instructions, messages: messages, tools: tools,
            toolChoice: choice)
    }

    private func step(_ request: ModelRequest) -> GuideAgent.Step {
        GuideAgent.step(for: request, .init(wallSeconds: Self.wallSeconds))
    }

    private func said(_ messages: [ModelMessage], instructions: String = "") -> String {
        guard case .say(let text, _) = step(request(messages, instructions: instructions)) else {
            Issue.record("a tool was called")
            return ""
        }
        return text
    }

    // MARK: Facts

    @Test(arguments: [
        (["en"], "I hear and speak English. Run make languages"),
        (["en", "fr", "it"], "The server hears English, French and Italian. I know English only"),
        (["de"], "The server hears German. I know English only"),
        ([], "I speak English. Which languages the server hears is up to its recogniser."),
        (["en", "haw"], "I speak English. Which languages the server hears"),
    ])
    func saysInWhichLanguagesTheServerHears(codes: [String], beginning: String) {
        let asked = ModelRequest(model: "", messages: [.user("In which languages?")])
        let step = GuideAgent.step(for: asked, .init(wallSeconds: 0, languages: codes))
        guard case .say(let text, nil) = step else {
            Issue.record("\(step)")
            return
        }
        #expect(text.hasPrefix(beginning))
    }

    @Test(arguments: [
        ("How many sessions are open?", "parley__count_sessions"),
        ("How much memory do you use?", "parley__read_memory"),
        ("How long did that take?", "parley__read_latency"),
    ])
    func aFactIsLookedUp(question: String, tool: String) async throws {
        let asked = request([.assistant("Hello!"), .user(question)])
        let deltas = try await GuideAgent(wallSeconds: { 0 }).deltas(
            for: asked, on: ScriptedAgentHost())
        #expect(
            deltas.dropLast() == [
                .functionCallStarted(callID: "call_guide_2", name: tool),
                .functionCallArguments("{}"),
            ])
    }

    @Test func aFactWithoutItsToolIsNotInvented() {
        let question: [ModelMessage] = [.user("How many sessions are open?")]
        for other in [request(question, tools: []), request(question, choice: .none)] {
            #expect(step(other) == .say(GuideReplies.notOffered))
        }
    }

    @Test(arguments: [
        (GuideTool.countSessions, #"{"sessions_open":1}"#, "One session is open. It is yours."),
        (
            .countSessions, #"{"sessions_open":12}"#,
            "12 sessions are open. One of them is yours."
        ),
        (
            .readMemory, #"{"session_bytes":41230}"#,
            "This session takes 41 kilobytes of the server's memory."
        ),
        (
            .readMemory, #"{"session_bytes":999}"#,
            "This session takes 999 bytes of the server's memory."
        ),
        (
            .readMemory, #"{"session_bytes":1240000}"#,
            "This session takes 1.2 megabytes of the server's memory."
        ),
        (
            .readLatency, #"{"transcript_ms":210,"first_token_ms":211,"first_audio_ms":290}"#,
            "You stopped speaking, and I had your words after 210 milliseconds. My reply began "
                + "after 211 milliseconds, and its sound after 290 milliseconds."
        ),
        (
            .readLatency, #"{"transcript_ms":1,"first_token_ms":12000,"first_audio_ms":null}"#,
            "You stopped speaking, and I had your words after one millisecond. My reply began "
                + "after 12 seconds."
        ),
        (
            .readLatency, #"{"transcript_ms":null,"first_token_ms":0,"first_audio_ms":null}"#,
            "Your last message was typed. My first word came in less than a millisecond."
        ),
        (
            .readLatency, #"{"transcript_ms":null,"first_token_ms":null,"first_audio_ms":null}"#,
            "I have answered no turn before this one. Ask me again."
        ),
        (.countSessions, "Error: Nothing is known of this session.", GuideReplies.lookupFailed),
        (.countSessions, #"{"sessions_open":"many"}"#, GuideReplies.lookupFailed),
        (.readMemory, "[]", GuideReplies.lookupFailed),
        (.readMemory, "", GuideReplies.lookupFailed),
    ])
    func aResultBecomesASentence(tool: GuideTool, output: String, expected: String) {
        let messages: [ModelMessage] = [
            .user("a question"),
            .functionCall(callID: "mcp_1", name: tool.functionName, arguments: "{}"),
            .functionOutput(callID: "mcp_1", output: output),
        ]
        #expect(said(messages) == expected)
    }

    // MARK: Time

    @Test func theTimeIsTheOneThatItIsGiven() {
        #expect(said([.user("What time is it?")]) == "It is 18:05 on Tuesday, in universal time.")
        #expect(GuideReplies.time(0) == "It is 0:00 on Thursday, in universal time.")
    }

    @Test func theClientsClockIsAskedWhereThereIsOne() {
        let clock = FunctionTool(name: "get_time")
        let asked = request([.user("What time is it?")], tools: [clock])
        #expect(
            step(asked)
                == .call(.init(callID: "call_guide_1", name: "get_time", arguments: "{}")))
        let answered: [ModelMessage] =
            asked.messages + [
                .functionCall(callID: "call_guide_1", name: "get_time", arguments: "{}"),
                .functionOutput(callID: "call_guide_1", output: "It is 7:05 PM on Tuesday."),
            ]
        #expect(said(answered) == "It is 7:05 PM on Tuesday.")
    }

    // MARK: Counting

    @Test func aCountPausesBetweenItsNumbers() async throws {
        let host = ScriptedAgentHost()
        let deltas = try await GuideAgent(wallSeconds: { 0 }).deltas(
            for: request([.user("Count to four.")]), on: host)
        #expect(
            deltas == [
                .text("1,"), .text(" 2,"), .text(" 3,"), .text(" 4."),
                .usage(inputTokens: 4, cachedTokens: 0, outputTokens: 4),
            ])
        #expect(host.sleeps == Array(repeating: GuideAgent.countingPause, count: 3))
    }

    @Test func aCountStopsWhereItIsInterrupted() async throws {
        let counted = Collected<ModelDelta>()
        let asked = request([.user("Count to a hundred.")])
        let task = Task {
            try await GuideAgent(wallSeconds: { 0 }).respond(to: asked, on: ScriptedAgentHost()) {
                counted.append($0)
                if counted.all.count == 3 { withUnsafeCurrentTask { $0?.cancel() } }
            }
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(counted.all == [.text("1,"), .text(" 2,"), .text(" 3,")])
    }

    @Test func anInterruptedCountGoesOnAfterWhatWasHeard() {
        let heard: [ModelMessage] = [
            .user("Count to seven."), .assistant("1, 2, 3,"), .user("Go on."),
        ]
        #expect(step(request(heard)) == .say("4, 5, 6, 7.", pause: GuideAgent.countingPause))
        let twice = heard + [.assistant("4, 5,"), .user("Continue")]
        #expect(step(request(twice)) == .say("6, 7.", pause: GuideAgent.countingPause))
        let within: [ModelMessage] = [
            .user("Count from eight to eleven."), .assistant("8, 9, 1"), .user("Go on."),
        ]
        #expect(step(request(within)) == .say("10, 11.", pause: GuideAgent.countingPause))
        let whole: [ModelMessage] = [
            .user("Count to two."), .assistant("1, 2."), .user("Go on."),
        ]
        #expect(said(whole) == GuideReplies.nothingToGoOn)
        #expect(said([.user("Go on.")]) == GuideReplies.nothingToGoOn)
    }

    @Test(arguments: ["Stop.", "What time is it?", "How are you?", "Count on me."])
    func anInterruptedCountGoesOnWhateverWasSaidSince(between: String) {
        let until: [ModelMessage] = [
            .user("Count to 20."), .assistant("1, 2, 3, 4, 5, 6,"), .user(between),
        ]
        let reply = said(until)
        let rest = GuideReplies.counted(SpokenCount(first: 7, last: 20))
        #expect(
            step(request(until + [.assistant(reply), .user("Go on.")]))
                == .say(rest, pause: GuideAgent.countingPause))
        // And after a second interruption.
        let later =
            until + [
                .assistant(reply), .user("Go on."), .assistant("7, 8, 9, 1"), .user("Wait."),
                .assistant(GuideReplies.stop), .user("continue"),
            ]
        #expect(
            step(request(later))
                == .say(
                    GuideReplies.counted(SpokenCount(first: 10, last: 20)),
                    pause: GuideAgent.countingPause))
    }

    /// A fact may begin with the number that is due.
    @Test func aNumberInAnotherReplyIsNoPartOfTheCount() {
        let messages: [ModelMessage] = [
            .user("Count to 20."), .assistant("1, 2,"), .user("How many sessions are open?"),
            .assistant("3 sessions are open. One of them is yours."), .user("Go on."),
        ]
        let rest = GuideReplies.counted(SpokenCount(first: 3, last: 20))
        #expect(step(request(messages)) == .say(rest, pause: GuideAgent.countingPause))
    }

    @Test func aCountOfWhichNothingWasHeardBeginsAnew() {
        let messages: [ModelMessage] = [.user("Count to three."), .user("Go on.")]
        #expect(step(request(messages)) == .say("1, 2, 3.", pause: GuideAgent.countingPause))
    }

    @Test func anInterruptedExplanationGoesOnFromItsSentence() {
        let heard: [ModelMessage] = [
            .user("What is Parley?"),
            .assistant("Parley is a server for voice agents. It hears you,"),
            .user("Stop."), .assistant(GuideReplies.stop), .user("Go on."),
        ]
        let rest = said(heard)
        #expect(rest.hasPrefix("It hears you, finds the end of your turn,"))
        #expect(GuideReplies.parley.hasSuffix(rest))
        let twice =
            heard + [
                .assistant(
                    "It hears you, finds the end of your turn, asks an agent for a reply, and "
                        + "speaks it. Existing clients"),
                .user("Hold on."), .assistant(GuideReplies.stop), .user("Go on."),
            ]
        #expect(said(twice).hasPrefix("Existing clients of the OpenAI Realtime protocol"))
        let whole: [ModelMessage] = [
            .user("What is Parley?"), .assistant(GuideReplies.parley), .user("Go on."),
        ]
        #expect(said(whole) == GuideReplies.nothingToGoOn)
    }

    /// The guide runs on the event loop: its work must not grow with the conversation.
    @Test func aCountOfLongAgoDoesNotGoOn() {
        let begin: [ModelMessage] = [.user("Count to a hundred."), .assistant("1,")]
        func afterTurns(_ turns: Int) -> GuideAgent.Step {
            step(request(begin + (0..<turns).map { _ in .user("Go on.") }))
        }
        let rest = GuideReplies.counted(SpokenCount(first: 2, last: 100))
        // The count, its reply, and "Go on." but for the one that is answered.
        let most = GuideAgent.maxMessagesBack - 1
        #expect(afterTurns(most) == .say(rest, pause: GuideAgent.countingPause))
        #expect(afterTurns(most + 1) == .say(GuideReplies.nothingToGoOn))
    }

    @Test func theBeginningOfALongReplyIsRepeated() {
        let long = String(repeating: "word ", count: 100_000)
        let reply = said([.assistant(long), .user("Repeat that.")])
        #expect(!reply.isEmpty && reply.utf8.count <= DemoAgent.maxBytesRead)
    }

    @Test func theTokenLimitEndsAReply() async throws {
        var asked = request([.user("Count to four.")])
        asked.maxOutputTokens = 2
        let deltas = try await GuideAgent(wallSeconds: { 0 }).deltas(
            for: asked, on: ScriptedAgentHost())
        #expect(
            deltas == [
                .text("1,"), .text(" 2,"), .incomplete(reason: "max_output_tokens"),
                .usage(inputTokens: 4, cachedTokens: 0, outputTokens: 2),
            ])
    }

    // MARK: Other replies

    @Test func theUnknownIsRepeatedWithThreeThingsToAsk() {
        let reply = said([.user("Go forward ten meters.")])
        #expect(reply.hasPrefix("I heard: Go forward ten meters. "))
        for part in ["sessions", "how long", "real model"] { #expect(reply.contains(part)) }
        let long = said([.user(String(repeating: "word ", count: 100_000))])
        #expect(long.utf8.count < 300 && long.contains(", and so on."))
    }

    @Test func theLastReplyIsRepeatedAsItWasHeard() {
        let messages: [ModelMessage] = [
            .user("What is Parley?"), .assistant("Parley is a server"), .assistant(" "),
            .user("What did you say?"),
        ]
        #expect(said(messages) == "Parley is a server")
        #expect(said([.user("What did you say?")]) == GuideReplies.nothingToRepeat)
    }

    @Test func instructionsAreDeclinedOnce() {
        let question: [ModelMessage] = [.user("Who are you?")]
        #expect(said(question) == GuideReplies.identity)
        #expect(said(question, instructions: " \n") == GuideReplies.identity)
        #expect(
            said(question, instructions: "Be a pirate.")
                == "\(GuideReplies.identity) \(GuideReplies.instructions)")
        #expect(
            said([.user("Hi"), .assistant("Hello!")] + question, instructions: "Be a pirate.")
                == GuideReplies.identity)
        #expect(said([.user("Thanks")], instructions: "Be a pirate.") == GuideReplies.thanks)
    }

    @Test func itGreetsWhereNothingWasSaid() {
        #expect(said([]) == GuideReplies.greeting)
        #expect(said([.system("Be kind.")]) == GuideReplies.greeting)
        #expect(said([.assistant("Hello!")]) == GuideReplies.yourTurn)
    }

    @Test func aFunctionOfTheClientIsCalledByItsName() {
        let lamp = FunctionTool(name: "turn_on_lamp")
        let asked = request([.user("Please turn on the lamp")], tools: Self.lookups + [lamp])
        #expect(
            step(asked)
                == .call(.init(callID: "call_demo_1", name: "turn_on_lamp", arguments: "{}")))
        let forced = request(
            [.user("Hello")], tools: [lamp], choice: .function(name: "turn_on_lamp"))
        #expect(
            step(forced)
                == .call(.init(callID: "call_demo_1", name: "turn_on_lamp", arguments: "{}")))
    }
}
