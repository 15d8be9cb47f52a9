// The diagram of InterruptionJudge, edge by edge.

import Testing

@testable import Session

@Suite struct InterruptionJudgeTests {
    /// 500 ms of speech, whatever it says, or by its words.
    private static let long = InterruptionJudge.Rules(minSamples: 8_000, rule: .any)
    private static let worded = InterruptionJudge.Rules(minSamples: 8_000, rule: .words)
    private static let strict = InterruptionJudge.Rules(minSamples: 8_000, rule: .strict)

    private func holding(_ rules: InterruptionJudge.Rules = long) -> InterruptionJudge {
        var judge = InterruptionJudge()
        #expect(judge.handleOnset(of: "a", at: 16_000, rules) == .hold)
        return judge
    }

    @Test func whereAnySpeechIsEnoughNothingIsHeld() {
        var judge = InterruptionJudge()
        let rules = InterruptionJudge.Rules(minSamples: 0, rule: .any)
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

    /// The table of the file, at the moment and 1 ms before.
    @Test(arguments: [
        (worded, InterruptionWords.Judgement.command, 400), (worded, .words(1), 650),
        (worded, .words(2), 500), (worded, .words(3), 500), (strict, .command, 650),
        (strict, .words(3), 1_000),
    ])
    func theLessCertainTheWordsTheLongerTheSpeech(
        rules: InterruptionJudge.Rules, words: InterruptionWords.Judgement, milliseconds: Int
    ) {
        let judge = holding(rules)
        func weigh(_ milliseconds: Int) -> InterruptionJudge.Decision {
            let end = 16_000 + 16 * milliseconds
            return judge.weigh(speechEnd: end, analysedEnd: end, rules) {
                InterruptionJudge.Heard(words: words, end: end, isWhole: false)
            }
        }
        #expect(weigh(milliseconds - 1) == .wait)
        #expect(weigh(milliseconds) == .interrupt)
    }

    @Test func nodsEchoesAndForStrictRulesFewWordsWait() {
        for (rules, words) in [
            (Self.worded, InterruptionWords.Judgement.backchannel), (Self.worded, .echo),
            (Self.worded, .none), (Self.strict, .words(2)), (Self.strict, .backchannel),
        ] {
            let judge = holding(rules)
            func weigh(
                _ end: Int, isWhole: Bool, silence: Int = 0
            ) -> InterruptionJudge.Decision {
                judge.weigh(speechEnd: end, analysedEnd: end + silence, rules) {
                    InterruptionJudge.Heard(words: words, end: end, isWhole: isWhole)
                }
            }
            #expect(weigh(40_000, isWhole: false) == .wait)
            #expect(weigh(40_000, isWhole: true, silence: 3_200) == .endSpeech(at: 40_000))
            #expect(
                weigh(16_000 + InterruptionJudge.longestHold, isWhole: false) == .resume)
            #expect(judge.handleSpeechEnd(of: "a", rules) == .wait, "the transcript decides")
        }
    }

    @Test func wordsThatWereHeardTooEarlyDoNotCount() {
        let judge = holding(Self.worded)
        func weigh(heardTo end: Int) -> InterruptionJudge.Decision {
            judge.weigh(speechEnd: 40_000, analysedEnd: 40_000, Self.worded) {
                InterruptionJudge.Heard(words: .words(2), end: end, isWhole: false)
            }
        }
        #expect(weigh(heardTo: 16_000 + 4_800) == .wait)
        #expect(weigh(heardTo: 16_000 + 8_000) == .interrupt)
        #expect(
            judge.weigh(speechEnd: 40_000, analysedEnd: 40_000, Self.worded) { nil } == .wait)
    }

    /// One or two words of at most 650 ms may be a misheard nod.
    @Test func shortSpeechThatIsOverMayBeANod() {
        let judge = holding(Self.worded)
        func weigh(
            _ words: InterruptionWords.Judgement, lasting milliseconds: Int
        ) -> InterruptionJudge.Decision {
            let end = 16_000 + 16 * milliseconds
            return judge.weigh(speechEnd: end, analysedEnd: end + 3_200, Self.worded) {
                InterruptionJudge.Heard(words: words, end: 16_000, isWhole: true)
            }
        }
        #expect(weigh(.words(1), lasting: 650) == .endSpeech(at: 26_400))
        #expect(weigh(.words(1), lasting: 651) == .interrupt)
        #expect(weigh(.words(3), lasting: 300) == .interrupt)
        #expect(weigh(.command, lasting: 200) == .interrupt)
    }

    @Test func aTranscriptSettlesWhatIsHeld() {
        func settle(
            _ words: InterruptionWords.Judgement, lasting milliseconds: Int = 400,
            isAnswer: Bool = false, _ rules: InterruptionJudge.Rules = Self.worded
        ) -> InterruptionJudge.Decision {
            var judge = holding(rules)
            return judge.handleWords(
                words, of: "a", lasting: 16 * milliseconds, isAnswer: isAnswer, rules)
        }
        #expect(settle(.command) == .interrupt)
        #expect(settle(.words(3)) == .interrupt)
        #expect(settle(.words(1)) == .resume)
        #expect(settle(.words(1), lasting: 700) == .interrupt)
        #expect(settle(.words(1), Self.long) == .interrupt)
        #expect(settle(.words(2), lasting: 700, Self.strict) == .resume)
        #expect(settle(.words(3), Self.strict) == .interrupt)
        #expect(settle(.none) == .resume)
        #expect(settle(.echo) == .resume)
        #expect(settle(.backchannel) == .resume)
        #expect(settle(.backchannel, isAnswer: true) == .interrupt)
        #expect(settle(.words(1), isAnswer: true) == .interrupt)
        #expect(settle(.echo, isAnswer: true) == .resume)
    }

    @Test func wordsOfAFalseInterruptionInterruptTheResumedReply() {
        var judge = holding()
        judge.endHold()
        func settle(_ words: InterruptionWords.Judgement) -> InterruptionJudge.Decision {
            judge.handleWords(words, of: "a", lasting: 8_000, isAnswer: false, Self.long)
        }
        #expect(settle(.none) == .wait)
        #expect(settle(.words(1)) == .interrupt)
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
        #expect(judge.judge("Lisbon", over: reply, in: .english, isEchoKnown: false) == .words(1))
        _ = judge.handleWords(.echo, of: "a", lasting: 8_000, isAnswer: false, Self.long)
        #expect(judge.hasHeardEcho)
        #expect(judge.judge("Lisbon", over: reply, in: .english, isEchoKnown: false) == .echo)
        #expect(judge.judge("Lisbon", over: reply, in: .english, isEchoKnown: true) == .words(1))
    }
}
