// The request to the model for one response: the items that the model is shown, its tools, and
// whether all of that fits the model's context. Where it does not fit, and the session allows it,
// the oldest items are left out (`truncation`).

import Codec

/// Composes the request for a response with these overrides.
struct RequestComposer {
    let core: any SessionCore
    /// The session's MCP servers, if it has named any.
    let tools: SessionTools?
    let overrides: ResponseParameters

    /// The MCP tools that the model may call, if there are any.
    var routes: ToolRoutes? { tools?.routes(with: overrides) }

    /// Whether the items fit the model's context. Where the session allows it, the oldest items are
    /// left out to make them fit.
    func fitContext(_ routes: ToolRoutes?) -> Bool {
        let room = itemTokens(routes)
        if let input = overrides.input {
            // Items that the client chose are not left out.
            return input.reduce(0) { $0 + core.conversation.tokens(ofInput: $1) } <= room
        }
        switch core.parameters.truncation {
        case .disabled: return core.conversation.contextTokens <= room
        case .auto: return core.conversation.fitContext(limit: room, target: room)
        case .retentionRatio(let ratio, let limit):
            let limit = min(room, limit ?? room)
            return core.conversation.fitContext(limit: limit, target: Int(Double(limit) * ratio))
        }
    }

    /// Tokens that the model's context has for items: beside instructions, tools and the reply.
    private func itemTokens(_ routes: ToolRoutes?) -> Int {
        let parameters = core.parameters
        let window = core.context.limits.modelContextTokens
        let most = overrides.maxOutputTokens(orOf: parameters)
        let instructions = overrides.instructions ?? parameters.instructions
        return window - min(most ?? TokenEstimate.replyTokens, window / 2)
            - TokenEstimate.text(bytes: instructions.utf8.count)
            - TokenEstimate.tools(overrides.tools ?? parameters.tools)
            - TokenEstimate.tools(routes?.functions ?? [])
    }

    /// The request for the response with an id.
    /// - Parameter words: words of the user that are no item yet.
    func request(
        _ routes: ToolRoutes?, for responseID: String, saying words: String? = nil
    ) -> ModelRequest {
        let parameters = core.parameters
        let instructions = overrides.instructions ?? parameters.instructions
        var messages =
            overrides.input.map { core.conversation.modelMessages(ofInput: $0) }
            ?? core.conversation.modelMessages()
        if let words { messages.append(.user(words)) }
        // Services refuse a request without a message.
        if messages.isEmpty, instructions.isEmpty { messages = [.user("")] }
        var request = ModelRequest(
            model: parameters.model, instructions: instructions, messages: messages,
            tools: overrides.tools ?? parameters.tools,
            toolChoice: overrides.toolChoice ?? parameters.toolChoice,
            parallelToolCalls: overrides.parallelToolCalls ?? parameters.parallelToolCalls,
            maxOutputTokens: overrides.maxOutputTokens(orOf: parameters))
        request.turn = TurnIdentity(sessionID: core.id, responseID: responseID)
        if overrides.input == nil {
            request.heard = core.conversation.heardReply
            request.mementos = core.conversation.mementos
        }
        if let routes {
            let choice =
                overrides.toolChoice == nil ? parameters.mcpToolChoice : overrides.mcpToolChoice
            routes.offer(to: &request, choice: choice)
        }
        return request
    }
}

extension ResponseParameters {
    /// The limit of a response with these overrides, if there is one.
    func maxOutputTokens(orOf session: SessionParameters) -> Int? {
        switch maxOutputTokens {
        case .absent: session.maxOutputTokens
        case .null: nil
        case .value(let tokens): tokens
        }
    }
}

extension Conversation {
    /// Refuses an item of a response's `input` that the model could not be shown.
    func checkInput(_ item: ConversationItem, path: String) throws(ClientEventError) {
        switch item.kind {
        case .reference:
            guard self.item(item.id) == nil else { return }
            throw .referencedItemMissing(item.id, path: path)
        case .message(_, let content):
            for (index, part) in content.enumerated() {
                guard case .inputAudio(_, nil) = part else { continue }
                throw .inputAudioWithoutTranscript(path: "\(path).content[\(index)]")
            }
        case .functionCall, .functionCallOutput, .mcp: break
        }
    }

    /// The items of `input` as messages to the model. An empty message of the user is left out, unless it
    /// is the last: that is the one to be answered.
    fileprivate func modelMessages(ofInput items: [ConversationItem]) -> [ModelMessage] {
        let messages = items.flatMap { modelMessages(ofInput: $0) }
        guard let last = items.last, case .message(role: .user, _) = last.kind,
            last.modelMessages.isEmpty
        else { return messages }
        return messages + [.user("")]
    }

    /// An item of `input` as messages to the model; empty where it was deleted meanwhile.
    fileprivate func modelMessages(ofInput item: ConversationItem) -> [ModelMessage] {
        guard item.kind == .reference else { return item.modelMessages }
        return modelMessages(of: item.id) ?? []
    }

    fileprivate func tokens(ofInput item: ConversationItem) -> Int {
        let item = item.kind == .reference ? self.item(item.id) ?? item : item
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
