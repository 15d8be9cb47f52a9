// The phonemes of one word: a rule of its own, the lexicon, or a stem and an ending. SentenceReader
// decides which tokens are one word.
//
// The rules are those that the voice's training data was made with (misaki 0.9.4).

/// What follows a word. Words are read from the last to the first, because "the", "to" and others
/// depend on it.
struct FollowingSound {
    /// Whether the next sound is a vowel; nil before a mark, and at the end.
    var isVowel: Bool?
    /// Whether the next word is "to".
    var isTo = false
}

/// Reads words that need no guess.
struct WordReader: Sendable {
    private static let signs = ["%": "percent", "&": "and", "+": "plus", "@": "at", "=": "equals"]
    /// Letters of the longest name in capitals that is spelled rather than read.
    private static let maxSpelledLetters = 7

    let lexicon: GoldLexicon

    /// The phonemes of a word; nil where neither a rule nor the lexicon has it.
    func sounds(of word: String, tag: PennTag, before next: FollowingSound) -> String? {
        let emphasis: Stress.Emphasis =
            word.isLowercased ? .none : word.isUppercased ? .strong : .some
        return Reading(lexicon: lexicon, tag: tag, next: next, emphasis: emphasis).sounds(of: word)
    }

    /// The phonemes of a word as the names of its letters; empty where it has none.
    func letters(of word: String) -> String {
        Reading(lexicon: lexicon, tag: "NN", next: FollowingSound(), emphasis: .none)
            .letters(of: word) ?? ""
    }

    /// The reading of one word at its place.
    private struct Reading {
        let lexicon: GoldLexicon
        let tag: PennTag
        let next: FollowingSound
        let emphasis: Stress.Emphasis

        func sounds(of word: String) -> String? {
            if let special = special(word) { return special }
            let word = isFolded(word) ? word.lowercased() : word
            if isKnown(word) { return lookedUp(word, emphasis) }
            if word.hasSuffix("s'"), isKnown(word.dropLast(2) + "'s") {
                return lookedUp(word.dropLast(2) + "'s", emphasis)
            }
            if word.hasSuffix("'"), isKnown(String(word.dropLast())) {
                return lookedUp(String(word.dropLast()), emphasis)
            }
            return StemRule.allCases.lazy.compactMap { stemmed(word, $0) }.first
        }

        // MARK: Rules for single words

        private func special(_ word: String) -> String? {
            if let name = WordReader.signs[word] { return sounds(of: name) }
            if isDotted(word) { return letters(of: word) }
            switch word {
            // Before a mark, the capital is the letter: "P, A, R".
            case "A" where next.isVowel == nil: return "ˈA"
            case "a", "A": return tag == "DT" ? "ɐ" : "ˈA"
            case "am" where next.isVowel != nil && !tag.isNoun: return "ɐm"
            case "am", "Am", "AM": return tag.isNoun ? letters(of: word) : plain("am")
            case "AN" where tag.isNoun: return letters(of: word)
            case "an", "An", "AN": return "ɐn"
            case "I" where tag == "PRP": return "ˌI"
            case "by", "By", "BY": return tag.isAdverb ? "bˈI" : nil
            case "TO" where tag != "TO" && tag != "IN": return nil
            case "to", "To", "TO": return next.isVowel.map { $0 ? "tʊ" : "tə" } ?? plain("to")
            case "IN" where tag == "NNP": return nil
            case "in", "In", "IN": return next.isVowel == nil || tag != "IN" ? "ˈɪn" : "ɪn"
            case "THE" where tag != "DT": return nil
            case "the", "The", "THE": return next.isVowel == true ? "ði" : "ðə"
            case "'re", "'ve": return word == "'re" ? "əɹ" : "əv"
            case "used", "Used", "USED":
                return lookedUp(
                    "used", .none, as: (tag == "VBD" || tag == "JJ") && next.isTo ? "VBD" : "NN")
            default: return tag == "IN" && isVersus(word) ? lookedUp("versus", .none) : nil
            }
        }

        /// "A.M.", "e.g.": letters with dots between them.
        private func isDotted(_ word: String) -> Bool {
            let parts = word.split(separator: ".", omittingEmptySubsequences: false)
            return parts.filter { !$0.isEmpty }.count > 1
                && parts.allSatisfy { $0.utf8.count < 3 } && parts.joined().isAllLetters
        }

        private func isVersus(_ word: String) -> Bool {
            let small = word.lowercased()
            return small == "vs" || small == "vs."
        }

        private func plain(_ word: String) -> String? { lookedUp(word, .none) }

        // MARK: The lexicon

        /// Whether a word in capitals, or with one, is read like the same word in small letters.
        private func isFolded(_ word: String) -> Bool {
            guard word.utf8.count > 1, !word.isLowercased,
                word.filter({ $0 != "'" }).isAllLetters,
                tag != "NNP" || word.utf8.count > WordReader.maxSpelledLetters,
                word.isUppercased || String(word.dropFirst()).isLowercased,
                !lexicon.contains(word)
            else { return false }
            let small = word.lowercased()
            return lexicon.contains(small)
                || StemRule.allCases.contains { stemmed(small, $0) != nil }
        }

        /// Whether `lookedUp` has a word. Words in capitals and single letters always are: their
        /// letters have names.
        private func isKnown(_ word: String) -> Bool {
            if lexicon.contains(word) || WordReader.signs[word] != nil { return true }
            guard word.isAllLetters else { return false }
            return String(word.dropFirst()).isUppercased
        }

        private func stemmed(_ word: String, _ rule: StemRule) -> String? {
            guard let stem = rule.stem(of: word, isKnown: isKnown) else { return nil }
            let isWeak = rule == .ing && emphasis == .none
            return lookedUp(stem, isWeak ? .some : emphasis).map(rule.applied)
        }

        /// The phonemes of a known word.
        /// - Parameter tag: the part of speech, where it is another than the word's own.
        private func lookedUp(
            _ word: String, _ emphasis: Stress.Emphasis, as tag: PennTag? = nil
        ) -> String? {
            let isCapitals = word.isUppercased && !lexicon.contains(word)
            let word = isCapitals ? word.lowercased() : word
            let isName = isCapitals && self.tag == "NNP"
            let sounds = lexicon[word].flatMap { reading(of: $0, as: tag ?? self.tag) }
            if sounds == nil || (isName && !Stress.hasMain(sounds ?? "")),
                let letters = letters(of: word)
            {
                return letters
            }
            return sounds.map { Stress.emphasised($0, emphasis) }
        }

        /// The variant of an entry for a part of speech; nil where the letters are named.
        private func reading(of entry: GoldLexicon.Entry, as tag: PennTag) -> String? {
            switch entry {
            case .one(let sounds): return sounds
            case .variants(let variants):
                if next.isVowel == nil, let sounds = variants[.beforePause] { return sounds }
                for variant in [Self.exact[tag.name], Self.general(tag), .standard] {
                    if let variant, let sounds = variants[variant] { return sounds }
                }
                return nil
            }
        }

        private static let exact: [String: GoldLexicon.Variant] = [
            "VBD": .past, "VBN": .participle, "VBP": .present, "DT": .determiner,
        ]

        private static func general(_ tag: PennTag) -> GoldLexicon.Variant? {
            if tag.isVerb { return .verb }
            if tag.isNoun { return .noun }
            return tag.isAdverb ? .adverb : tag.isAdjective ? .adjective : nil
        }

        /// The names of a word's letters; nil where it has none.
        func letters(of word: String) -> String? {
            var names = ""
            for letter in word.uppercased().utf8 where letter.isASCIILetter {
                guard case .one(let name) = lexicon[String(UnicodeScalar(letter))] else {
                    return nil
                }
                names += name
            }
            return names.isEmpty ? nil : Stress.lettersNamed(names)
        }
    }
}
