// Texts of a hundred shapes, each of any length, for tests of what reading a text costs. A shape
// repeats a few marks and words, behind a beginning that may open what never closes.

/// A text that repeats itself.
package struct TextShape: CustomStringConvertible, Sendable {
    let beginning: String
    let unit: String
    let end: String

    /// What the shape is, for a failure's message.
    package var description: String { "\(beginning.debugDescription) + \(unit.debugDescription)" }

    /// A text of about so many bytes.
    package func text(bytes: Int) -> String {
        let count = max(1, bytes / unit.utf8.count)
        return beginning + String(repeating: unit, count: count) + end
    }

    /// A hundred shapes, the same in every process.
    package static let all: [TextShape] = {
        var random = SeededGenerator(seed: 30)
        let single = pieces.prefix(40).map { TextShape(beginning: "", unit: $0, end: "x") }
        return single
            + (0..<60).map { _ in
                let unit = (0..<Int.random(in: 1...5, using: &random)).map { _ in
                    pieces.randomElement(using: &random)!
                }
                return TextShape(
                    beginning: beginnings.randomElement(using: &random)!,
                    unit: unit.joined(), end: Bool.random(using: &random) ? "x" : "")
            }
    }()

    private static let beginnings = [
        "", "Hello there my friend ", "[", "(", "```\n", "<think>", "1. ", "| ", "- ", "\\",
        "Hello there, ", "{\"a\":\"",
    ]
    private static let pieces = [
        "!", ".", "?", ";", ",", ":", "(", ")", "[", "]", "](", "<", ">", "<think", "</think>",
        "`", "```", "*", "_", "~", "|", "#", "\n", " ", "- ", "1.", "a", "<a", "“", "”", "।", "。",
        "語", "😀", "\\", "\"", "…", "–", "'", "a.", "word ", "Dr. ", "U.S. ", "http://a.b/c ",
        "a.b@c.de ", "12", "1,234 ", "$5 ", "10:30 ", "1-2-", "{\"a\":", "[1,", "mhm ", "![", "[^",
        "**", "go on ", "](a", "/", "~5", "&", "ok, ",
    ]

    /// Requires that the work for four times the text is at most 4.5 times the work.
    /// - Parameters:
    ///   - bytes: of the shorter text.
    ///   - steps: of the work for a text.
    /// - Returns: the shapes for which it is more.
    package static func tooExpensive(bytes: Int, _ steps: (String) -> Int) -> [String] {
        all.compactMap { shape in
            let few = steps(shape.text(bytes: bytes))
            let many = steps(shape.text(bytes: 4 * bytes))
            let isFair = few > 0 && Double(many) <= 4.5 * Double(few)
            return isFair ? nil : "\(shape): \(few) and \(many) steps"
        }
    }
}

extension String {
    /// The text in deltas of so many characters of Unicode.
    package func deltas(ofScalars count: Int) -> [String] {
        var deltas: [String] = []
        var rest = unicodeScalars[...]
        while !rest.isEmpty {
            deltas.append(String(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        return deltas
    }
}
