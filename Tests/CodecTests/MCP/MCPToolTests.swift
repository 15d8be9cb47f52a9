// The protocol's MCP tools, items and events: what a client may send, and what the server sends.
// Event tests against the protocol's tables are in ServerEventWriterTests.

import Codec
import Testing

/// One item and event of each form about MCP servers.
enum MCPSamples {
    static let tool = MCPToolDescription(
        name: "add", description: "Adds.", inputSchema: RawJSON(#"{"type":"object"}"#),
        annotations: RawJSON(#"{"readOnlyHint":true}"#), isReadOnly: true)

    static func call(
        output: String? = nil, error: MCPCallError? = nil, approval: String? = nil
    ) -> MCPItem {
        var call = MCPCall(
            serverLabel: "calc", name: "add", arguments: "{\"a\":1}", approvalRequestID: approval)
        call.output = output
        call.error = error
        return .call(call)
    }

    private static let forms: [(String, MCPItem)] = [
        ("list of tools", .listTools(serverLabel: "calc", tools: [tool])),
        (
            "list of a bare tool",
            .listTools(serverLabel: "calc", tools: [MCPToolDescription(name: "b")])
        ),
        ("call under way", call()), ("answered call", call(output: "3", approval: "mcpr_1")),
        ("call that failed", call(error: .execution(message: "No."))),
        ("call that was refused", call(error: .protocol(code: -32_602, message: "No."))),
        ("call that got no answer", call(error: .http(code: 502, message: "No."))),
        (
            "question", .approvalRequest(serverLabel: "calc", name: "add", arguments: "{}")
        ),
        ("consent", .approvalResponse(requestID: "mcpr_1", isApproved: true, reason: nil)),
        ("refusal", .approvalResponse(requestID: "mcpr_1", isApproved: false, reason: "No.")),
    ]

    static let items = forms.map { name, item in
        (name, ConversationItem(id: "item_1", kind: .mcp(item)))
    }

    private static let address = PartAddress(
        responseID: "resp_1", itemID: "item_1", outputIndex: 2)

    static let events: [MCPEvent] = [
        .listToolsInProgress(itemID: "item_1"), .listToolsCompleted(itemID: "item_1"),
        .listToolsFailed(itemID: "item_1"), .callArgumentsDelta(address, delta: "{"),
        .callArgumentsDone(address, arguments: "{}"),
        .callInProgress(itemID: "item_1", outputIndex: 2),
        .callCompleted(itemID: "item_1", outputIndex: 2),
        .callFailed(itemID: "item_1", outputIndex: 2),
    ]
}

struct MCPToolTests {
    private func update(_ tools: String) throws -> SessionUpdate {
        try SessionUpdateParserTests.parsedUpdate(tools)
    }

    private func written(_ update: SessionUpdate) -> String {
        var parameters = SessionParameters(model: "m")
        parameters.apply(update)
        var bytes = ByteWriter(capacity: 1_024)
        ServerEventWriter(sessionID: "sess_1").write(
            .sessionUpdated(id: "sess_1", parameters), number: 1, into: &bytes)
        return String(decoding: bytes.copiedBytes, as: UTF8.self)
    }

    @Test func aServerIsReadWithAllItsFields() throws {
        let update = try update(
            #"""
            "tools":[{"type":"function","name":"f"},{"type":"mcp","server_label":"calc",
            "server_url":"https://calc.example/mcp","server_description":"Sums.",
            "authorization":"secret-token","headers":{"X-Key":"secret-key"},
            "allowed_tools":["add"],"require_approval":{"never":{"read_only":true},
            "always":{"tool_names":["sub"]}}}],
            "tool_choice":{"type":"mcp","server_label":"calc","name":"add"}
            """#)
        guard case .value(let tools) = update.mcpTools, let tool = tools.first else {
            Issue.record("no tool was read")
            return
        }
        #expect(update.tools == .value([FunctionTool(name: "f")]))
        #expect(tool.serverLabel == "calc" && tool.serverURL == "https://calc.example/mcp")
        #expect(tool.authorization == "secret-token")
        #expect(tool.headers == [.init(name: "X-Key", value: "secret-key")])
        #expect(tool.allowedTools == MCPTool.Filter(toolNames: ["add"]))
        #expect(update.toolChoice == .value(.auto))
        #expect(update.mcpToolChoice == .value(MCPToolChoice(serverLabel: "calc", name: "add")))
    }

    @Test func secretsAreNeverEchoed() throws {
        let text = written(
            try update(
                #"""
                "tools":[{"type":"mcp","server_label":"calc","server_url":"https://c.example/",
                "authorization":"secret-token","headers":{"X-Key":"secret-key"},
                "allowed_tools":{"read_only":true},"require_approval":"never"}],
                "tool_choice":{"type":"mcp","server_label":"calc"}
                """#))
        #expect(!text.contains("secret"))
        #expect(text.contains(#""server_url":"https://c.example/""#))
        #expect(text.contains(#""allowed_tools":{"read_only":true}"#))
        #expect(text.contains(#""require_approval":"never""#))
        #expect(text.contains(#""tool_choice":{"type":"mcp","server_label":"calc"}"#))
    }

    @Test(arguments: [
        (#"{"server_label":"1st"}"#, "invalid_value", "server_label"),
        (#"{"server_label":"a b"}"#, "invalid_value", "server_label"),
        (#"{"server_label":"a","server_url":"file:///etc"}"#, "invalid_value", "server_url"),
        (#"{"server_label":"a","server_url":"http://a b/"}"#, "invalid_value", "server_url"),
        (#"{"server_label":"a","connector_id":"x"}"#, "unsupported_tool_type", "connector_id"),
        (#"{"server_label":"a","tunnel_id":"x"}"#, "unsupported_tool_type", "tunnel_id"),
        (#"{"server_label":"a","defer_loading":true}"#, "unsupported_tool_type", "defer_loading"),
        (
            #"{"server_label":"a","allowed_callers":["programmatic"]}"#, "unsupported_tool_type",
            "allowed_callers"
        ),
        (#"{"server_label":"a","headers":{"A\n":"b"}}"#, "invalid_value", "headers"),
        (#"{"server_label":"a","headers":{"A":"b\r\nC: d"}}"#, "invalid_value", "headers"),
        (#"{"server_label":"a","headers":{"Mcp-Method":"x"}}"#, "invalid_value", "headers"),
        (#"{"server_label":"a","headers":{"MCP-Name":"x"}}"#, "invalid_value", "headers"),
        (#"{"server_label":"a","headers":{"mcp-param-Region":"x"}}"#, "invalid_value", "headers"),
        (#"{"server_label":"a","authorization":"a\nb"}"#, "invalid_value", "authorization"),
        (#"{"server_label":"a","allowed_tools":5}"#, "invalid_type", "allowed_tools"),
        (#"{"server_label":"a","allowed_tools":[5]}"#, "invalid_type", "allowed_tools[0]"),
        (#"{"server_label":"a","require_approval":"once"}"#, "invalid_value", "require_approval"),
    ])
    func refuses(_ tool: String, code: String, field: String) {
        let typed = #"{"type":"mcp",\#(tool.dropFirst())"#
        #expect(throws: ClientEventError.self) { _ = try update(#""tools":[\#(typed)]"#) }
        do {
            _ = try update(#""tools":[\#(typed)]"#)
        } catch let error as ClientEventError {
            #expect(error.code == code && error.param == "session.tools[0].\(field)")
            #expect(!error.message.contains("C: d"))
        } catch {
            Issue.record("another error: \(error)")
        }
    }

    @Test func twoServersMayNotShareALabel() {
        #expect(throws: ClientEventError.self) {
            try update(
                #""tools":[{"type":"mcp","server_label":"a"},{"type":"mcp","server_label":"a"}]"#)
        }
    }

    @Test func aToolIsAllowedAndApprovedByItsNameAndKind() {
        let reader = MCPSamples.tool
        let writer = MCPToolDescription(name: "drop")
        #expect(MCPTool.Filter(toolNames: ["add"]).matches(reader))
        #expect(!MCPTool.Filter(toolNames: ["add"], readOnly: false).matches(reader))
        #expect(MCPTool.Filter(readOnly: false).matches(writer))
        let approval = MCPTool.Approval.filtered(always: nil, never: .init(readOnly: true))
        #expect(!approval.isNeeded(for: reader))
        #expect(approval.isNeeded(for: writer))
        let both = MCPTool.Approval.filtered(always: .init(toolNames: ["add"]), never: .init())
        #expect(both.isNeeded(for: reader) && !both.isNeeded(for: writer))
    }
}
