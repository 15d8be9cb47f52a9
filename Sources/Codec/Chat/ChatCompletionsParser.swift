// Parses the body of `POST /v1/chat/completions` into a `ChatRequest`. ChatCompletionWriter writes
// the answer; Agents/ChatCompletions writes the same format to a model server.
//
// A parameter that would change the answer, and that no model port supports, is refused by name, in
// the words of OpenAI's API. Clients such as LangChain know them, and repeat without the parameter.
// Sampling and bookkeeping parameters (temperature, top_p, penalties, user, metadata, store) are
// accepted without effect, because nearly every client sends some. Unknown ones are ignored.
//
// Source: OpenAI API reference, "Create chat completion".

extension ChatRequestParser {
    /// Parses a request for a chat completion.
    /// - Throws: an error whose `param` is the path of the invalid field.
    public func parseChatCompletion(_ body: [UInt8]) throws(ClientEventError) -> ChatRequest {
        let fields = try fields(of: body)
        var request = ChatRequest()
        request.model = try fields.read(ChatCompletionFields.model)
        try fields.refuseUnsupportedParameters()
        request.items = try fields.chatMessages()
        let tools = try fields.list("tools", atMost: ClientEventLimits.maxTools) {
            (tool) throws(ClientEventError) -> FunctionTool in try tool.chatTool()
        }
        request.tools = tools ?? []
        request.toolChoice = try fields.chatToolChoice() ?? .auto
        request.parallelToolCalls = try fields.read(ChatCompletionFields.parallelToolCalls)
        let older = try fields.read(ChatCompletionFields.maxTokens)
        request.maxOutputTokens =
            try fields.read(ChatCompletionFields.maxCompletionTokens) ?? older
        request.stopWords = try fields.read(ChatCompletionFields.stop) ?? StopWords([])
        request.streams = try fields.read(ChatCompletionFields.stream)
        if let options = try fields.fields("stream_options") {
            guard request.streams else {
                throw .invalid("stream_options", "expected with 'stream' only")
            }
            request.includesUsage = try options.bool("include_usage") ?? false
        }
        return request
    }
}

extension EventFields {
    /// Refuses unsupported parameters rather than answering a different request.
    fileprivate func refuseUnsupportedParameters() throws(ClientEventError) {
        if let count = try integer("n", in: 1...128), count != 1 {
            throw .unsupportedParameter("n", "with another value than 1")
        }
        if let format = try fields("response_format"),
            try format.requiredName("type") != "text"
        {
            throw .unsupportedParameter("response_format", "with another type than text")
        }
        if let modalities = try read(
            OptionalField("modalities", .names(atMost: ClientEventLimits.maxNames), "")),
            modalities != ["text"]
        {
            throw .unsupportedParameter("modalities", "with other values than text")
        }
        if try bool("logprobs") == true { throw .unsupportedParameter("logprobs") }
        for key in ["seed", "top_logprobs", "audio", "functions", "function_call"] as [StaticString]
        where value(key) != nil {
            throw .unsupportedParameter("\(key)")
        }
    }

    // MARK: Messages

    fileprivate func chatMessages() throws(ClientEventError) -> [ConversationItem] {
        _ = try required("messages")
        let messages = try list("messages", atMost: ClientEventLimits.maxInputItems) {
            (message) throws(ClientEventError) -> [ConversationItem] in try message.chatMessage()
        }
        guard let messages, !messages.isEmpty else {
            throw .invalid("messages", "expected at least one message")
        }
        try Self.checkCalls(of: messages)
        return messages.flatMap(\.self)
    }

    /// Refuses the result of a call that no message before it has made: it would be left out, and
    /// the model would lack a fact that the client believes it has.
    private static func checkCalls(
        of messages: [[ConversationItem]]
    ) throws(ClientEventError) {
        var calls: Set<String> = []
        for (index, items) in messages.enumerated() {
            for item in items {
                switch item.kind {
                case .functionCall(let callID, _, _): calls.insert(callID)
                case .functionCallOutput(let callID, _) where !calls.contains(callID):
                    throw .invalid(
                        "messages[\(index)].tool_call_id",
                        "expected the id of one of the 'tool_calls' of a message before it")
                default: break
                }
            }
        }
    }

    /// One message. An assistant's has text, calls, or both.
    private func chatMessage() throws(ClientEventError) -> [ConversationItem] {
        let role = try requiredName("role")
        switch role {
        case "system", "developer":
            let parts = try chatTexts().map(ContentPart.inputText)
            return [ConversationItem(.message(role: .system, content: parts))]
        case "user":
            return [ConversationItem(.message(role: .user, content: try chatUserContent()))]
        case "assistant":
            return try chatAssistantItems()
        case "tool":
            let output = try chatTexts().joined()
            return [
                ConversationItem(
                    .functionCallOutput(
                        callID: try requiredName("tool_call_id"), output: output))
            ]
        case "function":
            throw .unsupportedParameter(path(of: "role"), "as 'function'")
        default:
            throw .invalid(
                path(of: "role"),
                "expected 'system', 'developer', 'user', 'assistant' or 'tool', got '\(role)'")
        }
    }

    /// `content` that is only text: a string, or a list of text parts.
    private func chatTexts() throws(ClientEventError) -> [String] {
        let content = try required("content")
        if content.kind == .string { return [try requiredText("content")] }
        let texts = try list("content", atMost: ClientEventLimits.maxContentParts) {
            (part) throws(ClientEventError) -> String in try part.chatText(isAssistant: false)
        }
        return texts ?? []
    }

    private func chatText(isAssistant: Bool) throws(ClientEventError) -> String {
        switch try requiredName("type") {
        case "text": return try requiredText("text")
        case "refusal" where isAssistant: return try requiredText("refusal")
        case let type:
            throw .invalid(path(of: "type"), "expected 'text', got '\(type)'")
        }
    }

    private func chatUserContent() throws(ClientEventError) -> [ContentPart] {
        let content = try required("content")
        if content.kind == .string { return [.inputText(try requiredText("content"))] }
        let parts = try list("content", atMost: ClientEventLimits.maxContentParts) {
            (part) throws(ClientEventError) -> ContentPart in
            let type = try part.requiredName("type")
            switch type {
            case "text": return .inputText(try part.requiredText("text"))
            case "image_url":
                let image = try part.requiredFields("image_url")
                return try ContentPart(
                    imageAt: "url", in: image, detail: image.choice("detail") ?? .auto)
            case "input_audio", "file":
                throw .unsupported(
                    "unsupported_content_type", part.path(of: "type"),
                    "A content part of type '\(type)'")
            default:
                throw .invalid(
                    part.path(of: "type"), "expected 'text' or 'image_url', got '\(type)'")
            }
        }
        return parts ?? []
    }

    private func chatAssistantItems() throws(ClientEventError) -> [ConversationItem] {
        if value("function_call") != nil {
            throw .unsupportedParameter(path(of: "function_call"))
        }
        var texts: [String] = []
        if let content = value("content") {
            if content.kind == .string {
                texts = [try requiredText("content")]
            } else {
                let parts = try list("content", atMost: ClientEventLimits.maxContentParts) {
                    (part) throws(ClientEventError) -> String in
                    try part.chatText(isAssistant: true)
                }
                texts = parts ?? []
            }
        }
        let calls = try list("tool_calls", atMost: ClientEventLimits.maxTools) {
            (call) throws(ClientEventError) -> ConversationItem in
            let function = try call.requiredFunction()
            return ConversationItem(
                .functionCall(
                    callID: try call.requiredName("id"), name: try function.requiredName("name"),
                    arguments: try function.requiredText("arguments")))
        }
        let parts = texts.filter { !$0.isEmpty }.map(ContentPart.outputText)
        guard !parts.isEmpty else { return calls ?? [] }
        return [ConversationItem(.message(role: .assistant, content: parts))] + (calls ?? [])
    }

    // MARK: Tools

    fileprivate func chatTool() throws(ClientEventError) -> FunctionTool {
        let function = try requiredFunction()
        return try FunctionTool(
            named: function.requiredName("name"), function, schema: "parameters")
    }

    fileprivate func chatToolChoice() throws(ClientEventError) -> ToolChoice? {
        guard let value = value("tool_choice") else { return nil }
        if value.kind == .string {
            return try ToolChoiceRule().read(value, at: place(of: "tool_choice"))
        }
        let choice = try requiredFields("tool_choice")
        return .function(name: try choice.requiredFunction().requiredName("name"))
    }

    /// The `function` of an object whose `type` is "function".
    private func requiredFunction() throws(ClientEventError) -> EventFields {
        let type = try name("type") ?? "function"
        guard type == "function" else {
            throw .unsupported("unsupported_tool_type", path(of: "type"), "Type '\(type)'")
        }
        return try requiredFields("function")
    }
}

extension ClientEventError {
    /// A parameter that is not supported, in the words of OpenAI's API.
    /// - Parameter how: which use of it; empty: any.
    fileprivate static func unsupportedParameter(
        _ path: String, _ how: String = ""
    ) -> ClientEventError {
        let words = how.isEmpty ? "" : " \(how)"
        return ClientEventError(
            code: "unsupported_parameter",
            message: "Unsupported parameter: '\(path)'\(words) is not supported with this model.",
            param: path)
    }
}
