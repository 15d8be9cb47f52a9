// Reply audio that was given out and has not left, or never will: it was not heard, whatever the
// pace of sending says.

import Codec
import Testing

@testable import Session

@Suite struct UnsentAudioTests {
    private func truncations(_ talk: BargeIn) -> [Int] {
        talk.events("conversation.item.truncated").compactMap { $0["audio_end_ms"] as? Int }
    }

    @Test func aCancelledReplyEndsWithWhatHasLeft() throws {
        let talk = BargeIn()
        talk.script.unsentFrom = 48 * 700
        talk.script.send(.responseCancel(responseID: nil), at: 2_000)
        talk.script.run(until: 2_001)
        #expect(truncations(talk) == [700])
    }

    @Test func whatStartsToLeaveAgainIsHeardAgain() throws {
        let talk = BargeIn()
        talk.script.unsentFrom = 48 * 700
        talk.script.run(until: 1_500)
        talk.script.unsentFrom = nil
        talk.script.send(.responseCancel(responseID: nil), at: 2_000)
        talk.script.run(until: 2_001)
        let begun = try #require(talk.script.audioTimes.first)
        #expect(truncations(talk) == [2_000 - begun])
    }

    @Test func aReplyThatFailsEndsWithWhatHasLeft() throws {
        var reply = ScriptedReply.text(BargeIn.reply)
        reply.pieces.append((.milliseconds(1_700), .text(" More.")))
        reply.end = .some(.overloaded)
        let talk = BargeIn(reply: [reply])
        talk.script.unsentFrom = 48 * 700
        talk.script.run(until: 9_000)
        #expect(talk.statuses == ["failed"])
        #expect(talk.time(of: "drops queued audio") != nil)
        #expect(truncations(talk) == [700])
    }

    @Test func whatIsStillToBeSentAgainWhenAReplyFailsIsNot() throws {
        var reply = ScriptedReply.text(BargeIn.reply)
        reply.pieces.append((.milliseconds(600), .text(" More.")))
        reply.end = .some(.overloaded)
        let talk = BargeIn(reply: [reply])
        talk.script.run(until: 1_000)
        let playout = try #require(talk.script.session.playback?.timeline)
        playout.hold(at: .milliseconds(1_000))
        _ = playout.resume(at: .milliseconds(1_000), tellsPositions: false) { _ in false }
        #expect(playout.hasRunsAgain)
        let id = try #require(playout.responseIDs.last)
        let cut = playout.dropUnsent(of: id)
        let begun = try #require(talk.script.audioTimes.first)
        #expect(cut.map(\.heard) == [1_000 - begun])
        #expect(!playout.hasRunsAgain)
    }

    @Test func aDoneReplyIsCutOnceWhereItsAudioWasLost() throws {
        let talk = BargeIn()
        talk.script.run(until: 5_900)
        #expect(talk.statuses == ["completed"])
        talk.script.session.noteLost(itemID: talk.replyItem, position: 48 * 1_200)
        talk.script.session.noteLost(itemID: talk.replyItem, position: 48 * 1_300)
        talk.script.session.noteLost(itemID: "item_unknown", position: 0)
        talk.script.send(.inputAudioBufferClear, at: 5_950)
        talk.script.run(until: 5_960)
        #expect(truncations(talk) == [1_200])
        talk.script.session.noteLost(itemID: talk.replyItem, position: 48 * 2_500)
        talk.script.send(.responseCreate(ResponseParameters()), at: 6_500)
        talk.script.run(until: 6_600)
        #expect(truncations(talk) == [1_200])
        #expect(
            talk.script.requests.last?.messages == [.assistant("The first sentence of")])
    }

    @Test func aReplyInFlightIsCutWhereItsAudioWasLostOnceItIsDone() throws {
        let talk = BargeIn()
        talk.script.run(until: 2_500)
        talk.script.session.noteLost(itemID: talk.replyItem, position: 48 * 1_200)
        talk.script.run(until: 5_000)
        #expect(truncations(talk).isEmpty)
        talk.script.run(until: 9_000)
        #expect(talk.statuses == ["completed"])
        #expect(truncations(talk) == [1_200])
    }

    @Test func whatTheClientSaysItHasHeardStandsAgainstALoss() throws {
        let talk = BargeIn()
        talk.script.run(until: 2_500)
        talk.script.session.noteLost(itemID: talk.replyItem, position: 48 * 1_200)
        talk.script.send(
            .conversationItemTruncate(
                itemID: talk.replyItem, contentIndex: 0, audioEndMilliseconds: 1_900), at: 2_500)
        talk.script.run(until: 9_000)
        #expect(truncations(talk) == [1_900])
    }

    @Test func whatWaitsCannotBeAcknowledged() throws {
        let talk = BargeIn()
        talk.script.unsentFrom = 48 * 700
        talk.script.send(
            .outputAudioBufferPlayed(itemID: "", contentIndex: 0, audioEndMilliseconds: 0), at: 10)
        talk.script.run(until: 2_000)
        for heard in [500, 1_500] {
            talk.script.send(
                .outputAudioBufferPlayed(
                    itemID: talk.replyItem, contentIndex: 0, audioEndMilliseconds: heard),
                at: 2_000)
        }
        talk.script.run(until: 2_001)
        #expect(talk.events("error").count == 2, "the unknown item, and what waits")
    }

    @Test func aRefusedAcknowledgementSwitchesNothingOn() throws {
        let talk = BargeIn()
        talk.script.run(until: 1_000)
        talk.script.send(
            .outputAudioBufferPlayed(
                itemID: talk.replyItem, contentIndex: 0, audioEndMilliseconds: 60_000), at: 1_000)
        talk.script.send(.responseCancel(responseID: nil), at: 1_500)
        talk.script.run(until: 2_000)
        #expect(talk.events("error").count == 1)
        let cut = try #require(talk.events("conversation.item.truncated").first)
        #expect(cut["transcript"] == nil)
    }
}
