// One output item of a response while it is written: its text, and where it was cut. ItemSpeech has
// its speech.

import Codec

/// A message or a function call in the making.
struct OutputItem {
    /// Where an item's audio ended for the user.
    struct Cut: Equatable {
        /// Milliseconds of its audio that the user can have heard.
        var milliseconds: Int
        /// Whether the client set it, with `conversation.item.truncate`.
        var isByClient = false
    }

    /// The item as last announced.
    private(set) var item: ConversationItem
    let modality: OutputModality
    /// The item before it in the conversation.
    var previousItemID: String?
    /// The message's text, or the call's arguments, so far.
    private(set) var text = ""
    /// UTF-8 bytes that `text` has room for.
    private var textCapacity = 0
    /// Whether a dialogue has made it, and so knows it.
    var isOfDialogue = false
    /// Whether the model may still write to it.
    var isOpen = true
    /// Where its audio ends for the user, if that is before its words do.
    var cut: Cut?
    /// Where audio of it was first dropped before it had left, in milliseconds.
    private(set) var lostAt: Int?
    /// Whether its done events have been emitted.
    private(set) var isComplete = false
    /// The call of an MCP tool that it is, or nil.
    var toolCall: ToolCall?
    /// Whether it is a call whose arguments are no JSON object.
    private(set) var hasBrokenArguments = false

    init(item: ConversationItem, modality: OutputModality) {
        self.item = item
        self.modality = modality
    }

    var isFunctionCall: Bool {
        if case .functionCall = item.kind { true } else { false }
    }

    /// Whether it is a call of the client's functions whose arguments are no JSON object. For a
    /// call of a tool the model gets an error instead.
    var isBrokenFunctionCall: Bool { hasBrokenArguments && isFunctionCall }

    /// Whether it is no message: a call, or a question about one.
    var isCall: Bool {
        switch item.kind {
        case .functionCall, .mcp: true
        case .message, .functionCallOutput, .reference: false
        }
    }

    /// Whether a call's arguments are complete and it has not been made.
    var isToBeCalled: Bool { awaitsTool && !isOpen && toolCall?.isRunning == false }

    /// Whether it is a call of an MCP tool that is not over.
    var awaitsTool: Bool { toolCall != nil && toolCall?.outcome == nil }

    /// Whether it is spoken.
    var isAudio: Bool { modality == .audio && !isCall }

    var callID: String {
        if case .functionCall(let callID, _, _) = item.kind { callID } else { "" }
    }

    var functionName: String {
        if case .functionCall(_, let name, _) = item.kind { name } else { "" }
    }

    /// Bytes on the heap. A complete item has none: its words are in the conversation.
    var heldBytes: Int { isComplete ? 0 : HeapBlock.string(capacity: textCapacity) }

    /// The model writes more. Room grows here and not in the string, so that it is known.
    mutating func write(_ more: String) {
        let wanted = text.utf8.count + more.utf8.count
        if wanted > textCapacity {
            textCapacity = max(wanted, 2 * textCapacity)
            text.reserveCapacity(textCapacity)
        }
        text += more
    }

    /// Makes the complete arguments of a call a JSON object.
    /// - Returns: the text to add to the arguments that were announced, or nil where nothing is
    ///   missing.
    mutating func completeArguments() -> String? {
        guard let object = CallArguments.object(text) else {
            hasBrokenArguments = true
            return nil
        }
        guard object != text else { return nil }
        let isNew = text.isEmpty
        text = ""
        write(object)
        return isNew ? object : nil
    }

    /// Gives back the room behind the words, which the conversation may keep for hours.
    private mutating func fitText() {
        var exact = ""
        exact.reserveCapacity(text.utf8.count)
        exact += text
        text = exact
        textCapacity = text.utf8.count
    }

    /// Notes from where on the item was not heard, in milliseconds.
    mutating func noteLost(from milliseconds: Int) {
        lostAt = min(lostAt ?? milliseconds, milliseconds)
    }

    /// Where its audio ended for the user, by cut or loss. A cut that the client set takes
    /// precedence.
    var heardEnd: Cut? {
        guard let lostAt, cut?.isByClient != true else { return cut }
        return Cut(milliseconds: min(lostAt, cut?.milliseconds ?? lostAt))
    }

    /// Gives the item its final form.
    mutating func complete(_ status: ConversationItem.Status) {
        isOpen = false
        isComplete = true
        fitText()
        item.status = status
        switch item.kind {
        case .functionCall(let callID, let name, _):
            item.kind = .functionCall(callID: callID, name: name, arguments: text)
        case .message:
            let part: ContentPart =
                modality == .text ? .outputText(text) : .outputAudio(transcript: text)
            item.kind = .message(role: .assistant, content: [part])
        case .mcp(.call(var call)):
            call.arguments = text
            item.kind = .mcp(.call(call))
            if let outcome = toolCall?.outcome { item.finishCall(outcome) }
        case .functionCallOutput, .mcp, .reference: break
        }
    }
}
