// A session's state about its MCP servers: connections, calls that wait for the client's approval,
// calls that run outside of a response, and whether a response is due because results are there.
// VoiceSession+Tools acts on it.

import Codec

/// One connection to an MCP server.
struct ToolServer {
    enum Stage {
        case listing
        case ready([MCPToolDescription])
        case failed
    }

    /// How it is reached. Which of its tools are allowed is in the `tools` in effect.
    let tool: MCPTool
    /// The id of the `mcp_list_tools` item, which names the connection.
    let connection: String
    var stage = Stage.listing
    /// Whether `session.tools` names it; the others were named by a response.
    var isOfSession: Bool

    var isListing: Bool {
        if case .listing = stage { true } else { false }
    }

    var hasFailed: Bool {
        if case .failed = stage { true } else { false }
    }
}

/// A call that waits for the client's approval.
struct PendingApproval {
    /// Of the `mcp_approval_request` item.
    let itemID: String
    let responseID: String
    /// Where it stands in its response.
    let outputIndex: Int
    let route: ToolRoutes.Route
    let arguments: String
    /// The parameters of the response, which its continuation has, too.
    let parameters: ResponseParameters
}

/// An approved call under way.
struct ApprovedCall {
    var item: ConversationItem
    let previousItemID: String?
    let approval: PendingApproval
}

/// A session's MCP servers; made when the first is named.
final class SessionTools {
    /// In the order in which they were named.
    var servers: [ToolServer] = []
    /// Calls that wait for the client's approval, oldest first.
    var approvals: [PendingApproval] = []
    /// Approved calls under way.
    var approvedCalls: [ApprovedCall] = []
    /// The parameters of a response that is due, because no model has seen the results yet; nil:
    /// none is due.
    var due: ResponseParameters?
    /// The same for responses outside the conversation.
    var dueOutOfBand: [ResponseParameters] = []
    /// Responses in a row that began because of results, since the user or the client last asked
    /// for one.
    var automaticResponses = 0

    /// The connection that serves a tool.
    func server(for tool: MCPTool) -> Int? {
        servers.firstIndex { $0.tool.hasSameConnection(as: tool) }
    }

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(SessionTools.self)
    /// Bytes of the servers and the tools that are known, counted when they come and go.
    private var serverBytes = 0

    /// Bytes of all of it.
    var heldBytes: Int {
        let waiting = approvals.heapBytes + approvedCalls.heapBytes + dueOutOfBand.heapBytes
        return Self.objectBytes + serverBytes + waiting
            + approvals.reduce(0) { $0 + $1.arguments.heapBytes + $1.parameters.heapBytes }
            + approvedCalls.reduce(0) { $0 + $1.item.heapBytes }
    }

    /// Counts the bytes again after a list or a server has come or gone.
    func countHeldBytes() {
        serverBytes = servers.reduce(servers.heapBytes) { sum, server in
            let known = sum + server.tool.heapBytes + server.connection.heapBytes
            guard case .ready(let tools) = server.stage else { return known }
            return tools.reduce(known + tools.heapBytes) { $0 + $1.heapBytes }
        }
    }

    /// Whether something is in flight that does not wait for the client.
    var isBusy: Bool { !approvedCalls.isEmpty || due != nil || !dueOutOfBand.isEmpty }
}
