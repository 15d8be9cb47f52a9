// Replaces the numbers, amounts, times, addresses and signs of a plain text by words, as an English
// speaker says them. SpokenMarkdown has removed Markdown before; SpokenText replaces letters beyond
// ASCII afterwards.
//
// The text is read word by word. Quotes, brackets and punctuation around a word are set aside. The
// first rule that fits the rest, or the rest and the next word ("5 km", "$3 million", "May 3rd"),
// replaces it. A word that fits no rule stays as it is.

import Codec

/// Replaces the words of one text.
struct SpokenWords {
    private let words: [Substring]
    private var spoken: [String] = []

    /// The text with every number and sign replaced by words.
    static func spoken(_ text: String) -> String {
        var speaker = SpokenWords(words: spaced(text).split(whereSeparator: \.isWhitespace))
        return speaker.speak()
    }

    private init(words: [Substring]) { self.words = words }

    /// The text with spaces around dashes and signs that join words. A dash between digits becomes
    /// the "to" of a range.
    private static func spaced(_ text: String) -> String {
        var result = ""
        var previous: Character = " "
        for (index, character) in zip(text.indices, text) {
            TextSteps.note()
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
            TextSteps.note(words[index].utf8.count)
            if let phone = SpokenPhone(words[index...]) {
                spoken.append(phone.spoken)
                index += phone.wordCount
                continue
            }
            let word = Word(words[index])
            let following = index + 1 < words.count ? Word(words[index + 1]) : nil
            // Punctuation separates two words, except for the dot of an abbreviated month.
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

    /// Two words that belong together.
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

    /// Abbreviations that flite spells out or misreads.
    private static let abbreviations: [String: String] = [
        "e.g": "for example", "e.g.": "for example", "i.e": "that is", "i.e.": "that is",
        "etc": "et cetera", "etc.": "et cetera", "vs": "versus", "vs.": "versus",
        "approx": "approximately", "approx.": "approximately", "w/": "with", "w/o": "without",
        "&": "and", "+": "plus", "=": "equals", "%": "percent", "@": "at", "a.m.": "A M",
        "p.m.": "P M", "a.m": "A M", "p.m": "P M", "24/7": "twenty-four seven", "1/2": "one half",
        "1/4": "one quarter", "3/4": "three quarters", "1/3": "one third", "2/3": "two thirds",
    ]

    /// A word, and the punctuation around it.
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
            // The last dot of "e.g." and "p.m." belongs to the word.
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
