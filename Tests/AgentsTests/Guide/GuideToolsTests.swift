// The guide's tool server beside others: its label, its tools and their results.

import Codec
import Session
import Testing

@testable import Agents

@Suite struct GuideToolsTests {
    /// A host that knows its session.
    private struct KnowingHost: HostWithoutServices {
        var facts: SessionFacts?

        func now() async -> Instant { Instant(nanoseconds: 0) }
        func sleep(for duration: Duration) async throws {}
        func sessionFacts() async -> SessionFacts? { facts }
    }

    private static let others = MCPToolServers(configured: [], clientURLs: .off) { _, _, _ in
        fatalError("no program is configured")
    }

    private func connection() -> any ToolServerConnection {
        GuideToolServers(beside: Self.others).connection(to: MCPTool(serverLabel: "parley"))
    }

    @Test func itsLabelIsKnownBesideTheOthers() {
        let policy = GuideToolServers(beside: Self.others).policy
        #expect(policy == ToolServerPolicy(configuredLabels: ["parley"], clientURLs: .off))
    }

    @Test func itsToolsOnlyRead() async throws {
        let tools = try await connection().listTools(on: KnowingHost())
        #expect(tools.map(\.name) == ["count_sessions", "read_memory", "read_latency"])
        #expect(tools.map(\.isReadOnly) == [true, true, true])
        for tool in tools {
            let parser = JSONParser()
            let schema = try parser.parse(tool.inputSchema.text)
            #expect(schema["type"]?.string == "object")
        }
    }

    @Test(arguments: [
        ("count_sessions", #"{"sessions_open":3}"#), ("read_memory", #"{"session_bytes":41230}"#),
        (
            "read_latency",
            #"{"transcript_ms":210,"first_token_ms":211,"first_audio_ms":null}"#
        ),
    ])
    func aResultIsJSON(tool: String, expected: String) async throws {
        let host = KnowingHost(
            facts: SessionFacts(
                openSessions: 3, bytes: 41_230,
                answeredTurn: TurnTimes(transcript: 210, firstToken: 211)))
        let result = try await connection().call(tool, arguments: "{}", id: "mcp_1", on: host)
        #expect(result == expected)
    }

    @Test func anUnknownToolOrSessionIsAnError() async {
        let known = KnowingHost(facts: SessionFacts(openSessions: 1, bytes: 1))
        await #expect(throws: MCPCallError.self) {
            try await connection().call("other", arguments: "{}", id: "mcp_1", on: known)
        }
        await #expect(throws: MCPCallError.self) {
            try await connection().call(
                "count_sessions", arguments: "{}", id: "mcp_1", on: KnowingHost())
        }
    }

    @Test func aServerOfThatNameIsTheOperators() {
        let own = MCPServerConfiguration(
            label: "parley", transport: .http(url: "http://127.0.0.1:1/mcp", headers: []))
        let others = MCPToolServers(configured: [own], clientURLs: .off) { _, _, _ in
            fatalError("no program is configured")
        }
        let servers = GuideToolServers(beside: others)
        #expect(servers.connection(to: MCPTool(serverLabel: "parley")) is MCPClient)
        let named = GuideToolServers(beside: Self.others).connection(
            to: MCPTool(serverLabel: "parley", serverURL: "http://127.0.0.1:1/mcp"))
        #expect(named is MCPClient)
    }
}
