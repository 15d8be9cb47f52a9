// Numbers with currencies, percentages, ordinals, ranges and units, in words. The input is one
// word, or a number and the word after it; SpokenWords decides which words belong together.

/// An amount of money.
struct SpokenAmount {
    /// Words that multiply an amount.
    static let scales: Set<String> = ["hundred", "thousand", "million", "billion", "trillion"]
    private static let suffixes: [Character: String] = [
        "k": "thousand", "K": "thousand", "M": "million", "m": "million", "B": "billion",
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
        suffix = text.last.flatMap { Self.suffixes[$0] }
        if suffix != nil { text.removeLast() }
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

/// Units of measure after a number.
enum SpokenUnits {
    /// Symbol → name of one and of many.
    private static let units: [String: (one: String, many: String)] = [
        "%": ("percent", "percent"), "°": ("degree", "degrees"),
        "°C": ("degree Celsius", "degrees Celsius"),
        "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
        "km": ("kilometer", "kilometers"), "m": ("meter", "meters"),
        "cm": ("centimeter", "centimeters"), "mm": ("millimeter", "millimeters"),
        "mi": ("mile", "miles"), "ft": ("foot", "feet"),
        "kg": ("kilogram", "kilograms"), "g": ("gram", "grams"),
        "mg": ("milligram", "milligrams"), "lb": ("pound", "pounds"), "lbs": ("pound", "pounds"),
        "oz": ("ounce", "ounces"), "l": ("liter", "liters"), "L": ("liter", "liters"),
        "ml": ("milliliter", "milliliters"), "mL": ("milliliter", "milliliters"),
        "km/h": ("kilometer per hour", "kilometers per hour"),
        "kmh": ("kilometer per hour", "kilometers per hour"),
        "mph": ("mile per hour", "miles per hour"),
        "m/s": ("meter per second", "meters per second"),
        "km²": ("square kilometer", "square kilometers"),
        "m²": ("square meter", "square meters"), "m³": ("cubic meter", "cubic meters"),
        "h": ("hour", "hours"), "hr": ("hour", "hours"), "hrs": ("hour", "hours"),
        "min": ("minute", "minutes"), "mins": ("minute", "minutes"), "s": ("second", "seconds"),
        "sec": ("second", "seconds"), "secs": ("second", "seconds"),
        "ms": ("millisecond", "milliseconds"), "µs": ("microsecond", "microseconds"),
        "Hz": ("hertz", "hertz"), "kHz": ("kilohertz", "kilohertz"),
        "MHz": ("megahertz", "megahertz"), "GHz": ("gigahertz", "gigahertz"),
        "B": ("byte", "bytes"), "kB": ("kilobyte", "kilobytes"), "KB": ("kilobyte", "kilobytes"),
        "MB": ("megabyte", "megabytes"), "GB": ("gigabyte", "gigabytes"),
        "TB": ("terabyte", "terabytes"), "W": ("watt", "watts"), "kW": ("kilowatt", "kilowatts"),
        "kWh": ("kilowatt hour", "kilowatt hours"), "V": ("volt", "volts"),
        "mA": ("milliampere", "milliamperes"), "kcal": ("kilocalorie", "kilocalories"),
        "USD": ("US dollar", "US dollars"), "EUR": ("euro", "euros"), "GBP": ("pound", "pounds"),
    ]
    /// Letters that are a unit only directly after a number, as in "5s". In "chapter 5 B" the
    /// letter is not a unit.
    private static let joinedOnly: Set<String> = ["B", "s", "h", "V", "W", "L", "l", "g"]

    /// "5" and "km".
    static func spoken(number: Substring, unit: Substring) -> String? {
        guard !joinedOnly.contains(String(unit)) else { return nil }
        return spoken(number, String(unit))
    }

    /// "5km", "20°C", "12.5%".
    static func spoken(joined word: Substring) -> String? {
        guard let end = word.lastIndex(where: \.isASCIIDigit) else { return nil }
        let unit = word.index(after: end)
        guard unit < word.endIndex else { return nil }
        return spoken(word[..<unit], String(word[unit...]))
    }

    private static func spoken(_ number: Substring, _ symbol: String) -> String? {
        guard let unit = units[symbol] else { return nil }
        if let value = NumberWords.Number(number), let words = NumberWords.decimal(number) {
            return words + " " + (value.isOne ? unit.one : unit.many)
        }
        return SpokenNumber.range(number).map { $0 + " " + unit.many }
    }
}

/// Numbers without a currency or unit.
enum SpokenNumber {
    /// Understands "12", "1,234.5", "1984", "21st", "5-10", "3/8", "1.2.3", "#5", "5x",
    /// "~20", "B2".
    static func spoken(_ word: Substring) -> String? {
        if word.first == "#", let number = NumberWords.decimal(word.dropFirst()) {
            return "number " + number
        }
        if word.first == "~", let number = spoken(word.dropFirst()) { return "about " + number }
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

    /// "3/8" is said "three over eight"; "10/10" "ten out of ten".
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
