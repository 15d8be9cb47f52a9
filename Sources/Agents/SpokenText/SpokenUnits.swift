// Numbers with a unit of measure, in words: one word, or a number and the word after it.
// SpokenWords decides which words belong together.

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
        "kB": ("kilobyte", "kilobytes"), "KB": ("kilobyte", "kilobytes"),
        "MB": ("megabyte", "megabytes"), "GB": ("gigabyte", "gigabytes"),
        "TB": ("terabyte", "terabytes"), "W": ("watt", "watts"), "kW": ("kilowatt", "kilowatts"),
        "kWh": ("kilowatt hour", "kilowatt hours"), "V": ("volt", "volts"),
        "mA": ("milliampere", "milliamperes"), "kcal": ("kilocalorie", "kilocalories"),
        "tbsp": ("tablespoon", "tablespoons"), "tsp": ("teaspoon", "teaspoons"),
        "gal": ("gallon", "gallons"), "yd": ("yard", "yards"), "yds": ("yard", "yards"),
        "kph": ("kilometer per hour", "kilometers per hour"),
        "fps": ("frame per second", "frames per second"),
        "kbps": ("kilobit per second", "kilobits per second"),
        "Mbps": ("megabit per second", "megabits per second"),
        "Gbps": ("gigabit per second", "gigabits per second"), "PB": ("petabyte", "petabytes"),
        "MW": ("megawatt", "megawatts"), "GW": ("gigawatt", "gigawatts"),
        "MWh": ("megawatt hour", "megawatt hours"),
        "mAh": ("milliampere hour", "milliampere hours"),
        "dB": ("decibel", "decibels"), "rpm": ("revolution per minute", "revolutions per minute"),
        "ha": ("hectare", "hectares"), "µm": ("micrometer", "micrometers"),
        "µg": ("microgram", "micrograms"), "nm": ("nanometer", "nanometers"),
        "ft²": ("square foot", "square feet"), "cm²": ("square centimeter", "square centimeters"),
        "cm³": ("cubic centimeter", "cubic centimeters"),
        "USD": ("US dollar", "US dollars"), "EUR": ("euro", "euros"), "GBP": ("pound", "pounds"),
    ]
    /// Letters that are a unit only directly after a number, as in "5s". In "5 s" the
    /// letter may be a name. "12B" is a seat, a door or a model more often than bytes.
    private static let joinedOnly: Set<String> = ["s", "h", "V", "W", "L", "l", "g"]

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
