// Text of a peer as a terminal may show it: visible characters unchanged and escapes for the rest,
// however a stream was split.

import Codec
import Testing

@Suite struct VisibleTextTests {
    @Test(
        arguments: [
            ("", "", ""), ("plain", "plain", "plain"), ("Grüße 👋🏽 שלום", "Grüße 👋🏽 שלום", nil),
            ("\u{1B}]0;pwned\u{7}\u{1B}[2J", #"\u{1b}]0;pwned\u{7}\u{1b}[2J"#, nil),
            ("\u{9B}31m\u{90}\u{9C}", #"\u{9b}31m\u{90}\u{9c}"#, nil),
            ("a\u{0}\u{8}\u{C}\u{7F}", #"a\u{0}\u{8}\u{c}\u{7f}"#, nil),
            ("a\nb\tc", #"a\u{a}b\u{9}c"#, "a\nb\tc"),
            ("a\r\nb", #"a\u{d}\u{a}b"#, "a\\u{d}\nb"),
            ("\u{202A}\u{202E}x\u{202C}", #"\u{202a}\u{202e}x\u{202c}"#, nil),
            ("\u{2066}\u{2069}\u{206F}", #"\u{2066}\u{2069}\u{206f}"#, nil),
            ("\u{2028}\u{2029}\u{85}", #"\u{2028}\u{2029}\u{85}"#, nil),
            (#"\u{1b}"#, #"\u{1b}"#, nil),
        ] as [(String, String, String?)])
    func whatCannotBeSeenIsEscaped(text: String, line: String, lines: String?) {
        #expect(text.visible() == line)
        #expect(text.visible(.lines) == lines ?? line)
        #expect(line.visible() == line, "twice changes nothing")
        for scalar in text.visible(.ascii).unicodeScalars {
            #expect((0x20...0x7E).contains(scalar.value))
        }
    }

    @Test func tablesAreASCII() {
        #expect("é\t👋 ~".visible(.ascii) == #"\u{e9}\u{9}\u{1f44b} ~"#)
    }

    @Test func aSplitStreamIsEscapedLikeAWholeOne() {
        let text = "a\u{1B}]0;x\u{7}\u{1B}[2J\u{9B}\u{202E}é👋\n"
        let scalars = Array(text.unicodeScalars)
        for cut in 0...scalars.count {
            let pieces = [scalars[..<cut], scalars[cut...]].map { piece in
                var text = ""
                text.unicodeScalars.append(contentsOf: piece)
                return text.visible(.lines)
            }
            #expect(pieces.joined() == text.visible(.lines))
        }
    }

    /// 0x9B alone is the CSI of an 8-bit terminal and is not valid UTF-8.
    @Test func invalidUTF8IsReplaced() {
        let text = String(decoding: [0x61, 0x9B, 0xC3, 0x1B, 0xFF] as [UInt8], as: UTF8.self)
        #expect(text.visible() == "a\u{FFFD}\u{FFFD}\\u{1b}\u{FFFD}")
    }

    @Test(arguments: [
        (#"{"a":"b"}"#, #"{"a":"b"}"#),
        (
            "{\n\t\"a\":\r\"é\u{7F}\u{9B}\u{202E}\u{2028}\"}",
            #"{  "a": "é\u007f\u009b\u202e\u2028"}"#
        ),
        (#"{"a":"\u001b\n"}"#, #"{"a":"\u001b\n"}"#),
    ])
    func jsonStaysTheSameValue(json: String, line: String) throws {
        #expect(json.visibleJSON == line)
        let (parser, other) = (JSONParser(), JSONParser())
        #expect(try parser.parse(json)["a"]?.string == other.parse(line)["a"]?.string)
    }
}
