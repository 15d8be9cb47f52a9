// Telephone numbers in words. They may consist of several words of the text.

import Codec

/// A telephone number, which may consist of several words.
struct SpokenPhone {
    /// The number in words: digit by digit, with a pause after each group.
    let spoken: String
    /// How many words of the text it consists of.
    let wordCount: Int

    /// Understands "+1 (555) 123-4567", "555-123-4567", "(030) 1234567", "555-1234".
    init?(_ words: ArraySlice<Substring>) {
        var groups: [Substring] = []
        var isMarked = false
        var taken = 0
        var tail = ""
        for word in words.prefix(6) {
            TextSteps.note(word.utf8.count)
            let core = word.prefix { $0.isASCIIDigit || "+()-".contains($0) }
            let rest = word[core.endIndex...]
            guard core.contains(where: \.isASCIIDigit),
                rest.allSatisfy({ ".,!?;:".contains($0) }),
                taken == 0 || core.first != "+", core.first != "-"
            else { break }
            let found = core.split { !$0.isASCIIDigit }
            // This word is a number of its own, not a part of the telephone number.
            guard taken == 0 || isMarked || core.contains("(") else { break }
            isMarked =
                isMarked || (core.first == "+" && taken == 0) || core.contains("(")
                || Self.isPhone(found)
            guard isMarked || found.count == 1 else { break }
            groups += found
            taken += 1
            tail = String(rest)
            if !rest.isEmpty { break }
        }
        let digits = groups.reduce(0) { $0 + $1.count }
        guard isMarked, (7...15).contains(digits), groups.count > 1 || digits > 9 else {
            return nil
        }
        let plus = words.first?.first == "+" ? "plus " : ""
        spoken = plus + groups.map { NumberWords.digits($0) }.joined(separator: ", ") + tail
        wordCount = taken
    }

    /// Whether the groups have the lengths of a telephone number: 3-4, 3-3-4 or 1-3-3-4 digits.
    private static func isPhone(_ groups: [Substring]) -> Bool {
        let lengths = groups.map(\.count)
        return lengths == [3, 4] || lengths == [3, 3, 4] || lengths == [1, 3, 3, 4]
    }
}
