// The text of tokens, and files that are no vocabulary.

import Testing

@testable import Agents

@Suite struct MoonshineVocabularyTests {
    private func read(_ lines: [String]) -> MoonshineVocabulary? {
        MoonshineVocabulary(Array(lines.joined(separator: "\n").utf8)[...])
    }

    /// Tokens 0 to 2 have no text. A character may be spread over several tokens.
    @Test func joinsTheBytesOfTokens() throws {
        let vocabulary = try #require(
            read(["3c756e6b3e", "3c733e", "3c2f733e", "e29681476f", "c3", "a9", "e29681"]))
        #expect(vocabulary.text(of: [1, 3, 4, 5, 6, 3, 2]) == " Go\u{e9}  Go")
        #expect(vocabulary.text(of: [-1, 0, 7, .max]) == "")
    }

    /// A token without a text moves none of the others.
    @Test func aTokenMayBeEmpty() throws {
        let vocabulary = try #require(read(["00", "01", "02", "", "47", ""]))
        #expect(vocabulary.text(of: [3, 4]) == "G")
    }

    @Test(arguments: [
        [], ["00", "01", "02"], ["00", "01", "02", "0"], ["00", "01", "02", "0g"],
        ["00", "01", "02", "0A"],
    ])
    func refusesAFileThatIsNoVocabulary(lines: [String]) {
        #expect(read(lines) == nil)
    }

    @Test func refusesAFileThatDoesNotExist() {
        #expect(MoonshineVocabulary(path: "/nonexistent") == nil)
    }
}
