// The diagram of InterruptionJudge, edge by edge.

import Testing

@testable import Session

@Suite struct InterruptionJudgeTests {
    /// 500 ms of speech, without or with words.
    private static let long = InterruptionJudge.Rules(minSamples: 8_000, needsWords: false)
    private static let worded = InterruptionJudge.Rules(minSamples: 8_000, needsWords: true)

    private func holding(_ rules: InterruptionJudge.Rules = long) -> InterruptionJudge {
        var judge = InterruptionJudge()
        #expect(judge.handleOnset(of: "a", at: 16_000, rules) == .hold)
        return judge
    }

    @Test func whereAnySpeechIsEnoughNothingIsHeld() {
        var judge = InterruptionJudge()
        let rules = InterruptionJudge.Rules(minSamples: 0, needsWords: false)
        #expect(judge.handleOnset(of: "a", at: 0, rules) == .interrupt)
        #expect(judge.speech == nil && !judge.isWeighing("a"))
    }

    @Test func speechThatLastsInterrupts() {
        let judge = holding()
        #expect(judge.isWeighing("a") && !judge.isWeighing("b") && !judge.isWeighing(nil))
        func weigh(_ end: Int) -> InterruptionJudge.Decision {
            judge.weigh(speechEnd: end, analysedEnd: end, Self.long) { nil }
        }
        #expect(weigh(23_999) == .wait)
        #expect(weigh(24_000) == .interrupt)
    }

    @Test func shortSpeechIsOverAfterAPause() {
        let judge = holding()
        let end = 20_000
        func weigh(_ analysed: Int) -> InterruptionJudge.Decision {
            judge.weigh(speechEnd: end, analysedEnd: analysed, Self.long) { nil }
        }
        #expect(weigh(end + InterruptionJudge.longestPause - 1) == .wait)
        #expect(weigh(end + InterruptionJudge.longestPause) == .endSpeech(at: end))
        #expect(judge.handleSpeechEnd(of: "a", Self.long) == .resume)
        #expect(judge.handleSpeechEnd(of: "b", Self.long) == .wait)
    }

    @Test func whereWordsAreNeededTheyDecide() {
        let judge = holding(Self.worded)
        func weigh(
            _ end: Int, _ words: InterruptionWords.Judgement?
        ) -> InterruptionJudge.Decision {
            judge.weigh(speechEnd: end, analysedEnd: end, Self.worded) { words }
        }
        #expect(weigh(30_000, nil) == .wait)
        #expect(weigh(30_000, .backchannel) == .wait)
        #expect(weigh(30_000, .words) == .interrupt)
        #expect(weigh(20_000, .words) == .wait, "too short, whatever it says")
        #expect(weigh(16_000 + InterruptionJudge.longestHold, .backchannel) == .resume)
        #expect(judge.handleSpeechEnd(of: "a", Self.worded) == .wait, "the transcript decides")
    }

    @Test func aTranscriptSettlesWhatIsHeld() {
        func settle(
            _ words: InterruptionWords.Judgement, isReplyInFlight: Bool = true
        ) -> InterruptionJudge.Decision {
            var judge = holding(Self.worded)
            return judge.handleWords(words, of: "a", isReplyInFlight: isReplyInFlight)
        }
        #expect(settle(.words) == .interrupt)
        #expect(settle(.none) == .resume)
        #expect(settle(.echo) == .resume)
        #expect(settle(.backchannel) == .resume)
        #expect(settle(.backchannel, isReplyInFlight: false) == .interrupt)
    }

    @Test func wordsOfAFalseInterruptionInterruptTheResumedReply() {
        var judge = holding()
        judge.endHold()
        #expect(judge.handleWords(.none, of: "a", isReplyInFlight: true) == .wait)
        #expect(judge.handleWords(.words, of: "a", isReplyInFlight: true) == .interrupt)
    }

    @Test func aHeldReplyIsResumedWhenNoAudioComes() {
        var judge = holding()
        #expect(judge.deadline(lastAudio: nil, gap: .seconds(1)) == nil)
        #expect(
            judge.deadline(lastAudio: .milliseconds(300), gap: .seconds(1)) == .milliseconds(1_300))
        judge.endHold()
        #expect(judge.deadline(lastAudio: .milliseconds(300), gap: .seconds(1)) == nil)
    }

    @Test func onceAnEchoWasHeardOneWordOfItIsEnough() {
        var judge = holding()
        let reply = "The train to Lisbon leaves at nine."
        #expect(judge.judge("Lisbon", over: reply, in: .english, isEchoKnown: false) == .words)
        _ = judge.handleWords(.echo, of: "a", isReplyInFlight: true)
        #expect(judge.hasHeardEcho)
        #expect(judge.judge("Lisbon", over: reply, in: .english, isEchoKnown: false) == .echo)
        #expect(judge.judge("Lisbon", over: reply, in: .english, isEchoKnown: true) == .words)
    }
}
