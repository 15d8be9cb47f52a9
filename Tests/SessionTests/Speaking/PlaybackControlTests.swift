// Clients that are told by commands what to do with the audio that they have: those that drop it while
// a reply is held, and those that pause; and clients that take no more audio for a while.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct PlaybackControlTests {
    /// A reply of 5.9 s, over which the user makes a sound at two seconds.
    private func converse(
        _ control: PlaybackControl, milliseconds: Int, words: String
    ) throws -> BargeIn {
        let talk = BargeIn()
        talk.script.session.playbackControl = control
        talk.script.transcripts = [.success(words)]
        try talk.speak(milliseconds: milliseconds, at: 2_000)
        talk.script.run(until: 15_000)
        #expect(talk.script.violations == [])
        return talk
    }

    /// The commands that the client got, in order.
    private func commands(_ talk: BargeIn) -> [String] {
        talk.script.transcript.compactMap { line in
            line.firstRange(of: "tells the client: ").map { String(line[$0.upperBound...]) }
        }
    }

    /// Milliseconds of all audio that was sent.
    private func sent(_ talk: BargeIn) -> Int {
        talk.script.audioPackets.reduce(0) { $0 + $1.payload.count } / 48
    }

    private static let whole = 50 * BargeIn.reply.count

    @Test func aClientThatPausesKeepsTheAudioOfAHeldReply() throws {
        let talk = try converse(.pauses, milliseconds: 260, words: "")
        #expect(commands(talk) == ["pause", "goOn"])
        #expect(talk.time(of: "drops queued audio") == nil)
        #expect(talk.statuses == ["completed"])
        // Each sample was sent once, and sending stood still meanwhile.
        #expect(talk.rewinds.isEmpty)
        #expect(sent(talk) == Self.whole)
        let paused = try #require(talk.time(of: "pause"))
        let goOn = try #require(talk.time(of: "goOn"))
        #expect(!talk.script.audioTimes.contains { $0 > paused && $0 < goOn })
        // It plays what it has before the rest is due: the reply is as late as the pause was long.
        let last = try #require(talk.script.audioTimes.last)
        let first = try #require(talk.script.audioTimes.first)
        #expect(last - first >= Self.whole - 600 + (goOn - paused))
    }

    @Test func aPausedReplyThatIsInterruptedIsDropped() throws {
        let talk = try converse(.pauses, milliseconds: 1_100, words: "go forward")
        #expect(commands(talk).prefix(2) == ["pause", "drop"])
        #expect(talk.statuses.first == "cancelled")
        let cut = talk.events("conversation.item.truncated").first?["audio_end_ms"] as? Int
        let begun = try #require(talk.script.audioTimes.first)
        #expect(cut == talk.time(of: "pause").map { $0 - begun })
    }

    @Test func aClientThatDropsGetsItAgain() throws {
        let talk = try converse(.drops, milliseconds: 260, words: "")
        #expect(commands(talk) == ["drop"])
        #expect(talk.rewinds.count == 1)
        #expect(sent(talk) > Self.whole)
        #expect(talk.statuses == ["completed"])
    }

    @Test func othersKnowItFromTheEvents() throws {
        for words in ["", "go forward"] {
            let talk = try converse(
                .events, milliseconds: words.isEmpty ? 260 : 1_100, words: words)
            #expect(commands(talk).isEmpty)
        }
    }

    // MARK: The timeline

    private func at(_ milliseconds: Int) -> Instant {
        Instant(nanoseconds: Int64(milliseconds) * 1_000_000)
    }

    private func send(_ milliseconds: Int, on timeline: PlayoutTimeline, at now: Instant) {
        timeline.handleSent(
            SentRun(
                part: PartAddress(responseID: "r", itemID: "a", outputIndex: 0), format: .pcm,
                position: 0, length: 48 * milliseconds,
                payload: [UInt8](repeating: 0, count: 48 * milliseconds)),
            at: now)
        _ = timeline.settleUnsent()
    }

    @Test func whatAPausedClientReportsCounts() {
        let timeline = PlayoutTimeline(
            lead: .milliseconds(500), keepsAudio: true, pauses: true)
        send(500, on: timeline, at: at(0))
        timeline.hold(at: at(200))
        #expect(timeline.allowance(at: at(300)) == 0)
        #expect(timeline.nextSend(after: at(300)) == nil)
        // It has played on until the command came.
        #expect(timeline.handleAcknowledged("a", milliseconds: 240, at: at(300)) == nil)
        #expect(timeline.resume(at: at(1_000), tellsPositions: false) { _ in false }.isEmpty)
        #expect(!timeline.hasRunsAgain)
        #expect(timeline.position(at: at(1_000))?.heard == 240)
        #expect(timeline.position(at: at(1_100))?.heard == 340)
        #expect(timeline.allowance(at: at(1_000)) == 240)
        #expect(!timeline.isPlaying(at: at(1_260)))
        #expect(timeline.heldBytes < 500 * 48, "nothing is kept to be sent again")
    }

    /// A socket that is slow gets the rest while the reply is held: it is not dropped.
    @Test func audioThatWaitsForTheSocketLeavesDuringAPause() {
        let timeline = PlayoutTimeline(
            lead: .milliseconds(500), keepsAudio: true, pauses: true)
        send(500, on: timeline, at: at(0))
        #expect(timeline.noteUnsent("a", position: 48 * 300))
        timeline.hold(at: at(100))
        _ = timeline.settleUnsent()
        #expect(timeline.handleAcknowledged("a", milliseconds: 500, at: at(110)) == 300)
        _ = timeline.settleUnsent()
        #expect(timeline.handleAcknowledged("a", milliseconds: 500, at: at(120)) == nil)
    }

    @Test func aFullClientGetsNothingAndPlaysOn() {
        let timeline = PlayoutTimeline(lead: .milliseconds(500), keepsAudio: true)
        send(500, on: timeline, at: at(0))
        timeline.isClientFull = true
        #expect(timeline.allowance(at: at(400)) == 0)
        #expect(timeline.nextSend(after: at(400)) == nil)
        #expect(timeline.position(at: at(400))?.heard == 400)
        timeline.isClientFull = false
        #expect(timeline.allowance(at: at(400)) == 400)
    }
}
