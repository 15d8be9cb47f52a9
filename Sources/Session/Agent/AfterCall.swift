// The question about a session that is over (`after-call` of its agent), and its answer: a summary, or
// facts as JSON. Both are values here: Server/AgentProfiles asks, and Session/Records keeps the answer.
//
// The model is shown the conversation as one text, not as messages of its own: it would go on with
// those, and services refuse calls of functions that the request does not describe.

import Codec

/// The operator's question about each ended session of an agent.
public struct AfterCall: Equatable, Sendable {
    /// The model's instructions.
    public var instructions: String
    /// JSON schema of an object, which the answer then is. Nil means that the answer is a text.
    public var schema: RawJSON?
    /// The model's name. Nil means the model of the session.
    public var model: String?

    /// Creates a question.
    public init(instructions: String, schema: RawJSON? = nil, model: String? = nil) {
        (self.instructions, self.schema, self.model) = (instructions, schema, model)
    }

    /// The instructions, with the form of the answer.
    var allInstructions: String {
        guard let schema else { return instructions }
        return instructions
            + "\n\nAnswer with one JSON object that fits this JSON schema, and with nothing else:\n"
            + schema.text
    }

    /// The response that asks it.
    /// - Parameter conversation: see `VoiceSession.endedConversation`.
    package func response(about conversation: String) -> ResponseParameters {
        var response = ResponseParameters()
        response.isInConversation = false
        response.instructions = allInstructions
        response.input = [
            ConversationItem(
                id: "", kind: .message(role: .user, content: [.inputText(conversation)]))
        ]
        return response
    }

    /// The answer that a model's text is. Of a text around a JSON object only the object counts: models
    /// put it into a block of code. Whether it fits the schema is not checked.
    package func answer(in text: String) -> AfterCallAnswer {
        guard let first = text.firstIndex(where: { !$0.isWhitespace }),
            let last = text.lastIndex(where: { !$0.isWhitespace })
        else { return .failed(code: "empty_answer", message: "The model has said nothing.") }
        guard schema != nil else { return .text(String(text[first...last])) }
        guard let start = text.firstIndex(of: "{"), let end = text.lastIndex(of: "}"),
            start < end, let object = try? JSONParser().parse(String(text[start...end]))
        else {
            return .failed(
                code: "invalid_answer", message: "The model's answer is no JSON object.")
        }
        return .data(RawJSON(rewriting: object))
    }
}

/// What came of the question about a session.
public enum AfterCallAnswer: Equatable, Sendable {
    case text(String)
    /// A JSON object.
    case data(RawJSON)
    /// There is no answer: a stable code and a sentence.
    case failed(code: String, message: String)

    /// Bytes of its texts.
    var heapBytes: Int {
        switch self {
        case .text(let text): text.heapBytes
        case .data(let json): json.heapBytes
        case .failed(let code, let message): code.heapBytes + message.heapBytes
        }
    }
}

extension VoiceSession {
    /// The question about this session, which is over. Nil means that its agent has none.
    package var afterCall: AfterCall? {
        parameters.kind == .realtime ? conduct?.agent.afterCall : nil
    }

    /// The conversation as it was heard, a line for each message, call and result. Where a model has no
    /// room for all of it, the oldest lines are left out. Nil: the user has said and typed no word.
    /// - Parameter question: what is asked about it.
    package func endedConversation(for question: AfterCall, at now: Instant) -> String? {
        let items = heardItems(at: now)
        guard items.contains(where: \.hasWordsOfUser) else { return nil }
        let lines = items.flatMap(\.modelMessages).compactMap(\.line)
        let window = context.limits.modelContextTokens
        var room =
            window - min(TokenEstimate.replyTokens, window / 2) - TokenEstimate.tokensPerMessage
            - TokenEstimate.text(bytes: question.allInstructions.utf8.count)
            - TokenEstimate.text(bytes: Self.heading.utf8.count)
        var first = lines.endIndex
        while first > 0 {
            room -= TokenEstimate.text(bytes: lines[first - 1].utf8.count + 1)
            // If the newest does not fit, the response fails and says so.
            guard room >= 0 || first == lines.endIndex else { break }
            first -= 1
        }
        return Self.heading + lines[first...].joined(separator: "\n")
    }

    private static let heading = "This conversation is over:\n\n"

    /// All items, replies with the words that were heard.
    private func heardItems(at now: Instant) -> [ConversationItem] {
        let items = conversation.items
        var open = items.filter { $0.status == .inProgress }.map(\.id)
        open += playback?.timeline?.unheard(at: now).map(\.itemID) ?? []
        let heard = recorded(Dictionary(open.map { ($0, now) }) { $1 }, at: now).items.map(\.item)
        return items.map { item in heard.first { $0.id == item.id } ?? item }
    }
}

extension ConversationItem {
    /// Whether the user has said or typed a word in it.
    fileprivate var hasWordsOfUser: Bool {
        guard case .message(role: .user, _) = kind else { return false }
        return modelMessages.contains { $0.userText.map(TranscriptWords.has) ?? false }
    }
}

extension ModelMessage {
    /// The user's text; nil: there is none.
    fileprivate var userText: String? {
        switch self {
        case .user(let text): return text
        case .userParts(let parts):
            let texts = parts.compactMap { if case .text(let text) = $0 { text } else { nil } }
            return texts.isEmpty ? nil : texts.joined(separator: " ")
        case .system, .userAudio, .assistant, .functionCall, .functionOutput: return nil
        }
    }

    /// The message as one line, so that no text can look like the next speaker's; nil: it has no text.
    fileprivate var line: String? {
        let line: String
        switch self {
        case .system(let text): line = "System: \(text)"
        case .user, .userParts:
            guard let userText else { return nil }
            line = "User: \(userText)"
        case .userAudio: return nil
        case .assistant(let text): line = "Agent: \(text)"
        case .functionCall(_, let name, let arguments): line = "Agent calls \(name): \(arguments)"
        case .functionOutput(_, let output): line = "Result: \(output)"
        }
        guard line.utf8.contains(where: \.isLineEnd) else { return line }
        return String(decoding: line.utf8.map { $0.isLineEnd ? 0x20 : $0 }, as: UTF8.self)
    }
}

extension UInt8 {
    /// CR or LF.
    fileprivate var isLineEnd: Bool { self == 0x0A || self == 0x0D }
}
