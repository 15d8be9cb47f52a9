// The agent of a new user's first minute. It explains Parley, and answers about the session by
// calling tools. It counts slowly enough to be interrupted, tells the time, and says how to use a
// real model. GuideIntent finds what the user wants, GuideReplies has the texts, GuideTools the
// tools.
//
// Invariant: the same request at the same time gets the same reply. Nothing here reads a clock: the
// wall time is an argument, and the pauses of a count are the host's.

import Codec
import Session

/// A built-in agent without a model, which guides a user through Parley.
public struct GuideAgent: LanguageModel {
    /// The pause between two numbers of a count. 250 ms: half as long as a voice takes to say one, so that
    /// its words are always there, and no silence comes between two. A count in text is still slow enough
    /// to be interrupted.
    static let countingPause = Duration.milliseconds(250)
    /// Messages before the last in which the guide looks for an interrupted reply to go on with. The
    /// limit is 64: 32 turns and replies, as in a count of a hundred that is interrupted at every third
    /// number. A conversation may have thousands, and the event loop waits for the guide.
    static let maxMessagesBack = 64

    /// What a reply may depend on beside the request.
    struct Facts {
        /// Seconds since 1970.
        var wallSeconds: Int
        /// Codes (ISO 639-1) of what the server's recogniser hears.
        var languages = ["en"]
    }

    private let wallSeconds: @Sendable () -> Int
    private let languages: [String]

    /// - Parameters:
    ///   - languages: codes (ISO 639-1) of what the server's recogniser hears, the most expected one
    ///     first. Empty: it is not known.
    ///   - wallSeconds: seconds since 1970.
    public init(languages: [String] = ["en"], wallSeconds: @escaping @Sendable () -> Int) {
        self.languages = languages
        self.wallSeconds = wallSeconds
    }

    /// The guide's reaction to a request.
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
        let facts = Facts(wallSeconds: wallSeconds(), languages: languages)
        switch Self.step(for: request, facts) {
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

    /// The reaction to a request.
    static func step(for request: ModelRequest, _ facts: Facts) -> Step {
        let last = request.messages.last {
            if case .system = $0 { false } else { true }
        }
        guard let last else { return .say(GuideReplies.greeting) }
        switch last {
        case .user(let text): return step(for: text, request, facts)
        case .userParts(let parts):
            return step(for: DemoAgent.text(of: parts), request, facts)
        case .userAudio: return .say(GuideReplies.nothing)
        case .functionOutput(let callID, let output):
            return .say(answer(toOutput: output, of: callID, in: request))
        case .system, .assistant, .functionCall: return .say(GuideReplies.yourTurn)
        }
    }

    private static func step(
        for text: String, _ request: ModelRequest, _ facts: Facts
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
            return .say(GuideReplies.time(facts.wallSeconds))
        case .count(let count):
            return .say(GuideReplies.counted(count), pause: countingPause)
        case .goOn: return goOn(request.messages, facts)
        case .again:
            return .say(lastReply(in: request.messages) ?? GuideReplies.nothingToRepeat)
        case .identity: return .say(withInstructionsNote(GuideReplies.identity, request))
        case .unknown:
            if let call = callOfClient(request) { return .call(call) }
            return .say(withInstructionsNote(GuideReplies.unknown(heard), request))
        case .languages: return .say(GuideReplies.languages(facts.languages))
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

    /// A call of the client's clock, which knows the user's time zone, or nil where the client
    /// offers no clock.
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

    /// The beginning of the last reply, as far as the user heard it, or nil where there is no reply
    /// yet.
    private static func lastReply(in messages: [ModelMessage]) -> String? {
        for case .assistant(let text) in messages.reversed()
        where text.contains(where: { !$0.isWhitespace }) {
            return DemoAgent.beginning(of: text)
        }
        return nil
    }

    /// Goes on with the reply that was interrupted last, also where complete ones followed it.
    private static func goOn(_ messages: [ModelMessage], _ facts: Facts) -> Step {
        let recent = messages.suffix(maxMessagesBack + 1)
        for index in recent.indices.reversed() {
            guard let asked = recent[index].userText else { continue }
            let since = recent[(index + 1)...]
            switch GuideIntent(of: DemoAgent.beginning(of: asked)) {
            case .goOn, .stop, .nothing: continue
            case .count(let count):
                if let rest = rest(of: count, heardIn: since) {
                    return .say(GuideReplies.counted(rest), pause: countingPause)
                }
            default:
                if let rest = rest(ofReplyTo: asked, heardIn: since, facts) {
                    return .say(rest)
                }
            }
        }
        return .say(GuideReplies.nothingToGoOn)
    }

    /// The rest of a count: each reply that begins with the next number is a part of it.
    private static func rest(
        of count: SpokenCount, heardIn messages: ArraySlice<ModelMessage>
    ) -> SpokenCount? {
        var rest = count
        for case .assistant(let text) in messages where text.hasPrefix("\(rest.first)") {
            guard let heard = heardCount(in: DemoAgent.beginning(of: text)),
                heard.first == rest.first
            else { continue }
            guard let left = rest.rest(after: heard.last) else { return nil }
            rest = left
        }
        return rest
    }

    /// The part of a count that was heard, which may end within a number: "8, 9, 1" is 8 and 9. The
    /// result is nil where the text has other words.
    private static func heardCount(in text: String) -> SpokenCount? {
        let words = GuideIntent.words(of: text)
        let numbers = words.compactMap { Int($0) }
        guard let first = numbers.first, numbers.count == words.count else { return nil }
        var heard = SpokenCount(first: first, last: first)
        for number in numbers.dropFirst() {
            guard number == heard.last &+ 1 || number == heard.last &- 1 else { break }
            heard.last = number
        }
        return heard
    }

    /// The rest of a fixed reply of which a part was heard, from the beginning of the sentence that was
    /// cut off. Nil means that the whole was heard, that no part was, or that the reply is no fixed
    /// one.
    private static func rest(
        ofReplyTo asked: String, heardIn messages: ArraySlice<ModelMessage>, _ facts: Facts
    ) -> String? {
        let again = ModelRequest(model: "", messages: [])
        guard case .say(let reply, nil) = step(for: asked, again, facts) else { return nil }
        var rest = reply.split(whereSeparator: \.isWhitespace)[...]
        var isBegun = false
        for case .assistant(let text) in messages where text.hasPrefix(rest.first ?? "") {
            let heard = DemoAgent.beginning(of: text).split(whereSeparator: \.isWhitespace)
            guard rest.starts(with: heard) else { continue }
            guard heard.count < rest.count else { return nil }
            isBegun = true
            let ends = heard.lastIndex { ".!?".contains($0.last ?? " ") }
            rest = rest.dropFirst(ends.map { $0 + 1 } ?? 0)
        }
        return isBegun ? rest.joined(separator: " ") : nil
    }
}

extension ModelMessage {
    /// The words that the user said or typed. Nil means that the message is no user's, or has no
    /// text.
    fileprivate var userText: String? {
        switch self {
        case .user(let text): text
        case .userParts(let parts): DemoAgent.text(of: parts)
        default: nil
        }
    }
}
