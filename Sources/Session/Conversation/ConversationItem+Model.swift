// A conversation's item as a model is shown it. Which items it is shown is Conversation's.

import Codec

extension ConversationItem {
    /// Whether it is the user's audio and has no transcript.
    var isWithoutWords: Bool {
        guard case .message(role: .user, let content) = kind else { return false }
        return content.contains { part in
            guard case .inputAudio(_, let transcript) = part else { return false }
            return transcript.map { !TranscriptWords.has(in: $0) } ?? true
        }
    }

    /// The item as messages to a model; empty where it has no words.
    var modelMessages: [ModelMessage] { modelMessages(heard: nil) }

    /// The item as a model is shown it.
    /// - Parameter heard: the audio of the item that a model that hears is given.
    func modelMessages(heard: HeardAudio?) -> [ModelMessage] {
        switch kind {
        case .message(role: .system, let content):
            let text = Self.text(of: content)
            return text.isEmpty ? [] : [.system(text)]
        case .message(role: .user, let content): return Self.userMessages(content, heard: heard)
        case .message(role: .assistant, let content):
            let text = Self.text(of: content)
            return text.isEmpty ? [] : [.assistant(text)]
        case .functionCall(let callID, let name, let arguments):
            return [.functionCall(callID: callID, name: name, arguments: arguments)]
        case .functionCallOutput(let callID, let output):
            return [.functionOutput(callID: callID, output: output)]
        case .reference: return []
        case .mcp(let item): return item.modelMessages(id: id, outcomes: [:]) { _ in nil }
        }
    }

    private static func userMessages(
        _ content: [ContentPart], heard: HeardAudio?
    ) -> [ModelMessage] {
        var heard = heard
        var parts: [UserPart] = []
        for part in content {
            switch part {
            case .inputImage(let url, let detail):
                parts.append(.image(url: url, detail: detail))
            case .inputAudio where heard != nil:
                // All of an item's audio was kept as one.
                if let audio = heard.take() { parts.append(.audio(audio)) }
            case .inputText, .inputAudio, .outputText, .outputAudio:
                if let text = text(of: part), !text.isEmpty { parts.append(.text(text)) }
            }
        }
        if case .audio(let audio)? = parts.first, parts.count == 1 { return [.userAudio(audio)] }
        let isText = parts.allSatisfy { if case .text = $0 { true } else { false } }
        guard isText else { return [.userParts(parts)] }
        let text = text(of: content)
        return text.isEmpty ? [] : [.user(text)]
    }

    private static func text(of content: [ContentPart]) -> String {
        content.compactMap { text(of: $0) }.joined(separator: " ")
    }

    private static func text(of part: ContentPart) -> String? {
        switch part {
        case .inputText(let text), .outputText(let text), .outputAudio(let text): text
        case .inputAudio(_, let transcript):
            transcript.flatMap { TranscriptWords.has(in: $0) ? $0 : nil }
        case .inputImage: nil
        }
    }
}
