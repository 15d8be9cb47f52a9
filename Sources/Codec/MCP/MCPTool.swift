// The protocol's types for MCP servers: a server as a client describes it (`tools[]` of type
// `mcp`), a tool as its server describes it, and the four conversation items about them.
// MCPToolParser reads them, MCPToolWriter writes them. Session decides which tools a model sees and
// executes the calls.
//
// Source: the protocol's tables (`Mcp`, `ToolChoiceMcp`, `RealtimeMcp…`).

/// An MCP server whose tools the model may call, as a client describes it.
public struct MCPTool: Equatable, Sendable {
    /// Selects some of a server's tools. A tool must meet both conditions; without any, all tools
    /// match.
    public struct Filter: Equatable, Sendable {
        /// Names of the tools, or nil where the name does not matter.
        public var toolNames: [String]?
        /// Whether the tools are read-only (their annotation `readOnlyHint`), or nil where either
        /// will do.
        public var readOnly: Bool?

        /// Creates a filter.
        public init(toolNames: [String]? = nil, readOnly: Bool? = nil) {
            self.toolNames = toolNames
            self.readOnly = readOnly
        }

        /// Whether a tool matches. A tool without the annotation counts as one that may write.
        public func matches(_ tool: MCPToolDescription) -> Bool {
            if let toolNames, !toolNames.contains(tool.name) { return false }
            if let readOnly, tool.isReadOnly != readOnly { return false }
            return true
        }
    }

    /// Which calls need the client's approval.
    public enum Approval: Equatable, Sendable {
        /// `"always"`, the protocol's default.
        case always
        /// `"never"`
        case never
        /// As decided by two filters; tools that neither matches need approval.
        case filtered(always: Filter?, never: Filter?)

        /// Whether a call of a tool needs approval. If both filters match the tool, it does.
        public func isNeeded(for tool: MCPToolDescription) -> Bool {
            switch self {
            case .always: true
            case .never: false
            case .filtered(let always, let never):
                always?.matches(tool) == true || never?.matches(tool) != true
            }
        }
    }

    /// The server's name in this session: a letter, then letters, digits, `-` and `_`; at most 40.
    public var serverLabel: String
    /// The server's URL, or nil where the operator has configured a server under this label.
    public var serverURL: String?
    /// The purpose of the server; passed to the model.
    public var serverDescription: String?
    /// An OAuth token, sent to the server as a bearer token. Never sent elsewhere or logged.
    public var authorization: String?
    /// Header fields that are sent with every request. Never sent elsewhere or logged.
    public var headers: [Header] = []
    /// Which of the server's tools may be used. The default is all of them.
    public var allowedTools: Filter?
    /// Whether `allowedTools` was written as a plain list.
    public var allowedToolsIsList = false
    /// Which calls need approval; nil if the client did not specify it, which means all.
    public var requireApproval: Approval?

    /// A header field.
    public struct Header: Equatable, Sendable {
        /// The field's name.
        public var name: String
        /// Its value; often a secret.
        public var value: String

        /// Creates a field.
        public init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// Creates a tool.
    public init(serverLabel: String, serverURL: String? = nil) {
        self.serverLabel = serverLabel
        self.serverURL = serverURL
    }

    /// Whether both use the same URL and secrets, so that one connection can serve both.
    public func hasSameConnection(as other: MCPTool) -> Bool {
        serverLabel == other.serverLabel && serverURL == other.serverURL
            && authorization == other.authorization && headers == other.headers
    }
}

/// A tool as its server describes it.
public struct MCPToolDescription: Equatable, Sendable {
    /// The tool's name at its server.
    public var name: String
    /// The purpose of the tool; passed to the model.
    public var description: String?
    /// JSON Schema of the arguments.
    public var inputSchema: RawJSON
    /// The server's annotations, forwarded unchanged.
    public var annotations: RawJSON?
    /// Whether the server declares the tool read-only (`annotations.readOnlyHint`).
    public var isReadOnly: Bool

    /// Creates a description.
    public init(
        name: String, description: String? = nil, inputSchema: RawJSON = RawJSON("{}"),
        annotations: RawJSON? = nil, isReadOnly: Bool = false
    ) {
        self.name = name
        self.description = description
        self.inputSchema = inputSchema
        self.annotations = annotations
        self.isReadOnly = isReadOnly
    }

    /// UTF-8 bytes of its texts.
    public var textBytes: Int {
        name.utf8.count + (description?.utf8.count ?? 0) + inputSchema.text.utf8.count
            + (annotations?.text.utf8.count ?? 0)
    }
}

/// `tool_choice` of type `mcp`: a tool of this server must be called.
public struct MCPToolChoice: Equatable, Sendable {
    /// The server's label.
    public var serverLabel: String
    /// The tool's name, or nil where any of the server's tools may be called.
    public var name: String?

    /// Creates a choice.
    public init(serverLabel: String, name: String? = nil) {
        self.serverLabel = serverLabel
        self.name = name
    }
}

/// Content of an item that concerns an MCP server.
public enum MCPItem: Equatable, Sendable {
    /// `mcp_list_tools`
    case listTools(serverLabel: String, tools: [MCPToolDescription])
    /// `mcp_call`
    case call(MCPCall)
    /// `mcp_approval_request`
    case approvalRequest(serverLabel: String, name: String, arguments: String)
    /// `mcp_approval_response`
    case approvalResponse(requestID: String, isApproved: Bool, reason: String?)

    /// UTF-8 bytes of its texts.
    public var textBytes: Int {
        switch self {
        case .listTools(let label, let tools):
            tools.reduce(label.utf8.count) { $0 + $1.textBytes }
        case .call(let call):
            call.serverLabel.utf8.count + call.name.utf8.count + call.arguments.utf8.count
                + (call.output?.utf8.count ?? 0) + (call.error?.message.utf8.count ?? 0)
        case .approvalRequest(let label, let name, let arguments):
            label.utf8.count + name.utf8.count + arguments.utf8.count
        case .approvalResponse(let id, _, let reason): id.utf8.count + (reason?.utf8.count ?? 0)
        }
    }
}

/// One call of a tool. `output` or `error` is set once the call has ended.
public struct MCPCall: Equatable, Sendable {
    /// The server's label.
    public var serverLabel: String
    /// The tool's name at its server.
    public var name: String
    /// The arguments: JSON text as the model wrote it.
    public var arguments: String
    /// The approval request that allowed the call, if one was needed.
    public var approvalRequestID: String?
    /// The tool's output.
    public var output: String?
    /// Why there is no output.
    public var error: MCPCallError?

    /// Creates a call that has not ended.
    public init(
        serverLabel: String, name: String, arguments: String, approvalRequestID: String? = nil
    ) {
        self.serverLabel = serverLabel
        self.name = name
        self.arguments = arguments
        self.approvalRequestID = approvalRequestID
    }
}

/// Why a call has no output.
public enum MCPCallError: Error, Equatable, Sendable {
    /// The server closed the connection, timed out or refused the call; `code` is JSON-RPC's.
    case `protocol`(code: Int, message: String)
    /// The tool failed, or the call was not made.
    case execution(message: String)
    /// The server answered with an HTTP error status.
    case http(code: Int, message: String)

    /// A sentence for the client and the model.
    public var message: String {
        switch self {
        case .protocol(_, let message), .execution(let message), .http(_, let message): message
        }
    }
}

/// An event about an MCP server. Cases mirror the wire names.
public enum MCPEvent: Equatable, Sendable {
    case listToolsInProgress(itemID: String)
    case listToolsCompleted(itemID: String)
    case listToolsFailed(itemID: String)
    case callArgumentsDelta(PartAddress, delta: String)
    case callArgumentsDone(PartAddress, arguments: String)
    case callInProgress(itemID: String, outputIndex: Int)
    case callCompleted(itemID: String, outputIndex: Int)
    case callFailed(itemID: String, outputIndex: Int)

    /// The `type` of the event on the wire.
    public var wireName: String {
        switch self {
        case .listToolsInProgress: "mcp_list_tools.in_progress"
        case .listToolsCompleted: "mcp_list_tools.completed"
        case .listToolsFailed: "mcp_list_tools.failed"
        case .callArgumentsDelta: "response.mcp_call_arguments.delta"
        case .callArgumentsDone: "response.mcp_call_arguments.done"
        case .callInProgress: "response.mcp_call.in_progress"
        case .callCompleted: "response.mcp_call.completed"
        case .callFailed: "response.mcp_call.failed"
        }
    }
}
