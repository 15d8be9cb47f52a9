// The endings -s, -ed and -ing: the lexicon has few such forms, because their sounds follow from the
// stem's. Each rule has two halves: which stem a word may have, and what the ending sounds like.

/// Endings of verbs and nouns.
enum StemRule: CaseIterable {
    case s, ed, ing

    /// Sounds after which an American t between vowels is a tap, as in "waited".
    private static let beforeTap = Set("AIOWYiuæɑəɛɪɹʊʌ".unicodeScalars)
    private static let doubled = Set("bcdgklmnprstvxz".utf8)

    /// The stem of a word in small letters, if it is a known word.
    func stem(of word: String, isKnown: (String) -> Bool) -> String? {
        candidates(of: word).first(where: isKnown)
    }

    /// The words that may be the stem, the likeliest first.
    private func candidates(of word: String) -> [String] {
        let count = word.utf8.count
        func cut(_ letters: Int, _ ending: String = "") -> String {
            word.dropLast(letters) + ending
        }
        switch self {
        case .s:
            guard count > 2, word.hasSuffix("s") else { return [] }
            var found = word.hasSuffix("ss") ? [] : [cut(1)]
            let isLong = count > 4
            if word.hasSuffix("'s") || (isLong && word.hasSuffix("es") && !word.hasSuffix("ies")) {
                found.append(cut(2))
            }
            if isLong, word.hasSuffix("ies") { found.append(cut(3, "y")) }
            return found
        case .ed:
            guard count > 3, word.hasSuffix("d") else { return [] }
            var found = word.hasSuffix("dd") ? [] : [cut(1)]
            if count > 4, word.hasSuffix("ed"), !word.hasSuffix("eed") { found.append(cut(2)) }
            return found
        case .ing:
            guard count > 4, word.hasSuffix("ing") else { return [] }
            var found = count > 5 ? [cut(3)] : []
            found.append(cut(3, "e"))
            if count > 5, Self.isDoubled(Array(word.utf8.dropLast(3).suffix(2))) {
                found.append(cut(4))
            }
            return found
        }
    }

    /// Whether two letters are a consonant that was doubled before the ending, or "ck".
    private static func isDoubled(_ pair: [UInt8]) -> Bool {
        pair == Array("ck".utf8) || (pair[0] == pair[1] && doubled.contains(pair[1]))
    }

    /// The sounds of a stem with the ending.
    func applied(to stem: String) -> String {
        let sounds = Array(stem.unicodeScalars)
        guard let last = sounds.last else { return stem }
        let isTapped = last == "t" && sounds.dropLast().last.map(Self.beforeTap.contains) == true
        let tapped = isTapped ? Stress.text(sounds.dropLast()) + "ɾ" : stem
        switch self {
        case .s:
            if "ptkfθ".unicodeScalars.contains(last) { return stem + "s" }
            return stem + ("szʃʒʧʤ".unicodeScalars.contains(last) ? "ᵻz" : "z")
        case .ed:
            if "pkfθʃsʧ".unicodeScalars.contains(last) { return stem + "t" }
            return last == "t" || last == "d" ? tapped + "ᵻd" : stem + "d"
        case .ing: return tapped + "ɪŋ"
        }
    }
}
