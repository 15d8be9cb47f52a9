// The two tables as files: what they hold is found, and damage is an error.

import Foundation
import TestMaterial
import Testing

@testable import Agents

@Suite struct PhonemeTableFileTests {
    private static let tables = SmallTables(
        words: [
            "able": "ˈAbᵊl", "about": "əbˈWt", "above": "əbˈʌv", "Paris": "pˈɛɹɪs", "x": "ɛks",
        ],
        variants: ["use": [(.standard, "jˈuz"), (.noun, "jˈus")], "AD": [(.standard, nil)]],
        tags: ["the": "DT"], weights: [(.bias, "", [("NN", 5), ("VB", -7)])],
        splits: [["do", "n't"]])

    @Test func aLexiconFindsItsWords() throws {
        let lexicon = try GoldLexicon(Self.tables.lexicon)
        #expect(lexicon["about"] == .one("əbˈWt"))
        #expect(lexicon["Paris"] == .one("pˈɛɹɪs"))
        #expect(lexicon["use"] == .variants([.standard: "jˈuz", .noun: "jˈus"]))
        #expect(lexicon["AD"] == .variants([.standard: nil]))
        for word in ["", "a", "abo", "abouts", "aboux", "zebra", "Pari", "usee", "é"] {
            #expect(lexicon[word] == nil, "\(word)")
        }
    }

    @Test func aWordFindsItsOtherCase() throws {
        let lexicon = try GoldLexicon(Self.tables.lexicon)
        #expect(lexicon["About"] == .one("əbˈWt"))
        #expect(lexicon["paris"] == .one("pˈɛɹɪs"))
        #expect(lexicon["ABOUT"] == nil)
        #expect(lexicon["X"] == nil)
    }

    @Test func everyWordOfManyBlocksIsFound() throws {
        var tables = SmallTables()
        for number in 0..<1_000 { tables.words["w\(number)"] = number % 2 == 0 ? "ə" : "ɪt" }
        let lexicon = try GoldLexicon(tables.lexicon)
        for (word, sounds) in tables.words { #expect(lexicon[word] == .one(sounds)) }
        #expect(lexicon["w1000"] == nil)
    }

    @Test func aTaggerFindsItsKeys() throws {
        let table = try TaggerTable(Self.tables.tagger)
        #expect(table.fixedTag(of: "the") == "DT")
        #expect(table.fixedTag(of: "a") == nil)
        #expect(table.split("don't") == [2, 3])
        #expect(table.split("the") == nil)
        var scores = [Int](repeating: 0, count: TaggerTable.maxTags)
        #expect(table.add(TaggerTable.Key(.bias), to: &scores))
        #expect(table.tags.map(\.name) == ["DT", "NN", "VB"])
        #expect(scores.prefix(3) == [0, 5, -7])
    }

    /// Every shorter file, and every file with one byte changed, is an error or a table that can be
    /// asked.
    @Test func damageNeverTraps() throws {
        var random = SplitMix(state: 34)
        let lexicon = Self.tables.lexicon
        let tagger = Self.tables.tagger
        for count in lexicon.indices {
            #expect(throws: PhonemeTableError.damaged(file: "lexicon.bin")) {
                try GoldLexicon(Array(lexicon[..<count]))
            }
        }
        for count in tagger.indices {
            #expect(throws: PhonemeTableError.damaged(file: "tagger.bin")) {
                try TaggerTable(Array(tagger[..<count]))
            }
        }
        var accepted = 0
        for _ in 0..<1_000 {
            var lexicon = lexicon
            var tagger = tagger
            lexicon[Int.random(in: lexicon.indices, using: &random)] = .random(
                in: 0...255, using: &random)
            tagger[Int.random(in: tagger.indices, using: &random)] = .random(
                in: 0...255, using: &random)
            guard
                let phonemizer = try? Phonemizer(lexicon: lexicon, tagger: tagger, guess: { $0 })
            else { continue }
            accepted += 1
            #expect(phonemizer.clauses(of: "don't use the above, AD Paris.").count < 3)
        }
        #expect(accepted > 0)
    }

    @Test func aMissingFileIsAnError() {
        #expect(throws: PhonemeTableError.unreadable(file: "lexicon.bin")) {
            try Phonemizer(folder: "/nonexistent")
        }
        #expect(throws: PhonemeTableError.unreadable(file: "lexicon.bin")) {
            try PhonemeTableFile.bytes(of: "lexicon.bin", in: "/dev")
        }
    }

    @Test func aFileOfAnotherFormatIsAnError() {
        #expect(throws: PhonemeTableError.damaged(file: "lexicon.bin")) {
            try Phonemizer(lexicon: Self.tables.tagger, tagger: Self.tables.tagger) { $0 }
        }
    }
}
