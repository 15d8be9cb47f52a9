// Markdown as a person would read it out, at once and while it is written.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct SpokenMarkdownTests {
    @Test(arguments: [
        ("# Results", "Results."), ("## Why? ##", "Why?"), ("#hashtag", "#hashtag"),
        ("# C# and more", "C# and more."),
        ("- red\n- green", "red. green."), ("* [x] done", "done."), ("1. Wash", "1. Wash."),
        ("1234. Wash", "1234. Wash"), ("see [12] there", "see 12 there"),
        ("> quoted", "quoted"), ("---", ""), ("Text\n===", "Text"), ("-- no rule", "-- no rule"),
        ("| City | °C |\n|---|:-:|\n| Oslo | 5 |", "City, °C. Oslo, 5."),
        ("```swift\nlet a = 1\n```\nDone.", "Code example. Done."),
        ("Use it:\n```\nlet a = 1\n```", "Use it: Code example."),
        ("Run `make test`.", "Run make test."), ("Run ```make``` now.", "Run make now."),
        ("```\nnever closed", "Code example."), ("```", "Code example."),
        ("See [the docs](https://example.com/a).", "See the docs."), ("![A cat](cat.png)", "A cat"),
        ("said so [1](https://a.b) and [^2]", "said so  and "), ("[see [this]](x)", "see this"),
        ("[a](b_(c)) d", "a d"), ("[a](b c", "a(b c"), ("[12](", "12("),
        ("a ](https://a.b) c", "a  c"),
        ("an [unclosed", "an unclosed"), ("<https://example.com>", "https://example.com"),
        ("one<br>two", "one two"), ("a < b", "a < b"), ("a <b", "a <b"),
        ("mail <a@b.c>", "mail a@b.c"),
        ("**bold** and _it_", "bold and it"), ("***both***", "both"), ("2 * 3", "2 × 3"),
        ("2*3", "2×3"),
        ("snake_case", "snake case"), ("~~gone~~", "gone"), ("~5 km", "~5 km"), (#"5\*"#, "5*"),
        ("Wow!!", "Wow!!"), ("", ""), ("Hindi है।\n- एक।", "Hindi है। एक।"),
    ])
    func isReadOut(written: String, plain: String) {
        #expect(SpokenMarkdown.plain(written) == plain)
        for size in [1, 2, 3, 7] {
            var markdown = SpokenMarkdown()
            let said = written.deltas(ofScalars: size).map { markdown.append($0) }.joined()
            #expect(said + markdown.finish() == plain, "in deltas of \(size)")
        }
    }

    @Test(arguments: [
        ("## Your order 🎉", "Your order."), ("✅ Paid and 👍🏽 packed", "Paid and packed"),
        ("blue ➡️ red 👨‍👩‍👧", "blue red "), ("1️⃣ one", "1 one"), ("🇩🇪 Berlin ★", "Berlin "),
        ("5 °C, © Acme™, ½ → 20 ℃", "5 °C, © Acme™, ½ → 20 ℃"), ("👍", ""),
    ])
    func picturesAreLeftOut(written: String, plain: String) {
        #expect(SpokenMarkdown.plain(written) == plain)
    }

    /// Plain words are said at once; only what may be a mark waits.
    @Test func wordsDoNotWait() {
        var markdown = SpokenMarkdown()
        #expect(markdown.append("We open") == "We open")
        #expect(markdown.append(" at **ni") == " at ni")
        #expect(markdown.append("ne** [today](https:") == "ne today")
        #expect(markdown.append("//a.b/c).") == ".")
        #expect(markdown.finish() == "")
    }
}
