// Performs the commands of sessions for MCP servers: a connection for each server of a session,
// made when its tools are listed and closed with the session; a task for each call. The session
// handles the results; the connection implements the protocol.

import Codec
import Logging
import Session

/// The connections of one session, by the item that listed the tools of each.
final class ToolConnections {
    var byItem: [String: any ToolServerConnection] = [:]
    /// How the last turn with a reply went, which a tool may be asked for. It is kept here because
    /// sessions without tools then need no memory for it.
    var answeredTurn: TurnLatencies?
}

extension AgentLink {
    /// Performs one command of the session at `token`.
    func perform(_ command: ToolCommand, for token: EventToken, work: inout AgentWork) {
        switch command {
        case .list(let itemID, let server): listTools(itemID, server, for: token, work: &work)
        case .call(let itemID, let connection, let name, let arguments):
            callTool(itemID, connection, name, arguments, for: token, work: &work)
        case .cancel(let itemID):
            var connection: String?
            stop(&work) {
                guard case .toolCall(itemID, let other) = $0 else { return false }
                connection = other
                return true
            }
            guard let open = connection.flatMap({ work.tools?.byItem[$0] }) else { return }
            let host = host
            detach { await open.cancelCall(id: itemID, on: host) }
        case .close(let connection):
            stop(&work) {
                switch $0 {
                case .toolList(connection), .toolCall(_, connection): true
                default: false
                }
            }
            close(work.tools?.byItem.removeValue(forKey: connection))
        }
    }

    /// The session has ended.
    func closeAllTools(_ work: inout AgentWork) {
        guard let tools = work.tools.take() else { return }
        for connection in tools.byItem.values { close(connection) }
    }

    private func listTools(
        _ itemID: String, _ server: MCPTool, for token: EventToken, work: inout AgentWork
    ) {
        let connection = agents.toolServers?.connection(to: server)
        if let connection {
            let tools = work.tools ?? ToolConnections()
            tools.byItem[itemID] = connection
            work.tools = tools
        }
        let host = host.serving(token, of: work)
        start(.toolList(connection: itemID), for: token, on: host, work: &work) { report in
            guard let connection else { throw AgentLink.unknownConnection }
            let tools = try await connection.listTools(on: host)
            await report(.tools(.listed(itemID: itemID, .success(tools))))
        } failing: { [logger] in
            let failure = AgentLink.describe($0, of: server.serverLabel, logger)
            return .tools(.listed(itemID: itemID, .failure(failure)))
        }
    }

    private func callTool(
        _ itemID: String, _ connection: String, _ name: String, _ arguments: String,
        for token: EventToken, work: inout AgentWork
    ) {
        let open = work.tools?.byItem[connection]
        let host = host.serving(token, of: work)
        let purpose = AgentWork.Purpose.toolCall(itemID: itemID, connection: connection)
        start(purpose, for: token, on: host, work: &work) { report in
            guard let open else { throw AgentLink.unknownConnection }
            let text = try await open.call(name, arguments: arguments, id: itemID, on: host)
            await report(.tools(.called(itemID: itemID, .success(text))))
        } failing: { [logger] in
            let failure = AgentLink.describe($0, of: name, logger)
            return .tools(.called(itemID: itemID, .failure(failure)))
        }
    }

    private func close(_ connection: (any ToolServerConnection)?) {
        guard let connection else { return }
        let host = host
        detach { await connection.close(on: host) }
    }

    /// Starts work on the shard that no caller waits for.
    private func detach(_ body: @escaping @Sendable () async -> Void) {
        Task(executorPreference: gate.executor.task) { await body() }
    }

    private static var unknownConnection: MCPCallError {
        .execution(message: "The MCP server is not connected.")
    }

    /// The error for the client and the model. The log has the details, for the operator.
    private static func describe(
        _ error: any Error, of what: String, _ logger: Logger
    ) -> MCPCallError {
        if let error = error as? MCPCallError { return error }
        guard let error = error as? AgentError else {
            if !Task.isCancelled {
                logger.warning("tool failed", metadata: ["tool": "\(what)", "error": "\(error)"])
            }
            return .execution(message: "The call was cancelled.")
        }
        if !Task.isCancelled {
            // Those that the operator has configured are reported by their client.
            logger.debug(
                "tool server failed", metadata: ["tool": "\(what)", "error": "\(error.detail)"])
        }
        switch error {
        case .upstream, .brokenOff:
            return .protocol(
                code: -32_000,
                message: "The MCP server cannot be reached, broke off or took too long.")
        case .malformedReply, .unavailable, .unknownModel, .overloaded, .rateLimited, .quotaUsedUp,
            .agentLost, .explained:
            return .protocol(code: -32_603, message: error.message)
        }
    }
}
