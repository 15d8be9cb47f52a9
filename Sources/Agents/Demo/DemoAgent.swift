// The agent that answers when no model is configured, so that a server can be tried offline. It
// repeats what the user said, answers a few questions about itself, and exercises function tools.
// DemoToolUse chooses the tool and its arguments.
//
// Invariant: the same request gets the same reply. Nothing here waits, draws a random number or
// reads a clock.

import Codec
import Session

/// A built-in agent without a model. Its replies are short, and it says what it is when asked.
public struct DemoAgent: LanguageModel {
    /// The highest number that it counts to: such a reply is long enough to interrupt.
    static let maxCount = 100
    /// Bytes of the last message that it reads, so that its work does not grow with what a client
    /// sends.
    static let maxBytesRead = 2_048

    /// Creates the agent.
    public init() {}

    /// Answers the last message, word by word. In the usage, a word of the reply counts as one
    /// token, and so do four bytes of the request.
    /// - Throws: what `reply` throws, or `CancellationError`.
    public func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        let inputTokens = Self.inputTokens(of: request)
        if let call = DemoToolUse.call(for: request) {
            try await reply(.functionCallStarted(callID: call.callID, name: call.name))
            try await reply(.functionCallArguments(call.arguments))
            try await reply(.usage(inputTokens: inputTokens, cachedTokens: 0, outputTokens: 1))
            return
        }
        let words = Self.words(of: Self.answer(to: request))
        let limit = request.maxOutputTokens ?? words.count
        for (index, word) in words.prefix(limit).enumerated() {
            try Task.checkCancellation()
            try await reply(.text(index == 0 ? word : " " + word))
        }
        if limit < words.count { try await reply(.incomplete(reason: "max_output_tokens")) }
        try await reply(
            .usage(
                inputTokens: inputTokens, cachedTokens: 0, outputTokens: min(limit, words.count)))
    }

    /// The whole reply to the last message.
    static func answer(to request: ModelRequest) -> String {
        guard let last = request.messages.last(where: { !isSystem($0) }) else {
            return "Hello! I am Parley's demo agent. Say something and I will repeat it."
        }
        switch last {
        case .functionOutput(let callID, let output):
            return answer(toOutput: output, of: callID, in: request.messages)
        case .user(let text): return answer(toUser: beginning(of: text))
        case .userAudio: return answer(toUser: "")
        case .userParts(let parts): return answer(toUser: beginning(of: text(of: parts)))
        case .system, .assistant, .functionCall:
            return "It is your turn: say something and I will repeat it."
        }
    }

    private static func answer(toOutput output: String, of id: String, in messages: [ModelMessage])
        -> String
    {
        var name = "The function"
        for case .functionCall(let callID, let called, _) in messages where callID == id {
            name = DemoToolUse.spokenName(of: called)
        }
        let spoken = DemoToolUse.spokenText(of: output)
        return spoken.isEmpty ? "\(name) answered nothing." : "\(name) answered: \(spoken)"
    }

    private static func answer(toUser text: String) -> String {
        let heard = words(of: text)
        let spoken = heard.map(bareWord).filter { !$0.isEmpty }
        guard !spoken.isEmpty else { return "I did not catch that. Could you say it again?" }
        if let count = countAskedFor(in: spoken) {
            return (1...count).map(String.init).joined(separator: ", ") + "."
        }
        let said = " " + spoken.joined(separator: " ") + " "
        for topic in topics where topic.phrases.contains(where: { said.contains(" \($0) ") }) {
            guard let limit = topic.maxWords else { return topic.answer }
            if spoken.count <= limit { return topic.answer }
        }
        let quoted = heard.joined(separator: " ")
        return "You said: "
            + (quoted.last.map { ".!?".contains($0) } == true ? quoted : quoted + ".")
    }

    private struct Topic {
        var phrases: [String]
        /// The topic is recognised only in a message of at most this many words. Nil sets no limit.
        var maxWords: Int?
        var answer: String
    }

    private static let topics = [
        Topic(
            phrases: ["what is parley", "what's parley", "about parley", "what is parlay"],
            answer: "Parley is a voice session server. It hears you, finds the end of your turn, "
                + "asks an agent for an answer, and speaks it."),
        Topic(
            phrases: ["who are you", "what are you", "your name"],
            answer: "I am Parley's demo agent. There is no language model behind me; "
                + "start the server with an L L M address to talk to one."),
        Topic(
            phrases: ["what can you do", "help", "help me"], maxWords: 6,
            answer: "I repeat what you say, count when you ask me to, and call a function when "
                + "your session offers one and you name it. Interrupt me whenever you like."),
        Topic(
            phrases: ["what time", "the time", "what day", "what date"], maxWords: 8,
            answer: "I have no clock. Offer me a function that tells the time, and I will "
                + "call it."),
        Topic(
            phrases: ["hello", "hi", "hey", "good morning", "good evening"], maxWords: 4,
            answer: "Hello! I am Parley's demo agent. Say something and I will repeat it."),
        Topic(phrases: ["thank you", "thanks"], maxWords: 5, answer: "You are welcome."),
        Topic(phrases: ["goodbye", "good bye", "bye"], maxWords: 4, answer: "Goodbye!"),
    ]

    /// `count to 20`, `please count up to twenty`.
    private static func countAskedFor(in spoken: [String]) -> Int? {
        guard let verb = spoken.firstIndex(of: "count"),
            let preposition = spoken[verb...].firstIndex(of: "to"), preposition <= verb + 2,
            preposition + 1 < spoken.count
        else { return nil }
        let word = spoken[preposition + 1]
        guard let count = Int(word) ?? numerals[word], count >= 1 else { return nil }
        return min(count, maxCount)
    }

    private static let numerals = [
        "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
        "nine": 9, "ten": 10, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30,
        "forty": 40, "fifty": 50, "hundred": 100,
    ]

    private static func isSystem(_ message: ModelMessage) -> Bool {
        if case .system = message { true } else { false }
    }

    /// The tokens that a request counts as: one for four bytes.
    static func inputTokens(of request: ModelRequest) -> Int {
        (request.messages.reduce(0) { $0 + byteCount(of: $1) } + 3) / 4
    }

    private static func byteCount(of message: ModelMessage) -> Int {
        switch message {
        case .system(let text), .user(let text), .assistant(let text): text.utf8.count
        case .userAudio(let audio): audio.sampleCount * 2
        case .userParts(let parts): text(of: parts).utf8.count
        case .functionCall(_, let name, let arguments): name.utf8.count + arguments.utf8.count
        case .functionOutput(_, let output): output.utf8.count
        }
    }

    /// The text parts of a message; the agent ignores audio and images.
    static func text(of parts: [UserPart]) -> String {
        parts.compactMap { if case .text(let text) = $0 { text } else { nil } }
            .joined(separator: " ")
    }

    /// The first `maxBytesRead` bytes of a text, cut between two Unicode scalars.
    static func beginning(of text: String) -> String {
        let bytes = text.utf8
        guard
            var end = bytes.index(
                bytes.startIndex, offsetBy: maxBytesRead, limitedBy: bytes.endIndex),
            end < bytes.endIndex
        else { return text }
        while bytes[end] & 0xC0 == 0x80 { end = bytes.index(before: end) }
        return String(text[..<end])
    }

    static func words(of text: String) -> [String] {
        text.split(whereSeparator: \.isWhitespace).map(String.init)
    }

    /// A word in lower case without the punctuation around it.
    static func bareWord(_ word: String) -> String {
        let letters = word.lowercased().drop { !$0.isLetter && !$0.isNumber }
        guard let end = letters.lastIndex(where: { $0.isLetter || $0.isNumber }) else { return "" }
        return String(letters[...end])
    }
}
