// A model's head start by itself: which response may use it, and what ends it. Whole sessions are
// tested in SpeculativeResponseTests.

import Codec
import Testing

@testable import Session

@Suite struct SpeculationTests {
    private static let request = ModelRequest(model: "m", messages: [.user("Hello.")])
    private static let hello = AgentEvent.modelDelta(responseID: "resp_1", .text("Hello!"))

    private func ahead() -> Speculation {
        .ahead(SpeculativeReply(responseID: "resp_1", request: Self.request, speechEnd: 16_000))
    }

    @Test func aResponseThatAsksTheSameGoesOnFromIt() {
        var speculation = ahead()
        #expect(speculation.record(Self.hello, maxBytes: 100) == .kept)
        #expect(speculation.claim() == "resp_1" && speculation.isClaimed)
        #expect(speculation.claim() == nil, "one response has the id")
        guard case .used(let events) = speculation.use(for: "resp_1", asking: Self.request)
        else { return #expect(Bool(false), "the request is the same") }
        #expect(events.count == 1 && speculation.reply == nil)
    }

    @Test func aResponseThatAsksAnythingElseDoesNot() {
        var speculation = ahead()
        var other = Self.request
        other.messages.append(.user("Wait."))
        if case .unusable = speculation.use(for: "resp_1", asking: other) {
        } else {
            #expect(Bool(false), "the request differs")
        }
        if case .ofAnother = speculation.use(for: "resp_2", asking: Self.request) {
        } else {
            #expect(Bool(false), "another response asks")
        }
        #expect(speculation.stop() == "resp_1")
        #expect(speculation.stop() == nil && speculation.reply == nil)
    }

    @Test func onlyItsOwnAnswersAreKept() {
        let speculation = ahead()
        let other = AgentEvent.modelDelta(responseID: "resp_2", .text("x"))
        #expect(speculation.record(other, maxBytes: 100) == .ofAnother)
        #expect(Speculation.none.record(Self.hello, maxBytes: 100) == .ofAnother)
        let failed = AgentEvent.modelFailed(
            responseID: "resp_1", .unavailable(message: "The model is away."))
        #expect(speculation.record(failed, maxBytes: 100) == .unusable)
    }

    @Test func moreThanAResponseMayHoldIsUnusable() {
        let speculation = ahead()
        #expect(speculation.record(Self.hello, maxBytes: 6) == .kept)
        #expect(speculation.record(Self.hello, maxBytes: 6) == .unusable)
    }
}
