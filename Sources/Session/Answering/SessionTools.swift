// The MCP servers of a session: which are connected, which of their tools the model is offered, and
// the calls that wait for the client's approval or run because of it. ToolContinuations has the
// response that follows once all results are there. Response+Tools handles a call within a
// response.
//
// Invariant: every `mcp_list_tools.in_progress` is followed by one `completed` or `failed`, unless
// the session or its update takes the server away first; then by `failed`.

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
    /// The id of the `mcp_approval_request` item.
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
private struct ApprovedCall {
    var item: ConversationItem
    let previousItemID: String?
    let approval: PendingApproval
}

/// A session's MCP servers; made when the first is named.
final class SessionTools {
    private unowned let core: any SessionCore
    private let context: SessionContext
    /// In the order in which they were named.
    private var servers: [ToolServer] = []
    /// Calls that wait for the client's approval, oldest first.
    private var approvals: [PendingApproval] = []
    /// Approved calls under way.
    private var approvedCalls: [ApprovedCall] = []
    /// The responses that are due because of results.
    var continuations = ToolContinuations()
    /// Bytes of the servers and the tools that are known, counted when they come and go.
    private var serverBytes = 0

    init(core: any SessionCore) {
        self.core = core
        context = core.context
    }

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(SessionTools.self)

    /// Bytes of the tools and their state.
    var heldBytes: Int {
        Self.objectBytes + serverBytes + continuations.heldBytes
            + approvals.heapBytes + approvedCalls.heapBytes
            + approvals.reduce(0) { $0 + $1.arguments.heapBytes + $1.parameters.heapBytes }
            + approvedCalls.reduce(0) { $0 + $1.item.heapBytes }
    }

    /// Whether something is in flight that does not wait for the client.
    var isBusy: Bool { !approvedCalls.isEmpty || continuations.isDue }

    // MARK: Servers

    /// `session.tools` has changed: connects new servers and closes removed ones. A server whose
    /// address is unchanged stays connected.
    func handleUpdate(at now: Instant) {
        let named = core.parameters.mcpTools
        for server in servers where server.isOfSession {
            let isKept = named.contains { $0.hasSameConnection(as: server.tool) }
            if !isKept || server.hasFailed { close(server.connection, at: now) }
        }
        for tool in named { open(tool, isOfSession: true, at: now) }
    }

    /// Connects a server that the session or a response names.
    func open(_ tool: MCPTool, isOfSession: Bool, at now: Instant) {
        if let index = server(for: tool) {
            if !servers[index].hasFailed {
                servers[index].isOfSession = servers[index].isOfSession || isOfSession
                return
            }
            servers.remove(at: index)
        }
        let connection = core.ids.make("mcpl_")
        servers.append(ToolServer(tool: tool, connection: connection, isOfSession: isOfSession))
        core.emit(.mcp(.listToolsInProgress(itemID: connection)))
        core.command(.tools(.list(itemID: connection, tool)))
        // Servers that only responses have named are closed to make room, the oldest first.
        while servers.count > context.limits.maxToolServers,
            let oldest = servers.first(where: { !$0.isOfSession })
        {
            close(oldest.connection, at: now)
        }
    }

    private func close(_ connection: String, at now: Instant) {
        guard let index = servers.firstIndex(where: { $0.connection == connection }) else { return }
        let server = servers.remove(at: index)
        countServerBytes()
        core.command(.tools(.close(connection: connection)))
        if server.isListing { core.emit(.mcp(.listToolsFailed(itemID: connection))) }
        let error = MCPCallError.serverNotInUse
        for response in core.responses {
            response.failToolCalls(on: connection, error, at: now)
        }
        for call in approvedCalls where call.approval.route.connection == connection {
            finishApprovedCall(call.item.id, .failure(error))
        }
    }

    /// The result of a command to a tool server.
    func handle(_ event: ToolEvent, at now: Instant) {
        switch event {
        case .listed(let itemID, let result): handleTools(result, of: itemID)
        case .called(let itemID, let result):
            let isOfResponse = core.responses.contains {
                $0.handleToolResult(result, of: itemID, at: now)
            }
            switch result {
            case .success: context.counters.toolCallsCompleted += 1
            case .failure: context.counters.toolCallsFailed += 1
            }
            if !isOfResponse { finishApprovedCall(itemID, result) }
        }
    }

    private func handleTools(
        _ result: Result<[MCPToolDescription], MCPCallError>, of itemID: String
    ) {
        guard let index = servers.firstIndex(where: { $0.connection == itemID }),
            servers[index].isListing
        else { return }
        let tool = servers[index].tool
        switch result {
        case .success(let all):
            let listed = Array(all.prefix(context.limits.maxToolsPerServer))
            servers[index].stage = .ready(listed)
            countServerBytes()
            let allowed = listed.filter { tool.allowedTools?.matches($0) != false }
            addToolList(allowed, of: tool.serverLabel, itemID: itemID)
            core.emit(.mcp(.listToolsCompleted(itemID: itemID)))
        case .failure(let error):
            servers[index].stage = .failed
            core.command(.tools(.close(connection: itemID)))
            core.emit(.mcp(.listToolsFailed(itemID: itemID)))
            // The event itself has no room for the reason.
            core.emit(.error(.mcpToolsNotListed(label: tool.serverLabel, reason: error.message)))
        }
    }

    private func addToolList(_ listed: [MCPToolDescription], of label: String, itemID: String) {
        let item = ConversationItem(
            id: itemID, kind: .mcp(.listTools(serverLabel: label, tools: listed)))
        do {
            try core.makeRoom(forBytes: item.textBytes)
            try core.add(item, after: nil)
        } catch {
            core.emit(.error(error))
        }
    }

    /// The connection that serves a tool.
    private func server(for tool: MCPTool) -> Int? {
        servers.firstIndex { $0.tool.hasSameConnection(as: tool) }
    }

    /// Counts the bytes again after a list or a server has come or gone.
    private func countServerBytes() {
        serverBytes = servers.reduce(servers.heapBytes) { sum, server in
            let known = sum + server.tool.heapBytes + server.connection.heapBytes
            guard case .ready(let tools) = server.stage else { return known }
            return tools.reduce(known + tools.heapBytes) { $0 + $1.heapBytes }
        }
    }

    // MARK: What the model is offered

    /// Whether a model must wait before it is asked, because tools are still being listed.
    var isListing: Bool { servers.contains(where: \.isListing) }

    /// The MCP tools of a response with these overrides, if it has any.
    func routes(with overrides: ResponseParameters) -> ToolRoutes? {
        let parameters = core.parameters
        let named =
            overrides.tools == nil && overrides.mcpTools == nil
            ? parameters.mcpTools : overrides.mcpTools ?? []
        guard !named.isEmpty else { return nil }
        var routes = ToolRoutes()
        for tool in named {
            guard let index = server(for: tool), case .ready(let listed) = servers[index].stage
            else { continue }
            routes.add(
                listed, of: tool, connection: servers[index].connection,
                besides: overrides.tools ?? parameters.tools,
                canAsk: overrides.isInConversation)
        }
        return routes
    }

    // MARK: Approvals

    /// Records questions to the client, which it may answer before their response is over.
    func noteApprovals() {
        for response in core.responses where response.routes != nil {
            approvals += response.takeNewApprovals()
        }
        let surplus = approvals.count - context.limits.maxResponseItems
        if surplus > 0 { approvals.removeFirst(surplus) }
    }

    /// Whether the client may still answer a question.
    func awaitsApproval(_ requestID: String) -> Bool {
        approvals.contains { $0.itemID == requestID }
    }

    /// The client has answered: the call is made, or the model learns that it is not.
    func handleApproval(of requestID: String, isApproved: Bool) {
        guard let index = approvals.firstIndex(where: { $0.itemID == requestID }) else { return }
        let approval = approvals.remove(at: index)
        if isApproved { makeApprovedCall(approval) } else { considerContinuation(of: approval) }
    }

    private func makeApprovedCall(_ approval: PendingApproval) {
        let route = approval.route
        let arguments = approval.arguments.isEmpty ? "{}" : approval.arguments
        let call = MCPCall(
            serverLabel: route.serverLabel, name: route.name, arguments: arguments,
            approvalRequestID: approval.itemID)
        let item = ConversationItem(
            id: core.ids.make("mcp_"), status: .inProgress, kind: .mcp(.call(call)))
        let previous = core.conversation.append(item)
        core.emit(.conversationItemAdded(item, previousItemID: previous))
        let running = approvedCalls.count
        approvedCalls.append(
            ApprovedCall(item: item, previousItemID: previous, approval: approval))
        core.emit(.mcp(.callInProgress(itemID: item.id, outputIndex: approval.outputIndex)))
        let isConnected = servers.contains { $0.connection == route.connection }
        let refusal =
            isConnected
            ? route.refusal(of: arguments, calls: running, context.limits) : .serverNotInUse
        if let refusal { return finishApprovedCall(item.id, .failure(refusal)) }
        core.command(
            .tools(
                .call(
                    itemID: item.id, connection: route.connection, name: route.name,
                    arguments: arguments)))
    }

    private func finishApprovedCall(_ itemID: String, _ result: Result<String, MCPCallError>) {
        guard let index = approvedCalls.firstIndex(where: { $0.item.id == itemID }) else { return }
        var finished = approvedCalls.remove(at: index)
        let outputIndex = finished.approval.outputIndex
        finished.item.finishCall(result.cut(to: context.limits.maxToolResultBytes))
        switch result {
        case .success: core.emit(.mcp(.callCompleted(itemID: itemID, outputIndex: outputIndex)))
        case .failure: core.emit(.mcp(.callFailed(itemID: itemID, outputIndex: outputIndex)))
        }
        core.conversation.update(finished.item)
        core.emit(.conversationItemDone(finished.item, previousItemID: finished.previousItemID))
        considerContinuation(of: finished.approval)
    }

    // MARK: What follows

    /// Handles the end of a response. If it called tools and no result is outstanding, the model is
    /// asked again with the results.
    func considerContinuation(of response: Response) {
        guard response.routes != nil, response.hasToolResults,
            response.description.status == .completed
        else { return }
        var next = response.parameters.afterToolResults(core.parameters)
        let items = response.description.output
        if !response.isInConversation {
            next.input = (next.input ?? core.conversation.items) + items
            continuations.addOutOfBand(next)
            return
        }
        if let input = next.input { next.input = input + items }
        considerContinuation(
            next, responseID: response.id, clientCallIDs: response.clientCallIDs)
    }

    private func considerContinuation(of approval: PendingApproval) {
        let response = core.response(approval.responseID)
        // A response in flight is considered when it is over.
        guard response == nil || response?.stage == .done else {
            response?.hasSettledApproval = true
            return
        }
        considerContinuation(
            approval.parameters.afterToolResults(core.parameters), responseID: approval.responseID,
            clientCallIDs: core.conversation.unansweredCallIDs)
    }

    /// Where a function of the client has no output yet, the client asks for the next response
    /// itself, as the protocol requires.
    private func considerContinuation(
        _ next: ResponseParameters, responseID: String, clientCallIDs: [String]
    ) {
        guard !approvals.contains(where: { $0.responseID == responseID }),
            !approvedCalls.contains(where: { $0.approval.responseID == responseID })
        else { return }
        let unanswered = core.conversation.unansweredCallIDs
        guard !clientCallIDs.contains(where: unanswered.contains) else { return }
        continuations.setNext(next)
    }
}

extension ConversationItem {
    /// Gives the item of a call its final form.
    mutating func finishCall(_ outcome: Result<String, MCPCallError>) {
        guard case .mcp(.call(var call)) = kind else { return }
        switch outcome {
        case .success(let output): call.output = output
        case .failure(let error): call.error = error
        }
        status = .completed
        kind = .mcp(.call(call))
    }
}
