// One item as a conversation keeps it. Nearly all items are messages of one part. Such an item is
// stored as its id, a few flags and its words: 48 bytes and the text. Anything else (other parts,
// calls, times of speech) is in a separate object.
//
// Invariant: `item` gives back exactly the item that was set.

import Codec

/// An item in compact form, and the times of its speech.
struct ConversationEntry {
    /// The kind of the item's words.
    private enum Form: UInt8 {
        case systemText, userText, assistantText, assistantSpeech
        /// The user's audio, with its transcript and without.
        case userAudio, wordlessAudio
        /// Kept as a whole in `details`.
        case other
    }

    /// An item that is kept as a whole.
    private final class WholeItem {
        /// Bytes of the object itself.
        static let objectBytes = HeapBlock.object(WholeItem.self)

        let item: ConversationItem

        init(_ item: ConversationItem) { self.item = item }
    }

    /// The parts that few items have. It does not change once it is made.
    private final class Details {
        /// Bytes of the object itself.
        static let objectBytes = HeapBlock.object(Details.self)

        let whole: WholeItem?
        let speech: Conversation.Speech

        var item: ConversationItem? { whole?.item }

        init(item: ConversationItem?, speech: Conversation.Speech) {
            whole = item.map(WholeItem.init)
            self.speech = speech
        }
    }

    let id: String
    /// The words of a message of one part; of an assistant's, those that were heard.
    private(set) var text = ""
    private var details: Details?
    private var form = Form.other
    private var status: ConversationItem.Status

    init(_ item: ConversationItem) {
        id = item.id
        status = item.status
        set(item, speech: Conversation.Speech())
    }

    /// The item.
    var item: ConversationItem {
        if let item = details?.item { return item }
        return ConversationItem(id: id, status: status, kind: .message(role: role, content: [part]))
    }

    /// The times of an assistant's speech.
    var speech: Conversation.Speech { details?.speech ?? Conversation.Speech() }

    /// Replaces the item, which keeps its id.
    mutating func set(_ item: ConversationItem, speech: Conversation.Speech) {
        precondition(item.id == id)
        status = item.status
        (form, text) = Self.compact(item)
        let rest = form == .other ? item : nil
        let isPlain = rest == nil && speech == Conversation.Speech()
        details = isPlain ? nil : Details(item: rest, speech: speech)
    }

    private static func compact(_ item: ConversationItem) -> (Form, String) {
        guard case .message(let role, let content) = item.kind, content.count == 1 else {
            return (.other, "")
        }
        switch (role, content[0]) {
        case (.system, .inputText(let text)): return (.systemText, text)
        case (.user, .inputText(let text)): return (.userText, text)
        case (.assistant, .outputText(let text)): return (.assistantText, text)
        case (.assistant, .outputAudio(let transcript)): return (.assistantSpeech, transcript)
        case (.user, .inputAudio(let bytes, let transcript)) where bytes.isEmpty:
            return transcript.map { (.userAudio, $0) } ?? (.wordlessAudio, "")
        default: return (.other, "")
        }
    }

    private var role: ConversationItem.Role {
        switch form {
        case .systemText: .system
        case .userText, .userAudio, .wordlessAudio: .user
        case .assistantText, .assistantSpeech: .assistant
        case .other: preconditionFailure("kept as a whole")
        }
    }

    private var part: ContentPart {
        switch form {
        case .systemText, .userText: .inputText(text)
        case .assistantText: .outputText(text)
        case .assistantSpeech: .outputAudio(transcript: text)
        case .userAudio: .inputAudio(bytes: [], transcript: text)
        case .wordlessAudio: .inputAudio(bytes: [], transcript: nil)
        case .other: preconditionFailure("kept as a whole")
        }
    }

    // MARK: Without making the item

    /// UTF-8 bytes that count towards the conversation's limit.
    var textBytes: Int {
        let words = details?.item?.textBytes ?? text.utf8.count
        return words + (details?.speech.wholeTranscript?.utf8.count ?? 0)
    }

    /// Bytes on the heap, beyond the entry itself.
    var heldBytes: Int {
        let words = id.heapBytes + text.heapBytes
        guard let details else { return words }
        let speech = details.speech.marks.heapBytes + details.speech.wholeTranscript.heapBytes
        let whole = details.item.map { WholeItem.objectBytes + $0.heapBytes } ?? 0
        return words + Details.objectBytes + speech + whole
    }

    /// UTF-8 bytes of the text that a model reads.
    var wordBytes: Int {
        guard let item = details?.item else { return text.utf8.count }
        guard case .message(_, let content) = item.kind else { return item.textBytes }
        return content.reduce(item.textBytes) { sum, part in
            if case .inputImage(let url, _) = part { sum - url.utf8.count } else { sum }
        }
    }

    /// Estimated tokens of its images.
    var imageTokens: Int {
        guard case .message(_, let content)? = details?.item?.kind else { return 0 }
        return content.reduce(0) { sum, part in
            if case .inputImage(_, let detail) = part { sum + detail.estimatedTokens } else { sum }
        }
    }

    /// Whether the item was not cut off.
    var isFinished: Bool { status != .incomplete }

    /// Whether it is a message of the assistant.
    var isReply: Bool { form == .assistantText || form == .assistantSpeech }

    /// Whether it is a spoken message of the assistant, and nothing else.
    var isSpokenReply: Bool { form == .assistantSpeech }

    /// Whether it is a message of the user.
    var isOfUser: Bool {
        switch form {
        case .userText, .userAudio, .wordlessAudio: return true
        case .systemText, .assistantText, .assistantSpeech: return false
        case .other:
            guard case .message(role: .user, _)? = details?.item?.kind else { return false }
            return true
        }
    }

    /// Whether its words are not all that the model has written.
    var isCut: Bool { !isFinished || speech.isCut }

    /// Its id and content, where it is an item of an MCP server.
    var mcpItem: (id: String, item: MCPItem)? {
        if case .mcp(let item)? = details?.item?.kind { (id, item) } else { nil }
    }

    /// The id of the call that it is, or nil.
    var callID: String? {
        if case .functionCall(let callID, _, _)? = details?.item?.kind { callID } else { nil }
    }

    /// The id of the call that it is the outcome of, or nil.
    var answeredCallID: String? {
        if case .functionCallOutput(let callID, _)? = details?.item?.kind { callID } else { nil }
    }
}

extension TokenEstimate {
    /// Tokens of an item, with the part of its audio that a model that hears is given.
    static func item(_ entry: ConversationEntry, heard: HeardAudio?) -> Int {
        tokensPerMessage + text(bytes: entry.wordBytes) + entry.imageTokens
            + audio(samples: heard?.sampleCount ?? 0)
    }
}
