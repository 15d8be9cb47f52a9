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

    @Test(arguments: ["", " ", "\n\n"])
    func aTextWithoutWordsHasNone(text: String) {
        #expect(HeardWords.prefix(of: text, through: "word") == nil)
        #expect(HeardWords.prefix(of: text, through: "") == "")
    }
}
