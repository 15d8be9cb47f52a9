// Heap bytes of protocol values, beyond their inline size, for the memory ledger
// (Session/MemoryLedger). HeapBlock does the rounding.
//
// A string that is shared is counted at every place. A caller that sums values with shared strings
// says so.

extension RawJSON {
    /// Heap bytes of its text.
    public var heapBytes: Int { text.heapBytes }
}

extension FunctionTool {
    /// Heap bytes of its texts.
    public var heapBytes: Int {
        name.heapBytes + description.heapBytes + (parameters?.heapBytes ?? 0)
    }
}

extension MCPTool {
    /// Heap bytes of the client's strings in it.
    public var heapBytes: Int {
        let names = serverLabel.heapBytes + serverURL.heapBytes + serverDescription.heapBytes
        let fields = headers.reduce(headers.heapBytes) {
            $0 + $1.name.heapBytes + $1.value.heapBytes
        }
        return names + authorization.heapBytes + fields + (allowedTools?.heapBytes ?? 0)
            + (requireApproval?.heapBytes ?? 0)
    }
}

extension MCPTool.Filter {
    fileprivate var heapBytes: Int {
        toolNames.map { names in names.reduce(names.heapBytes) { $0 + $1.heapBytes } } ?? 0
    }
}

extension MCPTool.Approval {
    fileprivate var heapBytes: Int {
        guard case .filtered(let always, let never) = self else { return 0 }
        return (always?.heapBytes ?? 0) + (never?.heapBytes ?? 0)
    }
}

extension MCPToolDescription {
    /// Heap bytes of its texts.
    public var heapBytes: Int {
        name.heapBytes + description.heapBytes + inputSchema.heapBytes
            + (annotations?.heapBytes ?? 0)
    }
}

extension MCPItem {
    /// Heap bytes of its texts and tools, and of its indirect box.
    public var heapBytes: Int {
        let box = HeapBlock.bytes(16 + MemoryLayout<MCPItem>.size)
        switch self {
        case .listTools(let label, let tools):
            return tools.reduce(box + label.heapBytes + tools.heapBytes) { $0 + $1.heapBytes }
        case .call(let call):
            return box + call.serverLabel.heapBytes + call.name.heapBytes
                + call.arguments.heapBytes + call.output.heapBytes
                + (call.error?.message.heapBytes ?? 0)
        case .approvalRequest(let label, let name, let arguments):
            return box + label.heapBytes + name.heapBytes + arguments.heapBytes
        case .approvalResponse(let id, _, let reason): return box + id.heapBytes + reason.heapBytes
        }
    }
}

extension ContentPart {
    /// Heap bytes of its text, image or audio.
    public var heapBytes: Int {
        switch self {
        case .inputText(let text), .outputText(let text), .outputAudio(let text): text.heapBytes
        case .inputAudio(let bytes, let transcript): bytes.heapBytes + transcript.heapBytes
        case .inputImage(let url, _): url.heapBytes
        }
    }
}

extension ConversationItem {
    /// Heap bytes of its id and its content.
    public var heapBytes: Int {
        switch kind {
        case .message(_, let content):
            content.reduce(id.heapBytes + content.heapBytes) { $0 + $1.heapBytes }
        case .functionCall(let callID, let name, let arguments):
            id.heapBytes + callID.heapBytes + name.heapBytes + arguments.heapBytes
        case .functionCallOutput(let callID, let output):
            id.heapBytes + callID.heapBytes + output.heapBytes
        case .reference: id.heapBytes
        case .mcp(let item): id.heapBytes + item.heapBytes
        }
    }
}

extension TranscriptionParameters {
    fileprivate var heapBytes: Int {
        let words = languages.reduce(languages.heapBytes) { $0 + $1.heapBytes }
        return keywords.reduce(words + keywords.heapBytes) { $0 + $1.heapBytes }
            + model.heapBytes + language.heapBytes + prompt.heapBytes
    }
}

extension ToolChoice {
    fileprivate var heapBytes: Int {
        if case .function(let name) = self { name.heapBytes } else { 0 }
    }
}

extension MCPToolChoice {
    fileprivate var heapBytes: Int { serverLabel.heapBytes + name.heapBytes }
}

extension SessionParameters {
    /// Heap bytes of its texts and tools.
    public var heapBytes: Int {
        let texts = model.heapBytes + instructions.heapBytes + voice.heapBytes
        let tools = tools.reduce(tools.heapBytes) { $0 + $1.heapBytes }
        let servers = mcpTools.reduce(mcpTools.heapBytes) { $0 + $1.heapBytes }
        let choices = toolChoice.heapBytes + (mcpToolChoice?.heapBytes ?? 0)
        return texts + tools + servers + choices + (transcription?.heapBytes ?? 0)
            + (tracing?.heapBytes ?? 0) + (prompt?.heapBytes ?? 0)
    }
}

extension ResponseParameters {
    /// Heap bytes of its texts, its tools, and the items that replace the conversation.
    public var heapBytes: Int {
        var bytes = instructions.heapBytes + voice.heapBytes + (metadata?.heapBytes ?? 0)
        bytes += (toolChoice?.heapBytes ?? 0) + (mcpToolChoice?.heapBytes ?? 0)
        if let tools { bytes += tools.reduce(tools.heapBytes) { $0 + $1.heapBytes } }
        if let mcpTools { bytes += mcpTools.reduce(mcpTools.heapBytes) { $0 + $1.heapBytes } }
        if let input { bytes += input.reduce(input.heapBytes) { $0 + $1.heapBytes } }
        return bytes
    }
}
