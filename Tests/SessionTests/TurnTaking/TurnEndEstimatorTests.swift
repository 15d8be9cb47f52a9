// How transcripts end, and how long the silence after them must last.

import Codec
import Testing

@testable import Session

extension TurnEndEstimator {
    /// How English words end.
    static func ending(of transcript: String) -> Ending? { ending(of: transcript, in: .english) }

    /// The wait after words whose sound is not known.
    fileprivate func wait(after transcript: String?) -> Int {
        wait(after: transcript.flatMap { Self.ending(of: $0) }, finality: nil)
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
        "Go forward", "He was not an ill-disposed young man,", "My number is 33, 4, 6.",
        "It is two nine three.", "I put it in.", "He was.", "Turn the light on", "You know.",
        "Well,",
    ])
    func openEndings(transcript: String) {
        #expect(TurnEndEstimator.ending(of: transcript) == .open)
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
        let waits = estimator.waits
        #expect(waits.question < waits.sentence && waits.sentence < waits.open)
        #expect(waits.open < waits.unfinished && waits.unknown < waits.open)
    }

    @Test func eagernessShortensEveryWait() {
        let all = [TurnDetectionParameters.Eagerness.high, .medium, .low].map {
            TurnEndEstimator(eagerness: $0)
        }
        for transcript in ["Is it?", "It is so.", "It is blue.", "It is", "It is the", nil] {
            let waits = all.map { $0.wait(after: transcript) }
            #expect(waits == waits.sorted() && Set(waits).count == 3)
        }
        let medium = TurnEndEstimator(eagerness: .medium).waits
        #expect(TurnEndEstimator(eagerness: .auto).waits == medium)
    }

    @Test func soundShiftsWhatTheWordsLeaveOpen() {
        let estimator = TurnEndEstimator(eagerness: .medium)
        for ending in [TurnEndEstimator.Ending.sentence, .open, nil] {
            let plain = estimator.wait(after: ending, finality: nil)
            #expect(estimator.wait(after: ending, finality: 0) == plain)
            #expect(estimator.wait(after: ending, finality: 1) < plain)
            #expect(estimator.wait(after: ending, finality: -1) > plain)
        }
        for ending in [TurnEndEstimator.Ending.question, .unfinished] {
            let plain = estimator.wait(after: ending, finality: nil)
            #expect(estimator.wait(after: ending, finality: 3) == plain)
            #expect(estimator.wait(after: ending, finality: -3) == plain)
        }
    }

    @Test(arguments: [-Float.infinity, -1e9, 1e9, .infinity, .nan])
    func noSoundIsBelievedWithoutLimit(finality: Float) {
        for eagerness in TurnDetectionParameters.Eagerness.allCases {
            let estimator = TurnEndEstimator(eagerness: eagerness)
            for ending in TurnEndEstimator.Ending.allCases {
                let plain = estimator.wait(after: ending, finality: nil)
                let wait = estimator.wait(after: ending, finality: finality)
                #expect(wait >= plain * 7 / 10 && wait <= plain * 14 / 10)
                #expect(wait <= estimator.waits.unfinished)
            }
        }
    }
}
