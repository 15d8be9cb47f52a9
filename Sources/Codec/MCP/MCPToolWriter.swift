// Writes MCP tools, items and events. A tool is echoed to the client without `authorization` and
// `headers`, because they are secrets. In items, a field that does not apply is absent, and there
// is neither `object` nor `status`: the protocol's tables have none here.

extension JSONWriter {
    /// Writes an element of a session's `tools`.
    mutating func mcpTool(_ tool: MCPTool) {
        beginObject()
        member("type", "mcp")
        member("server_label", tool.serverLabel)
        if let url = tool.serverURL { member("server_url", url) }
        if let description = tool.serverDescription { member("server_description", description) }
        if let allowed = tool.allowedTools {
            key("allowed_tools")
            if tool.allowedToolsIsList { names(allowed.toolNames ?? []) } else { filter(allowed) }
        }
        switch tool.requireApproval {
        case nil: break
        case .always: member("require_approval", "always")
        case .never: member("require_approval", "never")
        case .filtered(let always, let never):
            key("require_approval")
            beginObject()
            if let always {
                key("always")
                filter(always)
            }
            if let never {
                key("never")
                filter(never)
            }
            endObject()
        }
        endObject()
    }

    /// Writes `tool_choice` of type `mcp`.
    mutating func mcpToolChoice(_ choice: MCPToolChoice) {
        key("tool_choice")
        beginObject()
        member("type", "mcp")
        member("server_label", choice.serverLabel)
        if let name = choice.name { member("name", name) }
        endObject()
    }

    private mutating func names(_ names: [String]) {
        beginArray()
        for name in names { string(name) }
        endArray()
    }

    private mutating func filter(_ filter: MCPTool.Filter) {
        beginObject()
        if let toolNames = filter.toolNames {
            key("tool_names")
            names(toolNames)
        }
        if let readOnly = filter.readOnly { member("read_only", readOnly) }
        endObject()
    }

    /// Writes an item; an empty id is left out.
    mutating func mcpItem(_ item: MCPItem, id: String) {
        beginObject()
        if !id.isEmpty { member("id", id) }
        switch item {
        case .listTools(let label, let tools):
            member("type", "mcp_list_tools")
            member("server_label", label)
            key("tools")
            beginArray()
            for tool in tools { description(of: tool) }
            endArray()
        case .call(let call): self.call(call)
        case .approvalRequest(let label, let name, let arguments):
            member("type", "mcp_approval_request")
            member("server_label", label)
            member("name", name)
            member("arguments", arguments)
        case .approvalResponse(let requestID, let isApproved, let reason):
            member("type", "mcp_approval_response")
            member("approval_request_id", requestID)
            member("approve", isApproved)
            if let reason { member("reason", reason) }
        }
        endObject()
    }

    private mutating func call(_ call: MCPCall) {
        member("type", "mcp_call")
        member("server_label", call.serverLabel)
        member("name", call.name)
        member("arguments", call.arguments)
        if let approval = call.approvalRequestID { member("approval_request_id", approval) }
        if let output = call.output { member("output", output) }
        guard let error = call.error else { return }
        key("error")
        beginObject()
        switch error {
        case .protocol(let code, _):
            member("type", "protocol_error")
            member("code", code)
        case .execution: member("type", "tool_execution_error")
        case .http(let code, _):
            member("type", "http_error")
            member("code", code)
        }
        member("message", error.message)
        endObject()
    }

    private mutating func description(of tool: MCPToolDescription) {
        beginObject()
        member("name", tool.name)
        if let description = tool.description { member("description", description) }
        member("input_schema", tool.inputSchema)
        if let annotations = tool.annotations { member("annotations", annotations) }
        endObject()
    }

    /// Writes all fields of an event except `type` and `event_id`.
    mutating func fields(of event: MCPEvent) {
        switch event {
        case .listToolsInProgress(let itemID), .listToolsCompleted(let itemID),
            .listToolsFailed(let itemID):
            member("item_id", itemID)
        case .callArgumentsDelta(let address, let delta):
            output(address)
            member("delta", delta)
        case .callArgumentsDone(let address, let arguments):
            output(address)
            member("arguments", arguments)
        case .callInProgress(let itemID, let index), .callCompleted(let itemID, let index),
            .callFailed(let itemID, let index):
            member("item_id", itemID)
            member("output_index", index)
        }
    }
}
