// The numbers of phonemes, as a voice's file has them.

import Testing

@testable import Agents

@Suite struct PhonemeSymbolsTests {
    /// A small voice: space, comma, dot, question mark, stress, two vowels and a t.
    private static let text = "20 16\n2C 3\n2E 4\n3F 6\n2C8 156\n259 83\n26A 102\n74 62\n"

    @Test func aClauseHasBothEndsAndLeavesOutUnknownPhonemes() throws {
        let table = try #require(PhonemeSymbols(Self.text))
        #expect(table.numbers(of: "tˈɪt.") == [0, 62, 156, 102, 62, 4, 0])
        #expect(table.numbers(of: "tʘt") == [0, 62, 62, 0])
        #expect(table.numbers(of: "") == [0, 0])
    }

    @Test(arguments: [
        "", "20", "20 3 4", "xyz 3", "20 three", "110000 3", "20 0", "20 -1", "20 178", "D800 3",
        "20 3\n2C 8\n",
    ])
    func aDamagedFileIsRefused(text: String) {
        #expect(PhonemeSymbols(text) == nil)
        let whole = Self.text + text
        #expect(text.isEmpty || text.hasPrefix("20 3\n") || PhonemeSymbols(whole) == nil)
    }
}
