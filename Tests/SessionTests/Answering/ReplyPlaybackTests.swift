// How replies are heard and interrupted, without a session: holds, resumptions, cuts and reports of
// the shell. Whole sessions are tested in HeldReplyTests, InterruptionTests and UnsentAudioTests.

import Codec
import Testing

@testable import Session

@Suite struct ReplyPlaybackTests {
    private let core = BareSession()

    private func at(_ milliseconds: Int) -> Instant { .milliseconds(milliseconds) }

    /// A playback over which speech must last 500 ms, and half a second of a reply sent at 0 ms.
    private func playing() -> (ReplyPlayback, PlayoutTimeline) {
        var turnDetection = TurnDetectionParameters()
        turnDetection.minInterruptionMilliseconds = 500
        core.parameters.turnDetection = turnDetection
        let playback = ReplyPlayback(core: core)
        let timeline = playback.beginResponse(isUserHeard: false)
        let item = ConversationItem(
            id: "item_1",
            kind: .message(role: .assistant, content: [.outputAudio(transcript: "One two.")]))
        _ = core.conversation.append(item)
        core.conversation.update(
            item,
            speech: .init(
                marks: [.init(transcriptBytes: 8, audioMilliseconds: 500)], sentMilliseconds: 500))
        let part = PartAddress(responseID: "resp_1", itemID: "item_1", outputIndex: 0)
        timeline.handleSent(
            SentRun(part: part, format: .pcm, position: 0, length: 24_000, payload: []), at: at(0))
        playback.settleUnsent()
        return (playback, timeline)
    }

    @Test func speechHoldsTheReplyAndSilenceResumesIt() {
        let (playback, timeline) = playing()
        playback.handleOnset(of: "item_2", at: 0, now: at(100))
        #expect(core.takeOutputs() == ["dropAudio resp_1"])
        #expect(timeline.isHeld && playback.isWeighing("item_2") && !playback.isBroken)
        #expect(playback.deadline(lastAudio: at(100)) == at(1_100))
        playback.forgetSpeech(at: at(1_100))
        #expect(!timeline.isHeld && !playback.isWeighing("item_2") && !playback.isBroken)
        #expect(core.context.counters.falseInterruptions == 1)
    }

    @Test func wordsInterruptAndCutTheItemAtWhatWasHeard() {
        let (playback, timeline) = playing()
        playback.handleOnset(of: "item_2", at: 0, now: at(300))
        #expect(playback.handleWords("Wait a moment.", of: "item_2", lasting: 300, at: at(600)))
        #expect(core.takeOutputs() == ["dropAudio resp_1", "conversationItemTruncated"])
        #expect(core.conversation.words(of: "item_1")?.speech.cutMilliseconds == 300)
        #expect(!timeline.isPlaying(at: at(600)) && core.context.counters.interruptions == 1)
    }

    @Test func noWordsResumeTheReplyAndAreNotAnswered() {
        let (playback, timeline) = playing()
        playback.handleOnset(of: "item_2", at: 0, now: at(300))
        #expect(!playback.handleWords("", of: "item_2", lasting: 300, at: at(600)))
        #expect(!timeline.isHeld && core.context.counters.falseInterruptions == 1)
    }

    @Test func nothingHoldsAReplyThatWasHeard() {
        let (playback, timeline) = playing()
        playback.handleOnset(of: "item_2", at: 0, now: at(2_000))
        #expect(!timeline.isHeld && core.takeOutputs().isEmpty)
    }

    @Test func lostAudioCutsTheItemAtTheNextInput() {
        let (playback, timeline) = playing()
        timeline.noteLost("item_1", position: 48 * 200)
        timeline.noteLost("item_1", position: 48 * 100)
        #expect(core.takeOutputs().isEmpty)
        playback.settleUnsent()
        playback.settleUnsent()
        #expect(core.takeOutputs() == ["conversationItemTruncated"])
        #expect(core.conversation.words(of: "item_1")?.speech.cutMilliseconds == 200)
    }

    @Test func aPlaybackEndsWithTheLastAudio() {
        let (playback, _) = playing()
        playback.forgetPlayed(at: at(400))
        #expect(playback.timeline != nil && !playback.isOver)
        playback.forgetPlayed(at: at(500))
        #expect(playback.timeline == nil && playback.isOver)
    }

    @Test func whereTheUserIsHeardTheEchoOutlivesTheReply() {
        let playback = ReplyPlayback(core: core)
        _ = playback.beginResponse(isUserHeard: true)
        playback.forgetPlayed(at: at(0))
        #expect(playback.timeline == nil && playback.echo != nil && !playback.isOver)
    }
}
