// The port to tools elsewhere: servers of the Model Context Protocol, whose tools the model may
// call. The session decides which tools the model sees, and emits the events; the implementation
// reaches the servers (Agents/MCPToolServers).

import Codec

/// Which servers sessions may name. It is a value, so that a session can decide at once.
public struct ToolServerPolicy: Equatable, Sendable {
    /// Which URLs clients may name.
    public enum ClientURLs: String, CaseIterable, Sendable {
        /// None: clients name only the servers that the operator has configured.
        case off
        /// Servers whose host has a public address, never those of the server's own network.
        case `public`
        /// Any, also this machine and its network.
        case any
    }

    /// Labels of the servers that the operator has configured.
    public var configuredLabels: Set<String>
    /// Which URLs clients may name.
    public var clientURLs: ClientURLs

    /// Creates a policy.
    public init(configuredLabels: Set<String> = [], clientURLs: ClientURLs = .off) {
        self.configuredLabels = configuredLabels
        self.clientURLs = clientURLs
    }

    /// Why a client may not use a server, or nil.
    /// - Parameter path: of the list of tools, for the error.
    public func refusal(of tool: MCPTool, path: String) -> ClientEventError? {
        if tool.serverURL == nil {
            guard !configuredLabels.contains(tool.serverLabel) else { return nil }
            return .mcpServerUnknown(label: tool.serverLabel, path: path)
        }
        guard clientURLs == .off else { return nil }
        return .mcpServerURLNotAllowed(path: path)
    }
}

/// Reaches tool servers. Its connections belong to one session each.
public protocol ToolServers: Sendable {
    /// Which servers sessions may name.
    var policy: ToolServerPolicy { get }

    /// A connection to a server that the policy allows. It does nothing until it is first used.
    func connection(to server: MCPTool) -> any ToolServerConnection

    /// The server stops: processes and connections that serve all sessions end. Called once, off
    /// the shards' threads.
    func shutdown()
}

/// One session's connection to one tool server. All methods may be called at once from several
/// tasks; cancelling a task ends its wait.
public protocol ToolServerConnection: Sendable {
    /// The server's tools; connects first.
    /// - Throws: `MCPCallError`, `AgentError` or `CancellationError`.
    func listTools(on host: any AgentHost) async throws -> [MCPToolDescription]

    /// Calls a tool.
    /// - Parameters:
    ///   - id: names the call; used once.
    ///   - arguments: a JSON object as text.
    /// - Returns: the tool's answer as text.
    /// - Throws: `MCPCallError`, `AgentError` or `CancellationError`.
    func call(
        _ name: String, arguments: String, id: String, on host: any AgentHost
    ) async throws -> String

    /// Tells the server that the result of a call is not wanted any more. Best effort.
    func cancelCall(id: String, on host: any AgentHost) async

    /// Ends the connection; nothing else is called afterwards. Best effort.
    func close(on host: any AgentHost) async
}

/// A session's commands to its tool servers. A connection is named by the `mcp_list_tools` item
/// that its opening announces.
public enum ToolCommand: Sendable {
    /// Connect, and answer with `.listed`.
    case list(itemID: String, MCPTool)
    /// Answer with `.called`.
    case call(itemID: String, connection: String, name: String, arguments: String)
    /// Stop a call; it may not be answered afterwards.
    case cancel(itemID: String)
    /// End a connection and the calls in flight on it; none of them may be answered afterwards.
    case close(connection: String)
}

/// The result of a command.
public enum ToolEvent: Sendable {
    case listed(itemID: String, Result<[MCPToolDescription], MCPCallError>)
    case called(itemID: String, Result<String, MCPCallError>)
}
