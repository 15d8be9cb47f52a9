// Calls of MCP tools in a response: how the model's text becomes a call or a question to the
// client, when the call is made, and which events report it. ToolRoutes knows the tools;
// SessionTools handles what follows from results.
//
// Invariant: a call that was begun ends in `response.mcp_call.completed` or `.failed` before its
// response is done.

import Codec

/// A call of an MCP tool as far as it has come.
struct ToolCall {
    let route: ToolRoutes.Route
    /// Whether the client has been told that it runs.
    var isRunning = false
    /// The call's result, once there is one.
    var outcome: Result<String, MCPCallError>?
}

/// A question to the client whose arguments are still being written.
struct WrittenApproval {
    let itemID: String
    let route: ToolRoutes.Route
    var arguments = ""
}

extension Response {
    /// The model begins a call: if an MCP tool has the name, it becomes an item here.
    /// - Returns: false: the function is the client's.
    func beginToolCall(_ functionName: String) -> Bool {
        guard let route = routes?.route(of: functionName) else { return false }
        closeOpenOutputs()
        if route.needsApproval {
            writtenApproval = WrittenApproval(itemID: core.ids.make("mcpr_"), route: route)
            return true
        }
        let call = MCPCall(serverLabel: route.serverLabel, name: route.name, arguments: "")
        let item = ConversationItem(
            id: core.ids.make("mcp_"), status: .inProgress, kind: .mcp(.call(call)))
        var output = OutputItem(item: item, modality: .text)
        output.toolCall = ToolCall(route: route)
        add(output)
        return true
    }

    /// Takes more arguments of the call that began last.
    func writeArguments(_ arguments: String) {
        if writtenApproval != nil {
            writtenApproval?.arguments += arguments
            return
        }
        guard let index = outputs.lastIndex(where: { $0.isOpen && $0.isCall }) else { return }
        outputs[index].write(arguments)
        sayArguments(arguments, of: index)
    }

    /// The arguments of a call are complete.
    func completeArguments(of index: Int) {
        guard let added = outputs[index].completeArguments() else { return }
        sayArguments(added, of: index)
    }

    private func sayArguments(_ delta: String, of index: Int) {
        if outputs[index].toolCall != nil {
            emit(.mcp(.callArgumentsDelta(address(index), delta: delta)))
        } else {
            emit(
                .responseFunctionCallArgumentsDelta(
                    address(index), callID: outputs[index].callID, delta: delta))
        }
    }

    /// Makes the open calls, whose arguments are complete, or asks the client first.
    func startToolCalls() {
        if let written = writtenApproval.take() { ask(written) }
        for index in outputs.indices where outputs[index].isToBeCalled { start(index) }
    }

    private func ask(_ written: WrittenApproval) {
        // Arguments that are no object stay as they are. The call is refused once it is approved.
        let arguments = CallArguments.object(written.arguments) ?? written.arguments
        let item = ConversationItem(
            id: written.itemID,
            kind: .mcp(
                .approvalRequest(
                    serverLabel: written.route.serverLabel, name: written.route.name,
                    arguments: arguments)))
        var output = OutputItem(item: item, modality: .text)
        output.isOpen = false
        let index = add(output)
        newApprovals.append(
            PendingApproval(
                itemID: item.id, responseID: id, outputIndex: index, route: written.route,
                arguments: arguments, parameters: parameters))
    }

    private func start(_ index: Int) {
        let arguments = outputs[index].text
        let itemID = outputs[index].item.id
        guard let route = outputs[index].toolCall?.route else { return }
        emit(.mcp(.callArgumentsDone(address(index), arguments: arguments)))
        let calls = outputs.count { $0.toolCall?.isRunning == true }
        if let error = route.refusal(of: arguments, calls: calls, context.limits) {
            outputs[index].toolCall?.outcome = .failure(error)
            return
        }
        outputs[index].toolCall?.isRunning = true
        emit(.mcp(.callInProgress(itemID: itemID, outputIndex: index)))
        context.outputs.append(
            .command(
                .tools(
                    .call(
                        itemID: itemID, connection: route.connection, name: route.name,
                        arguments: arguments))))
    }

    /// A call is over.
    /// - Returns: false: it is no call of this response.
    func handleToolResult(
        _ result: Result<String, MCPCallError>, of itemID: String, at now: Instant
    ) -> Bool {
        guard
            let index = outputs.lastIndex(where: {
                $0.item.id == itemID && $0.awaitsTool && !$0.isComplete
            })
        else { return false }
        outputs[index].toolCall?.outcome = result.cut(to: context.limits.maxToolResultBytes)
        advance(at: now)
        return true
    }

    /// The connection is gone: calls in flight on it fail.
    func failToolCalls(on connection: String, _ error: MCPCallError, at now: Instant) {
        for output in outputs where output.awaitsTool {
            guard output.toolCall?.route.connection == connection,
                output.toolCall?.isRunning == true
            else { continue }
            _ = handleToolResult(.failure(error), of: output.item.id, at: now)
        }
    }

    /// The response ends: calls in flight are cancelled.
    func stopToolCalls() {
        writtenApproval = nil
        for index in outputs.indices where outputs[index].awaitsTool {
            if outputs[index].toolCall?.isRunning == true {
                context.outputs.append(
                    .command(.tools(.cancel(itemID: outputs[index].item.id))))
            } else {
                emit(.mcp(.callArgumentsDone(address(index), arguments: outputs[index].text)))
            }
            outputs[index].toolCall?.outcome = .failure(
                .execution(message: "The call was cancelled."))
        }
    }

    /// Emits the last event of a call. A question to the client has no event but its item.
    func sayToolDone(_ index: Int) {
        guard let call = outputs[index].toolCall else { return }
        let itemID = outputs[index].item.id
        switch call.outcome {
        case .success: emit(.mcp(.callCompleted(itemID: itemID, outputIndex: index)))
        case .failure, nil: emit(.mcp(.callFailed(itemID: itemID, outputIndex: index)))
        }
    }

    /// Takes the questions to the client that the session has not noted yet.
    func takeNewApprovals() -> [PendingApproval] {
        defer { newApprovals = [] }
        return newApprovals
    }

    /// Whether a model should be shown results of calls.
    var hasToolResults: Bool { hasSettledApproval || outputs.contains { $0.toolCall != nil } }

    /// Functions of the client that were called.
    var clientCallIDs: [String] { outputs.filter(\.isFunctionCall).map(\.callID) }
}

extension ToolRoutes.Route {
    /// Why a call is not made, or nil.
    func refusal(of arguments: String, calls: Int, _ limits: SessionLimits) -> MCPCallError? {
        guard isAllowed else {
            return .execution(message: "The server '\(serverLabel)' has no such tool to use.")
        }
        guard calls < limits.maxToolCalls else {
            return .execution(
                message: "A response makes at most \(limits.maxToolCalls) calls of tools.")
        }
        guard arguments.utf8.count <= limits.maxResponseBytes,
            (try? JSONParser().parse(arguments))?.kind == .object
        else { return .execution(message: "The arguments are no JSON object.") }
        return nil
    }
}

extension Result<String, MCPCallError> {
    /// The same with at most `maxBytes` of text, and a mark where text was cut off.
    func cut(to maxBytes: Int) -> Self {
        switch self {
        case .success(let text): .success(text.cut(to: maxBytes))
        case .failure(.protocol(let code, let message)):
            .failure(.protocol(code: code, message: message.cut(to: maxBytes)))
        case .failure(.execution(let message)):
            .failure(.execution(message: message.cut(to: maxBytes)))
        case .failure(.http(let code, let message)):
            .failure(.http(code: code, message: message.cut(to: maxBytes)))
        }
    }
}

extension String {
    /// The text up to this many bytes of UTF-8, in whole characters, with a mark where there were
    /// more.
    fileprivate func cut(to maxBytes: Int) -> String {
        guard utf8.count > maxBytes else { return self }
        var end = utf8.index(startIndex, offsetBy: maxBytes)
        while end > startIndex, utf8[end] & 0xC0 == 0x80 { end = utf8.index(before: end) }
        return self[..<end] + "… (\(utf8.count - maxBytes) bytes more)"
    }
}
