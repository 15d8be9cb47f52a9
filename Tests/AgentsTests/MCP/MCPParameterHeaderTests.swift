// Arguments that are repeated in header fields: which marks of a schema are valid, and that a value
// of a model cannot begin another field. The cases are those that the package mcp 2.3.0 accepts and
// refuses.
//
// Source: MCP 2026-07-28, "Transports", "Custom headers".

import Codec
import Session
import Testing

@testable import Agents

struct MCPParameterHeaderTests {
    @Test(arguments: [
        ("eu-west", "eu-west"), ("a b", "a b"), ("~!\"#", "~!\"#"), ("", "=?base64??="),
        (" a", "=?base64?IGE=?="), ("a ", "=?base64?YSA=?="), ("ü", "=?base64?w7w=?="),
        ("a\r\nX-Admin: 1", "=?base64?YQ0KWC1BZG1pbjogMQ==?="), ("\0", "=?base64?AA==?="),
        ("\t", "=?base64?CQ==?="), ("\u{7F}", "=?base64?fw==?="),
        ("=?base64?AA==?=", "=?base64?PT9iYXNlNjQ/QUE9PT89?="), ("=?base64?", "=?base64?"),
    ])
    func aValueIsPrintable(_ text: String, _ field: String) {
        #expect(MCPParameterHeader.encoded(text) == field)
    }

    private func headers(_ schema: String) throws -> [MCPParameterHeader] {
        try MCPParameterHeader.all(in: try JSONParser().parse(schema))
    }

    @Test func marksAreFoundInObjectsOfObjects() throws {
        let schema = """
            {"type":"object","default":{"x-mcp-header":"no"},"properties":{
              "region":{"type":"string","x-mcp-header":"Region"},
              "x-mcp-header":{"type":"string"},
              "page":{"type":"object","properties":{
                "size":{"type":"integer","x-mcp-header":"Page-Size"}}},
              "deep":{"type":"boolean","x-mcp-header":"D"}}}
            """
        let found = try headers(schema)
        #expect(found.map(\.path) == [["region"], ["page", "size"], ["deep"]])
        let arguments = RawJSON(#"{"region":"eu\n","page":{"size":5.0},"deep":false,"more":1}"#)
        let fields = try MCPParameterHeader.fields(found, of: arguments)
        #expect(fields.map(\.name) == ["Mcp-Param-Region", "Mcp-Param-Page-Size", "Mcp-Param-D"])
        #expect(fields.map(\.value) == ["=?base64?ZXUK?=", "5", "false"])
    }

    @Test(arguments: [
        ("{}", []), (#"{"a":null}"#, []), (#"{"a":[1]}"#, []), (#"{"a":{"b":1}}"#, []),
        (#"{"a":12345678901234567890}"#, ["12345678901234567890"]), (#"{"a":1.5}"#, ["1.5"]),
        (#"{"a":true}"#, ["true"]), (#"{"a":1,"a":2}"#, ["2"]),
    ])
    func argumentsWithoutAPlainValueHaveNoField(_ arguments: String, _ values: [String]) throws {
        let found = try headers(
            #"{"properties":{"a":{"type":"integer","x-mcp-header":"A"}}}"#)
        #expect(try MCPParameterHeader.fields(found, of: RawJSON(arguments)).map(\.value) == values)
    }

    @Test(arguments: [
        #"{"x-mcp-header":"A","type":"string"}"#,
        #"{"properties":{"a":{"x-mcp-header":"A"}}}"#,
        #"{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#,
        #"{"properties":{"a":{"type":["string"],"x-mcp-header":"A"}}}"#,
        #"{"properties":{"a":{"type":"string","x-mcp-header":5}}}"#,
        #"{"properties":{"a":{"type":"string","x-mcp-header":""}}}"#,
        #"{"properties":{"a":{"type":"string","x-mcp-header":"A: b\r\nC"}}}"#,
        #"{"properties":{"a":{"type":"string","x-mcp-header":"ü"}}}"#,
        #"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#,
        #"{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}"#,
        #"{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}"#,
        #"{"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}"#,
    ])
    func aToolWithInvalidMarksIsNotOffered(_ schema: String) async throws {
        #expect(throws: MCPParameterHeader.InvalidMark.self) { try headers(schema) }
        let tools =
            #""tools":[{"name":"bad","inputSchema":\#(schema)},{"name":"good","inputSchema":{}}]"#
        let server = ScriptedMCPServer(ScriptedMCPServer.stateless(tools: tools))
        #expect(try await client().listTools(on: server).map(\.name) == ["good"])
        // The earlier revisions know no marks.
        let earlier = ScriptedMCPServer(ScriptedMCPServer.session(tools: tools))
        #expect(try await client().listTools(on: earlier).count == 2)
    }

    private func client() -> MCPClient {
        MCPStreamableHTTP(
            url: "http://tools.example/mcp", headers: [], isConfined: false,
            memory: MCPServerMemory()
        ).client(MCPTimeouts())
    }

    private static func tools(_ header: String) -> String {
        #""ttlMs":9000,"tools":[{"name":"find","inputSchema":{"properties":{"#
            + #""region":{"type":"string","x-mcp-header":"\#(header)"}}}}]"#
    }

    @Test func markedArgumentsGoOutAsFieldsToAStatelessServerOnly() async throws {
        let server = ScriptedMCPServer(ScriptedMCPServer.stateless(tools: Self.tools("Region")))
        let client = client()
        _ = try await client.listTools(on: server)
        _ = try await client.call(
            "find", arguments: #"{"region":"eu\r\nX: y"}"#, id: "i", on: server)
        #expect(server.requests.last?.field("Mcp-Param-Region") == "=?base64?ZXUNClg6IHk=?=")
        let long = String(repeating: "x", count: 5_000)
        await #expect(throws: MCPCallError.execution(message: "The argument 'region' is too long."))
        {
            try await client.call("find", arguments: #"{"region":"\#(long)"}"#, id: "j", on: server)
        }
        let earlier = ScriptedMCPServer(ScriptedMCPServer.session(tools: Self.tools("Region")))
        let other = self.client()
        _ = try await other.listTools(on: earlier)
        _ = try await other.call("find", arguments: #"{"region":"eu"}"#, id: "i", on: earlier)
        #expect(earlier.requests.last?.field("Mcp-Param-Region") == nil)
    }

    @Test func aToolWhoseMarksHaveChangedIsListedAgain() async throws {
        let server = ScriptedMCPServer(ScriptedMCPServer.stateless(tools: Self.tools("Old")))
        let client = client()
        _ = try await client.listTools(on: server)
        server.become(
            ScriptedMCPServer.stateless(tools: Self.tools("New")) { request in
                request.field("Mcp-Param-New") == "eu"
                    ? ScriptedMCPServer.result("{}", to: request)
                    : ScriptedMCPServer.error(-32_020, id: request.id ?? "")
            })
        _ = try await client.call("find", arguments: #"{"region":"eu"}"#, id: "i", on: server)
        #expect(server.methods.suffix(3) == ["tools/call", "tools/list", "tools/call"])
    }
}
