// The MCP servers of `parley serve`: those that the operator has configured, by their labels, and
// those that clients may name by URL. MCPClient is the client of one server; MCPServerConfiguration
// reads the operator's file.

import Codec
import Session

/// Reaches MCP servers for all sessions of a server.
public final class MCPToolServers: ToolServers {
    /// Which servers sessions may name.
    public let policy: ToolServerPolicy
    private let timeouts: MCPTimeouts
    private let memory = MCPServerMemory()
    private let programs: [String: MCPProgram]
    private let addresses: [String: (url: String, headers: [MCPTool.Header])]

    /// - Parameters:
    ///   - configured: the operator's servers.
    ///   - clientURLs: which URLs clients may name.
    ///   - makeProgram: runs a command; the program starts when it is first needed.
    public init(
        configured: [MCPServerConfiguration], clientURLs: ToolServerPolicy.ClientURLs,
        timeouts: MCPTimeouts = MCPTimeouts(),
        makeProgram: (_ label: String, _ command: [String], _ environment: [String])
            -> LineProgramFactory
    ) {
        policy = ToolServerPolicy(
            configuredLabels: Set(configured.map(\.label)), clientURLs: clientURLs)
        self.timeouts = timeouts
        var programs: [String: MCPProgram] = [:]
        var addresses: [String: (url: String, headers: [MCPTool.Header])] = [:]
        for server in configured {
            switch server.transport {
            case .program(let command, let environment):
                programs[server.label] = MCPProgram(
                    makeProgram(server.label, command, environment))
            case .http(let url, let headers): addresses[server.label] = (url, headers)
            }
        }
        self.programs = programs
        self.addresses = addresses
    }

    /// A connection to a server that the policy allows.
    public func connection(to server: MCPTool) -> any ToolServerConnection {
        var headers = server.headers
        if let token = server.authorization {
            headers.append(.init(name: "Authorization", value: "Bearer \(token)"))
        }
        if let url = server.serverURL {
            return client(url, label: "", headers, isConfined: policy.clientURLs == .public)
        }
        if let program = programs[server.serverLabel] {
            return MCPClient(
                transport: program.transport(), timeouts: timeouts, label: server.serverLabel,
                address: "stdio")
        }
        // The session has checked that the label is known.
        let configured = addresses[server.serverLabel]
        return client(
            configured?.url ?? "", label: server.serverLabel, (configured?.headers ?? []) + headers,
            isConfined: false)
    }

    private func client(
        _ url: String, label: String, _ headers: [MCPTool.Header], isConfined: Bool
    ) -> MCPClient {
        MCPStreamableHTTP(
            url: url, label: label, headers: headers, isConfined: isConfined, memory: memory
        ).client(timeouts)
    }

    /// Ends the programs.
    public func shutdown() {
        for program in programs.values { program.stop() }
    }
}
