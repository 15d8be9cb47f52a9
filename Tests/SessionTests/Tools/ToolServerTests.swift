// MCP servers in a session: the order of every event, approvals, the tools and results in the
// model's requests, and the response that follows. The servers are scripted (ScriptedToolServer).

import Codec
import Session
import Testing

struct ToolServerTests {
    private static let add = MCPToolDescription(
        name: "add", description: "Adds.", inputSchema: RawJSON(#"{"type":"object"}"#))
    private static let look = MCPToolDescription(
        name: "look", inputSchema: RawJSON("{}"),
        annotations: RawJSON(#"{"readOnlyHint":true}"#), isReadOnly: true)

    private func server(
        _ approval: MCPTool.Approval = .never, _ configure: (inout MCPTool) -> Void = { _ in }
    ) -> MCPTool {
        var tool = MCPTool(serverLabel: "calc", serverURL: "https://calc.example/mcp")
        tool.requireApproval = approval
        configure(&tool)
        return tool
    }

    private func script(
        _ tools: [MCPTool], functions: [FunctionTool] = [],
        limits: SessionLimits = SessionLimits(),
        policy: ToolServerPolicy? = ToolServerPolicy(clientURLs: .any)
    ) -> ScriptedSession {
        let script = ScriptedSession(
            {
                $0.outputModality = .text
                $0.turnDetection = nil
            }, limits: limits, toolServers: policy)
        script.toolServer.lists["calc"] = .success([Self.add, Self.look])
        script.toolServer.answers["add"] = (.milliseconds(50), .success("3"))
        script.toolServer.answers["look"] = (.milliseconds(80), .success("seen"))
        var update = SessionUpdate()
        update.tools = .value(functions)
        update.mcpTools = .value(tools)
        script.send(.sessionUpdate(update), at: 0)
        return script
    }

    private func calls(_ names: String...) -> ScriptedReply {
        var pieces: [(after: Duration, delta: ModelDelta)] = []
        for (index, name) in names.enumerated() {
            pieces.append(
                (.milliseconds(10), .functionCallStarted(callID: "call_\(index)", name: name)))
            pieces.append((.milliseconds(5), .functionCallArguments(#"{"a":"#)))
            pieces.append((.milliseconds(5), .functionCallArguments("1}")))
        }
        return ScriptedReply(pieces: pieces)
    }

    private func types(_ script: ScriptedSession) -> [String] {
        script.events.compactMap { $0["type"] as? String }
    }

    private func items(_ script: ScriptedSession, _ type: String) -> [[String: Any]] {
        script.events.filter { ($0["type"] as? String) == "conversation.item.done" }
            .compactMap { $0["item"] as? [String: Any] }
            .filter { ($0["type"] as? String) == type }
    }

    private func approve(_ script: ScriptedSession, _ isApproved: Bool, at time: Int) {
        script.run(until: time - 1)
        let request = items(script, "mcp_approval_request").last?["id"] as? String ?? "none"
        script.send(
            .conversationItemCreate(
                item: ConversationItem(
                    id: "",
                    kind: .mcp(
                        .approvalResponse(
                            requestID: request, isApproved: isApproved, reason: "because"))),
                previousItemID: nil), at: time)
    }

    @Test func toolsAreListedBetweenInProgressAndCompleted() {
        let script = script([server()])
        script.run(until: 100)
        #expect(
            types(script) == [
                "session.created", "session.updated", "mcp_list_tools.in_progress",
                "conversation.item.added", "conversation.item.done", "mcp_list_tools.completed",
            ])
        let tools = items(script, "mcp_list_tools").first?["tools"] as? [[String: Any]]
        #expect(tools?.map { $0["name"] as? String } == ["add", "look"])
        #expect(script.violations.isEmpty)
    }

    @Test func aListThatFailsIsToldWithItsReasonAndTriedAgainWithTheNextUpdate() {
        let script = script([server()])
        script.toolServer.lists["calc"] = .failure(.http(code: 401, message: "status 401"))
        script.run(until: 50)
        #expect(types(script).suffix(2) == ["mcp_list_tools.failed", "error"])
        script.toolServer.lists["calc"] = .success([Self.add])
        var update = SessionUpdate()
        update.mcpTools = .value([server()])
        script.send(.sessionUpdate(update), at: 60)
        script.run(until: 100)
        #expect(types(script).last == "mcp_list_tools.completed")
        #expect(script.violations.isEmpty)
    }

    @Test func aCallRunsInItsResponseAndAnotherFollowsWithTheResult() {
        let script = script([server()])
        script.replies = [calls("calc__add"), .text("Three.")]
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.run(until: 1_000)
        let seen = types(script).drop { $0 != "response.created" }
        #expect(
            Array(seen) == [
                "response.created", "response.output_item.added", "conversation.item.added",
                "response.mcp_call_arguments.delta", "response.mcp_call_arguments.delta",
                "response.mcp_call_arguments.done", "response.mcp_call.in_progress",
                "response.mcp_call.completed", "conversation.item.done",
                "response.output_item.done", "response.done", "rate_limits.updated",
                "response.created", "response.output_item.added", "conversation.item.added",
                "response.content_part.added", "response.output_text.delta",
                "response.output_text.done", "response.content_part.done",
                "conversation.item.done", "response.output_item.done", "response.done",
                "rate_limits.updated",
            ])
        #expect(script.toolCalls == [#"add {"a":1}"#])
        #expect(items(script, "mcp_call").first?["output"] as? String == "3")
        #expect(script.requests.first?.tools.map(\.name) == ["calc__add", "calc__look"])
        let messages = script.requests.last?.messages ?? []
        guard case .functionCall(let id, "calc__add", #"{"a":1}"#) = messages.first else {
            Issue.record("the model does not see its call: \(messages)")
            return
        }
        #expect(messages.last == .functionOutput(callID: id, output: "3"))
        #expect(script.violations.isEmpty)
    }

    @Test func callsOfOneResponseRunSideBySide() {
        let script = script([server()])
        script.replies = [calls("calc__look", "calc__add"), .text("Done.")]
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.run(until: 150)
        #expect(script.toolCalls.count == 2)
        script.run(until: 1_000)
        #expect(types(script).count { $0 == "response.mcp_call.completed" } == 2)
        #expect(script.requests.count == 2)
        #expect(script.violations.isEmpty)
    }

    @Test func aToolThatFailsIsToldToTheModel() {
        let script = script([server()])
        script.toolServer.answers["add"] = (
            .milliseconds(10), .failure(.execution(message: "no such number"))
        )
        script.replies = [calls("calc__add"), .text("Sorry.")]
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.run(until: 1_000)
        #expect(types(script).contains("response.mcp_call.failed"))
        let error = items(script, "mcp_call").first?["error"] as? [String: Any]
        #expect(error?["type"] as? String == "tool_execution_error")
        guard case .functionOutput(_, let output)? = script.requests.last?.messages.last else {
            Issue.record("no output")
            return
        }
        #expect(output == "Error: no such number")
        #expect(script.violations.isEmpty)
    }

    @Test func toolsTakeTheirShareOfTheModelsContext() {
        func status(schemaBytes: Int) -> String? {
            var limits = SessionLimits()
            limits.modelContextTokens = 10_000
            let script = script([server()], limits: limits)
            let filling = String(repeating: "x", count: schemaBytes)
            let schema = RawJSON(#"{"type":"object","description":"\#(filling)"}"#)
            script.toolServer.lists["calc"] = .success([.init(name: "add", inputSchema: schema)])
            script.replies = [.text("Hello.")]
            script.send(.responseCreate(ResponseParameters()), at: 100)
            script.run(until: 1_000)
            let done = script.events.last { $0["type"] as? String == "response.done" }
            return (done?["response"] as? [String: Any])?["status"] as? String
        }
        #expect(status(schemaBytes: 100) == "completed")
        #expect(status(schemaBytes: 60_000) == "failed")
    }

    @Test func anApprovedCallRunsAfterItsResponseAndAnotherFollows() {
        let script = script([server(.always)])
        script.replies = [calls("calc__add"), .text("Three.")]
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.run(until: 300)
        #expect(script.toolCalls.isEmpty)
        #expect(types(script).suffix(2) == ["response.done", "rate_limits.updated"])
        #expect(
            items(script, "mcp_approval_request").first?["arguments"] as? String == #"{"a":1}"#)
        let before = types(script).count
        approve(script, true, at: 400)
        script.run(until: 1_000)
        #expect(
            types(script).dropFirst(before).prefix(7) == [
                "conversation.item.added", "conversation.item.done", "conversation.item.added",
                "response.mcp_call.in_progress", "response.mcp_call.completed",
                "conversation.item.done", "response.created",
            ])
        let request = items(script, "mcp_approval_request").first?["id"] as? String
        #expect(items(script, "mcp_call").first?["approval_request_id"] as? String == request)
        #expect(script.requests.count == 2)
        #expect(script.violations.isEmpty)
    }

    @Test func aRefusedCallIsNotMadeAndTheModelIsTold() {
        let script = script([server(.always)])
        script.replies = [calls("calc__add"), .text("Then not.")]
        script.send(.responseCreate(ResponseParameters()), at: 100)
        approve(script, false, at: 400)
        script.run(until: 1_000)
        #expect(script.toolCalls.isEmpty && script.requests.count == 2)
        guard case .functionOutput(_, let output)? = script.requests.last?.messages.last else {
            Issue.record("no output")
            return
        }
        #expect(output.contains("did not approve") && output.contains("because"))
        #expect(script.violations.isEmpty)
    }

    @Test func anApprovalThatNobodyAskedForIsRefused() {
        let script = script([server(.always)])
        approve(script, true, at: 50)
        script.run(until: 100)
        let error = script.events.last?["error"] as? [String: Any]
        #expect(error?["code"] as? String == "mcp_approval_request_not_found")
    }

    @Test func onlyAllowedToolsAreOfferedAndOthersAreNotCalled() {
        let script = script([server { $0.allowedTools = .init(toolNames: ["look"]) }])
        script.replies = [calls("calc__add"), .text("No.")]
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.run(until: 1_000)
        #expect(script.requests.first?.tools.map(\.name) == ["calc__look"])
        #expect(script.toolCalls.isEmpty)
        #expect(types(script).contains("response.mcp_call.failed"))
        #expect(script.violations.isEmpty)
    }

    @Test func withAFunctionOfTheClientInTheSameResponseTheClientGoesOn() {
        let script = script([server()], functions: [FunctionTool(name: "own")])
        script.replies = [calls("own", "calc__add"), .text("Both.")]
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.run(until: 1_000)
        #expect(script.requests.count == 1)
        #expect(types(script).count { $0 == "response.function_call_arguments.done" } == 1)
        script.send(
            .conversationItemCreate(
                item: ConversationItem(
                    id: "", kind: .functionCallOutput(callID: "call_0", output: "mine")),
                previousItemID: nil), at: 1_100)
        script.run(until: 1_200)
        #expect(script.requests.count == 1)
        script.send(.responseCreate(ResponseParameters()), at: 1_300)
        script.run(until: 2_000)
        let messages = script.requests.last?.messages ?? []
        #expect(messages.contains(.functionOutput(callID: "call_0", output: "mine")))
        #expect(messages.count == 4)
        #expect(script.violations.isEmpty)
    }

    @Test func aCancelledResponseStopsItsCallsAndTheSessionLivesOn() {
        let script = script([server()])
        script.toolServer.answers["add"] = nil
        script.replies = [calls("calc__add"), .text("Later.")]
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.send(.responseCancel(responseID: nil), at: 300)
        script.run(until: 500)
        #expect(script.toolCommands.last?.hasPrefix("cancel") == true)
        #expect(
            Array(types(script).suffix(5)) == [
                "response.mcp_call.failed", "conversation.item.done",
                "response.output_item.done", "response.done", "rate_limits.updated",
            ])
        #expect(script.requests.count == 1)
        script.send(.responseCreate(ResponseParameters()), at: 600)
        script.run(until: 1_000)
        #expect(script.requests.count == 2)
        #expect(script.violations.isEmpty)
    }

    @Test func aServerThatLeavesTheSessionTakesItsToolsAndCallsAlong() {
        let script = script([server()])
        script.toolServer.answers["add"] = nil
        script.replies = [calls("calc__add"), .text("Without.")]
        script.send(.responseCreate(ResponseParameters()), at: 100)
        var update = SessionUpdate()
        update.mcpTools = .value([])
        script.send(.sessionUpdate(update), at: 300)
        script.run(until: 1_000)
        #expect(types(script).contains("response.mcp_call.failed"))
        #expect(script.requests.last?.tools.isEmpty == true)
        #expect(script.violations.isEmpty)
    }

    @Test func aResponseMayNameServersOfItsOwn() {
        let script = script([])
        var parameters = ResponseParameters()
        parameters.tools = []
        parameters.mcpTools = [server()]
        parameters.toolChoice = .auto
        parameters.mcpToolChoice = MCPToolChoice(serverLabel: "calc", name: "look")
        script.replies = [calls("calc__look"), .text("Seen.")]
        script.send(.responseCreate(parameters), at: 100)
        script.run(until: 1_000)
        #expect(script.requests.first?.toolChoice == .function(name: "calc__look"))
        #expect(script.requests.count == 2)
        #expect(script.requests.last?.toolChoice == .auto)
        #expect(script.violations.isEmpty)
    }

    @Test func outOfBandTheCallsAreSeenByWhatFollowsAlone() {
        let script = script([server(.filtered(always: nil, never: .init(toolNames: ["add"])))])
        var parameters = ResponseParameters()
        parameters.isInConversation = false
        parameters.input = [
            ConversationItem(
                id: "", kind: .message(role: .user, content: [.inputText("1 and 2?")]))
        ]
        script.replies = [calls("calc__add"), .text("3")]
        script.send(.responseCreate(parameters), at: 100)
        script.run(until: 1_000)
        // A tool that needs an approval is not offered where the client cannot give one.
        #expect(script.requests.first?.tools.map(\.name) == ["calc__add"])
        #expect(script.requests.last?.messages.count == 3)
        #expect(items(script, "mcp_call").isEmpty)
        #expect(script.violations.isEmpty)
    }

    @Test func aModelThatCallsForEverIsStopped() {
        var limits = SessionLimits()
        limits.maxAutomaticResponses = 2
        let script = script([server()], limits: limits)
        script.replies = [ScriptedReply](repeating: calls("calc__add"), count: 9)
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.run(until: 3_000)
        #expect(script.requests.count == 3)
        let error = script.events.last { ($0["type"] as? String) == "error" }?["error"]
        #expect(
            (error as? [String: Any])?["code"] as? String == "too_many_automatic_responses")
        #expect(script.violations.isEmpty)
    }

    @Test func limitsHoldForCallsAndTheirAnswers() {
        var limits = SessionLimits()
        limits.maxToolCalls = 1
        limits.maxToolResultBytes = 8
        let script = script([server()], limits: limits)
        script.toolServer.answers["add"] = (.milliseconds(10), .success("1234567é and more"))
        script.replies = [calls("calc__add", "calc__add"), .text("Done.")]
        script.send(.responseCreate(ResponseParameters()), at: 100)
        script.run(until: 1_000)
        #expect(script.toolCalls.count == 1)
        let output = items(script, "mcp_call").compactMap { $0["output"] as? String }.first
        #expect(output?.hasPrefix("1234567…") == true)
        #expect(script.violations.isEmpty)
    }

    @Test(arguments: [
        (ToolServerPolicy?.none, "unsupported_tool_type"),
        (ToolServerPolicy(clientURLs: .off), "mcp_server_url_not_allowed"),
    ])
    func aServerThatMayNotBeNamedIsRefused(policy: ToolServerPolicy?, code: String) {
        let script = script([server()], policy: policy)
        script.run(until: 50)
        let error = script.events.last?["error"] as? [String: Any]
        #expect(error?["code"] as? String == code)
    }

    @Test func anOperatorsServerIsNamedByItsLabel() {
        let policy = ToolServerPolicy(configuredLabels: ["calc"], clientURLs: .off)
        let script = script([MCPTool(serverLabel: "calc")], policy: policy)
        script.run(until: 50)
        #expect(types(script).last == "mcp_list_tools.completed")
        var update = SessionUpdate()
        update.mcpTools = .value([MCPTool(serverLabel: "other")])
        script.send(.sessionUpdate(update), at: 60)
        script.run(until: 100)
        let error = script.events.last?["error"] as? [String: Any]
        #expect(error?["code"] as? String == "mcp_server_not_found")
    }
}
