// Parses the body of `POST /api/chat` into a `ChatRequest`: the whole chat as the browser stores
// it, in UI messages of the Vercel AI SDK (v5 and v6). UIMessageStreamWriter writes the answer.
//
// A message is a list of parts: text, files, and tool parts. A tool part is a call and, once the
// client has executed it, its output. Parts that only the screen needs (data, sources, reasoning)
// are not passed to the model. Other unknown parts are refused by name.
//
// Source: vercel/ai, packages/ai/src/ui: http-chat-transport, ui-messages and
// convert-to-model-messages, which does the same for models of that SDK.

extension ChatRequestParser {
    /// Parses the request of `useChat`. assistant-ui adds `system` and `tools`; `tools` is an
    /// object of functions by name.
    /// - Throws: an error whose `param` is the path of the invalid field.
    public func parseUIMessages(_ body: [UInt8]) throws(ClientEventError) -> ChatRequest {
        let fields = try fields(of: body)
        var request = ChatRequest()
        request.streams = true
        request.chatID = try fields.read(UIChatFields.id)
        request.model = try fields.read(UIChatFields.model)
        request.instructions = try fields.read(UIChatFields.system)
        request.tools = try fields.uiTools()
        let regenerated = try fields.regeneratedMessageID()
        _ = try fields.required("messages")
        var turns = UIMessageItems()
        try turns.append(messagesOf: fields, upTo: regenerated)
        guard !turns.items.isEmpty else {
            throw .invalid("messages", "expected at least one message that says something")
        }
        request.items = turns.items
        request.continuedMessageID = turns.lastAssistantID
        return request
    }
}

extension EventFields {
    /// The message to regenerate, if the request asks for that.
    fileprivate func regeneratedMessageID() throws(ClientEventError) -> String? {
        switch try name("trigger") {
        case nil, "submit-message"?: return nil
        case "regenerate-message"?: return try name("messageId")
        case let other?:
            throw .invalid(
                "trigger", "expected 'submit-message' or 'regenerate-message', got '\(other)'")
        }
    }

    fileprivate func uiTools() throws(ClientEventError) -> [FunctionTool] {
        guard let value = value("tools") else { return [] }
        guard let members = value.members else {
            throw .wrongType("tools", expected: "an object of tools by name", value)
        }
        guard value.count <= ClientEventLimits.maxTools else {
            throw .tooMany(
                "tools", "tools", atMost: ClientEventLimits.maxTools, got: value.count)
        }
        var tools: [FunctionTool] = []
        for (name, value) in members {
            guard !name.isEmpty, name.utf8.count <= ClientEventLimits.maxNameBytes else {
                throw .invalid(
                    "tools", "expected names of 1 to \(ClientEventLimits.maxNameBytes) bytes")
            }
            let tool = try EventFields(value, path: "tools.\(name)")
            let key: StaticString = tool.value("parameters") == nil ? "inputSchema" : "parameters"
            tools.append(try FunctionTool(named: name, tool, schema: key))
        }
        return tools
    }
}

/// Builds items from UI messages. The outputs of a step's calls follow the step, as models expect.
private struct UIMessageItems {
    var items: [ConversationItem] = []
    /// The last message's id, if it is the assistant's.
    var lastAssistantID: String?
    /// Outputs of the calls of the step in progress.
    private var outputs: [ConversationItem] = []

    /// - Parameter regenerated: the message to write anew. It and the messages after it are
    ///   ignored.
    mutating func append(
        messagesOf fields: EventFields, upTo regenerated: String?
    ) throws(ClientEventError) {
        var isOver = false
        // The closure cannot change `self`, so the messages are collected first.
        let messages = try fields.list("messages", atMost: ClientEventLimits.maxInputItems) {
            (message) throws(ClientEventError) -> EventFields in message
        }
        for message in messages ?? [] {
            let id = try message.name("id") ?? ""
            let role = try message.requiredName("role")
            isOver = isOver || (regenerated == id && role == "assistant")
            guard !isOver else { continue }
            lastAssistantID = role == "assistant" && !id.isEmpty ? id : nil
            try append(message, role: role)
        }
    }

    private mutating func append(
        _ message: EventFields, role: String
    ) throws(ClientEventError) {
        _ = try message.required("parts")
        let listed = try message.list("parts", atMost: ClientEventLimits.maxInputItems) {
            (part) throws(ClientEventError) -> EventFields in part
        }
        let parts = listed ?? []
        switch role {
        case "system":
            var texts: [ContentPart] = []
            for part in parts where try part.requiredName("type") == "text" {
                texts.append(.inputText(try part.requiredText("text")))
            }
            if !texts.isEmpty { items.append(.init(.message(role: .system, content: texts))) }
        case "user": try appendUser(parts)
        case "assistant":
            for part in parts { try appendAssistant(part) }
            endStep()
        default:
            throw .invalid(
                message.path(of: "role"), "expected 'system', 'user' or 'assistant', got '\(role)'")
        }
    }

    private mutating func appendUser(_ parts: [EventFields]) throws(ClientEventError) {
        var content: [ContentPart] = []
        for part in parts {
            switch try part.requiredName("type") {
            case "text": content.append(.inputText(try part.requiredText("text")))
            case "file":
                let mediaType = try part.requiredName("mediaType")
                if mediaType.hasPrefix("image/") {
                    content.append(try ContentPart(imageAt: "url", in: part, detail: .auto))
                    continue
                }
                throw .unsupported(
                    "unsupported_content_type", part.path(of: "mediaType"),
                    "A file of type '\(mediaType)'")
            default: break
            }
        }
        if !content.isEmpty { items.append(.init(.message(role: .user, content: content))) }
    }

    private mutating func appendAssistant(_ part: EventFields) throws(ClientEventError) {
        let type = try part.requiredName("type")
        switch type {
        case "text":
            let text = try part.requiredText("text")
            guard !text.isEmpty else { return }
            items.append(.init(.message(role: .assistant, content: [.outputText(text)])))
        case "step-start": endStep()
        case "dynamic-tool": try appendCall(of: part.requiredName("toolName"), part)
        case _ where type.hasPrefix("tool-"): try appendCall(of: String(type.dropFirst(5)), part)
        default: break
        }
    }

    /// Appends a call, and its output if there is one. A call whose arguments were cut off was
    /// never made and is skipped.
    private mutating func appendCall(
        of name: String, _ part: EventFields
    ) throws(ClientEventError) {
        let state = try part.requiredName("state")
        guard state != "input-streaming" else { return }
        let callID = try part.requiredName("toolCallId")
        let input = part.value("input") ?? part.value("rawInput")
        var arguments = "{}"
        if let input { arguments = try part.text(of: input, "input") }
        items.append(
            .init(.functionCall(callID: callID, name: name, arguments: arguments)))
        var output: String?
        switch state {
        case "output-available":
            output = "null"
            if let value = part.value("output") { output = try part.text(of: value, "output") }
        case "output-error": output = try part.text("errorText") ?? "The tool failed."
        case "output-denied":
            output = try part.fields("approval")?.text("reason") ?? "Tool execution denied."
        default: break
        }
        if let output {
            outputs.append(.init(.functionCallOutput(callID: callID, output: output)))
        }
    }

    private mutating func endStep() {
        items += outputs
        outputs = []
    }
}

extension EventFields {
    /// A string as it is, any other value as its JSON.
    fileprivate func text(
        of value: JSONValue, _ key: StaticString
    ) throws(ClientEventError) -> String {
        if let text = value.string { return text }
        return try raw(value, path(of: key)).text
    }
}
