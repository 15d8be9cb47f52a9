// What a session knows of its MCP servers: connections, what waits for the client's approval, calls
// that run outside of a response, and whether a response is due because their results are there.
// What happens with it is VoiceSession+Tools'.

import Codec

/// One connection to an MCP server.
struct ToolServer {
    enum Stage {
        case listing
        case ready([MCPToolDescription])
        case failed
    }

    /// How it is reached; what of it is allowed is said by the tool in effect.
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
    /// What the response was asked with: its continuation is asked with the same.
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
    /// What the next response is to be asked with, because results are there that no model has
    /// seen; nil: none is due.
    var due: ResponseParameters?
    /// The same for responses outside the conversation.
    var dueOutOfBand: [ResponseParameters] = []
    /// Responses that followed from results, one after another, since the user or the client last
    /// wanted one.
    var automaticResponses = 0

    /// The connection that serves a tool.
    func server(for tool: MCPTool) -> Int? {
        servers.firstIndex { $0.tool.hasSameConnection(as: tool) }
    }

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.bytes(264)
    /// Bytes of the servers and the tools that are known, counted when they come and go.
    private var serverBytes = 0

    /// Bytes of all of it.
    var heldBytes: Int {
        let waiting = approvals.heapBytes + approvedCalls.heapBytes + dueOutOfBand.heapBytes
        return Self.objectBytes + serverBytes + waiting
            + approvals.reduce(0) { $0 + $1.arguments.heapBytes + $1.parameters.heapBytes }
            + approvedCalls.reduce(0) { $0 + $1.item.heapBytes }
    }

    /// Takes note of a list that has come, or of a server that has come or gone.
    func countHeldBytes() {
        serverBytes = servers.reduce(servers.heapBytes) { sum, server in
            let known = sum + server.tool.heapBytes + server.connection.heapBytes
            guard case .ready(let tools) = server.stage else { return known }
            return tools.reduce(known + tools.heapBytes) { $0 + $1.heapBytes }
        }
    }

    /// Whether something is to come without the client's doing.
    var isBusy: Bool { !approvedCalls.isEmpty || due != nil || !dueOutOfBand.isEmpty }
}
