// The items that a response shows the model: whether the conversation fits the model's context,
// which items are left out where it does not (`truncation`), and items that the client gives
// instead.

import Codec

extension VoiceSession {
    /// Whether the items of a response fit the model's context. Where the session allows it, the
    /// oldest items are left out to make them fit.
    func fitsContext(_ overrides: ResponseParameters) -> Bool {
        let room = itemTokens(with: overrides)
        if let input = overrides.input {
            // Items that the client chose are not left out.
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

    /// An item of `input` as messages to the model; empty where it was deleted meanwhile.
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
