// Where a reply is cut into clauses.

import Testing

@testable import Session

/// Splits a text that arrives in pieces of `size` characters.
private func clauses(_ text: String, size: Int) -> [String] {
    var splitter = ClauseSplitter()
    var found: [String] = []
    var rest = Substring(text)
    while !rest.isEmpty {
        found += splitter.append(String(rest.prefix(size)))
        rest = rest.dropFirst(size)
    }
    if let last = splitter.finish() { found.append(last) }
    return found
}

@Suite struct ClauseSplitterTests {
    @Test(arguments: [
        (
            "Hello there, my friend. How are you today?",
            ["Hello there, my friend.", " How are you today?"]
        ),
        ("Yes. Of course. I will do that.", ["Yes. Of course.", " I will do that."]),
        (
            "Version 3.5 is at 10:30 sharp, isn't it? Good.",
            ["Version 3.5 is at 10:30 sharp,", " isn't it? Good."]
        ),
        ("one line of text\nand another line", ["one line of text\n", "and another line"]),
        ("これはペンです。あれは何ですか？はい", ["これはペンです。", "あれは何ですか？", "はい"]),
        ("", []), ("   \n ", []), ("no end", ["no end"]),
    ])
    func cutsWhereAVoiceWouldPause(text: String, expected: [String]) {
        for size in [1, 2, 3, 7, 1_000] { #expect(clauses(text, size: size) == expected) }
    }

    @Test func textWithoutMarksIsCutAtASpaceBeforeItGrowsTooLong() {
        let text = String(repeating: "word ", count: 200)
        let found = clauses(text, size: 11)
        #expect(found.joined() == text)
        #expect(found.allSatisfy { $0.utf8.count <= ClauseSplitter.maxClauseBytes + 5 })
    }

    @Test func textWithoutSpacesIsCutBetweenCharacters() {
        let text = String(repeating: "語", count: 1_000)
        let found = clauses(text, size: 7)
        #expect(found.count > 3)
        #expect(found.joined() == text)
        #expect(!found.joined().contains("\u{FFFD}"))
    }

    @Test func nothingIsLost() {
        let text = "Über allen Gipfeln ist Ruh; in allen Wipfeln spürest du… kaum einen Hauch! 🎉 "
        #expect(clauses(text, size: 1).joined() == text)
    }
}
