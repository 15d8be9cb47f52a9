// What each viewer of an observed session gets of an event, without a session: places among a response's
// items, and who hears of an error.

import Codec
import Testing

@testable import Server
@testable import Session

@Suite struct SessionObservationTests {
    private func makeLink(_ tools: String...) -> SidebandLink {
        SidebandLink(
            observer: EventToken(.connection, index: 1, generation: 1), tools: tools, post: { _ in }
        )
    }

    private func call(_ id: String, _ name: String) -> ConversationItem {
        ConversationItem(
            id: id, kind: .functionCall(callID: "call_\(id)", name: name, arguments: "{}"))
    }

    @Test func placesCountWithoutHiddenItems() {
        let observation = SessionObservation()
        let link = makeLink("secret")
        observation.join(link)
        let first = ServerEvent.responseOutputItemAdded(
            responseID: "resp_1", outputIndex: 0, call("item_1", "secret"))
        _ = observation.note(first)
        let mcp = ServerEvent.mcp(.callInProgress(itemID: "mcp_1", outputIndex: 1))
        let text = ServerEvent.responseOutputTextDelta(
            PartAddress(responseID: "resp_1", itemID: "item_2", outputIndex: 2), delta: "a")
        #expect(observation.view(of: first, for: nil) == nil)
        #expect(observation.view(of: first, for: link) == first)
        #expect(
            observation.view(of: mcp, for: nil)
                == .mcp(.callInProgress(itemID: "mcp_1", outputIndex: 0)))
        #expect(observation.view(of: mcp, for: link) == mcp)
        #expect(
            observation.view(of: text, for: makeLink())
                == .responseOutputTextDelta(
                    PartAddress(responseID: "resp_1", itemID: "item_2", outputIndex: 1), delta: "a")
        )
        let audio = PartAddress(responseID: "resp_1", itemID: "item_2", outputIndex: 2)
        #expect(observation.place(of: audio).outputIndex == 1)
    }

    @Test func anErrorIsForTheOneThatHasCausedIt() {
        let observation = SessionObservation()
        let link = makeLink()
        let other = makeLink()
        observation.join(link)
        observation.join(other)
        let error = ServerEvent.error(ClientEventError(code: "c", message: "m"))
        #expect(observation.view(of: error, for: nil) != nil)
        #expect(observation.view(of: error, for: link) != nil, "the session's own are for all")
        observation.begin(.sideband(link), SessionParameters(model: "m"))
        #expect(observation.view(of: error, for: link) != nil)
        #expect(observation.view(of: error, for: nil) == nil)
        #expect(observation.view(of: error, for: other) == nil)
        observation.begin(.server, SessionParameters(model: "m"))
        #expect(observation.view(of: error, for: link) == nil)
        observation.end()
        #expect(observation.view(of: error, for: nil) != nil)
    }

    @Test func aToolChoiceOfAHiddenFunctionIsNotShown() {
        let observation = SessionObservation()
        let link = makeLink("secret")
        observation.join(link)
        var parameters = SessionParameters(model: "m")
        parameters.tools = [FunctionTool(name: "secret"), FunctionTool(name: "open")]
        parameters.toolChoice = .function(name: "secret")
        let event = ServerEvent.sessionUpdated(id: "sess_1", parameters)
        #expect(observation.view(of: event, for: link) == event)
        parameters.tools.removeFirst()
        parameters.toolChoice = .auto
        #expect(observation.view(of: event, for: nil) == .sessionUpdated(id: "sess_1", parameters))
    }
}
