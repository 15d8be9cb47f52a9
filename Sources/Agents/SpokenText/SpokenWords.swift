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
    /// The same words, each without the punctuation around it.
    private let parsed: [Word]
    private var spoken: [String] = []

    /// The text with every number and sign replaced by words.
    static func spoken(_ text: String) -> String {
        var speaker = SpokenWords(words: spaced(text).split(whereSeparator: \.isWhitespace))
        return speaker.speak()
    }

    private init(words: [Substring]) {
        self.words = words
        parsed = words.map { Word($0) }
    }

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
            case "-" where next == "-" && previous != "-": result += " — "
            case "-" where previous == "-": break
            case "–" where !previous.isWhitespace && !next.isWhitespace: result += "-"
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
            let word = parsed[index]
            let following = parsed(at: index + 1)
            // Punctuation separates two words, except for the dot of an abbreviated month.
            let isJoined = word.tail.isEmpty || (word.tail == "." && word.core.count <= 4)
            let isNear = isJoined && following?.lead.isEmpty == true
            if isNear, let following,
                let pair = Self.pair(
                    word.core, following.core, isPlain: word.tail.isEmpty)
            {
                let tail = Self.tail(following, before: parsed(at: index + 2), isPrefix: false)
                append(word.lead + pair, tail)
                index += 2
                continue
            }
            speak(word, at: index, before: following)
            index += 1
        }
        return spoken.joined(separator: " ")
    }

    private func parsed(at index: Int) -> Word? {
        index < parsed.count ? parsed[index] : nil
    }

    /// Speaks one word, which the words beside it may explain.
    private mutating func speak(_ word: Word, at index: Int, before following: Word?) {
        let before = parsed[max(0, index - 3)..<index].map(\.core)
        // A dash between two words.
        if word.core == "-", word.lead.isEmpty, word.tail.isEmpty, following != nil, index > 0 {
            return append(before.last.map(Self.isTime) == true ? "to" : "—", "")
        }
        if let abbreviation = SpokenAbbreviations.spoken(
            SpokenAbbreviations.Place(
                word: word.core, hasDot: word.tail.first == ".",
                isClosed: word.tail.contains { $0 != "." },
                before: before[...], next: following.map { $0.lead.isEmpty ? $0.core : "" }))
        {
            let tail = Self.tail(word, before: following, isPrefix: abbreviation.isPrefix)
            return append(word.lead + abbreviation.words, tail)
        }
        if let decade = SpokenNumber.decade(
            word.core, after: before.last, isQuoted: word.lead.hasSuffix("'"))
        {
            return append(word.lead.filter { $0 != "'" } + decade, word.tail)
        }
        if let known = Self.abbreviations[word.core.lowercased()] {
            let tail = Self.tail(word, before: following, isPrefix: known.isPrefix)
            return append(word.lead + known.words, tail)
        }
        if index > 0, parsed[index - 1].tail.isEmpty,
            let roman = SpokenRoman.spoken(
                word.core, after: before, hasDot: word.tail.first == ".")
        {
            return append(word.lead + roman, word.tail)
        }
        if word.tail.first == "\"", let height = SpokenNumber.height(word.core) {
            return append(word.lead + height, String(word.tail.dropFirst()))
        }
        append(
            word.lead + (Self.alone(word.core, after: before.last) ?? String(word.core)), word.tail)
    }

    private mutating func append(_ text: String, _ tail: String) {
        // "five P.M." at the end of a sentence has one dot.
        spoken.append(text + (text.last == "." && tail.first == "." ? tail.dropFirst() : tail[...]))
    }

    /// What follows an abbreviation: its dot stays where it ends a sentence.
    private static func tail(_ word: Word, before next: Word?, isPrefix: Bool) -> String {
        guard word.tail.first == ".", let next else { return word.tail }
        let rest = word.tail.dropFirst()
        let isStart = next.core.first?.isUppercase == true || !next.lead.isEmpty
        let isEnd = !isPrefix && isStart && rest.isEmpty
        return isEnd ? word.tail : String(rest)
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
    /// - Parameter before: the word before it.
    private static func alone(_ word: Substring, after before: Substring?) -> String? {
        guard !word.isEmpty else { return nil }
        if let address = SpokenAddress.spoken(word) { return address }
        guard word.contains(where: \.isASCIIDigit) else { return spelled(word) }
        return measured(word) ?? range(word) ?? SpokenTimes.spoken(word)
            ?? SpokenNumber.spoken(word, after: before)
    }

    /// An amount of money, or a number with a unit.
    private static func measured(_ word: Substring) -> String? {
        SpokenAmount(word)?.spoken(scale: nil) ?? SpokenUnits.spoken(joined: word)
    }

    /// "3.5%-4%", "$5-10".
    private static func range(_ word: Substring) -> String? {
        let ends = word.split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = measured(ends[0]) else { return nil }
        if let last = measured(ends[1]) { return first + " to " + last }
        guard let sign = ends[0].first,
            let amount = SpokenAmount(Substring(String(sign) + ends[1])),
            let number = NumberWords.decimal(ends[0].dropFirst())
        else { return nil }
        return number + " to " + amount.spoken(scale: nil)
    }

    /// Whether a dash after the word means "to": "9:00", "a.m.".
    private static func isTime(_ word: Substring) -> Bool {
        word.contains(":") || ["am", "pm"].contains(word.lowercased().filter { $0 != "." })
    }

    /// "P-A-R-L-E-Y" → "P, A, R, L, E, Y": three letters or more, each by itself.
    private static func spelled(_ word: Substring) -> String? {
        let letters = word.split(separator: "-", omittingEmptySubsequences: false)
        guard letters.count > 2,
            letters.allSatisfy({ $0.count == 1 && $0.first?.isASCIILetter == true })
        else { return nil }
        return letters.joined(separator: ", ").uppercased()
    }

    /// Abbreviations that flite spells out or misreads. The dot of one that stands before what it
    /// belongs to ends no sentence.
    private static let abbreviations: [String: (words: String, isPrefix: Bool)] = [
        "e.g": ("for example", true), "e.g.": ("for example", true), "i.e": ("that is", true),
        "i.e.": ("that is", true), "etc": ("et cetera", false), "etc.": ("et cetera", false),
        "vs": ("versus", true), "approx": ("approximately", true), "w/": ("with", true),
        "w/o": ("without", true), "&": ("and", true), "+": ("plus", true), "=": ("equals", true),
        "%": ("percent", true), "@": ("at", true), "a.m.": ("A.M.", false), "p.m.": ("P.M.", false),
        "c#": ("C sharp", true), "f#": ("F sharp", true), ".net": ("dot net", true),
        "a.m": ("A.M.", false), "p.m": ("P.M.", false), "24/7": ("twenty-four seven", true),
        "1/2": ("one half", true), "1/4": ("one quarter", true), "3/4": ("three quarters", true),
        "1/3": ("one third", true), "2/3": ("two thirds", true),
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
