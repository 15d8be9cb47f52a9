// Writes MCP tools, items and events. A tool is echoed to the client without `authorization` and
// `headers`, because they are secrets; only saved settings have them. In items, a field that does not apply is absent, and there
// is neither `object` nor `status`: the protocol's tables have none here.

extension JSONWriter {
    /// Writes an element of a session's `tools`.
    /// - Parameter keepsSecrets: whether its secrets are written, which no client may see.
    mutating func mcpTool(_ tool: MCPTool, keepsSecrets: Bool = false) {
        object { json in
            json.member("type", "mcp")
            json.member("server_label", tool.serverLabel)
            if let url = tool.serverURL { json.member("server_url", url) }
            if let description = tool.serverDescription {
                json.member("server_description", description)
            }
            if keepsSecrets { json.secrets(of: tool) }
            if let allowed = tool.allowedTools {
                json.key("allowed_tools")
                if tool.allowedToolsIsList {
                    json.names(allowed.toolNames ?? [])
                } else {
                    json.filter(allowed)
                }
            }
            switch tool.requireApproval {
            case nil: break
            case .always: json.member("require_approval", "always")
            case .never: json.member("require_approval", "never")
            case .filtered(let always, let never):
                json.object("require_approval") { json in
                    if let always {
                        json.key("always")
                        json.filter(always)
                    }
                    if let never {
                        json.key("never")
                        json.filter(never)
                    }
                }
            }
        }
    }

    private mutating func secrets(of tool: MCPTool) {
        if let token = tool.authorization { member("authorization", token) }
        guard !tool.headers.isEmpty else { return }
        object("headers") { json in
            for header in tool.headers {
                json.key(text: header.name)
                json.string(header.value)
            }
        }
    }

    /// Writes `tool_choice` of type `mcp`.
    mutating func mcpToolChoice(_ choice: MCPToolChoice) {
        object("tool_choice") { json in
            json.member("type", "mcp")
            json.member("server_label", choice.serverLabel)
            if let name = choice.name { json.member("name", name) }
        }
    }

    private mutating func names(_ names: [String]) {
        array { json in
            for name in names { json.string(name) }
        }
    }

    private mutating func filter(_ filter: MCPTool.Filter) {
        object { json in
            if let toolNames = filter.toolNames {
                json.key("tool_names")
                json.names(toolNames)
            }
            if let readOnly = filter.readOnly { json.member("read_only", readOnly) }
        }
    }

    /// Writes an item; an empty id is left out.
    mutating func mcpItem(_ item: MCPItem, id: String) {
        object { json in
            if !id.isEmpty { json.member("id", id) }
            switch item {
            case .listTools(let label, let tools):
                json.member("type", "mcp_list_tools")
                json.member("server_label", label)
                json.array("tools") { json in
                    for tool in tools { json.description(of: tool) }
                }
            case .call(let call): json.call(call)
            case .approvalRequest(let label, let name, let arguments):
                json.member("type", "mcp_approval_request")
                json.member("server_label", label)
                json.member("name", name)
                json.member("arguments", arguments)
            case .approvalResponse(let requestID, let isApproved, let reason):
                json.member("type", "mcp_approval_response")
                json.member("approval_request_id", requestID)
                json.member("approve", isApproved)
                if let reason { json.member("reason", reason) }
            }
        }
    }

    private mutating func call(_ call: MCPCall) {
        member("type", "mcp_call")
        member("server_label", call.serverLabel)
        member("name", call.name)
        member("arguments", call.arguments)
        if let approval = call.approvalRequestID { member("approval_request_id", approval) }
        if let output = call.output { member("output", output) }
        guard let error = call.error else { return }
        object("error") { json in
            switch error {
            case .protocol(let code, _):
                json.member("type", "protocol_error")
                json.member("code", code)
            case .execution: json.member("type", "tool_execution_error")
            case .http(let code, _):
                json.member("type", "http_error")
                json.member("code", code)
            }
            json.member("message", error.message)
        }
    }

    private mutating func description(of tool: MCPToolDescription) {
        object { json in
            json.member("name", tool.name)
            if let description = tool.description { json.member("description", description) }
            json.member("input_schema", tool.inputSchema)
            if let annotations = tool.annotations { json.member("annotations", annotations) }
        }
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
