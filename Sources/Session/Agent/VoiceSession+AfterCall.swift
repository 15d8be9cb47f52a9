// The conversation of a session that is over, as it was heard and as one text: the subject of the
// question about the session.

import Codec

extension VoiceSession {
    /// The question about this session, which is over. Nil means that its agent has none.
    package var afterCall: AfterCall? {
        parameters.kind == .realtime ? conduct?.agent.afterCall : nil
    }

    /// The conversation as it was heard, a line for each message, call and result. Where a model
    /// has no room for all of it, the oldest lines are left out. The result is nil where the user
    /// has said and typed no word.
    /// - Parameter question: the question about the conversation.
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
    /// The user's text, if there is one.
    fileprivate var userText: String? {
        switch self {
        case .user(let text): return text
        case .userParts(let parts):
            let texts = parts.compactMap { if case .text(let text) = $0 { text } else { nil } }
            return texts.isEmpty ? nil : texts.joined(separator: " ")
        case .system, .userAudio, .assistant, .functionCall, .functionOutput: return nil
        }
    }

    /// The message as one line, so that no text can look like the next speaker's. Nil where it has
    /// no text.
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
