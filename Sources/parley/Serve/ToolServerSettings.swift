// Which MCP servers sessions may use, and how long they may take. How many tools a session may use
// is in Session/Settings/SessionLimits.

import Agents
import Codec
import Server
import Session

/// Which URLs of MCP servers clients may name, as the option spells it.
enum MCPClientURLs: String, CaseIterable, Sendable {
    case auto, off, `public`, any

    /// The policy for sessions. `auto` is `any` where only programs of this machine can connect,
    /// because they reach its network anyway, and `public` elsewhere. A proxy on this machine has
    /// clients from elsewhere.
    func policy(of configuration: ServerConfiguration) -> ToolServerPolicy.ClientURLs {
        switch self {
        case .off: return .off
        case .public: return .public
        case .any: return .any
        case .auto:
            let host = configuration.listener.host
            let isLoopback = host == "localhost" || NetworkAddress(host)?.isLoopback == true
            return isLoopback && configuration.admission.trustedProxies.isEmpty ? .any : .public
        }
    }
}

/// MCP servers of the operator and of clients.
struct ToolServerSettings: Sendable {
    /// The file that names the operator's MCP servers, or nil where there are none.
    var configuration: String?
    /// Which MCP servers clients may name by their URL.
    var clientURLs = MCPClientURLs.auto
    /// How long MCP servers may take.
    var timeouts = MCPTimeouts()

    /// The settings that change these.
    static let settings = SettingGroup<Self>(.mcp, all)

    private static let all: [Setting<Self>] = [
        .optionalText(
            "mcp-config", \.configuration, "a path",
            """
            JSON file of MCP servers that clients may name by their label, as other MCP \
            clients read it: an object mcpServers with, for each server, command, args and \
            env, or url and headers.
            """),
        .choice(
            "mcp-client-urls", \.clientURLs,
            """
            Which MCP servers clients may name by their URL: off (none), public (those with a \
            public address), any (also this machine and its network), or auto: any where the \
            server listens on this machine alone and trusts no proxy, public otherwise.
            """),
        .milliseconds(
            "mcp-list-timeout-ms", \.timeouts.list, 100...600_000,
            "Time to connect to an MCP server, and for each page of its tools."),
        .milliseconds(
            "mcp-call-timeout-ms", \.timeouts.call, 100...3_600_000,
            "Time for a call of an MCP tool."),
    ]
}
