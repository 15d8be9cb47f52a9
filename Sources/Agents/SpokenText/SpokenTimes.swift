// Times of day and dates in words, as an English speaker says them. Dates in digits are read as ISO
// 8601 (year, month, day) or in the American order (month, day, year). A first number above 12, or
// dots between the numbers, means day, month, year.

/// Times and dates.
enum SpokenTimes {
    private static let months = [
        "January", "February", "March", "April", "May", "June", "July", "August", "September",
        "October", "November", "December",
    ]

    /// The month's full name; nil for another word. Callers require a number beside it, since
    /// "March" and "May" may be other words.
    static func month(_ word: Substring) -> String? {
        var word = word
        if word.last == "." { word.removeLast() }
        guard word.count >= 3, word.first?.isUppercase == true else { return nil }
        return months.first { month in
            month == word || (word.count == 3 && month.hasPrefix(word))
                || (word == "Sept" && month == "September")
        }
    }

    /// A day of the month as an ordinal: "3", "3rd", "03"; nil unless it is 1…31.
    static func day(_ word: Substring) -> String? {
        var digits = word
        if let last = word.last, last.isASCIILetter {
            guard ["st", "nd", "rd", "th"].contains(word.suffix(2)) else { return nil }
            digits = word.dropLast(2)
        }
        guard (1...2).contains(digits.count), digits.allSatisfy(\.isASCIIDigit),
            let day = Int(digits), (1...31).contains(day)
        else { return nil }
        return NumberWords.ordinal(Substring(String(day)))
    }

    /// "5 p.m.", "10:30 am".
    static func clock(_ word: Substring, halfOfDay: Substring) -> String? {
        guard let half = Self.halfOfDay(halfOfDay) else { return nil }
        if let time = time(word) { return time.hours + time.minutes(evenHour: "") + half }
        guard (1...2).contains(word.count), word.allSatisfy(\.isASCIIDigit), let hour = Int(word),
            (1...12).contains(hour)
        else { return nil }
        return NumberWords.cardinal(hour) + half
    }

    /// "10:30", "17:00", "5pm", "10:30am", "9:00-17:00", "2026-11-22", "11/22/2026".
    static func spoken(_ word: Substring) -> String? {
        if let time = time(word) {
            return time.hours + time.minutes(evenHour: time.isAfternoon ? " hundred" : " o'clock")
        }
        for half in ["a.m", "p.m", "am", "pm", "AM", "PM"] where word.hasSuffix(half) {
            let time = word.dropLast(half.count)
            if let clock = clock(time, halfOfDay: Substring(half)) { return clock }
        }
        let ends = word.split(separator: "-", omittingEmptySubsequences: false)
        if ends.count == 2, let first = spoken(ends[0]), let last = spoken(ends[1]) {
            return first + " to " + last
        }
        return date(word)
    }

    private static func halfOfDay(_ word: Substring) -> String? {
        switch word.lowercased().filter({ $0 != "." }) {
        case "am": " A.M."
        case "pm": " P.M."
        default: nil
        }
    }

    /// Hours and minutes.
    private struct Time {
        let hour: Int
        let minute: Int

        var isAfternoon: Bool { hour > 12 || hour == 0 }
        var hours: String { NumberWords.cardinal(hour) }

        func minutes(evenHour: String) -> String {
            if minute == 0 { return evenHour }
            return (minute < 10 ? " oh " : " ") + NumberWords.cardinal(minute)
        }
    }

    /// "10:30", and "10:30:15", whose seconds are left out.
    private static func time(_ word: Substring) -> Time? {
        let parts = word.split(separator: ":", omittingEmptySubsequences: false)
        guard (2...3).contains(parts.count), (1...2).contains(parts[0].count),
            parts.dropFirst().allSatisfy({ $0.count == 2 }),
            parts.allSatisfy({ $0.allSatisfy(\.isASCIIDigit) }),
            let hour = Int(parts[0]), let minute = Int(parts[1]), hour < 24, minute < 60
        else { return nil }
        return Time(hour: hour, minute: minute)
    }

    private static func date(_ word: Substring) -> String? {
        for separator: Character in ["-", "/", "."] {
            let parts = word.split(separator: separator, omittingEmptySubsequences: false)
            guard parts.count == 3, parts.allSatisfy({ $0.allSatisfy(\.isASCIIDigit) }) else {
                continue
            }
            if parts[0].count == 4 { return date(year: parts[0], parts[1], parts[2]) }
            guard parts[2].count == 4 else { continue }
            // European dates have dots, and the day first.
            let isDayFirst = separator == "." || (Int(parts[0]) ?? 0) > 12
            return isDayFirst
                ? date(year: parts[2], parts[1], parts[0])
                : date(year: parts[2], parts[0], parts[1])
        }
        return nil
    }

    private static func date(
        year: Substring, _ month: Substring, _ day: Substring
    ) -> String? {
        guard (1...2).contains(month.count), let number = Int(month),
            (1...12).contains(number), let day = self.day(day)
        else { return nil }
        return "\(months[number - 1]) \(day), \(NumberWords.year(year))"
    }
}
