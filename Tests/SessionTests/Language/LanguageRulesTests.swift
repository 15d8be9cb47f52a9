// Which rules a language has, and what becomes of words that mean something else in another.

import Codec
import Testing

@testable import Session

@Suite struct LanguageRulesTests {
    @Test(arguments: [nil, "en", "en-GB", "EN_us"])
    func englishHasItsRules(language: String?) {
        #expect(LanguageRules.rules(for: language) === LanguageRules.english)
    }

    /// "an", "was" and "in" are no English words there.
    @Test(arguments: [
        ("Ich komme an.", TurnEndEstimator.Ending.sentence), ("Er sah was.", .sentence),
        ("Is it the bus", .open), ("Kommst du in.", .sentence), ("Kommst du an?", .question),
        ("Ich komme an", .open),
    ])
    func marksAloneEndTurnsOfALanguageWithoutRules(
        transcript: String, ending: TurnEndEstimator.Ending
    ) {
        let german = LanguageRules.rules(for: "de-AT")
        #expect(TurnEndEstimator.ending(of: transcript, in: german) == ending)
    }

    @Test func assentsAndAbbreviationsAreSharedWithoutRules() {
        let german = LanguageRules.rules(for: "de")
        #expect(InterruptionWords.judge("Okay, mhm.", over: "", in: german) == .backchannel)
        #expect(InterruptionWords.judge("Moment mal.", over: "", in: german) == .words)
        var splitter = ClauseSplitter(german)
        #expect(
            splitter.append("Dr. Maier ist heute nicht da. Und") == [
                "Dr. Maier ist heute nicht da."
            ])
    }

    /// The tables of words are looked up in small letters, and longer ones are never looked for.
    @Test func wordsCanBeFound() {
        let rules = LanguageRules.english
        let ends = rules.turnEnds
        for words in [
            ends.wantMore, ends.wantMoreOutsideQuestions, ends.mayGoOn, ends.questionWords,
            ends.auxiliaries, ends.subjects, ends.numbers, ends.roundNumbers, rules.assents.words,
            rules.clauses.abbreviations, rules.clauses.conjunctions,
        ] {
            #expect(words.allSatisfy { $0 == $0.lowercased() && !$0.contains(" ") })
        }
        #expect(
            rules.clauses.abbreviations.allSatisfy {
                $0.utf8.count <= ClauseWords.maxAbbreviationBytes
            })
        #expect(
            rules.clauses.conjunctions.allSatisfy {
                $0.utf8.count <= ClauseWords.maxConjunctionBytes
            })
    }
}
