// How much of the sent audio counts as heard: by the pace of sending, by the client's reports, and
// at the edges of both. Whole sessions are tested in PlayoutTruthTests and HeldReplyTests.

import Codec
import Testing

@testable import Session

@Suite struct PlayoutTimelineTests {
    private let playout = PlayoutTimeline(lead: .milliseconds(500), keepsAudio: true)

    private func at(_ milliseconds: Int) -> Instant {
        Instant(nanoseconds: Int64(milliseconds) * 1_000_000)
    }

    /// A run of an item's audio, in milliseconds.
    private func run(_ itemID: String, from position: Int = 0, lasting length: Int) -> SentRun {
        SentRun(
            part: PartAddress(responseID: "r", itemID: itemID, outputIndex: 0), format: .pcm,
            position: position * 48, length: length * 48,
            payload: [UInt8](repeating: 0, count: length * 48))
    }

    /// A run is sent, and has left for the socket when the next input comes.
    private func send(_ run: SentRun, at now: Instant) {
        playout.handleSent(run, at: now)
        _ = playout.settleUnsent()
    }

    @Test func theFirstItemIsHeardFromItsFirstSampleOn() {
        #expect(playout.position(at: at(0)) == nil)
        send(run("a", lasting: 500), at: at(0))
        #expect(playout.position(at: at(0))?.heard == 0)
        #expect(playout.position(at: at(120))?.heard == 120)
    }

    @Test func aClientThatIsAheadOfThePaceIsBelieved() {
        send(run("a", lasting: 500), at: at(0))
        #expect(playout.handleAcknowledged("a", milliseconds: 300, at: at(100)) == nil)
        #expect(playout.position(at: at(100))?.heard == 300)
    }

    @Test func nothingIsHeardThatWasNotSent() {
        send(run("a", lasting: 500), at: at(0))
        #expect(playout.handleAcknowledged("a", milliseconds: 50, at: at(100)) == nil)
        #expect(playout.position(at: at(400))?.heard == 350)
        #expect(playout.position(at: at(5_000))?.heard == 500)
    }

    /// A client that leaves after the last word has heard it, though no input came after it.
    @Test func atTheEndAllHasLeftThatDoesNotWait() {
        send(run("a", lasting: 480), at: at(0))
        playout.handleSent(run("a", from: 480, lasting: 20), at: at(0))
        #expect(playout.position(at: at(600))?.heard == 480)
        playout.noteAllSent()
        #expect(playout.position(at: at(600))?.heard == 500 && !playout.isPlaying(at: at(600)))
        _ = playout.noteUnsent("a", position: 490 * 48)
        #expect(playout.position(at: at(600))?.heard == 490)
    }

    @Test func aFrameBeyondTheTruthIsRoundingAndMoreIsNot() {
        send(run("a", lasting: 500), at: at(0))
        #expect(playout.handleAcknowledged("a", milliseconds: 520, at: at(500)) == nil)
        #expect(playout.handleAcknowledged("a", milliseconds: 521, at: at(500)) == 500)
    }

    @Test func whatIsOverIsNotSentAgain() {
        send(run("a", lasting: 200), at: at(0))
        send(run("b", lasting: 200), at: at(0))
        playout.hold(at: at(100))
        _ = playout.resume(at: at(100), tellsPositions: true) { $0.itemID == "a" }
        #expect(playout.takeRunAgain(within: 500)?.part.itemID == "b")
        #expect(!playout.hasRunsAgain)
    }

    @Test func whatIsStoppedIsNotSentAgain() {
        send(run("a", lasting: 400), at: at(0))
        playout.hold(at: at(100))
        _ = playout.resume(at: at(100), tellsPositions: true) { _ in false }
        #expect(playout.hasRunsAgain)
        _ = playout.stop(at: at(150))
        #expect(!playout.hasRunsAgain && !playout.isPlaying(at: at(150)))
    }
}
