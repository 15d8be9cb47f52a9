// The server's events and items about MCP servers, for the generated documents. MCPToolFields has
// what clients send. The items have neither `object` nor `status`, as in the protocol.

extension ServerEventTables {
    /// The events about MCP servers and calls of their tools.
    static var mcpEvents: [ObjectTable] {
        let itemID = FieldEntry("item_id", .text(), "The item.")
        let outputIndex = FieldEntry(
            "output_index", .integer(0...Int.max), "The item's place in the response, from 0.")
        let address = [FieldEntry("response_id", .text(), "The response."), itemID, outputIndex]
        return [
            event("mcp_list_tools.in_progress", "A server's tools are being listed.", [itemID]),
            event("mcp_list_tools.completed", "A server's tools can be used.", [itemID]),
            event("mcp_list_tools.failed", "A server's tools cannot be listed.", [itemID]),
            event(
                "response.mcp_call_arguments.delta", "More of a call's arguments.",
                address + [FieldEntry("delta", .text(), "A piece of JSON text.")]),
            event(
                "response.mcp_call_arguments.done", "A call's arguments are complete.",
                address + [FieldEntry("arguments", .text(), "The arguments as JSON text.")]),
            event("response.mcp_call.in_progress", "A tool is called.", [itemID, outputIndex]),
            event("response.mcp_call.completed", "A tool has answered.", [itemID, outputIndex]),
            event("response.mcp_call.failed", "A call has failed.", [itemID, outputIndex]),
        ]
    }
}

extension ServerObjectTables {
    /// The items about MCP servers.
    static var mcpItems: [ObjectTable] {
        let call = [
            FieldEntry("server_label", .text(), "The server."),
            FieldEntry("name", .text(), "The tool."),
            FieldEntry("arguments", .text(), "Its arguments as JSON text."),
        ]
        return [
            mcpItem(
                "MCPListTools", "The tools of a server.", "mcp_list_tools",
                [
                    FieldEntry("server_label", .text(), "The server."),
                    FieldEntry("tools", .list(.object(MCPToolFields.listedTool)), "Its tools."),
                ]),
            mcpItem(
                "MCPCall", "A call of a tool.", "mcp_call",
                call + [
                    .optional("approval_request_id", .text(), "The approval request."),
                    .optional("output", .text(), "The tool's output."),
                    .optional("error", MCPToolFields.error, "Why there is no output."),
                ]),
            mcpItem(
                "MCPApprovalRequest", "A call that waits for the client's approval.",
                "mcp_approval_request", call),
            mcpItem(
                "MCPApprovalResponse", "The client's answer.", "mcp_approval_response",
                [
                    FieldEntry("approval_request_id", .text(), "The approval request."),
                    FieldEntry("approve", .boolean, "Whether the call may be made."),
                    .optional("reason", .text(), "Why."),
                ]),
        ]
    }

    private static func mcpItem(
        _ name: String, _ meaning: StaticString, _ type: String, _ own: [FieldEntry]
    ) -> ObjectTable {
        ObjectTable(
            name, meaning,
            [
                FieldEntry("id", .text(), "The item's id."),
                FieldEntry("type", .constant(type), "The type of the item."),
            ] + own)
    }
}
