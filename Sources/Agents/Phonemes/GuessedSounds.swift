// Words that the lexicon lacks: flite's dictionary and letter-to-sound rules, and its phones as the
// voice's phonemes.

import Codec

/// Guesses how a word sounds.
package enum GuessedSounds {
    /// Letters of a guess, at most. 40: flite's rules take longer words at more than their length's
    /// cost, and no name is longer.
    private static let maxLetters = 40
    private static let consonants: [String: String] = [
        "b": "b", "ch": "ʧ", "d": "d", "dh": "ð", "f": "f", "g": "ɡ", "hh": "h", "jh": "ʤ",
        "k": "k", "l": "l", "m": "m", "n": "n", "ng": "ŋ", "p": "p", "r": "ɹ", "s": "s",
        "sh": "ʃ", "t": "t", "th": "θ", "v": "v", "w": "w", "y": "j", "z": "z", "zh": "ʒ",
    ]
    private static let vowels: [String: String] = [
        "aa": "ɑ", "ae": "æ", "ah": "ʌ", "ao": "ɔ", "aw": "W", "ax": "ə", "ay": "I", "eh": "ɛ",
        "er": "əɹ", "ey": "A", "ih": "ɪ", "iy": "i", "ow": "O", "oy": "Y", "uh": "ʊ", "uw": "u",
    ]

    /// The phonemes that flite has for a word; empty where it would spell the word ("html"), and
    /// where it is not installed.
    @Sendable package static func byFlite(_ word: String) -> String {
        var rest = word[...]
        var read: [String] = []
        while !rest.isEmpty {
            let piece = String(rest.prefix(maxLetters))
            rest = rest.dropFirst(maxLetters)
            let words = try? FliteVoicePool.withVoice(of: FliteVoiceTable.standard.speaker) {
                $0.analyse(piece)
            }
            guard let words, !isSpelled(words) else { return "" }
            read += words.map(sounds)
        }
        return read.filter { !$0.isEmpty }.joined(separator: " ")
    }

    /// Whether the words are letters. flite writes the letter A as "_a".
    private static func isSpelled(_ words: [AnalysedWord]) -> Bool {
        words.count > 1 && words.allSatisfy { $0.name.utf8.filter(\.isASCIILetter).count == 1 }
    }

    /// The phonemes of a word as flite has analysed it. flite marks several syllables alike: the
    /// last of them that does not end the word has the main stress.
    static func sounds(of word: AnalysedWord) -> String {
        let syllables = word.syllables
        var stressed = syllables.indices.filter { syllables[$0].isStressed }
        if stressed.isEmpty { stressed = [0] }
        let isLate = stressed.count > 1 && stressed.last == syllables.count - 1
        let main = stressed.dropLast(isLate ? 1 : 0).last
        var result = ""
        for (index, syllable) in syllables.enumerated() {
            for phone in syllable.phones {
                guard let vowel = vowels[phone] else {
                    result += consonants[phone] ?? ""
                    continue
                }
                guard stressed.contains(index) else {
                    result += vowel
                    continue
                }
                result += index == main ? "ˈ" : "ˌ"
                result += phone == "er" ? "ɜɹ" : vowel
            }
        }
        return result
    }
}
