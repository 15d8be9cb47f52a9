// A model's head start by itself: which response may use it, and what ends it. Whole sessions are
// tested in SpeculativeResponseTests.

import Codec
import Testing

@testable import Session

@Suite struct SpeculationTests {
    private static let request = ModelRequest(model: "m", messages: [.user("Hello.")])
    private static let hello = AgentEvent.modelDelta(responseID: "resp_1", .text("Hello!"))

    private let core = BareSession(
        limits: {
            var limits = SessionLimits()
            limits.maxResponseBytes = 6
            return limits
        }())
    private var context: SessionContext { core.context }

    private func ahead() -> Speculation {
        var speculation = Speculation.none
        speculation.begin(
            SpeculativeReply(responseID: "resp_1", request: Self.request, speechEnd: 16_000),
            context)
        #expect(core.takeOutputs() == ["command.respond"])
        return speculation
    }

    private func expectStopped(_ speculation: Speculation) {
        #expect(core.takeOutputs() == ["command.cancelResponse"] && speculation.reply == nil)
    }

    @Test func aResponseThatAsksTheSameGoesOnFromIt() {
        var speculation = ahead()
        #expect(speculation.record(Self.hello, context) == true)
        #expect(speculation.claim() == "resp_1" && speculation.isClaimed)
        #expect(speculation.claim() == nil, "one response has the id")
        let events = speculation.use(for: "resp_1", asking: Self.request, context)
        #expect(events?.count == 1)
        #expect(speculation.reply == nil && core.takeOutputs().isEmpty)
    }

    @Test func aResponseThatAsksAnythingElseDoesNot() {
        var speculation = ahead()
        var other = Self.request
        other.messages.append(.user("Wait."))
        #expect(speculation.use(for: "resp_2", asking: Self.request, context) == nil)
        #expect(speculation.reply != nil, "another response asks")
        #expect(speculation.use(for: "resp_1", asking: other, context) == nil)
        expectStopped(speculation)
    }

    @Test func onlyItsOwnAnswersAreKept() {
        var speculation = ahead()
        let other = AgentEvent.modelDelta(responseID: "resp_2", .text("x"))
        #expect(speculation.record(other, context) == false)
        var none = Speculation.none
        #expect(none.record(Self.hello, context) == false)
        let failed = AgentEvent.modelFailed(
            responseID: "resp_1", .unavailable(message: "The model is away."))
        #expect(speculation.record(failed, context) == true)
        expectStopped(speculation)
    }

    @Test func moreThanAResponseMayHoldStopsIt() {
        var speculation = ahead()
        #expect(speculation.record(Self.hello, context) == true && speculation.reply != nil)
        #expect(speculation.record(Self.hello, context) == true)
        expectStopped(speculation)
    }

    @Test func moreSpeechStopsIt() {
        var speculation = ahead()
        speculation.handleSpeech(endingAt: 16_000, context)
        #expect(speculation.reply != nil)
        speculation.handleSpeech(endingAt: 17_000, context)
        expectStopped(speculation)
    }

    @Test func itStopsWhereNoResponseCanUseIt() {
        var speculation = ahead()
        speculation.stopIfUseless(isTurnOpen: true, [], context)
        #expect(speculation.reply != nil)
        _ = speculation.claim()
        let response = core.begin(
            "resp_1", on: PlayoutTimeline(lead: .milliseconds(500), keepsAudio: false))
        _ = core.takeOutputs()
        speculation.stopIfUseless(isTurnOpen: false, [response], context)
        #expect(speculation.reply != nil, "the response waits")
        speculation.stopIfUseless(isTurnOpen: true, [], context)
        expectStopped(speculation)
    }
}
