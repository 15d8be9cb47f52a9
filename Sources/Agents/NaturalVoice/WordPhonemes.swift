// The phonemes of one word: flite's names of sounds (those of CMU's dictionary) as IPA, and what
// American English makes of unstressed syllables. PhonemeRules joins words to clauses.
//
// A stress mark stands directly before the vowel: that is how the model's training data had it.

/// The sounds of words.
enum WordPhonemes {
    private static let consonants: [String: String] = [
        "b": "b", "d": "d", "f": "f", "g": "ɡ", "k": "k", "l": "l", "m": "m", "n": "n", "p": "p",
        "r": "ɹ", "s": "s", "t": "t", "v": "v", "w": "w", "y": "j", "z": "z", "hh": "h",
        "ng": "ŋ", "dh": "ð", "th": "θ", "sh": "ʃ", "zh": "ʒ", "ch": "tʃ", "jh": "dʒ",
    ]
    private static let vowels: [String: String] = [
        "aa": "ɑː", "ae": "æ", "ah": "ʌ", "ao": "ɔː", "aw": "aʊ", "ax": "ə", "ay": "aɪ",
        "eh": "ɛ", "er": "ɜː", "ey": "eɪ", "ih": "ɪ", "iy": "iː", "ow": "oʊ", "oy": "ɔɪ",
        "uh": "ʊ", "uw": "uː",
    ]
    /// Words of one syllable that are not stressed in a sentence.
    private static let unstressed = Set(
        """
        a an the and or but than if as at by for from in of on to with am are be been is it its was \
        were i he him his her me my our she their them there they this that thats theyre us we \
        were you your youre ill im can could did do does had has have may might must shall should \
        will would
        """.split(separator: " ").map(String.init))
    /// Words whose sounds follow no rule.
    private static let fixed = ["a": "ɐ", "on": "ɔn", "into": "ˌɪntʊ", "was": "wʌz"]
    /// Ends of words whose last syllable is the main one.
    private static let lateEnds = [
        "eer", "eers", "ese", "oon", "oons", "ette", "ee", "ees",
    ]
    /// Ends of verbs whose main syllable is an earlier one: "educated".
    private static let earlyEnds = ["ate", "ates", "ated", "ating"]
    private static let endings: Set = ["'s", "'d", "'ll", "'ve", "'re", "'m"]

    // MARK: Words

    /// The sounds of a word.
    /// - Parameter next: the word that follows without a pause, if there is one.
    static func sounds(of word: AnalysedWord, before next: AnalysedWord?) -> String {
        let meetsVowel = next?.syllables.first?.phones.first.map { vowels[$0] != nil } ?? false
        if word.name == "the" { return meetsVowel ? "ði" : "ðə" }
        if let sounds = fixed[word.name] { return sounds }
        let stress = Stress(of: word)
        let phones = word.syllables.enumerated().flatMap { index, syllable in
            syllable.phones.map { Phone(name: $0, syllable: index) }
        }
        var result = ""
        for index in phones.indices {
            let place = Place(
                word: word, stress: stress, phones: phones, index: index, meetsVowel: meetsVowel)
            if let consonant = consonants[phones[index].name] {
                result += place.isFlapped ? "ɾ" : consonant
            } else if let vowel = vowels[phones[index].name] {
                result += stress.mark(of: phones[index].syllable) + (place.reducedVowel ?? vowel)
                if place.linksR { result += "ɹ" }
            }
        }
        return result
    }

    /// Where a word is stressed.
    private struct Stress {
        private var stressed: Set<Int>
        /// The syllable with the main stress, or nil where no syllable has its mark.
        private var main: Int?

        init(of word: AnalysedWord) {
            let last = word.syllables.count - 1
            var order = word.syllables.indices.filter { word.syllables[$0].isStressed }
            if last > 0 || !unstressed.contains(word.name) {
                main = Self.mainSyllable(of: word.name, among: order, last: last)
            }
            // flite stresses the last sound of "twenty" where its dictionary lacks the word.
            if order.count > 1, order.last == last,
                word.name.hasSuffix("y") || word.name.hasSuffix("i"),
                word.syllables[last].phones.last == "iy"
            {
                order.removeLast()
            }
            stressed = Set(order)
        }

        /// flite marks several syllables alike. The last of them that does not end the word is the
        /// main one.
        private static func mainSyllable(
            of name: String, among order: [Int], last: Int
        ) -> Int? {
            let inner = order.filter { $0 != last }
            guard let final = order.last, let latest = inner.last else { return order.last }
            let isLate = lateEnds.contains { name.hasSuffix($0) }
            let main = final == last && !isLate ? latest : final
            guard earlyEnds.contains(where: { name.hasSuffix($0) }) else { return main }
            return main == latest ? inner.first : latest
        }

        func isStressed(_ syllable: Int) -> Bool { stressed.contains(syllable) }

        func mark(of syllable: Int) -> String {
            guard let main, stressed.contains(syllable) else { return "" }
            return syllable == main ? "ˈ" : "ˌ"
        }
    }

    /// A sound and the syllable that it is in.
    private struct Phone {
        let name: String
        let syllable: Int
    }

    /// A sound among the others of its word.
    private struct Place {
        let word: AnalysedWord
        let stress: Stress
        let phones: [Phone]
        let index: Int
        let meetsVowel: Bool

        private var phone: Phone { phones[index] }
        private var before: Phone? { index > 0 ? phones[index - 1] : nil }
        private var after: Phone? { index + 1 < phones.count ? phones[index + 1] : nil }
        private var isBeforeVowel: Bool { after.map { vowels[$0.name] != nil } ?? false }

        /// The t of "water", which Americans speak like a short d. "Beethoven" has a t that its
        /// spelling, th, keeps.
        var isFlapped: Bool {
            guard phone.name == "t", word.name != "beethoven", let before, let after, isBeforeVowel
            else { return false }
            return (vowels[before.name] != nil || before.name == "r")
                && after.syllable != 0 && !stress.isStressed(after.syllable)
        }

        /// Whether an r is heard between this vowel and the next, as in "ever after".
        var linksR: Bool {
            phone.name == "er" && (isBeforeVowel || (after == nil && meetsVowel))
        }

        /// The sound of the vowel in an unstressed syllable. Nil means that the vowel stays.
        var reducedVowel: String? {
            guard !stress.isStressed(phone.syllable) else { return nil }
            switch phone.name {
            case "er": return "ɚ"
            case "iy":
                return word.syllables.count > 1 && (after == nil || isBeforeVowel) ? "i" : nil
            case "ih":
                // The open syllables of "believe" and "animal", but not the first of "into".
                let isOpen = after.map { $0.syllable != phone.syllable } ?? false
                let isWeak = phone.syllable > 0 || word.name.prefix(2).contains("e")
                return isOpen && isWeak ? "ᵻ" : nil
            case "ax":
                if index == 0, word.name.hasPrefix("a"), after?.syllable != 0 { return "ɐ" }
                return endsInWeakI ? "ᵻ" : nil
            default: return nil
            }
        }

        /// The last vowel of "boxes" and "wanted".
        private var endsInWeakI: Bool {
            guard index == phones.count - 2 else { return false }
            if after?.name == "d" { return word.name.hasSuffix("ed") }
            let hissing: Set = ["s", "z", "sh", "zh", "ch", "jh"]
            return after?.name == "z" && word.name.hasSuffix("es")
                && hissing.contains(before?.name ?? "")
        }
    }

    // MARK: Endings

    /// Whether a word is an ending that flite has cut off, such as "'s".
    static func isEnding(_ name: String) -> Bool { endings.contains(name) }

    /// The sounds of an ending.
    /// - Parameter last: the sound before it.
    static func ending(_ name: String, after last: Character?) -> String {
        let last = last ?? " "
        let isVowel = "iːeɪoʊu".contains(last)
        return switch name {
        case "'s": "szʃʒ".contains(last) ? "ᵻz" : "ptkfθ".contains(last) ? "s" : "z"
        case "'d": "td".contains(last) ? "ᵻd" : "d"
        case "'ll": isVowel ? "l" : "əl"
        case "'ve": isVowel ? "v" : "əv"
        case "'re": "ɹ"
        default: "m"
        }
    }
}
