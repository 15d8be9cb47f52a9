// Stop words in a text that comes in pieces.

import Testing

@testable import Codec

@Suite struct StopWordsTests {
    /// What is passed on of pieces, and whether a word was found.
    private func passed(_ pieces: [String], _ words: [String]) -> (text: String, hasStopped: Bool) {
        var stopWords = StopWords(words)
        var text = ""
        for piece in pieces { text += stopWords.pass(piece) }
        return (text + stopWords.flush(), stopWords.hasStopped)
    }

    @Test(arguments: [
        ("one two three", ["two"], "one "), ("one two", ["three"], "one two"),
        ("aab", ["ab"], "a"), ("a\n\nb", ["\n\n"], "a"), ("END", ["END"], ""),
        ("one two", ["two", "one"], ""), ("Grüße aus Köln", ["ö"], "Grüße aus K"),
        ("x<|", ["<|end|>"], "x<|"), ("one", [], "one"), ("one", [""], "one"),
        ("aaaab", ["aab"], "aa"), ("abcd", ["abcx", "bc"], "a"),
        ("ababac", ["abac"], "ab"), ("👩‍👩‍👧 and", ["👧"], "👩‍👩‍"),
    ])
    func theTextEndsBeforeTheFirstWordHoweverItIsCut(text: String, words: [String], want: String) {
        let isFound = want != text
        #expect(passed([text], words) == (want, isFound))
        #expect(passed(text.unicodeScalars.map { String($0) }, words) == (want, isFound))
        for middle in text.unicodeScalars.indices {
            let pieces = [
                String(text.unicodeScalars[..<middle]), String(text.unicodeScalars[middle...]),
            ]
            #expect(passed(pieces, words) == (want, isFound))
        }
    }

    @Test func whatCanBeNoWordIsPassedOnAtOnce() {
        var stopWords = StopWords(["END"])
        #expect(stopWords.pass("all of it") == "all of it")
        #expect(stopWords.pass(" E") == " ")
        #expect(stopWords.pass("N") == "")
        #expect(stopWords.pass("X") == "ENX")
        #expect(stopWords.pass("END and more") == "")
        #expect(stopWords.pass("more") == "" && stopWords.flush() == "")
    }

    /// The words are nearly in the text, everywhere.
    @Test func aTextCostsItsLength() {
        let words = ["b", "c", "d", "e"].map { String(repeating: "a", count: 250) + $0 }
        let pieces = [String](repeating: String(repeating: "a", count: 100), count: 100)
        var found = (text: "", hasStopped: false)
        let steps = TextSteps.counting { found = passed(pieces, words) }
        #expect(found == (pieces.joined(), false))
        #expect(steps <= 2 * words.count * 10_000)
    }
}
