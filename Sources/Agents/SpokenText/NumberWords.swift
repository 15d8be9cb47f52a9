// Numbers in words, as an English speaker says them. SpokenWords finds the numbers in a text.

/// Words for numbers.
enum NumberWords {
    private static let small = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
        "nineteen",
    ]
    private static let tens = [
        "", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
    ]
    private static let scales = ["", " thousand", " million", " billion", " trillion"]
    private static let ordinals = [
        "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth",
        "nine": "ninth", "twelve": "twelfth",
    ]

    /// Digits of the longest number that is spoken as one: 999 trillion. Longer ones are spoken
    /// digit by digit.
    static let maxDigits = 15

    /// "1234" → "one thousand two hundred thirty-four".
    /// - Precondition: ASCII digits only. More than `maxDigits` are said digit by digit.
    static func cardinal(_ digits: Substring) -> String {
        guard digits.count <= maxDigits, let value = Int(digits) else {
            return self.digits(digits)
        }
        return cardinal(value)
    }

    /// 21 → "twenty-one".
    /// - Precondition: 0…999 trillion.
    static func cardinal(_ value: Int) -> String {
        guard value > 0 else { return small[0] }
        var groups: [String] = []
        var rest = value
        for scale in scales {
            let group = rest % 1_000
            if group > 0 { groups.append(belowThousand(group) + scale) }
            rest /= 1_000
            if rest == 0 { break }
        }
        return groups.reversed().joined(separator: " ")
    }

    private static func belowThousand(_ value: Int) -> String {
        let hundreds = value >= 100 ? small[value / 100] + " hundred" : ""
        let rest = value % 100
        guard rest > 0 else { return hundreds }
        return (hundreds.isEmpty ? "" : hundreds + " ") + belowHundred(rest)
    }

    private static func belowHundred(_ value: Int) -> String {
        guard value >= 20 else { return small[value] }
        let unit = value % 10
        return unit == 0 ? tens[value / 10] : tens[value / 10] + "-" + small[unit]
    }

    /// "21" → "twenty-first".
    static func ordinal(_ digits: Substring) -> String {
        let cardinal = cardinal(digits)
        let start = cardinal.lastIndex { $0 == " " || $0 == "-" }
        let last = start.map { cardinal[cardinal.index(after: $0)...] } ?? cardinal[...]
        let head = cardinal[..<last.startIndex]
        if let irregular = ordinals[String(last)] { return head + irregular }
        return last.hasSuffix("y") ? head + last.dropLast() + "ieth" : head + last + "th"
    }

    /// "1984" → "nineteen eighty-four", as years are said.
    /// - Precondition: four digits that do not begin with 0.
    static func year(_ digits: Substring) -> String {
        guard let value = Int(digits), value >= 1_000, value <= 9_999 else {
            return cardinal(digits)
        }
        let (century, rest) = value.quotientAndRemainder(dividingBy: 100)
        // 2000…2009 and round thousands are said as numbers.
        if century % 10 == 0, rest < 10 { return cardinal(value) }
        if rest == 0 { return belowHundred(century) + " hundred" }
        if rest < 10 { return belowHundred(century) + " oh " + small[rest] }
        return belowHundred(century) + " " + belowHundred(rest)
    }

    /// "007" → "zero zero seven".
    static func digits(_ digits: Substring) -> String {
        digits.compactMap { $0.wholeNumberValue.map { small[$0 % 10] } }.joined(separator: " ")
    }

    /// "3.50" → "three point five zero"; "-2" → "minus two"; thousands' commas are skipped.
    /// - Returns: nil when the text is not a number.
    static func decimal(_ text: Substring) -> String? {
        guard let number = Number(text) else { return nil }
        let sign = number.isNegative ? "minus " : ""
        guard let fraction = number.fraction else { return sign + cardinal(number.whole) }
        return sign + cardinal(number.whole) + " point " + digits(fraction)
    }

    /// The parts of a written number.
    struct Number {
        var isNegative = false
        /// Digits without commas, at least one.
        var whole: Substring
        /// Digits after the point, nil without a point.
        var fraction: Substring?

        /// Understands "12", "-12", "−12", "1,234", "1,234.50", ".5".
        init?(_ text: Substring) {
            var text = text
            if let sign = text.first, "-−+".contains(sign) {
                isNegative = sign != "+"
                text.removeFirst()
            }
            let parts = text.split(
                separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
            guard let first = parts.first, Self.isWhole(first) || first.isEmpty else { return nil }
            if parts.count == 2 {
                guard !parts[1].isEmpty, parts[1].allSatisfy(\.isASCIIDigit) else { return nil }
                fraction = parts[1]
            }
            guard !first.isEmpty || fraction != nil else { return nil }
            whole = first.isEmpty ? "0" : Substring(first.filter { $0 != "," })
        }

        /// Whether the text is digits, with commas only between thousands.
        private static func isWhole(_ text: Substring) -> Bool {
            let groups = text.split(separator: ",", omittingEmptySubsequences: false)
            guard let first = groups.first, !first.isEmpty,
                groups.allSatisfy({ $0.allSatisfy(\.isASCIIDigit) })
            else { return false }
            return groups.count == 1
                || (first.count <= 3 && groups.dropFirst().allSatisfy { $0.count == 3 })
        }

        /// Whether the number is exactly one.
        var isOne: Bool { whole == "1" && fraction == nil }
    }
}

extension Character {
    /// Whether the character is 0…9. Digits of other scripts do not count.
    var isASCIIDigit: Bool { ("0"..."9").contains(self) }
    /// A…Z, a…z.
    var isASCIILetter: Bool { ("a"..."z").contains(self) || ("A"..."Z").contains(self) }
}
