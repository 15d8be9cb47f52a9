// The options of MCP servers: which there are, which clients may name, how long they may take and
// how much. The list of all options is ServeOptionTable.

import Agents
import Codec
import Server
import Session

/// Which URLs of MCP servers clients may name, as the option spells it.
enum MCPClientURLs: String, CaseIterable, Sendable {
    case auto, off, `public`, any

    /// What sessions go by. `auto` is `any` where only programs of this machine can connect, which
    /// reach its network anyway, and `public` elsewhere. A proxy on this machine brings others.
    func policy(of configuration: ServerConfiguration) -> ToolServerPolicy.ClientURLs {
        switch self {
        case .off: return .off
        case .public: return .public
        case .any: return .any
        case .auto:
            let host = configuration.host
            let isLoopback = host == "localhost" || NetworkAddress(host)?.isLoopback == true
            return isLoopback && configuration.trustedProxies.isEmpty ? .any : .public
        }
    }
}

extension ServeOptionTable {
    static let mcp: [ServeOption] = [
        .optionalText(
            "mcp-config", \.mcpConfiguration, allowed: "a path", in: .mcp,
            """
            JSON file of MCP servers that clients may name by their label: an object mcpServers \
            with command, args and env, or url and headers, for each, as other MCP clients read it.
            """),
        .choice(
            "mcp-client-urls", \.mcpClientURLs, in: .mcp,
            """
            Which MCP servers clients may name by their URL: off (none), public (those with a \
            public address), any (also this machine and its network), or auto: any where the \
            server listens on this machine alone and trusts no proxy, public otherwise.
            """),
        .milliseconds(
            "mcp-list-timeout-ms", \.mcpTimeouts.list, 100...600_000, in: .mcp,
            "Time to connect to an MCP server, and for each page of its tools."),
        .milliseconds(
            "mcp-call-timeout-ms", \.mcpTimeouts.call, 100...3_600_000, in: .mcp,
            "Time for a call of an MCP tool."),
        .integer(
            "max-mcp-servers", \.server.session.maxToolServers, 1...16, unit: "servers",
            in: .mcp, "MCP servers that a session is connected to at once."),
        .integer(
            "max-mcp-tools", \.server.session.maxToolsPerServer, 1...1_024, unit: "tools",
            in: .mcp, "Tools of one MCP server that the model is shown."),
        .integer(
            "max-mcp-calls", \.server.session.maxToolCalls, 1...1_000, unit: "calls", in: .mcp,
            "Calls of MCP tools that one response makes."),
        .integer(
            "max-mcp-result-bytes", \.server.session.maxToolResultBytes, 64...(1 << 20),
            unit: "bytes", in: .mcp, "What is kept of a tool's answer; the rest is cut off."),
        .integer(
            "max-automatic-responses", \.server.session.maxAutomaticResponses, 1...1_000,
            unit: "responses", in: .mcp,
            """
            Responses that follow one another by themselves because tools were called: a model \
            that calls tools for ever is stopped there.
            """),
    ]
}
