// How transcripts end, and how long the silence after them must last.

import Codec
import Testing

@testable import Session

extension TurnEndEstimator {
    /// How English words end.
    static func ending(of transcript: String) -> Ending? { ending(of: transcript, in: .english) }

    /// The wait after words whose sound is not known.
    fileprivate func wait(after transcript: String?) -> Int {
        wait(after: Evidence(transcript.flatMap { Self.ending(of: $0) }))
    }
}

extension TurnEndEstimator.Evidence {
    fileprivate init(
        _ ending: TurnEndEstimator.Ending?, finality: Float? = nil, model: Float? = nil
    ) {
        self.init()
        self.ending = ending
        self.finality = finality
        self.model = model
    }
}

@Suite struct TurnEndEstimatorTests {
    @Test(arguments: [
        "What time is it?", "Can you hear me?", "Where are you from?", "What is it for?", "Can I?",
        "Is it you and me?", "Really?", "could you open the window", "Where is the station.",
        "Had he married?", "is it open",
    ])
    func questions(transcript: String) {
        #expect(TurnEndEstimator.ending(of: transcript) == .question)
    }

    @Test(arguments: [
        "Go forward.", "Yes.", "No!", "I think so.", "Ten of clubs.", "That is what it means.",
        "He was not an ill-disposed young man.", "Turn the light off.", "A coffee, please.",
        "“Stop.”", "That is what they mean.",
    ])
    func sentences(transcript: String) {
        #expect(TurnEndEstimator.ending(of: transcript) == .sentence)
    }

    @Test(arguments: [
        "Go forward", "He was not an ill-disposed young man,", "I put it in.", "He was.",
        "Turn the light on", "You know.", "Well,",
    ])
    func openEndings(transcript: String) {
        #expect(TurnEndEstimator.ending(of: transcript) == .open)
    }

    @Test(arguments: [
        "My number is 33, 4, 6.", "It is two nine three.", "Five five", "Double seven,", "4711",
    ])
    func numbers(transcript: String) {
        #expect(TurnEndEstimator.ending(of: transcript) == .number)
    }

    @Test(arguments: [
        "I would like a.", "Unless to be rather cold-hearted and.", "Seven of.",
        "Eight of spades, four of.", "We went there because", "So, um.", "Uh...", "What is the?",
        "He told me that he", "It's", "I think we're", "And so.", "I mean,", "It was very.",
        "I want to go to", "And then it-", "Let me think...", "Maybe",
    ])
    func unfinishedOnes(transcript: String) {
        #expect(TurnEndEstimator.ending(of: transcript) == .unfinished)
    }

    @Test(arguments: ["", " ", "...", "—", "?!"])
    func noWords(transcript: String) {
        #expect(TurnEndEstimator.ending(of: transcript) == nil)
        let estimator = TurnEndEstimator(eagerness: .high)
        #expect(estimator.wait(after: transcript) == estimator.wait(after: nil))
    }

    @Test(arguments: [
        (TurnDetectionParameters.Eagerness.low, 8_000), (.medium, 4_000), (.auto, 4_000),
        (.high, 2_000),
    ])
    func theLongestWaitIsTheProtocols(
        eagerness: TurnDetectionParameters.Eagerness, milliseconds: Int
    ) {
        let estimator = TurnEndEstimator(eagerness: eagerness)
        #expect(estimator.wait(after: "I would like a") == milliseconds)
        let waits = [TurnEndEstimator.Ending.question, .sentence, nil, .open, .unfinished].map {
            estimator.wait(after: .init($0))
        }
        #expect(waits == waits.sorted() && waits[1] < waits[2] && waits[3] < waits[4])
        #expect(estimator.wait(after: .init(.number)) == waits[3])
    }

    @Test func eagernessShortensEveryWait() {
        let all = [TurnDetectionParameters.Eagerness.high, .medium, .low].map {
            TurnEndEstimator(eagerness: $0)
        }
        for transcript in ["Is it?", "It is so.", "It is blue.", "It is", "It is the", nil] {
            let waits = all.map { $0.wait(after: transcript) }
            #expect(waits == waits.sorted() && Set(waits).count == 3)
        }
        #expect(TurnEndEstimator(eagerness: .auto).rule == all[1].rule)
    }

    /// The waits of PROTOCOL.md: a question, a sentence, words unknown, what may go on.
    @Test(arguments: [
        (TurnDetectionParameters.Eagerness.low, [800, 977, 1_968, 2_403]),
        (.medium, [400, 489, 984, 1_202]), (.high, [300, 300, 547, 668]),
    ])
    func waitsOfThePlainEndings(
        eagerness: TurnDetectionParameters.Eagerness, milliseconds: [Int]
    ) {
        let estimator = TurnEndEstimator(eagerness: eagerness)
        let waits = [TurnEndEstimator.Ending.question, .sentence, nil, .open].map {
            estimator.wait(after: .init($0))
        }
        #expect(waits == milliseconds)
    }

    @Test func halfTheOddsAreTwiceTheWait() {
        let rule = TurnEndEstimator.Rule(threshold: 1, delay: 300, timeout: 2_000)
        let half = Float(0.693147)
        let waits = [3, 1, 1 - half, 1 - 2 * half, 1 - 3 * half].map { rule.wait(score: $0) }
        #expect(waits == [300, 300, 600, 1_200, 2_000])
    }

    @Test func patienceScalesAWaitWithinItsTimeout() {
        for eagerness in TurnDetectionParameters.Eagerness.allCases {
            let estimator = TurnEndEstimator(eagerness: eagerness)
            for ending in [TurnEndEstimator.Ending.question, .sentence, .open, .number] {
                let waits = Patience.allCases.map {
                    estimator.wait(after: .init(ending), patience: $0)
                }
                #expect(waits == waits.sorted() && Set(waits).count == 3)
                #expect(waits[2] <= estimator.rule.timeout)
            }
            // Words that are not known are waited for.
            #expect(
                estimator.wait(after: .init(nil), patience: .brief)
                    == estimator.wait(after: .init(nil)))
            // Words that want another do so whatever was asked.
            for patience in Patience.allCases {
                #expect(
                    estimator.wait(after: .init(.unfinished), patience: patience)
                        == estimator.rule.timeout)
            }
        }
    }

    @Test func soundShiftsWhatTheWordsLeaveOpen() {
        let estimator = TurnEndEstimator(eagerness: .medium)
        for ending in [TurnEndEstimator.Ending.sentence, .open, .number, nil] {
            let plain = estimator.wait(after: .init(ending))
            #expect(estimator.wait(after: .init(ending, finality: 0)) == plain)
            #expect(estimator.wait(after: .init(ending, finality: 1)) < plain)
            #expect(estimator.wait(after: .init(ending, finality: -1)) > plain)
        }
        for ending in [TurnEndEstimator.Ending.question, .unfinished] {
            let plain = estimator.wait(after: .init(ending))
            #expect(estimator.wait(after: .init(ending, finality: 3)) == plain)
            #expect(estimator.wait(after: .init(ending, finality: -3)) == plain)
        }
    }

    @Test func aTurnModelNeverEndsANumberOrAnUnfinishedPhrase() {
        let estimator = TurnEndEstimator(eagerness: .medium)
        for ending in [TurnEndEstimator.Ending.sentence, .open, nil] {
            let plain = estimator.wait(after: .init(ending))
            #expect(estimator.wait(after: .init(ending, model: 3)) < plain)
            #expect(estimator.wait(after: .init(ending, model: -3)) > plain)
        }
        let number = estimator.wait(after: .init(.number))
        #expect(estimator.wait(after: .init(.number, model: 3)) == number)
        #expect(estimator.wait(after: .init(.number, model: -3)) > number)
        #expect(estimator.wait(after: .init(.unfinished, model: 3)) == 4_000)
    }

    @Test func aTurnModelCountsLessAfterShortSpeech() {
        let odds = { TurnEndEstimator.modelOdds(0.9, speechMilliseconds: $0) }
        #expect(odds(0) == 0 && odds(-1) == 0)
        #expect(abs(odds(1_000) - odds(2_000) / 2) < 1e-6)
        #expect(odds(2_000) == odds(60_000))
        for probability in [-Float.infinity, -1, 0, 1, 2, .infinity, .nan] {
            let odds = TurnEndEstimator.modelOdds(probability, speechMilliseconds: 5_000)
            #expect((-4...4).contains(odds))
        }
    }

    @Test(arguments: [-Float.infinity, -1e9, 1e9, .infinity, .nan])
    func noSoundIsBelievedWithoutLimit(finality: Float) {
        for eagerness in TurnDetectionParameters.Eagerness.allCases {
            let estimator = TurnEndEstimator(eagerness: eagerness)
            for ending in TurnEndEstimator.Ending.allCases {
                let plain = estimator.wait(after: .init(ending))
                let wait = estimator.wait(after: .init(ending, finality: finality))
                #expect(wait >= plain * 6 / 10 && wait <= plain * 17 / 10)
                #expect(wait >= estimator.rule.delay && wait <= estimator.rule.timeout)
            }
        }
    }
}
