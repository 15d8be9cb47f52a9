// Roman numerals in words, after a word that has one: "World War II", "Henry VIII". Elsewhere capitals
// are letters.

/// Roman numerals.
enum SpokenRoman {
    private static let counted: Set<Substring> = [
        "War", "Chapter", "Part", "Act", "Scene", "Section", "Volume", "Book", "Phase", "Article",
        "Mark", "Type", "Level", "Stage", "Class", "Grade", "Bowl", "Apollo", "Episode", "Round",
        "Figure", "Table", "Title", "Appendix", "Fantasy", "Rocky", "Tier", "Category",
    ]
    private static let rulers: Set<Substring> = [
        "Alexander", "Benedict", "Catherine", "Charles", "Christian", "Edward", "Elizabeth",
        "Ferdinand", "Francis", "Frederick", "George", "Gregory", "Gustav", "Henry", "Innocent",
        "Ivan", "James", "John", "Leo", "Louis", "Mary", "Napoleon", "Nicholas", "Paul", "Peter",
        "Philip", "Pius", "Ramses", "Richard", "Wilhelm", "William",
    ]
    private static let values: [Character: Int] = ["I": 1, "V": 5, "X": 10, "L": 50]

    /// "II" after "War" → "two", after "Elizabeth" → "the second"; nil for other words.
    /// - Parameters:
    ///   - before: the words before it, the nearest one last.
    ///   - hasDot: whether a dot follows. One letter with a dot is an initial: "James V. Lee".
    static func spoken(
        _ word: Substring, after before: some BidirectionalCollection<Substring>, hasDot: Bool
    ) -> String? {
        guard let name = before.last, let value = value(of: word) else { return nil }
        // "I" is a numeral in "World War I" alone: elsewhere it is a person.
        let isWorldWar = name == "War" && before.dropLast().last == "World"
        guard word.count > 1 || (word == "I" ? isWorldWar : !hasDot && word != "L") else {
            return nil
        }
        if counted.contains(name) { return NumberWords.cardinal(value) }
        guard rulers.contains(name) else { return nil }
        return "the " + NumberWords.ordinal(Substring(String(value)))
    }

    /// 1…89; nil where the word is no numeral in the usual form.
    private static func value(of word: Substring) -> Int? {
        let digits = word.compactMap { values[$0] }
        guard !digits.isEmpty, digits.count == word.count, digits.count <= 7 else { return nil }
        var total = 0
        for (index, digit) in digits.enumerated() {
            let isSubtracted = index + 1 < digits.count && digits[index + 1] > digit
            total += isSubtracted ? -digit : digit
        }
        return total > 0 && numeral(total) == word ? total : nil
    }

    private static func numeral(_ value: Int) -> String {
        let parts = [
            (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
        ]
        var rest = value
        var result = ""
        for (part, letters) in parts {
            while rest >= part {
                result += letters
                rest -= part
            }
        }
        return result
    }
}
