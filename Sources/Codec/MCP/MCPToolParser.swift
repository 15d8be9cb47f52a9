// Parses tools of type `mcp`, choices among them, and the items that a client may create about
// them. Session decides whether a server may be used.
//
// Invariant: unsupported features of such tools are refused by name: connectors, tunnels, deferred
// loading, and calls that the model did not make.

extension EventFields {
    /// Names in an array.
    fileprivate func names(_ key: StaticString) throws(ClientEventError) -> [String]? {
        try read(OptionalField(key, .names(atMost: ClientEventLimits.maxTools), ""))
    }

    /// `allowed_tools`: an array of names, or a filter.
    fileprivate func toolFilter(
        _ key: StaticString
    ) throws(ClientEventError) -> (filter: MCPTool.Filter, isList: Bool)? {
        guard let value = value(key) else { return nil }
        if value.kind == .array { return (MCPTool.Filter(toolNames: try names(key)), true) }
        guard value.kind == .object else {
            throw .wrongType(path(of: key), expected: "an array of names or a filter", value)
        }
        let fields = try EventFields(value, path: path(of: key))
        return (try fields.filter(), false)
    }

    private func filter() throws(ClientEventError) -> MCPTool.Filter {
        MCPTool.Filter(toolNames: try names("tool_names"), readOnly: try bool("read_only"))
    }

    /// `require_approval`: a word, or one filter for each of the two words.
    fileprivate func approval(
        _ key: StaticString
    ) throws(ClientEventError) -> MCPTool.Approval? {
        guard let value = value(key) else { return nil }
        let expected = "'always', 'never' or an object with filters for them"
        if value.isString("always") { return .always }
        if value.isString("never") { return .never }
        guard value.kind == .object else {
            throw .mismatch(path(of: key), expected: expected, value, of: .string)
        }
        let fields = try EventFields(value, path: path(of: key))
        let always = try fields.fields("always")
        let never = try fields.fields("never")
        return .filtered(always: try always?.filter(), never: try never?.filter())
    }

    /// Header fields: an object of strings.
    fileprivate func headers(_ key: StaticString) throws(ClientEventError) -> [MCPTool.Header] {
        guard let value = value(key) else { return [] }
        guard let members = value.members else {
            throw .wrongType(path(of: key), expected: "an object of texts", value)
        }
        guard value.count <= ClientEventLimits.maxTools else {
            throw .invalid(
                path(of: key), "expected at most \(ClientEventLimits.maxTools) header fields")
        }
        var headers: [MCPTool.Header] = []
        for (name, value) in members {
            guard let text = value.string else {
                throw .wrongType("\(path(of: key)).\(name)", expected: "a string", value)
            }
            guard name.isHeaderName, !name.isReservedHeader, text.isHeaderValue else {
                // The value is left out because it may be a secret.
                throw .invalid(path(of: key), "'\(name.prefix(64))' is no valid header field")
            }
            headers.append(.init(name: name, value: text))
        }
        return headers
    }

    /// Refuses a field that the protocol has and this server does not support.
    fileprivate func refuse(_ key: StaticString) throws(ClientEventError) {
        guard value(key) != nil else { return }
        throw .unsupported("unsupported_tool_type", path(of: key), "'\(key)' of an MCP tool")
    }
}

extension MCPTool {
    /// Maximum bytes of a label, so that label and tool name together fit a function's name.
    private static let maxLabelBytes = 40

    /// Parses one element of `tools`.
    init(_ fields: EventFields) throws(ClientEventError) {
        let label = try fields.requiredName("server_label")
        guard label.isServerLabel, label.utf8.count <= Self.maxLabelBytes else {
            throw .invalid(
                fields.path(of: "server_label"),
                "expected a letter, then letters, digits, '-' and '_', at most "
                    + "\(Self.maxLabelBytes) in all")
        }
        try fields.refuse("connector_id")
        try fields.refuse("tunnel_id")
        if try fields.bool("defer_loading") == true { try fields.refuse("defer_loading") }
        if let callers = try fields.names("allowed_callers"), !callers.contains("direct") {
            try fields.refuse("allowed_callers")
        }
        self.init(serverLabel: label, serverURL: try fields.text("server_url"))
        if let serverURL, !serverURL.isWebAddress {
            throw .invalid(
                fields.path(of: "server_url"), "expected a URL that begins with https:// or http://"
            )
        }
        serverDescription = try fields.text("server_description")
        authorization = try fields.text("authorization")
        if let authorization, !authorization.isHeaderValue {
            throw .invalid(fields.path(of: "authorization"), "expected a token")
        }
        headers = try fields.headers("headers")
        if let allowed = try fields.toolFilter("allowed_tools") {
            allowedTools = allowed.filter
            allowedToolsIsList = allowed.isList
        }
        requireApproval = try fields.approval("require_approval")
    }
}

extension MCPItem {
    /// Parses a client's item by its `type`; nil if the type is not one of MCP's.
    init?(_ fields: EventFields, type: String) throws(ClientEventError) {
        switch type {
        case "mcp_approval_response":
            guard let isApproved = try fields.bool("approve") else {
                throw .missing(fields.path(of: "approve"))
            }
            self = .approvalResponse(
                requestID: try fields.requiredName("approval_request_id"), isApproved: isApproved,
                reason: try fields.text("reason"))
        case "mcp_approval_request":
            self = .approvalRequest(
                serverLabel: try fields.requiredName("server_label"),
                name: try fields.requiredName("name"),
                arguments: try fields.requiredText("arguments"))
        case "mcp_call":
            var call = MCPCall(
                serverLabel: try fields.requiredName("server_label"),
                name: try fields.requiredName("name"),
                arguments: try fields.requiredText("arguments"),
                approvalRequestID: try fields.name("approval_request_id"))
            call.output = try fields.text("output")
            call.error = try fields.fields("error").map { (error) throws(ClientEventError) in
                try MCPCallError(error)
            }
            self = .call(call)
        case "mcp_list_tools":
            let tools = try fields.list("tools", atMost: ClientEventLimits.maxTools) {
                (tool) throws(ClientEventError) in try MCPToolDescription(tool)
            }
            guard let tools else { throw .missing(fields.path(of: "tools")) }
            self = .listTools(serverLabel: try fields.requiredName("server_label"), tools: tools)
        default: return nil
        }
    }
}

extension MCPCallError {
    private enum Kind: String, CaseIterable {
        case `protocol` = "protocol_error"
        case execution = "tool_execution_error"
        case http = "http_error"
    }

    fileprivate init(_ fields: EventFields) throws(ClientEventError) {
        let kind = try fields.read(
            RequiredField("type", .choice(of: Kind.self), "What went wrong."))
        let message = try fields.requiredText("message")
        guard kind != .execution else {
            self = .execution(message: message)
            return
        }
        let code = try fields.requiredInteger("code", in: -Int(Int32.max)...Int(Int32.max))
        self =
            kind == .http
            ? .http(code: code, message: message)
            : .protocol(code: code, message: message)
    }
}

extension MCPToolDescription {
    fileprivate init(_ fields: EventFields) throws(ClientEventError) {
        let schema = try fields.requiredFields("input_schema").object
        let annotations = try fields.fields("annotations")
        self.init(
            name: try fields.requiredName("name"), description: try fields.text("description"),
            inputSchema: try fields.raw(schema, fields.path(of: "input_schema")),
            annotations: try annotations.map { (annotations) throws(ClientEventError) in
                try fields.raw(annotations.object, annotations.path)
            },
            isReadOnly: annotations?.object["readOnlyHint"]?.bool ?? false)
    }
}

extension String {
    /// A letter, then letters, digits, `-` and `_`.
    package var isServerLabel: Bool {
        guard let first = utf8.first, first.isASCIILetter else { return false }
        return utf8.allSatisfy { $0.isNameByte }
    }

    /// Whether it is a URL with an HTTP scheme. Whether its host may be contacted is checked
    /// elsewhere.
    fileprivate var isWebAddress: Bool {
        guard let end = utf8.firstIndex(of: UInt8(ascii: "/")) else { return false }
        let scheme = self[..<end]
        return (scheme == "http:" || scheme == "https:") && self[end...].hasPrefix("//")
            && self[end...].utf8.count > 2 && utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }

    /// A token of RFC 9110 §5.6.2, restricted to the characters that services use in header names.
    fileprivate var isHeaderName: Bool { !isEmpty && utf8.allSatisfy { $0.isNameByte } }

    /// Whether a field determines the framing, the destination or the meaning of a message, which
    /// the server sets itself. On a shared connection, the bytes after a wrong length would become
    /// another session's request.
    fileprivate var isReservedHeader: Bool {
        let name = lowercased()
        return name.hasPrefix("mcp-param-")
            || [
                "connection", "content-length", "content-type", "accept", "expect", "host",
                "keep-alive", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id",
                "te", "trailer", "transfer-encoding", "upgrade",
            ].contains(name)
    }

    /// Whether it has no control characters, which could begin another field.
    fileprivate var isHeaderValue: Bool { utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } }
}

extension UInt8 {
    fileprivate var isNameByte: Bool {
        isASCIIAlphanumeric || self == UInt8(ascii: "-") || self == UInt8(ascii: "_")
    }
}
