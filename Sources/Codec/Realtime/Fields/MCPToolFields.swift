// The tables of what clients say of MCP servers, for the documents, and the rules of the fields
// that functions and MCP servers share. What reading makes of them is in MCPToolParser, which
// checks what no table can say: which header fields there may be.

/// The tables.
enum MCPToolFields {
    private static let names = ValueSchema.list(.text(), atMost: ClientEventLimits().maxTools)

    private static var filter: ValueSchema {
        .object(
            ObjectTable(
                "MCPToolFilter", "Which of a server's tools are meant: those that fit both.",
                [
                    .optional("tool_names", .nullable(names), "Names of tools."),
                    .optional(
                        "read_only", .nullable(.boolean), "Whether they say that they only read."),
                ]))
    }

    private static var approval: ValueSchema {
        .oneOf([
            .choice(["always", "never"]),
            .object(
                ObjectTable(
                    "MCPApprovalFilter", "Which calls must be approved; others always.",
                    [
                        .optional("always", .nullable(filter), "Tools that must be."),
                        .optional("never", .nullable(filter), "Tools that need not be."),
                    ])),
        ])
    }

    /// An element of `tools`.
    static var tool: ObjectTable {
        let name = ValueSchema.text(atMost: ClientEventLimits().maxTextBytes)
        return ObjectTable(
            "MCPTool", "An MCP server whose tools this server calls for the model.",
            [
                FieldEntry("type", .constant("mcp"), "What kind of tool it is."),
                FieldEntry(
                    "server_label", .pattern("^[A-Za-z][A-Za-z0-9_-]*$", atMost: 40),
                    "Names the server; unique in the list."),
                .optional(
                    "server_url",
                    .nullable(
                        .pattern(
                            "^https?://[!-~]+$", atMost: ClientEventLimits().maxTextBytes,
                            example: "https://mcp.example/")),
                    "Where it is; without it, the operator has configured the label."),
                .optional("server_description", .nullable(name), "What it is for."),
                .optional(
                    "authorization", .nullable(name), "A bearer token; never reported back."),
                .optional(
                    "headers", .nullable(.map(.text(), atMost: ClientEventLimits().maxTools)),
                    "Header fields for every request; never reported back."),
                .optional(
                    "allowed_tools", .nullable(.oneOf([names, filter])), "Which may be used."),
                .optional(
                    "require_approval", .nullable(approval),
                    "Which calls the client is asked about; always where it is left out."),
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
                FieldEntry("type", .constant("mcp"), "What kind of tool it is."),
                FieldEntry(
                    "server_label", .identifier(atMost: ClientEventLimits().maxNameBytes),
                    "The server."),
                .optional(
                    "name", .nullable(.text(atMost: ClientEventLimits().maxNameBytes)),
                    "The tool; any where it is left out."),
            ])
    }

    /// A tool as its server describes it.
    static var listedTool: ObjectTable {
        ObjectTable(
            "MCPListedTool", "A tool as its server describes it.",
            [
                FieldEntry(
                    "name", .identifier(atMost: ClientEventLimits().maxNameBytes),
                    "Its name at the server."),
                .optional("description", .text(), "What it does."),
                FieldEntry("input_schema", .anyObject, "JSON Schema of its arguments."),
                .optional("annotations", .anyObject, "What the server says of it."),
            ])
    }

    /// Why a call has no answer.
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
                "MCPProtocolError", "The server broke off, was late or refused the call.",
                "protocol_error", [FieldEntry("code", .integer(range), "JSON-RPC's code.")]),
            table(
                "MCPToolExecutionError", "The tool failed, or was never called.",
                "tool_execution_error", []),
            table(
                "MCPHTTPError", "The server answered with a status that is no success.",
                "http_error", [FieldEntry("code", .integer(range), "HTTP's status.")]),
        ])
    }

    /// The items that a client may create.
    static var items: [ObjectTable] {
        let text = ValueSchema.text(atMost: ClientEventLimits().maxTextBytes)
        let name = ValueSchema.identifier(atMost: ClientEventLimits().maxNameBytes)
        let call = [
            FieldEntry("server_label", name, "The server."),
            FieldEntry("name", name, "The tool."),
            FieldEntry("arguments", text, "Its arguments as JSON text."),
        ]
        return [
            item(
                "NewMCPApprovalResponse", "The answer to a question of the server.",
                "mcp_approval_response",
                [
                    FieldEntry("approval_request_id", name, "The item that asks."),
                    FieldEntry("approve", .boolean, "Whether the call may be made."),
                    .optional("reason", .nullable(text), "Why, for the model."),
                ]),
            item(
                "NewMCPApprovalRequest", "A question of an earlier session; nothing waits for it.",
                "mcp_approval_request", call),
            item(
                "NewMCPCall", "A call of an earlier session, with what came of it.", "mcp_call",
                call + [
                    .optional("approval_request_id", .nullable(.text()), "What it was asked by."),
                    .optional("output", .nullable(text), "What the tool answered."),
                    .optional("error", .nullable(error), "Why it has not."),
                ]),
            item(
                "NewMCPListTools", "A list of an earlier session; it makes no tool usable.",
                "mcp_list_tools",
                [
                    FieldEntry("server_label", name, "The server."),
                    FieldEntry(
                        "tools",
                        .list(.object(listedTool), atMost: ClientEventLimits().maxTools),
                        "Its tools."),
                ]),
        ]
    }

    /// An item without the `status` of other items, as the protocol has it.
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

/// `tools`: functions and MCP servers in any order, of which this reads the functions.
struct FunctionToolsRule: ValueRule {
    var schema: ValueSchema {
        .list(
            .oneOf([FunctionTool.schema, .object(MCPToolFields.tool)]),
            atMost: ClientEventLimits().maxTools)
    }

    func read(
        _ value: JSONValue, at path: FieldPath, _ limits: ClientEventLimits
    ) throws(ClientEventError) -> [FunctionTool] {
        try value.objects(at: path, atMost: limits.maxTools, limits) {
            (tool) throws(ClientEventError) -> FunctionTool? in
            tool.value("type")?.isString("mcp") == true ? nil : try FunctionTool(tool)
        }.compactMap { $0 }
    }
}

/// The MCP servers among `tools`.
struct MCPToolsRule: ValueRule {
    /// The most servers that one list may name; each is a connection.
    private static let maxServers = 16

    var schema: ValueSchema { FunctionToolsRule().schema }

    func read(
        _ value: JSONValue, at path: FieldPath, _ limits: ClientEventLimits
    ) throws(ClientEventError) -> [MCPTool] {
        let tools = try value.objects(at: path, atMost: limits.maxTools, limits) {
            (tool) throws(ClientEventError) -> MCPTool? in
            tool.value("type")?.isString("mcp") == true ? try MCPTool(tool) : nil
        }.compactMap { $0 }
        guard tools.count <= Self.maxServers else {
            throw .invalid(
                path.text, "expected at most \(Self.maxServers) MCP servers, got \(tools.count)")
        }
        for (index, tool) in tools.enumerated()
        where tools[..<index].contains(where: { $0.serverLabel == tool.serverLabel }) {
            throw .invalid(path.text, "the server_label '\(tool.serverLabel)' comes twice")
        }
        return tools
    }
}

/// `tool_choice` where it is of type `mcp`; nil where it is anything else.
struct MCPToolChoiceRule: ValueRule {
    var schema: ValueSchema { ToolChoiceRule().schema }

    func read(
        _ value: JSONValue, at path: FieldPath, _ limits: ClientEventLimits
    ) throws(ClientEventError) -> MCPToolChoice? {
        guard value.kind == .object, value["type"]?.isString("mcp") == true else { return nil }
        let fields = try EventFields(value, path: path.text, limits: limits)
        return MCPToolChoice(
            serverLabel: try fields.requiredName("server_label"), name: try fields.name("name"))
    }
}
