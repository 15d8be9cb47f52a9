// What a response shows the model: whether the conversation fits the model's context, what goes
// where it does not (`truncation`), and the items that a client gives instead.

import Codec

extension VoiceSession {
    /// Whether what the model is to be shown fits its context; the oldest items are left out for
    /// that where the session allows it.
    func fitsContext(_ overrides: ResponseParameters) -> Bool {
        let room = itemTokens(with: overrides)
        if let input = overrides.input {
            // What a client chose is not shortened.
            return input.reduce(0) { $0 + tokens(ofInput: $1) } <= room
        }
        switch parameters.truncation {
        case .disabled: return conversation.contextTokens <= room
        case .auto: return conversation.fitContext(limit: room, target: room)
        case .retentionRatio(let ratio, let limit):
            let limit = min(room, limit ?? room)
            return conversation.fitContext(limit: limit, target: Int(Double(limit) * ratio))
        }
    }

    /// Tokens that the model's context has for items: beside instructions, tools and the reply.
    private func itemTokens(with overrides: ResponseParameters) -> Int {
        let window = context.limits.modelContextTokens
        let reply = min(maxOutputTokens(with: overrides) ?? TokenEstimate.replyTokens, window / 2)
        let instructions = overrides.instructions ?? parameters.instructions
        return window - reply - TokenEstimate.text(bytes: instructions.utf8.count)
            - TokenEstimate.tools(overrides.tools ?? parameters.tools)
            - TokenEstimate.tools(toolRoutes(with: overrides)?.functions ?? [])
    }

    /// Refuses an item of a response's `input` that the model could not be shown.
    func checkInput(_ item: ConversationItem, path: String) throws(ClientEventError) {
        try checkImages(in: item, path: path)
        switch item.kind {
        case .reference:
            guard conversation.item(item.id) == nil else { return }
            throw .referencedItemMissing(item.id, path: path)
        case .message(_, let content):
            for (index, part) in content.enumerated() {
                guard case .inputAudio(_, nil) = part else { continue }
                throw .inputAudioWithoutTranscript(path: "\(path).content[\(index)]")
            }
        case .functionCall, .functionCallOutput, .mcp: break
        }
    }

    /// What the model is shown of an item of `input`; nothing of one that was deleted meanwhile.
    func shownMessages(ofInput item: ConversationItem) -> [ModelMessage] {
        guard item.kind == .reference else { return item.modelMessages }
        return conversation.modelMessages(of: item.id) ?? []
    }

    private func tokens(ofInput item: ConversationItem) -> Int {
        let item = item.kind == .reference ? conversation.item(item.id) ?? item : item
        return TokenEstimate.item(ConversationEntry(item), heard: nil)
    }
}

extension ResponseDescription.Status {
    /// The status of a response that would need more room than the model has.
    static var contextLengthExceeded: Self {
        .failed(
            type: "invalid_request_error", code: "context_length_exceeded",
            message: "The model's context has no room for the instructions, tools and items of "
                + "this response.")
    }
}
