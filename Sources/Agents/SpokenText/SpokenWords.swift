// Numbers, amounts, times, addresses and signs of a plain text, as an English speaker says them.
// Markdown is gone by now (SpokenMarkdown); letters beyond ASCII are still there (SpokenText).
//
// Word by word: what stands around a word (quotes, brackets, the mark at a sentence's end) is set
// aside, the first rule that knows the rest respells it, and any other word stays as it is. A word
// after it may belong to it ("5 km", "$3 million", "May 3rd").

/// Respells a text.
struct SpokenWords {
    private let words: [Substring]
    private var spoken: [String] = []

    /// The text in words that are all spoken as they are written.
    static func spoken(_ text: String) -> String {
        var speaker = SpokenWords(words: spaced(text).split(whereSeparator: \.isWhitespace))
        return speaker.speak()
    }

    private init(words: [Substring]) { self.words = words }

    /// The text with spaces around dashes and signs that join words; a dash between digits is the
    /// "to" of a range.
    private static func spaced(_ text: String) -> String {
        var result = ""
        var previous: Character = " "
        for (index, character) in zip(text.indices, text) {
            let next = text[text.index(after: index)...].first ?? " "
            switch character {
            case "–" where previous.isASCIIDigit && next.isASCIIDigit: result += " to "
            case "—", "–", "→", "×", "÷", "≈", "≠", "≤", "≥": result += " \(character) "
            case "−" where next.isASCIIDigit: result += "-"
            default: result.append(character)
            }
            previous = character
        }
        return result
    }

    private mutating func speak() -> String {
        var index = 0
        while index < words.count {
            if let phone = SpokenPhone(words[index...]) {
                spoken.append(phone.spoken)
                index += phone.wordCount
                continue
            }
            let word = Word(words[index])
            let following = index + 1 < words.count ? Word(words[index + 1]) : nil
            // A mark between two words parts them, unless it is that of an abbreviated month.
            let isJoined = word.tail.isEmpty || (word.tail == "." && word.core.count <= 4)
            let isNear = isJoined && following?.lead.isEmpty == true
            if isNear, let following,
                let pair = Self.pair(
                    word.core, following.core, isPlain: word.tail.isEmpty)
            {
                spoken.append(word.lead + pair + following.tail)
                index += 2
                continue
            }
            spoken.append(word.lead + (Self.alone(word.core) ?? String(word.core)) + word.tail)
            index += 1
        }
        return spoken.joined(separator: " ")
    }

    // MARK: Rules

    /// Two words that are said as one thing.
    /// - Parameter isPlain: whether nothing stands between them, not even a dot.
    private static func pair(
        _ word: Substring, _ next: Substring, isPlain: Bool
    ) -> String? {
        if let month = SpokenTimes.month(word), let day = SpokenTimes.day(next) {
            return month + " " + day
        }
        guard isPlain else { return nil }
        let scale = next.lowercased()
        if SpokenAmount.scales.contains(scale), let amount = SpokenAmount(word) {
            return amount.spoken(scale: scale)
        }
        if let clock = SpokenTimes.clock(word, halfOfDay: next) { return clock }
        if let month = SpokenTimes.month(next), let day = SpokenTimes.day(word) {
            return day + " of " + month
        }
        return SpokenUnits.spoken(number: word, unit: next)
    }

    /// One word.
    private static func alone(_ word: Substring) -> String? {
        guard !word.isEmpty else { return nil }
        if let known = abbreviations[word.lowercased()] { return known }
        if let address = SpokenAddress.spoken(word) { return address }
        guard word.contains(where: \.isASCIIDigit) else { return nil }
        if let amount = SpokenAmount(word) { return amount.spoken(scale: nil) }
        return SpokenTimes.spoken(word) ?? SpokenNumber.decade(word)
            ?? SpokenUnits.spoken(joined: word) ?? SpokenNumber.spoken(word)
    }

    /// Abbreviations that flite spells out or mistakes.
    private static let abbreviations: [String: String] = [
        "e.g": "for example", "e.g.": "for example", "i.e": "that is", "i.e.": "that is",
        "etc": "et cetera", "etc.": "et cetera", "vs": "versus", "vs.": "versus",
        "approx": "approximately", "approx.": "approximately", "w/": "with", "w/o": "without",
        "&": "and", "+": "plus", "=": "equals", "%": "percent", "@": "at", "a.m.": "A M",
        "p.m.": "P M", "a.m": "A M", "p.m": "P M", "24/7": "twenty-four seven", "1/2": "one half",
        "1/4": "one quarter", "3/4": "three quarters", "1/3": "one third", "2/3": "two thirds",
    ]

    /// A word, and what stands around it.
    private struct Word {
        let lead: String
        let core: Substring
        let tail: String

        init(_ text: Substring) {
            var core = text
            let opening = core.prefix { "\"'([{“‘«".contains($0) }
            core = core[opening.endIndex...]
            var end = core.endIndex
            while end > core.startIndex, ".,!?:;\"')]}”’»…".contains(core[core.index(before: end)])
            {
                end = core.index(before: end)
            }
            // The dot of "e.g." and "p.m." is its own.
            if SpokenWords.abbreviations[String(core[..<end])] != nil, core[..<end].contains(".") {
                self.core = core[..<end]
                tail = String(core[end...].drop { $0 == "." })
            } else {
                self.core = core[..<end]
                tail = String(core[end...])
            }
            lead = String(opening)
        }
    }
}
