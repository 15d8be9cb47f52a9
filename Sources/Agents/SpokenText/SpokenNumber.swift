// Ordinals, years, ranges, fractions, versions and other numbers of one word, in words.

import Codec

/// Numbers without a currency or unit.
enum SpokenNumber {
    /// Understands "12", "1,234.5", "1984", "21st", "5-10", "3/8", "1.2.3", "#5", "5x",
    /// "~20", "B2".
    /// - Parameter before: the word before it, which tells years from other numbers.
    static func spoken(_ word: Substring, after before: Substring? = nil) -> String? {
        if isYear(word, after: before) { return NumberWords.year(word) }
        if word.first == "#", let number = NumberWords.decimal(word.dropFirst()) {
            return "number " + number
        }
        if word.first == "~", let number = spoken(word.drop { $0 == "~" }) {
            return "about " + number
        }
        if word.last == "x", let number = NumberWords.decimal(word.dropLast()) {
            return number + " times"
        }
        if word.last == "+", let number = NumberWords.decimal(word.dropLast()) {
            return number + " plus"
        }
        return ordinal(word) ?? plain(word) ?? range(word) ?? ratio(word) ?? fraction(word)
            ?? version(word)
            ?? separated(word)
    }

    /// "1,234", "3.5", "1984", "007".
    private static func plain(_ word: Substring) -> String? {
        if word.allSatisfy(\.isASCIIDigit) {
            if word.count > 1, word.first == "0" { return NumberWords.digits(word) }
            if isYear(word, after: nil) { return NumberWords.year(word) }
        }
        return NumberWords.decimal(word) ?? european(word)
    }

    /// Words before a year.
    private static let beforeYears: Set<String> = [
        "in", "since", "from", "until", "till", "by", "before", "after", "around", "about", "circa",
        "year", "of", "and", "to", "between",
    ]

    /// Whether four digits are said like a year. From 1100 to 2099 they mostly are one, or the number
    /// of a house, or a round number; others are understood when they are said so. Of 1000 to 1099
    /// the word before decides.
    private static func isYear(_ word: Substring, after before: Substring?) -> Bool {
        guard word.count == 4, word.allSatisfy(\.isASCIIDigit), let value = Int(word) else {
            return false
        }
        if (1_100...2_099).contains(value) { return true }
        return (1_000...1_099).contains(value)
            && before.map { beforeYears.contains($0.lowercased()) } == true
    }

    /// "1,5", as most of Europe writes fractions.
    private static func european(_ word: Substring) -> String? {
        guard let comma = word.firstIndex(of: ","), word[comma...].count <= 3 else { return nil }
        return NumberWords.decimal(word[..<comma] + "." + word[word.index(after: comma)...])
    }

    /// "1st", "22nd".
    private static func ordinal(_ word: Substring) -> String? {
        let digits = word.dropLast(2)
        guard ["st", "nd", "rd", "th"].contains(word.suffix(2).lowercased()), !digits.isEmpty,
            digits.allSatisfy(\.isASCIIDigit)
        else { return nil }
        return NumberWords.ordinal(digits)
    }

    /// Words after which "30s" is an age or a decade: "in his 30s".
    private static let beforeTens: Set<String> = [
        "the", "his", "her", "their", "my", "your", "our", "its", "early", "mid", "late",
    ]

    /// "1980s", "'80s", "in her 30s".
    /// - Parameters:
    ///   - before: the word before it.
    ///   - isQuoted: whether an apostrophe stands before it.
    static func decade(
        _ word: Substring, after before: Substring?, isQuoted: Bool = false
    ) -> String? {
        let number = word.dropLast()
        guard word.hasSuffix("0s"), number.allSatisfy(\.isASCIIDigit) else { return nil }
        let isTens =
            number.count == 2 && number.first != "1" && number.first != "0"
            && (isQuoted || before.map { beforeTens.contains($0.lowercased()) } == true)
        guard number.count == 4 || isTens else { return nil }
        let words = isTens ? NumberWords.cardinal(number) : NumberWords.year(number)
        return words.hasSuffix("y") ? words.dropLast() + "ies" : words + "s"
    }

    /// "5-10", "1990-1995": two numbers of up to seven characters.
    static func range(_ word: Substring) -> String? {
        let ends = word.split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, ends.allSatisfy({ (1...7).contains($0.count) }),
            let first = plain(ends[0]), let last = plain(ends[1])
        else { return nil }
        return first + " to " + last
    }

    /// "4:1".
    private static func ratio(_ word: Substring) -> String? {
        let ends = word.split(separator: ":", omittingEmptySubsequences: false)
        guard ends.count == 2,
            ends.allSatisfy({ (1...3).contains($0.count) && $0.allSatisfy(\.isASCIIDigit) })
        else { return nil }
        return NumberWords.cardinal(ends[0]) + " to " + NumberWords.cardinal(ends[1])
    }

    /// "6'2", whose inches' mark follows: "six foot two".
    static func height(_ word: Substring) -> String? {
        let parts = word.split(separator: "'", omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ $0.allSatisfy(\.isASCIIDigit) }),
            let feet = Int(parts[0]), let inches = Int(parts[1]), (1...9).contains(feet),
            inches < 12
        else { return nil }
        return NumberWords.cardinal(feet) + " foot " + NumberWords.cardinal(inches)
    }

    /// "3/8" becomes "three over eight", and "10/10" becomes "ten out of ten".
    private static func fraction(_ word: Substring) -> String? {
        let parts = word.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2,
            parts.allSatisfy({ (1...4).contains($0.count) && $0.allSatisfy(\.isASCIIDigit) })
        else { return nil }
        let joined = ["5", "10", "100"].contains(parts[1]) ? " out of " : " over "
        return NumberWords.cardinal(parts[0]) + joined + NumberWords.cardinal(parts[1])
    }

    /// "1.2.3" and "v2.0".
    private static func version(_ word: Substring) -> String? {
        let isNamed = word.first == "v" || word.first == "V"
        let parts = (isNamed ? word.dropFirst() : word)
            .split(separator: ".", omittingEmptySubsequences: false)
        guard isNamed || parts.count > 2,
            parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy(\.isASCIIDigit) })
        else { return nil }
        let numbers = parts.map { NumberWords.cardinal($0) }.joined(separator: " point ")
        return isNamed ? "version " + numbers : numbers
    }

    /// Separates letters and digits: "B2" → "B two", "444.6C" → "four hundred forty-four point six
    /// C". Hyphens stay: "32-bit" → "thirty-two-bit". More than four digits in a row are a code, and
    /// are said one by one.
    static func separated(_ word: some StringProtocol) -> String {
        var result = ""
        func join(_ words: String) {
            let isJoined = result.isEmpty || result.hasSuffix("-") || words.hasPrefix("-")
            result += isJoined ? words : " " + words
        }
        var rest = Substring(word)
        var isAfterDigit = false
        while let first = rest.first {
            TextSteps.note()
            let isDigit = first.isASCIIDigit
            var run = rest.prefix { $0.isASCIIDigit == isDigit }
            rest = rest[run.endIndex...]
            guard !isDigit else {
                // "mid-1990s", "F-16s".
                let words =
                    rest == "s"
                    ? decade(run + "s", after: "the") ?? number(run) + "s"
                    : result.hasSuffix(" point") ? NumberWords.digits(run) : number(run)
                if rest == "s" { rest = "" }
                join(words)
                isAfterDigit = true
                continue
            }
            if isAfterDigit, run == "-", !rest.isEmpty {
                result += ","
            } else if isAfterDigit, run.first == ".", run.count > 1 || !rest.isEmpty {
                join(run.count > 2 ? "dot" : "point")
                run = run.dropFirst()
                if !run.isEmpty { join(String(run)) }
            } else {
                join(String(run))
            }
        }
        return result
    }

    private static func number(_ run: Substring) -> String {
        if isYear(run, after: nil) { return NumberWords.year(run) }
        return run.count > 4 || run.first == "0"
            ? NumberWords.digits(run) : NumberWords.cardinal(run)
    }
}
