// Which response follows the results of tools, and how many may in a row.

import Codec
import Testing

@testable import Session

@Suite struct ToolContinuationsTests {
    private func parameters(_ voice: String) -> ResponseParameters {
        var parameters = ResponseParameters()
        parameters.voice = voice
        return parameters
    }

    @Test func theNewestResultsReplaceWhatWasDue() throws {
        var continuations = ToolContinuations()
        #expect(!continuations.isDue)
        continuations.setNext(parameters("a"))
        continuations.setNext(parameters("b"))
        let next = try continuations.takeNext(most: 5)
        #expect(next?.voice == "b")
        #expect(try continuations.takeNext(most: 5) == nil && !continuations.isDue)
    }

    @Test func aResponseInTheConversationShowsTheResultsToo() throws {
        var continuations = ToolContinuations()
        continuations.setNext(parameters("a"))
        continuations.addOutOfBand(parameters("b"))
        continuations.handleResponseBegun()
        #expect(try continuations.takeNext(most: 5) == nil)
        #expect(continuations.isDue, "the one outside is still due")
    }

    @Test func responsesOutsideTheConversationBeginInOrder() throws {
        var continuations = ToolContinuations()
        for voice in ["a", "b"] { continuations.addOutOfBand(parameters(voice)) }
        let first = try continuations.takeOutOfBand(most: 5)
        let second = try continuations.takeOutOfBand(most: 5)
        #expect(first?.voice == "a" && second?.voice == "b")
        #expect(try continuations.takeOutOfBand(most: 5) == nil)
    }

    @Test func aModelThatCallsToolsForEverIsStopped() throws {
        var continuations = ToolContinuations()
        for _ in 1...2 {
            continuations.setNext(parameters("a"))
            #expect(try continuations.takeNext(most: 2) != nil)
        }
        continuations.setNext(parameters("a"))
        #expect(throws: ClientEventError.self) { try continuations.takeNext(most: 2) }
        #expect(!continuations.isDue, "what does not begin is not due any more")
        continuations.handleAsked()
        continuations.setNext(parameters("a"))
        #expect(try continuations.takeNext(most: 2) != nil, "the user has asked since")
    }

    @Test func theNextResponseNeedNotCallATool() {
        var first = ResponseParameters()
        first.mcpToolChoice = MCPToolChoice(serverLabel: "calc")
        first.toolChoice = .required
        var session = SessionParameters(model: "m")
        #expect(first.afterToolResults(session).toolChoice == .auto)
        #expect(first.afterToolResults(session).mcpToolChoice == nil)
        session.toolChoice = .none
        first.toolChoice = nil
        #expect(first.afterToolResults(session).toolChoice == ToolChoice.none)
    }
}
