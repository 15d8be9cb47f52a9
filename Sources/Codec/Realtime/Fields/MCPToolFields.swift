// The tables of what clients send about MCP servers, for the generated documents, and the rules of
// the fields that functions and MCP servers share. MCPToolParser reads the fields, and checks what
// a table cannot express: which header fields are allowed.

/// The tables.
enum MCPToolFields {
    private static var names: ValueSchema { .list(.text(), atMost: ClientEventLimits.maxTools) }

    private static var filter: ValueSchema {
        .object(
            ObjectTable(
                "MCPToolFilter", "Selects tools of a server; a tool must meet both conditions.",
                [
                    .optional("tool_names", .nullable(names), "Names of tools."),
                    .optional(
                        "read_only", .nullable(.boolean), "Whether they are declared read-only."),
                ]))
    }

    private static var approval: ValueSchema {
        .oneOf([
            .choice(["always", "never"]),
            .object(
                ObjectTable(
                    "MCPApprovalFilter", "Which calls need approval; unmatched ones do.",
                    [
                        .optional("always", .nullable(filter), "Tools whose calls need approval."),
                        .optional("never", .nullable(filter), "Tools whose calls need none."),
                    ])),
        ])
    }

    /// An element of `tools`.
    static var tool: ObjectTable {
        let name = ValueSchema.text(atMost: ClientEventLimits.maxTextBytes)
        return ObjectTable(
            "MCPTool", "An MCP server whose tools this server calls for the model.",
            [
                FieldEntry("type", .constant("mcp"), "The type of the tool."),
                FieldEntry(
                    "server_label", .pattern("^[A-Za-z][A-Za-z0-9_-]*$", atMost: 40),
                    "Names the server; unique in the list."),
                .optional(
                    "server_url",
                    .nullable(
                        .pattern(
                            "^https?://[!-~]+$", atMost: ClientEventLimits.maxTextBytes,
                            example: "https://mcp.example/")),
                    "Its URL; without one, the operator has configured the label."),
                .optional("server_description", .nullable(name), "What it is for."),
                .optional(
                    "authorization", .nullable(name), "A bearer token; never reported back."),
                .optional(
                    "headers", .nullable(.map(.text(), atMost: ClientEventLimits.maxTools)),
                    "Header fields for every request; never reported back."),
                .optional(
                    "allowed_tools", .nullable(.oneOf([names, filter])), "Tools that may be used."),
                .optional(
                    "require_approval", .nullable(approval),
                    "Which calls need the client's approval; default: all."),
                .optional(
                    "allowed_callers", .nullable(.list(.constant("direct"), atLeast: 1)),
                    "Who may call; only the model itself."),
            ])
    }

    /// `tool_choice`
    static var choice: ObjectTable {
        ObjectTable(
            "MCPToolChoice", "A tool of an MCP server that must be called.",
            [
                FieldEntry("type", .constant("mcp"), "The type of the tool."),
                FieldEntry(
                    "server_label", .identifier(atMost: ClientEventLimits.maxNameBytes),
                    "The server."),
                .optional(
                    "name", .nullable(.text(atMost: ClientEventLimits.maxNameBytes)),
                    "The tool; default: any."),
            ])
    }

    /// A tool as its server describes it.
    static var listedTool: ObjectTable {
        ObjectTable(
            "MCPListedTool", "A tool as its server describes it.",
            [
                FieldEntry(
                    "name", .identifier(atMost: ClientEventLimits.maxNameBytes),
                    "Its name at the server."),
                .optional("description", .text(), "What it does."),
                FieldEntry("input_schema", .anyObject, "JSON Schema of its arguments."),
                .optional("annotations", .anyObject, "The server's annotations."),
            ])
    }

    /// Why a call has no output.
    static var error: ValueSchema {
        func table(_ name: String, _ meaning: StaticString, _ type: String, _ own: [FieldEntry])
            -> ValueSchema
        {
            .object(
                ObjectTable(
                    name, meaning,
                    [FieldEntry("type", .constant(type), "What went wrong.")] + own + [
                        FieldEntry("message", .text(), "A sentence.")
                    ]))
        }
        let range = -Int(Int32.max)...Int(Int32.max)
        return .oneOf([
            table(
                "MCPProtocolError", "The server disconnected, timed out or refused the call.",
                "protocol_error", [FieldEntry("code", .integer(range), "JSON-RPC's code.")]),
            table(
                "MCPToolExecutionError", "The tool failed, or was never called.",
                "tool_execution_error", []),
            table(
                "MCPHTTPError", "The server answered with an HTTP error status.",
                "http_error", [FieldEntry("code", .integer(range), "HTTP's status.")]),
        ])
    }

    /// The items that a client may create.
    static var items: [ObjectTable] {
        let text = ValueSchema.text(atMost: ClientEventLimits.maxTextBytes)
        let name = ValueSchema.identifier(atMost: ClientEventLimits.maxNameBytes)
        let call = [
            FieldEntry("server_label", name, "The server."),
            FieldEntry("name", name, "The tool."),
            FieldEntry("arguments", text, "Its arguments as JSON text."),
        ]
        return [
            item(
                "NewMCPApprovalResponse", "The answer to an approval request.",
                "mcp_approval_response",
                [
                    FieldEntry("approval_request_id", name, "The approval request."),
                    FieldEntry("approve", .boolean, "Whether the call may be made."),
                    .optional("reason", .nullable(text), "Why, for the model."),
                ]),
            item(
                "NewMCPApprovalRequest", "An approval request of an earlier session; no effect.",
                "mcp_approval_request", call),
            item(
                "NewMCPCall", "A call of an earlier session, with its result.", "mcp_call",
                call + [
                    .optional("approval_request_id", .nullable(.text()), "The approval request."),
                    .optional("output", .nullable(text), "The tool's output."),
                    .optional("error", .nullable(error), "Why there is no output."),
                ]),
            item(
                "NewMCPListTools", "A list of an earlier session; it makes no tool usable.",
                "mcp_list_tools",
                [
                    FieldEntry("server_label", name, "The server."),
                    FieldEntry(
                        "tools",
                        .list(.object(listedTool), atMost: ClientEventLimits.maxTools),
                        "Its tools."),
                ]),
        ]
    }

    /// An item without the `status` of other items, as in the protocol.
    private static func item(
        _ name: String, _ meaning: StaticString, _ type: String, _ own: [FieldEntry]
    ) -> ObjectTable {
        ObjectTable(
            name, meaning,
            [
                FieldEntry(NewItemFields.type.name, .constant(type), NewItemFields.type.meaning),
                NewItemFields.id.entry,
            ] + own)
    }
}

/// `tools`: functions and MCP servers in any order. This rule reads the functions.
struct FunctionToolsRule: ValueRule {
    var schema: ValueSchema {
        .list(
            .oneOf([FunctionTool.schema, .object(MCPToolFields.tool)]),
            atMost: ClientEventLimits.maxTools)
    }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> [FunctionTool] {
        try value.objects(at: path, atMost: ClientEventLimits.maxTools) {
            (tool) throws(ClientEventError) -> FunctionTool? in
            tool.value("type")?.isString("mcp") == true ? nil : try FunctionTool(tool)
        }.compactMap { $0 }
    }
}

/// The MCP servers among `tools`.
struct MCPToolsRule: ValueRule {
    /// Maximum number of servers in one list; each is a connection.
    private static let maxServers = 16

    var schema: ValueSchema { FunctionToolsRule().schema }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> [MCPTool] {
        let tools = try value.objects(at: path, atMost: ClientEventLimits.maxTools) {
            (tool) throws(ClientEventError) -> MCPTool? in
            tool.value("type")?.isString("mcp") == true ? try MCPTool(tool) : nil
        }.compactMap { $0 }
        guard tools.count <= Self.maxServers else {
            throw .tooMany(
                path.text, "MCP servers", atMost: Self.maxServers, got: tools.count)
        }
        for (index, tool) in tools.enumerated()
        where tools[..<index].contains(where: { $0.serverLabel == tool.serverLabel }) {
            throw .invalid(path.text, "the server_label '\(tool.serverLabel)' comes twice")
        }
        return tools
    }
}

/// `tool_choice` of type `mcp`; nil for any other.
struct MCPToolChoiceRule: ValueRule {
    var schema: ValueSchema { ToolChoiceRule().schema }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> MCPToolChoice? {
        guard value.kind == .object, value["type"]?.isString("mcp") == true else { return nil }
        let fields = try EventFields(value, path: path.text)
        return MCPToolChoice(
            serverLabel: try fields.requiredName("server_label"), name: try fields.name("name"))
    }
}
