// Tools of MCP servers as the protocol has them: what a client says of a server (`tools[]` of type
// `mcp`), what a server says of its tools, and the four conversation items that tell of them. How
// they are read is in MCPToolParser, how they are written in MCPToolWriter; which tools a model
// sees and who calls them is decided in Session.
//
// Source: the protocol's tables (`Mcp`, `ToolChoiceMcp`, `RealtimeMcp…`).

/// An MCP server whose tools the model may call, as a client describes it.
public struct MCPTool: Equatable, Sendable {
    /// Which of a server's tools a rule means. Both conditions must hold; without any, all do.
    public struct Filter: Equatable, Sendable {
        /// Names of tools, or nil: all.
        public var toolNames: [String]?
        /// Whether they only read (their annotation `readOnlyHint`), or nil: either.
        public var readOnly: Bool?

        /// Creates a filter.
        public init(toolNames: [String]? = nil, readOnly: Bool? = nil) {
            self.toolNames = toolNames
            self.readOnly = readOnly
        }

        /// Whether the rule means a tool. A tool that says nothing may write.
        public func matches(_ tool: MCPToolDescription) -> Bool {
            if let toolNames, !toolNames.contains(tool.name) { return false }
            if let readOnly, tool.isReadOnly != readOnly { return false }
            return true
        }
    }

    /// Which calls the client wants to be asked about.
    public enum Approval: Equatable, Sendable {
        /// `"always"`, the protocol's default.
        case always
        /// `"never"`
        case never
        /// Each tool as a filter says; the others always.
        case filtered(always: Filter?, never: Filter?)

        /// Whether a call of a tool must be approved. Where both filters mean it, it must.
        public func isNeeded(for tool: MCPToolDescription) -> Bool {
            switch self {
            case .always: true
            case .never: false
            case .filtered(let always, let never):
                always?.matches(tool) == true || never?.matches(tool) != true
            }
        }
    }

    /// Names the server in this session: a letter, then letters, digits, `-` and `_`; at most 40.
    public var serverLabel: String
    /// Where it is, or nil: one that the operator has configured under this label.
    public var serverURL: String?
    /// What it is for, for the model.
    public var serverDescription: String?
    /// An OAuth token, sent as a bearer token. Never told to anybody else, nor logged.
    public var authorization: String?
    /// Header fields that are sent with every request. Never told to anybody else, nor logged.
    public var headers: [Header] = []
    /// Which of its tools may be used; nil: all.
    public var allowedTools: Filter?
    /// Whether `allowedTools` was written as a plain list.
    public var allowedToolsIsList = false
    /// Which calls must be approved, or nil where the client did not say: always.
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

    /// Whether both are reached in the same way, so that one connection serves both.
    public func hasSameConnection(as other: MCPTool) -> Bool {
        serverLabel == other.serverLabel && serverURL == other.serverURL
            && authorization == other.authorization && headers == other.headers
    }
}

/// A tool as its server describes it.
public struct MCPToolDescription: Equatable, Sendable {
    /// The name at the server.
    public var name: String
    /// What it does, for the model.
    public var description: String?
    /// JSON Schema of the arguments.
    public var inputSchema: RawJSON
    /// The server's annotations, passed on.
    public var annotations: RawJSON?
    /// Whether the server says that it changes nothing (`annotations.readOnlyHint`).
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
    /// The server.
    public var serverLabel: String
    /// The tool, or nil: any.
    public var name: String?

    /// Creates a choice.
    public init(serverLabel: String, name: String? = nil) {
        self.serverLabel = serverLabel
        self.name = name
    }
}

/// What an item that concerns an MCP server is.
public enum MCPItem: Equatable, Sendable {
    /// `mcp_list_tools`
    case listTools(serverLabel: String, tools: [MCPToolDescription])
    /// `mcp_call`
    case call(MCPCall)
    /// `mcp_approval_request`
    case approvalRequest(serverLabel: String, name: String, arguments: String)
    /// `mcp_approval_response`
    case approvalResponse(requestID: String, isApproved: Bool, reason: String?)

    /// UTF-8 bytes of the text that it holds.
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

/// One call of a tool, as the server made it: `output` or `error` once it is over.
public struct MCPCall: Equatable, Sendable {
    /// The server.
    public var serverLabel: String
    /// The tool's name at its server.
    public var name: String
    /// JSON text as the model wrote it.
    public var arguments: String
    /// The approval that it has, where one was needed.
    public var approvalRequestID: String?
    /// What the tool answered.
    public var output: String?
    /// Why there is no answer.
    public var error: MCPCallError?

    /// Creates a call that is not over.
    public init(
        serverLabel: String, name: String, arguments: String, approvalRequestID: String? = nil
    ) {
        self.serverLabel = serverLabel
        self.name = name
        self.arguments = arguments
        self.approvalRequestID = approvalRequestID
    }
}

/// Why a tool's call has no answer.
public enum MCPCallError: Error, Equatable, Sendable {
    /// The server broke off, was late or refused the call as such; `code` is JSON-RPC's.
    case `protocol`(code: Int, message: String)
    /// The tool failed, or the call was never made.
    case execution(message: String)
    /// The server answered with an HTTP status that is no success.
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
