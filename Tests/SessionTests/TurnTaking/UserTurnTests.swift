// The user's turn by itself: what is awaited, what is to be answered, and when quiet has lasted.

import Codec
import Testing

@testable import Session

@Suite struct UserTurnTests {
    private func utterance(
        _ itemID: String, endingAt end: Int, responds: Bool = true
    ) -> AwaitedTranscript {
        AwaitedTranscript(
            itemID: itemID, speechEnd: .milliseconds(end), audio: HeardAudio(), responds: responds)
    }

    @Test func wordsAreAnsweredOnceAllUtterancesAreRecognised() {
        var turn = UserTurn()
        turn.handleCommitted(utterance("a", endingAt: 1_000))
        turn.handleCommitted(utterance("b", endingAt: 2_000))
        #expect(turn.isRecognising && turn.isOwedAnswer && !turn.hasUnansweredWords)
        #expect(turn.takeAwaited("a")?.speechEnd == .milliseconds(1_000))
        turn.handleWords(endingAt: .milliseconds(1_000))
        #expect(turn.hasUnansweredWords)
        #expect(turn.answerableSince == nil, "another utterance may add to it")
        #expect(turn.takeAwaited("b") != nil)
        #expect(turn.answerableSince == .milliseconds(1_000))
        turn.handleResponseBegun(isInConversation: true)
        #expect(!turn.isOwedAnswer && !turn.isRecognising)
    }

    @Test func aTranscriptComesOnce() {
        var turn = UserTurn()
        turn.handleCommitted(utterance("a", endingAt: 1_000))
        #expect(turn.isAwaiting("a") && !turn.isAwaiting("b"))
        #expect(turn.takeAwaited("a") != nil)
        #expect(turn.takeAwaited("a") == nil && !turn.isAwaiting("a"))
    }

    @Test func aResponseOutsideTheConversationAnswersNothing() {
        var turn = UserTurn()
        turn.handleWords(endingAt: .milliseconds(1_000))
        turn.handleResponseBegun(isInConversation: false)
        #expect(turn.answerableSince == .milliseconds(1_000))
        turn.forgetWords()
        #expect(!turn.isOwedAnswer)
    }

    @Test func aRequestedResponseAnswersWhatIsBeingRecognised() {
        var turn = UserTurn()
        #expect(turn.handleResponseRequested() == nil)
        turn.handleCommitted(utterance("a", endingAt: 1_000))
        turn.handleCommitted(utterance("b", endingAt: 2_000))
        #expect(turn.handleResponseRequested() == .milliseconds(2_000))
        #expect(!turn.isOwedAnswer, "the words are not answered a second time")
        #expect(turn.takeAwaited("a")?.responds == false)
    }

    @Test func theAudioOfAFailedHypothesisIsTakenOnce() {
        var turn = UserTurn()
        var awaited = utterance("a", endingAt: 1_000)
        awaited.unaskedUtterance = Utterance(audio: HeardAudio(), language: nil, prompt: nil)
        turn.handleCommitted(awaited)
        #expect(turn.takeUnaskedUtterance("a") != nil)
        #expect(turn.takeUnaskedUtterance("a") == nil && turn.isAwaiting("a"))
    }

    @Test func quietLastsFromTheEndOfThePlaying() {
        var turn = UserTurn()
        #expect(turn.idleDeadline(timeoutMilliseconds: 5_000) == nil)
        // The reply is sent up to 400 ms ahead of its playing.
        turn.beginQuiet(at: .milliseconds(2_400), now: .milliseconds(2_000), position: 32_000)
        #expect(turn.idleDeadline(timeoutMilliseconds: 5_000) == .milliseconds(7_400))
        turn.handleCommitted(utterance("a", endingAt: 3_000, responds: false))
        #expect(turn.idleDeadline(timeoutMilliseconds: 5_000) == nil, "an utterance is recognised")
        #expect(turn.takeAwaited("a") != nil)
        turn.restartQuiet(at: .milliseconds(3_500), position: 56_000)
        #expect(turn.idleDeadline(timeoutMilliseconds: 5_000) == .milliseconds(8_500))
        #expect(turn.endQuiet() == 56_000 && turn.quietSince == nil)
    }

    @Test func quietBeginsNoEarlierThanThePlayingEnds() {
        var turn = UserTurn()
        turn.restartQuiet(at: .milliseconds(1_000), position: 0)
        #expect(turn.quietSince == nil, "no response has been played")
        turn.beginQuiet(at: .milliseconds(2_000), now: .milliseconds(1_500), position: 0)
        turn.restartQuiet(at: .milliseconds(1_600), position: 1_600)
        #expect(turn.quietSince == .milliseconds(2_000))
        #expect(turn.endQuiet() == 1_600 + 6_400, "400 ms later, at 16 kHz")
        turn.handleResponseBegun(isInConversation: false)
        #expect(turn.quietSince == nil)
    }
}
