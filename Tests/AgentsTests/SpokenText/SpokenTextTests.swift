// Text for a synthesiser: what is left out, respelled and cut.

import Testing

@testable import Agents

@Suite struct SpokenTextTests {
    @Test(arguments: [
        ("Hello there.", "Hello there."),
        ("tab\tand\nline\u{0}\u{1B}[", "tab and line"),
        ("**Bold** and `code`", "Bold and code"),
        ("It’s “fine” — really…", "It's \"fine\", really..."),
        ("Café, naïve, Ångström, straße", "Cafe, naive, Angstrom, strasse"),
        ("20 °C for 5€", "twenty degrees Celsius for five euros"),
        ("ok 👍 then 好", "ok then"), ("so -- yes - no", "so, yes, no"),
        ("Nguyễn Đức, Ștefan, Łódź, Øre, Æsir", "Nguyen Duc, Stefan, Lodz, Ore, Aesir"),
        ("cafe\u{301}, co\u{AD}operate, zero\u{200B}width", "cafe, cooperate, zerowidth"),
        ("Привет, I am здесь", "I am"), ("... well", "well"),
    ])
    func spellsTextForTheSynthesiser(text: String, spoken: String) {
        #expect(SpokenText.pieces(of: text) == [spoken])
    }

    @Test(arguments: [
        "", " ", "\n\t", "...", "?! — …", "👍", "**", "好的。", "Привет, мир!", "שלום", "ไทย", "नमस्ते",
    ])
    func textWithoutALetterOrDigitGivesNoPiece(text: String) {
        #expect(SpokenText.pieces(of: text) == [])
    }

    @Test func cutsLongTextAfterSentences() {
        let sentence = "This sentence has exactly eight words in it. "
        let pieces = SpokenText.pieces(of: String(repeating: sentence, count: 40))
        #expect(pieces.count > 1)
        for piece in pieces { #expect(piece.utf8.count <= SpokenText.maxPieceBytes) }
        for piece in pieces { #expect(piece.hasSuffix("it.")) }
        #expect(pieces.joined(separator: " ") + " " == String(repeating: sentence, count: 40))
    }

    @Test func cutsAWordThatIsLongerThanAPiece() {
        let pieces = SpokenText.pieces(of: String(repeating: "a", count: 1_000))
        #expect(pieces.map(\.utf8.count) == [300, 300, 300, 100])
    }
}
