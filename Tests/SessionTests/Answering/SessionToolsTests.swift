// A session's MCP servers by themselves: connections, tool lists and approved calls. Whole sessions
// are tested in ToolServerTests.

import Codec
import Testing

@testable import Session

@Suite struct SessionToolsTests {
    private static let add = MCPToolDescription(name: "add")
    private static let server: MCPTool = {
        var tool = MCPTool(serverLabel: "calc", serverURL: "https://calc.example/mcp")
        tool.requireApproval = .always
        return tool
    }()

    /// A session with one server, whose tools are listed.
    private func ready() -> (BareSession, SessionTools, connection: String) {
        let core = BareSession()
        core.parameters.mcpTools = [Self.server]
        let tools = SessionTools(core: core)
        tools.handleUpdate(at: .milliseconds(0))
        #expect(core.takeOutputs() == ["mcp", "tools.list"] && tools.isListing)
        // The first id that the session makes.
        var ids = IdentifierSource(seed: 1)
        let connection = ids.make("mcpl_")
        tools.handle(.listed(itemID: connection, .success([Self.add])), at: .milliseconds(0))
        return (core, tools, connection)
    }

    @Test func aListBecomesAnItemAndFunctions() {
        let (core, tools, connection) = ready()
        #expect(core.takeOutputs() == ["conversationItemAdded", "conversationItemDone", "mcp"])
        #expect(!tools.isListing && core.conversation.item(connection) != nil)
        let routes = tools.routes(with: ResponseParameters())
        #expect(routes?.functions.map(\.name) == ["calc__add"])
        var none = ResponseParameters()
        none.mcpTools = []
        #expect(tools.routes(with: none) == nil, "a response with tools of its own has only those")
    }

    @Test func aServerThatCannotListIsClosedAndAnError() {
        let core = BareSession()
        core.parameters.mcpTools = [Self.server]
        let tools = SessionTools(core: core)
        tools.handleUpdate(at: .milliseconds(0))
        _ = core.takeOutputs()
        var ids = IdentifierSource(seed: 1)
        tools.handle(
            .listed(itemID: ids.make("mcpl_"), .failure(.serverNotInUse)), at: .milliseconds(0))
        #expect(core.takeOutputs() == ["tools.close", "mcp", "error"])
        tools.handleUpdate(at: .milliseconds(0))
        #expect(
            core.takeOutputs() == ["tools.close", "mcp", "tools.list"],
            "the next update connects again")
    }

    @Test func aServerThatIsNotNamedAnyMoreIsClosed() {
        let (core, tools, _) = ready()
        _ = core.takeOutputs()
        let before = tools.heldBytes
        core.parameters.mcpTools = []
        tools.handleUpdate(at: .milliseconds(0))
        #expect(core.takeOutputs() == ["tools.close"])
        #expect(tools.heldBytes < before && tools.routes(with: ResponseParameters()) == nil)
    }

    @Test func serversOfResponsesMakeRoomForNewOnes() {
        let core = BareSession()
        let tools = SessionTools(core: core)
        for index in 0...core.context.limits.maxToolServers {
            let tool = MCPTool(serverLabel: "s\(index)", serverURL: "https://s\(index).example/")
            tools.open(tool, isOfSession: false, at: .milliseconds(0))
        }
        #expect(core.takeOutputs().suffix(4) == ["mcp", "tools.list", "tools.close", "mcp"])
    }

    @Test func anApprovedCallRunsAndItsResultIsShownToTheModel() throws {
        let (core, tools, _) = ready()
        let response = core.begin(
            "resp_1", on: PlayoutTimeline(lead: .milliseconds(500), keepsAudio: false))
        response.handleAsked()
        response.routes = tools.routes(with: ResponseParameters())
        response.handle(
            .functionCallStarted(callID: "call_1", name: "calc__add"), at: .milliseconds(0))
        response.handle(.functionCallArguments(#"{"a":1}"#), at: .milliseconds(0))
        response.handleModelFinished(at: .milliseconds(0))
        tools.noteApprovals()
        core.responses = []
        let question = try #require(core.conversation.lastItemID)
        #expect(tools.awaitsApproval(question) && !tools.isBusy)
        _ = core.takeOutputs()

        tools.handleApproval(of: question, isApproved: true)
        #expect(core.takeOutputs() == ["conversationItemAdded", "mcp", "tools.call"])
        #expect(tools.isBusy && !tools.awaitsApproval(question))
        let call = try #require(core.conversation.lastItemID)
        tools.handle(.called(itemID: call, .success("3")), at: .milliseconds(0))
        #expect(core.takeOutputs() == ["mcp", "conversationItemDone"])
        #expect(try tools.continuations.takeNext(most: 1) != nil && !tools.isBusy)
        #expect(core.context.counters.toolCallsCompleted == 1)
    }
}
