// A response by itself: its events, its items, its one end. Whole sessions are tested in
// VoiceSessionTests and the folder Speaking.

import Codec
import Testing

@testable import Session

@Suite struct ResponseTests {
    private let core = BareSession()
    private let playout = PlayoutTimeline(lead: .milliseconds(500), keepsAudio: false)

    private func writing(
        _ parameters: ResponseParameters = ResponseParameters()
    ) -> Response {
        let response = core.begin("resp_1", on: playout, parameters: parameters)
        response.handleAsked()
        #expect(core.takeOutputs() == ["responseCreated"])
        return response
    }

    @Test func textBecomesAnItemOfTheConversation() {
        let response = writing()
        response.handle(.text("Hello"), at: .milliseconds(0))
        #expect(
            core.takeOutputs() == [
                "responseOutputItemAdded", "conversationItemAdded", "responseContentPartAdded",
                "responseOutputTextDelta",
            ])
        response.handle(.text(" there."), at: .milliseconds(0))
        #expect(core.takeOutputs() == ["responseOutputTextDelta"])
        response.handleModelFinished(at: .milliseconds(0))
        #expect(
            core.takeOutputs() == [
                "responseOutputTextDone", "responseContentPartDone", "conversationItemDone",
                "responseOutputItemDone", "responseDone",
            ])
        #expect(response.stage == .done)
        #expect(core.conversation.modelMessages() == [.assistant("Hello there.")])
    }

    /// Models write line breaks before a call.
    @Test(arguments: [["\n\n"], [" ", "\n"], []])
    func whiteSpaceBeforeACallMakesNoMessage(spaces: [String]) {
        let response = writing()
        for space in spaces { response.handle(.text(space), at: .milliseconds(0)) }
        response.handle(.functionCallStarted(callID: "c", name: "f"), at: .milliseconds(0))
        #expect(core.takeOutputs() == ["responseOutputItemAdded", "conversationItemAdded"])
        response.handle(.functionCallArguments("{}"), at: .milliseconds(0))
        response.handle(.text(" "), at: .milliseconds(0))
        response.handleModelFinished(at: .milliseconds(0))
        #expect(core.conversation.items.count == 1 && response.stage == .done)
    }

    @Test func aMessageBeginsWithTheWhiteSpaceBeforeItsFirstWord() {
        let response = writing()
        for piece in [" ", "\n", "Hello", " ", "there"] {
            response.handle(.text(piece), at: .milliseconds(0))
        }
        response.handleModelFinished(at: .milliseconds(0))
        #expect(core.conversation.modelMessages() == [.assistant(" \nHello there")])
    }

    @Test func aReplyOfWhiteSpaceHasNoItem() {
        let response = writing()
        response.handle(.text(" \n"), at: .milliseconds(0))
        response.handleModelFinished(at: .milliseconds(0))
        #expect(core.takeOutputs() == ["responseDone"])
        #expect(core.conversation.items.isEmpty)
    }

    @Test func aResponseOutOfBandLeavesTheConversationAlone() {
        var parameters = ResponseParameters()
        parameters.isInConversation = false
        let response = writing(parameters)
        response.handle(
            [
                .modelDelta(responseID: "resp_1", .text("Hello.")),
                .modelFinished(responseID: "resp_1"),
            ], at: .milliseconds(0))
        #expect(!core.takeOutputs().contains("conversationItemAdded"))
        #expect(core.conversation.items.isEmpty && response.stage == .done)
    }

    @Test func nothingFollowsTheEnd() {
        let response = writing()
        response.handle(.text("Hello"), at: .milliseconds(0))
        response.end(.cancelled(reason: "client_cancelled"))
        #expect(core.takeOutputs().suffix(1) == ["responseDone"])
        response.handle(.text(" there."), at: .milliseconds(0))
        response.handleModelFinished(at: .milliseconds(0))
        response.fail(.unavailable(message: "The model is away."))
        #expect(core.takeOutputs().isEmpty)
        #expect(core.context.counters.responsesCancelled == 1)
    }
}
