// Ordinals, years, ranges, fractions, versions and other numbers of one word, in words.

import Codec

/// Numbers without a currency or unit.
enum SpokenNumber {
    /// Understands "12", "1,234.5", "1984", "21st", "5-10", "3/8", "1.2.3", "#5", "5x",
    /// "~20", "B2".
    static func spoken(_ word: Substring) -> String? {
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
        return ordinal(word) ?? plain(word) ?? range(word) ?? fraction(word) ?? version(word)
            ?? separated(word)
    }

    /// "1,234", "3.5", "1984", "007".
    private static func plain(_ word: Substring) -> String? {
        if word.allSatisfy(\.isASCIIDigit) {
            if word.count > 1, word.first == "0" { return NumberWords.digits(word) }
            // Four digits that begin with 19 or 20 are mostly years, and are understood when they
            // are not.
            if word.count == 4, word.hasPrefix("19") || word.hasPrefix("20") {
                return NumberWords.year(word)
            }
        }
        return NumberWords.decimal(word) ?? european(word)
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

    /// "1980s".
    static func decade(_ word: Substring) -> String? {
        let year = word.dropLast()
        guard word.count == 5, word.hasSuffix("0s"), year.allSatisfy(\.isASCIIDigit) else {
            return nil
        }
        let words = NumberWords.year(year)
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

    /// Separates letters and digits: "B2" → "B two". More than four digits in a row are a code, and
    /// are said one by one.
    static func separated(_ word: some StringProtocol) -> String {
        var parts: [String] = []
        var rest = Substring(word)
        while let first = rest.first {
            TextSteps.note()
            let isDigit = first.isASCIIDigit
            let run = rest.prefix { $0.isASCIIDigit == isDigit }
            rest = rest[run.endIndex...]
            if !isDigit {
                parts.append(String(run))
            } else if run.count > 4 || run.first == "0" {
                parts.append(NumberWords.digits(run))
            } else {
                parts.append(NumberWords.cardinal(run))
            }
        }
        return parts.joined(separator: " ")
    }
}
