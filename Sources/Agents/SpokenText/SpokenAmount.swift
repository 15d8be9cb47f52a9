// Amounts of money in words: one word, or a number and a scale such as "million" after it.
// SpokenWords decides which words belong together.

/// An amount of money.
struct SpokenAmount {
    /// Words that multiply an amount.
    static let scales: Set<String> = ["hundred", "thousand", "million", "billion", "trillion"]
    private static let suffixes: [Substring: String] = [
        "k": "thousand", "K": "thousand", "M": "million", "m": "million", "mn": "million",
        "B": "billion", "bn": "billion", "T": "trillion", "tn": "trillion",
    ]

    private struct Currency {
        let one: String
        let many: String
        let cent: String
        let cents: String
    }

    private static let currencies: [Substring: Currency] = [
        "$": Currency(one: "dollar", many: "dollars", cent: "cent", cents: "cents"),
        "€": Currency(one: "euro", many: "euros", cent: "cent", cents: "cents"),
        "£": Currency(one: "pound", many: "pounds", cent: "penny", cents: "pence"),
        "¥": Currency(one: "yen", many: "yen", cent: "sen", cents: "sen"),
        "₹": Currency(one: "rupee", many: "rupees", cent: "paisa", cents: "paise"),
    ]

    private let number: NumberWords.Number
    private let currency: Currency
    private let suffix: String?

    /// Understands "$5", "$1,234.50", "5€", "-£3", "US$5", "$3M".
    init?(_ text: Substring) {
        let sign = text.first == "-" ? "-" : ""
        var text = text.dropFirst(sign.count)
        for country in ["US$", "A$", "C$"] where text.hasPrefix(country) {
            text = text.dropFirst(country.count - 1)
        }
        var found = Self.currencies[text.prefix(1)]
        if found != nil {
            text = text.dropFirst()
        } else {
            found = Self.currencies[text.suffix(1)]
            text = text.dropLast()
        }
        guard let found else { return nil }
        let letters = text[
            (text.lastIndex { !$0.isASCIILetter }.map(text.index(after:)) ?? text.startIndex)...]
        suffix = Self.suffixes[letters]
        if suffix != nil { text.removeLast(letters.count) }
        guard let number = NumberWords.Number(Substring(sign + text)) else { return nil }
        self.number = number
        currency = found
    }

    /// "five dollars and fifty cents"; with a scale "three point five million dollars".
    func spoken(scale: String?) -> String {
        let sign = number.isNegative ? "minus " : ""
        let whole = NumberWords.cardinal(number.whole)
        if let scale = scale ?? suffix {
            let fraction = number.fraction.map { " point " + NumberWords.digits($0) } ?? ""
            return "\(sign)\(whole)\(fraction) \(scale) \(currency.many)"
        }
        guard let fraction = number.fraction, fraction.contains(where: { $0 != "0" }) else {
            return "\(sign)\(whole) \(number.whole == "1" ? currency.one : currency.many)"
        }
        guard fraction.count == 2, let cents = Int(fraction) else {
            return "\(sign)\(whole) point \(NumberWords.digits(fraction)) \(currency.many)"
        }
        let change = "\(NumberWords.cardinal(cents)) \(cents == 1 ? currency.cent : currency.cents)"
        if number.whole == "0" { return sign + change }
        let name = number.whole == "1" ? currency.one : currency.many
        return "\(sign)\(whole) \(name) and \(change)"
    }
}
