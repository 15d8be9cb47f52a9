// The agent of a new user's first minute: it explains Parley, answers about the session by calling
// tools, counts slowly enough to be interrupted, tells the time, and says how to use a real model.
// GuideIntent finds what the user wants, GuideReplies has the texts, GuideTools the tools.
//
// Invariant: the same request at the same time gets the same reply. Nothing here reads a clock: the
// wall time is an argument, and the pauses of a count are the host's.

import Codec
import Session

/// A built-in agent without a model, which guides a user through Parley.
public struct GuideAgent: LanguageModel {
    /// The pause between two numbers of a count. 600 ms: about as slow as a person counts.
    static let countingPause = Duration.milliseconds(600)
    /// Turns of the user among which a count that is to go on is looked for. 32: a count of a hundred
    /// that is interrupted at every third number. A conversation may have a thousand, and the event
    /// loop waits for the guide.
    static let maxTurnsBack = 32

    private let wallSeconds: @Sendable () -> Int

    /// - Parameter wallSeconds: seconds since 1970.
    public init(wallSeconds: @escaping @Sendable () -> Int) { self.wallSeconds = wallSeconds }

    /// What it does about a request.
    enum Step: Equatable {
        case call(DemoToolUse.Call)
        /// - Parameter pause: before each word but the first.
        case say(String, pause: Duration? = nil)
    }

    /// Answers the last message: calls a tool, or replies word by word. In the usage, a word of the
    /// reply counts as one token, and so do four bytes of the request.
    /// - Throws: what `reply` throws, or `CancellationError`.
    public func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        let inputTokens = DemoAgent.inputTokens(of: request)
        switch Self.step(for: request, wallSeconds: wallSeconds()) {
        case .call(let call):
            try await reply(.functionCallStarted(callID: call.callID, name: call.name))
            try await reply(.functionCallArguments(call.arguments))
            try await reply(.usage(inputTokens: inputTokens, cachedTokens: 0, outputTokens: 1))
        case .say(let text, let pause):
            let words = DemoAgent.words(of: text)
            let limit = request.maxOutputTokens ?? words.count
            for (index, word) in words.prefix(limit).enumerated() {
                try Task.checkCancellation()
                if index > 0, let pause { try await host.sleep(for: pause) }
                try await reply(.text(index == 0 ? word : " " + word))
            }
            if limit < words.count { try await reply(.incomplete(reason: "max_output_tokens")) }
            try await reply(
                .usage(
                    inputTokens: inputTokens, cachedTokens: 0,
                    outputTokens: min(limit, words.count)))
        }
    }

    /// What is due.
    static func step(for request: ModelRequest, wallSeconds: Int) -> Step {
        let last = request.messages.last {
            if case .system = $0 { false } else { true }
        }
        guard let last else { return .say(GuideReplies.greeting) }
        switch last {
        case .user(let text): return step(for: text, request, wallSeconds)
        case .userParts(let parts):
            return step(for: DemoAgent.text(of: parts), request, wallSeconds)
        case .userAudio: return .say(GuideReplies.nothing)
        case .functionOutput(let callID, let output):
            return .say(answer(toOutput: output, of: callID, in: request))
        case .system, .assistant, .functionCall: return .say(GuideReplies.yourTurn)
        }
    }

    private static func step(
        for text: String, _ request: ModelRequest, _ wallSeconds: Int
    ) -> Step {
        // The client has asked for a call, of any function or of this one.
        if request.toolChoice != ToolChoice.auto, let call = DemoToolUse.call(for: request) {
            return .call(call)
        }
        let heard = DemoAgent.beginning(of: text)
        switch GuideIntent(of: heard) {
        case .sessions: return look(with: .countSessions, for: request)
        case .memory: return look(with: .readMemory, for: request)
        case .latency: return look(with: .readLatency, for: request)
        case .time:
            if let call = clockCall(for: request) { return .call(call) }
            return .say(GuideReplies.time(wallSeconds))
        case .count(let count):
            return .say(GuideReplies.counted(count), pause: countingPause)
        case .goOn: return goOn(request.messages)
        case .again:
            return .say(lastReply(in: request.messages) ?? GuideReplies.nothingToRepeat)
        case .identity: return .say(withInstructionsNote(GuideReplies.identity, request))
        case .unknown:
            if let call = callOfClient(request) { return .call(call) }
            return .say(withInstructionsNote(GuideReplies.unknown(heard), request))
        case .parley: return .say(GuideReplies.parley)
        case .maker: return .say(GuideReplies.maker)
        case .abilities: return .say(GuideReplies.abilities)
        case .interruption: return .say(GuideReplies.interruption)
        case .ownModel: return .say(GuideReplies.ownModel)
        case .wellbeing: return .say(GuideReplies.wellbeing)
        case .greeting: return .say(GuideReplies.greeting)
        case .thanks: return .say(GuideReplies.thanks)
        case .farewell: return .say(GuideReplies.farewell)
        case .stop: return .say(GuideReplies.stop)
        case .nothing: return .say(GuideReplies.nothing)
        }
    }

    /// In the first reply of a session with instructions, it says that it cannot follow them.
    private static func withInstructionsNote(_ reply: String, _ request: ModelRequest) -> String {
        let isFirst = lastReply(in: request.messages) == nil
        guard isFirst, request.instructions.contains(where: { !$0.isWhitespace }) else {
            return reply
        }
        return "\(reply) \(GuideReplies.instructions)"
    }

    // MARK: Tools

    private static func look(with tool: GuideTool, for request: ModelRequest) -> Step {
        let isOffered = request.tools.contains { $0.name == tool.functionName }
        guard isOffered, request.toolChoice != ToolChoice.none else {
            return .say(GuideReplies.notOffered)
        }
        return .call(call(tool.functionName, for: request))
    }

    private static func call(
        _ name: String, arguments: String = "{}", for request: ModelRequest
    ) -> DemoToolUse.Call {
        // The position in the conversation makes the id unique within it.
        DemoToolUse.Call(
            callID: "call_guide_\(request.messages.count)", name: name, arguments: arguments)
    }

    /// A call of the client's clock, which knows the user's time zone; nil: it offers none.
    private static func clockCall(for request: ModelRequest) -> DemoToolUse.Call? {
        let clocks = ["get_time", "get_current_time", "current_time", "tell_time"]
        guard request.toolChoice != ToolChoice.none,
            let clock = request.tools.first(where: { clocks.contains($0.name) })
        else { return nil }
        return call(clock.name, for: request)
    }

    /// A call of a function of the client whose name occurs in the message.
    private static func callOfClient(_ request: ModelRequest) -> DemoToolUse.Call? {
        var request = request
        request.tools.removeAll { GuideTool(functionName: $0.name) != nil }
        return DemoToolUse.call(for: request)
    }

    private static func answer(
        toOutput output: String, of id: String, in request: ModelRequest
    ) -> String {
        for case .functionCall(let callID, let name, _) in request.messages where callID == id {
            if let tool = GuideTool(functionName: name) { return GuideReplies.fact(tool, output) }
            // The page's clock answers with a sentence.
            let said = DemoToolUse.spokenText(of: output)
            if said.hasPrefix("It is ") || said.hasPrefix("The page ") { return said }
        }
        return DemoAgent.answer(to: request)
    }

    // MARK: Earlier turns

    /// The beginning of the last reply, as far as the user heard it; nil: there is none.
    private static func lastReply(in messages: [ModelMessage]) -> String? {
        for case .assistant(let text) in messages.reversed()
        where text.contains(where: { !$0.isWhitespace }) {
            return DemoAgent.beginning(of: text)
        }
        return nil
    }

    /// Goes on with a count that was interrupted.
    private static func goOn(_ messages: [ModelMessage]) -> Step {
        guard let heard = lastReply(in: messages).flatMap(lastNumber),
            let count = lastCount(in: messages), let rest = count.rest(after: heard)
        else { return .say(GuideReplies.nothingToGoOn) }
        return .say(GuideReplies.counted(rest), pause: countingPause)
    }

    /// The last number of a count that may end within a number: "8, 9, 1" ends with 9.
    private static func lastNumber(of count: String) -> Int? {
        let numbers = GuideIntent.words(of: count).compactMap { Int($0) }
        guard var last = numbers.first else { return nil }
        for number in numbers.dropFirst() {
            guard number == last &+ 1 || number == last &- 1 else { break }
            last = number
        }
        return last
    }

    /// The count that the user has asked for last; nil: none of the last turns did.
    private static func lastCount(in messages: [ModelMessage]) -> SpokenCount? {
        var turns = 0
        for case .user(let text) in messages.reversed() {
            turns += 1
            guard turns <= maxTurnsBack else { return nil }
            if case .count(let count) = GuideIntent(of: DemoAgent.beginning(of: text)) {
                return count
            }
        }
        return nil
    }
}
