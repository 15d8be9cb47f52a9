// The words of a reply that were heard, as a carrier reports them.

import Testing

@testable import Session

@Suite struct HeardWordsTests {
    private static let text = "Hello, Jörg! I can help.\nI can call you  back — today."

    @Test(arguments: [
        ("Hello, Jörg!", "Hello, Jörg!"), ("hello jörg", "Hello, Jörg!"),
        // The first of several places counts.
        ("I can", "Hello, Jörg! I can"),
        ("can call you back", "Hello, Jörg! I can help.\nI can call you  back"),
        ("back today", "Hello, Jörg! I can help.\nI can call you  back — today."),
        ("", ""), (" … ", ""),
        // What comes before the text may be a part of the report, if three words are left.
        ("Welcome. Hello Jörg I", "Hello, Jörg! I"), ("Welcome. Hello Jörg", nil),
        ("something else", nil), ("today and tomorrow", nil),
    ])
    func thePrefixThatWasHeard(heard: String, expected: String?) {
        #expect(HeardWords.prefix(of: Self.text, through: heard) == expected)
    }

    /// Only the end of a long report is looked for.
    @Test func aLongReportIsFoundByItsEnd() {
        let sentences = (1...200).map { "This is sentence number \($0) of it." }
        let text = sentences.joined(separator: " ")
        let heard = sentences[..<150].joined(separator: " ")
        #expect(HeardWords.prefix(of: text, through: heard) == heard)
        // Its beginning, which another text has, decides nothing.
        #expect(HeardWords.prefix(of: text, through: "Something else. " + heard) == heard)
        let word = String(repeating: "x", count: 1_000)
        #expect(HeardWords.prefix(of: text, through: word) == nil)
        #expect(
            HeardWords.prefix(of: text, through: word + " This is sentence") == "This is sentence")
    }

    @Test(arguments: ["", " ", "\n\n"])
    func aTextWithoutWordsHasNone(text: String) {
        #expect(HeardWords.prefix(of: text, through: "word") == nil)
        #expect(HeardWords.prefix(of: text, through: "") == "")
    }
}
