// Abbreviations whose meaning depends on the words beside them: "St." is a street after a name, and a
// saint before one. SpokenWords has those that always mean the same.

/// Abbreviations in words.
enum SpokenAbbreviations {
    /// An abbreviation and what is around it.
    struct Place {
        /// Without its dot.
        let word: Substring
        /// Whether a dot follows.
        let hasDot: Bool
        /// Whether another mark follows: the next word belongs to something else.
        let isClosed: Bool
        /// The words before, the nearest one last; at most three.
        let before: ArraySlice<Substring>
        let next: Substring?

        private var name: Substring? { before.last }
        /// Whether a name or a number stands before: "Fifth", "5th", "Main".
        var followsName: Bool {
            name?.first.map { $0.isUppercase || $0.isASCIIDigit } == true
        }
        /// Whether a name begins after: "Louis".
        var precedesName: Bool { !isClosed && next?.first?.isUppercase == true }
        /// Whether a number, or the letter of a room, begins after: "4B", "#7".
        var precedesNumber: Bool {
            !isClosed && next?.drop { $0 == "#" }.first?.isASCIIDigit == true
        }
        /// Whether a house number stands before: "12 Main".
        var followsHouseNumber: Bool { before.contains { $0.first?.isASCIIDigit == true } }
    }

    /// Bytes of the longest abbreviation: "Thurs.-Sat".
    private static let maxBytes = 12

    /// Words after a street's name.
    private static let streets = [
        "Ave": "Avenue", "Av": "Avenue", "Blvd": "Boulevard", "Rd": "Road", "Ln": "Lane",
        "Hwy": "Highway", "Pkwy": "Parkway", "Ct": "Court", "Pl": "Place", "Sq": "Square",
        "Ter": "Terrace", "Cir": "Circle", "Fwy": "Freeway", "Expy": "Expressway", "St": "Street",
        "Dr": "Drive",
    ]
    /// Words before a name.
    private static let titles = [
        "Mr": "Mr", "Mrs": "Mrs", "Ms": "Miz", "Dr": "Doctor", "Prof": "Professor",
        "St": "Saint", "Mt": "Mount", "Ft": "Fort", "Gen": "General", "Gov": "Governor",
        "Sen": "Senator", "Rep": "Representative", "Capt": "Captain", "Lt": "Lieutenant",
        "Col": "Colonel", "Sgt": "Sergeant", "Rev": "Reverend", "Hon": "Honorable",
        "Pres": "President",
    ]
    /// Words before a number.
    private static let numbered = [
        "no": "number", "nos": "numbers", "apt": "apartment", "ste": "suite", "rm": "room",
        "bldg": "building", "fl": "floor", "ext": "extension", "p": "page", "pp": "pages",
        "vol": "volume", "ch": "chapter", "fig": "figure", "sec": "section", "est": "established",
    ]
    /// Words after a name.
    private static let suffixes = [
        "Jr": "Junior", "Sr": "Senior", "Inc": "Incorporated", "Corp": "Corporation",
        "Co": "Company", "Ltd": "Limited", "Bros": "Brothers",
    ]
    /// Words with a dot.
    private static let dotted = [
        "dept": "department", "univ": "university", "govt": "government", "assn": "association",
        "incl": "including", "misc": "miscellaneous", "tel": "telephone", "avg": "average",
        "Jan": "January", "Feb": "February", "Apr": "April", "Aug": "August",
        "Sept": "September", "Oct": "October", "Nov": "November", "Dec": "December",
    ]
    /// Days of the week.
    private static let days = [
        "Mon": "Monday", "Tue": "Tuesday", "Tues": "Tuesday", "Wed": "Wednesday",
        "Thu": "Thursday", "Thur": "Thursday", "Thurs": "Thursday", "Fri": "Friday",
        "Sat": "Saturday", "Sun": "Sunday",
    ]
    /// Words before a day. "Sat" and "Sun" are other words, too.
    private static let beforeDays: Set<Substring> = ["on", "and", "or", "to", "through", "every"]
    /// Abbreviations that are no other word: they need no dot.
    private static let certain: Set<Substring> = [
        "Mr", "Mrs", "Ms", "Dr", "St", "Mt", "Ave", "Blvd", "Rd", "Hwy", "Pkwy", "Expy", "Jr",
        "Sr", "Inc", "Ltd", "Apt", "apt", "Ste", "Bldg", "bldg", "Ext", "ext", "pp",
    ]
    private static let directions = [
        "N": "North", "E": "East", "S": "South", "W": "West", "NE": "Northeast",
        "NW": "Northwest", "SE": "Southeast", "SW": "Southwest",
    ]

    /// The abbreviation in words, and whether it stands before what it belongs to: its dot then ends
    /// no sentence. Nil where it is none.
    static func spoken(_ place: Place) -> (words: String, isPrefix: Bool)? {
        guard place.word.utf8.count <= maxBytes else { return nil }
        let word = String(place.word)
        if let direction = directions[word], place.precedesName || place.precedesNumber,
            let number = place.before.last,
            number.allSatisfy(\.isASCIIDigit)
        {
            return (direction, true)
        }
        if let number = numbered[word.lowercased()], place.precedesNumber,
            place.hasDot || certain.contains(place.word)
        {
            return (word.first?.isUppercase == true ? number.capitalised : number, true)
        }
        if let days = daysSpoken(place) { return (days, false) }
        let isCertain = certain.contains(place.word)
        let isStreet = place.followsName && place.followsHouseNumber && streets[word] != nil
        guard place.hasDot || isCertain || isStreet else { return nil }
        let isTitle = place.precedesName || (place.hasDot && streets[word] == nil && isCertain)
        if let title = titles[word], isTitle, !isStreet { return (title, true) }
        // "St." and "Dr." need a name.
        if place.followsName || (isCertain && titles[word] == nil),
            let name = streets[word] ?? suffixes[word]
        {
            return (name, false)
        }
        if place.hasDot, let full = dotted[word] ?? dotted[word.lowercased()].map(\.capitalised) {
            return (full, false)
        }
        return nil
    }

    /// "Mon." → "Monday", "Mon.-Fri" → "Monday to Friday".
    private static func daysSpoken(_ place: Place) -> String? {
        let ends = place.word.split(separator: "-", omittingEmptySubsequences: false).map {
            days[String($0.filter { $0 != "." })]
        }
        if ends.count == 2, let first = ends[0], let last = ends[1] { return first + " to " + last }
        guard ends.count == 1, place.hasDot, let day = ends[0] else { return nil }
        let isWord = place.word == "Sat" || place.word == "Sun"
        let isNear = place.precedesNumber || place.before.last.map(beforeDays.contains) == true
        return isWord && !isNear ? nil : day
    }
}

extension String {
    /// With a capital at the start.
    fileprivate var capitalised: String { prefix(1).uppercased() + dropFirst() }
}
