// MCP servers in a session: which are connected, which of their tools the model is offered, the
// client's approvals, and the response that follows once all results are there. Response+Tools
// handles a call within a response.
//
// Invariant: every `mcp_list_tools.in_progress` is followed by one `completed` or `failed`, unless
// the session or its update takes the server away first; then by `failed`.

import Codec

extension VoiceSession {
    // MARK: Servers

    /// `session.tools` has changed: connects new servers and closes removed ones. A server whose
    /// address is unchanged stays connected.
    func updateToolServers(at now: Instant) {
        guard tools != nil || !parameters.mcpTools.isEmpty else { return }
        for server in tools?.servers ?? [] where server.isOfSession {
            let isKept = parameters.mcpTools.contains { $0.hasSameConnection(as: server.tool) }
            if !isKept || server.hasFailed { closeToolServer(server.connection, at: now) }
        }
        for tool in parameters.mcpTools { openToolServer(tool, isOfSession: true, at: now) }
    }

    /// Connects the servers that a response names.
    func openToolServers(of parameters: ResponseParameters, at now: Instant) {
        for tool in parameters.mcpTools ?? [] {
            openToolServer(tool, isOfSession: false, at: now)
        }
    }

    private func openToolServer(_ tool: MCPTool, isOfSession: Bool, at now: Instant) {
        let state = tools ?? SessionTools()
        tools = state
        if let index = state.server(for: tool) {
            if !state.servers[index].hasFailed {
                state.servers[index].isOfSession = state.servers[index].isOfSession || isOfSession
                return
            }
            state.servers.remove(at: index)
        }
        let connection = ids.make("mcpl_")
        state.servers.append(
            ToolServer(tool: tool, connection: connection, isOfSession: isOfSession))
        emit(.mcp(.listToolsInProgress(itemID: connection)))
        command(.tools(.list(itemID: connection, tool)))
        // Servers that only responses have named are closed to make room, the oldest first.
        while let count = tools?.servers.count, count > context.limits.maxToolServers,
            let oldest = tools?.servers.first(where: { !$0.isOfSession })
        {
            closeToolServer(oldest.connection, at: now)
        }
    }

    private func closeToolServer(_ connection: String, at now: Instant) {
        guard let index = tools?.servers.firstIndex(where: { $0.connection == connection }),
            let server = tools?.servers.remove(at: index)
        else { return }
        tools?.countHeldBytes()
        command(.tools(.close(connection: connection)))
        if server.isListing { emit(.mcp(.listToolsFailed(itemID: connection))) }
        let error = MCPCallError.serverNotInUse
        for response in responses {
            response.failToolCalls(on: connection, error, at: now)
        }
        for call in tools?.approvedCalls ?? [] where call.approval.route.connection == connection {
            finishApprovedCall(call.item.id, .failure(error))
        }
    }

    /// The result of a command to a tool server.
    func handle(_ event: ToolEvent, at now: Instant) {
        switch event {
        case .listed(let itemID, let result): handleTools(result, of: itemID)
        case .called(let itemID, let result):
            let isOfResponse = responses.contains {
                $0.handleToolResult(result, of: itemID, at: now)
            }
            count(result)
            if !isOfResponse { finishApprovedCall(itemID, result) }
        }
    }

    private func count(_ result: Result<String, MCPCallError>) {
        switch result {
        case .success: context.counters.toolCallsCompleted += 1
        case .failure: context.counters.toolCallsFailed += 1
        }
    }

    private func handleTools(
        _ result: Result<[MCPToolDescription], MCPCallError>, of itemID: String
    ) {
        guard let index = tools?.servers.firstIndex(where: { $0.connection == itemID }),
            let server = tools?.servers[index], server.isListing
        else { return }
        switch result {
        case .success(let all):
            let listed = Array(all.prefix(context.limits.maxToolsPerServer))
            tools?.servers[index].stage = .ready(listed)
            tools?.countHeldBytes()
            let allowed = listed.filter { server.tool.allowedTools?.matches($0) != false }
            addToolList(allowed, of: server)
            emit(.mcp(.listToolsCompleted(itemID: itemID)))
        case .failure(let error):
            tools?.servers[index].stage = .failed
            command(.tools(.close(connection: itemID)))
            emit(.mcp(.listToolsFailed(itemID: itemID)))
            // The event itself has no room for the reason.
            emit(.error(.mcpToolsNotListed(label: server.tool.serverLabel, reason: error.message)))
        }
    }

    private func addToolList(_ listed: [MCPToolDescription], of server: ToolServer) {
        let item = ConversationItem(
            id: server.connection,
            kind: .mcp(.listTools(serverLabel: server.tool.serverLabel, tools: listed)))
        do {
            try makeRoom(forBytes: item.textBytes)
            try add(item, after: nil)
        } catch {
            emit(.error(error))
        }
    }

    // MARK: What the model is offered

    /// Whether a model must wait before it is asked, because tools are still being listed.
    var awaitsToolLists: Bool { tools?.servers.contains(where: \.isListing) ?? false }

    /// The MCP tools of a response with these overrides, or nil: it has none.
    func toolRoutes(with overrides: ResponseParameters) -> ToolRoutes? {
        guard let tools else { return nil }
        let servers =
            overrides.tools == nil && overrides.mcpTools == nil
            ? parameters.mcpTools : overrides.mcpTools ?? []
        guard !servers.isEmpty else { return nil }
        var routes = ToolRoutes()
        for server in servers {
            guard let index = tools.server(for: server),
                case .ready(let listed) = tools.servers[index].stage
            else { continue }
            routes.add(
                listed, of: server, connection: tools.servers[index].connection,
                besides: overrides.tools ?? parameters.tools,
                canAsk: overrides.isInConversation)
        }
        return routes
    }

    /// Adds the MCP tools to what a model is asked.
    func offerTools(to request: inout ModelRequest, with overrides: ResponseParameters) {
        guard let routes = toolRoutes(with: overrides) else { return }
        request.tools += routes.functions
        let choice =
            overrides.toolChoice == nil ? parameters.mcpToolChoice : overrides.mcpToolChoice
        guard let choice else { return }
        if let name = choice.name {
            let function = ToolRoutes.functionName(of: name, at: choice.serverLabel)
            guard request.tools.contains(where: { $0.name == function }) else { return }
            request.toolChoice = .function(name: function)
        } else {
            let functions = routes.functions(of: choice.serverLabel)
            guard !functions.isEmpty else { return }
            request.tools = functions
            request.toolChoice = .required
        }
    }

    // MARK: Approvals

    /// Refuses an approval response that answers no open question.
    func checkApproval(_ item: ConversationItem) throws(ClientEventError) {
        guard case .mcp(.approvalResponse(let requestID, _, _)) = item.kind else { return }
        guard tools?.approvals.contains(where: { $0.itemID == requestID }) == true else {
            throw .approvalNotAwaited(requestID)
        }
    }

    /// The client has answered: the call is made, or the model learns that it is not.
    func handleApproval(_ item: ConversationItem) {
        guard case .mcp(.approvalResponse(let requestID, let isApproved, _)) = item.kind,
            let index = tools?.approvals.firstIndex(where: { $0.itemID == requestID }),
            let approval = tools?.approvals.remove(at: index)
        else { return }
        if isApproved { makeApprovedCall(approval) } else { considerContinuation(of: approval) }
    }

    private func makeApprovedCall(_ approval: PendingApproval) {
        let arguments = approval.arguments.isEmpty ? "{}" : approval.arguments
        let call = MCPCall(
            serverLabel: approval.route.serverLabel, name: approval.route.name,
            arguments: arguments, approvalRequestID: approval.itemID)
        let item = ConversationItem(
            id: ids.make("mcp_"), status: .inProgress, kind: .mcp(.call(call)))
        let previous = conversation.append(item)
        emit(.conversationItemAdded(item, previousItemID: previous))
        tools?.approvedCalls.append(
            ApprovedCall(item: item, previousItemID: previous, approval: approval))
        emit(.mcp(.callInProgress(itemID: item.id, outputIndex: approval.outputIndex)))
        let isConnected = tools?.servers.contains { $0.connection == approval.route.connection }
        let running = (tools?.approvedCalls.count ?? 0) - 1
        var refusal = approval.route.refusal(of: arguments, calls: running, context.limits)
        if isConnected != true {
            refusal = .serverNotInUse
        }
        if let refusal { return finishApprovedCall(item.id, .failure(refusal)) }
        command(
            .tools(
                .call(
                    itemID: item.id, connection: approval.route.connection,
                    name: approval.route.name, arguments: arguments)))
    }

    private func finishApprovedCall(_ itemID: String, _ result: Result<String, MCPCallError>) {
        guard let index = tools?.approvedCalls.firstIndex(where: { $0.item.id == itemID }),
            var finished = tools?.approvedCalls.remove(at: index)
        else { return }
        let outputIndex = finished.approval.outputIndex
        finished.item.finishCall(result.cut(to: context.limits.maxToolResultBytes))
        switch result {
        case .success: emit(.mcp(.callCompleted(itemID: itemID, outputIndex: outputIndex)))
        case .failure: emit(.mcp(.callFailed(itemID: itemID, outputIndex: outputIndex)))
        }
        conversation.update(finished.item)
        emit(.conversationItemDone(finished.item, previousItemID: finished.previousItemID))
        considerContinuation(of: finished.approval)
    }

    // MARK: What follows

    /// Records questions to the client, which it may answer before their response is over.
    func noteApprovals() {
        for response in responses where response.routes != nil {
            tools?.approvals += response.takeNewApprovals()
        }
        let most = context.limits.maxResponseItems
        if let waiting = tools?.approvals.count, waiting > most {
            tools?.approvals.removeFirst(waiting - most)
        }
    }

    /// A response is over: if it called tools and nothing of it is outstanding, the model is asked
    /// again with their results.
    func considerContinuation(of response: Response) {
        guard response.routes != nil, response.hasToolResults,
            response.description.status == .completed
        else { return }
        var next = continuation(of: response.parameters)
        let items = response.description.output
        if !response.isInConversation {
            next.input = (next.input ?? conversation.items) + items
            tools?.dueOutOfBand.append(next)
            return
        }
        if let input = next.input { next.input = input + items }
        considerContinuation(
            next, responseID: response.id, clientCallIDs: response.clientCallIDs)
    }

    private func considerContinuation(of approval: PendingApproval) {
        let response = response(approval.responseID)
        // A response in flight is considered when it is over.
        guard response == nil || response?.stage == .done else {
            response?.hasSettledApproval = true
            return
        }
        considerContinuation(
            continuation(of: approval.parameters), responseID: approval.responseID,
            clientCallIDs: conversation.unansweredCallIDs)
    }

    /// Where a function of the client has no output yet, the client asks for the next response
    /// itself, as the protocol requires.
    private func considerContinuation(
        _ next: ResponseParameters, responseID: String, clientCallIDs: [String]
    ) {
        guard let tools, !tools.approvals.contains(where: { $0.responseID == responseID }),
            !tools.approvedCalls.contains(where: { $0.approval.responseID == responseID })
        else { return }
        let unanswered = conversation.unansweredCallIDs
        guard !clientCallIDs.contains(where: unanswered.contains) else { return }
        self.tools?.due = next
    }

    /// The parameters of the response after results: the same, but the model need not call a tool.
    private func continuation(of parameters: ResponseParameters) -> ResponseParameters {
        var next = parameters
        next.mcpToolChoice = nil
        switch next.toolChoice ?? self.parameters.toolChoice {
        case .none: next.toolChoice = ToolChoice.none
        case .auto, .required, .function: next.toolChoice = .auto
        }
        return next
    }

    /// Asks the model with the results of tools, once nothing stands in the way.
    func continueAfterTools() {
        guard tools != nil else { return }
        while tools?.dueOutOfBand.isEmpty == false,
            responses.count < context.limits.maxActiveResponses,
            let next = tools?.dueOutOfBand.removeFirst()
        {
            if mayContinue() { begin(next, speechEnd: nil) }
        }
        guard let next = tools?.due, canRespond, speechInput?.speechItemID == nil,
            !userTurn.isOwedAnswer
        else { return }
        tools?.due = nil
        guard mayContinue() else { return }
        do {
            try makeRoom()
            begin(next, speechEnd: nil)
        } catch {
            emit(.error(error))
        }
    }

    /// Whether one more response may begin without the client. This stops a model that calls tools
    /// for ever.
    private func mayContinue() -> Bool {
        let most = context.limits.maxAutomaticResponses
        guard let made = tools?.automaticResponses, made < most else {
            emit(.error(.tooManyAutomaticResponses(most)))
            return false
        }
        tools?.automaticResponses = made + 1
        return true
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
