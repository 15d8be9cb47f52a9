// The numbers of phonemes, as a voice's file has them.

import Testing

@testable import Agents

@Suite struct PhonemeTableTests {
    /// A small voice: space, comma, dot, question mark, stress, two vowels and a t.
    private static let text = "20 3\n2C 8\n2E 10\n3F 13\n2C8 120\n259 59\n26A 74\n74 32\n"

    @Test func aClauseHasAPadBeforeEachPhonemeAndBothEnds() throws {
        let table = try #require(PhonemeTable(Self.text))
        #expect(table.numbers(of: "tˈɪt.") == [1, 0, 32, 0, 120, 0, 74, 0, 32, 0, 10, 0, 2])
        #expect(table.numbers(of: "") == [1, 0, 2])
    }

    @Test func anUnknownPhonemeIsLeftOut() throws {
        let table = try #require(PhonemeTable(Self.text))
        #expect(table.numbers(of: "tʘt") == table.numbers(of: "tt"))
    }

    @Test(arguments: [
        "", "20", "20 3 4", "xyz 3", "20 three", "110000 3", "20 -1", "20 256", "D800 3",
        "20 3\n2C 8\n",
    ])
    func aDamagedFileIsRefused(text: String) {
        #expect(PhonemeTable(text) == nil)
        let whole = Self.text + text
        #expect(text.isEmpty || text.hasPrefix("20 3\n") || PhonemeTable(whole) == nil)
    }
}
