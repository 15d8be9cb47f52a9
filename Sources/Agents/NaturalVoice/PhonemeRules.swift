// From flite's text analysis to the phonemes that the natural voice was trained on: those that
// espeak-ng writes for American English, in the International Phonetic Alphabet (IPA). A value
// without state; WordPhonemes has the sounds of one word.
//
// The text is cut into clauses at its marks. The model speaks a clause at a time, and the marks tell
// it the intonation.

/// Makes clauses of phonemes.
enum PhonemeRules {
    /// Marks that the model knows.
    private static let marks: Set<Character> = [",", ".", "?", "!", ";", ":"]
    /// Marks at which a text is cut.
    private static let cuts: Set<Character> = [",", ".", "?", "!", ";"]

    /// The clauses of a text, each with its mark.
    /// - Parameter maxSymbols: Unicode scalars of a clause, at most; at least 2. A longer clause is
    ///   cut between two words, and a longer word anywhere.
    static func clauses(of words: [AnalysedWord], maxSymbols: Int) -> [String] {
        var clauses: [String] = []
        var clause = ""
        func finish() {
            clauses += pieces(of: clause, maxSymbols: maxSymbols)
            clause = ""
        }
        for (index, word) in words.enumerated() {
            let next = index + 1 < words.count ? words[index + 1] : nil
            let mark = Self.mark(after: word, isLast: next == nil)
            let isEnding = WordPhonemes.isEnding(word.name)
            let sounds =
                isEnding
                ? WordPhonemes.ending(word.name, after: clause.last)
                : WordPhonemes.sounds(of: word, before: mark == nil ? next : nil)
            let length = clause.unicodeScalars.count + sounds.unicodeScalars.count + 2
            if length > maxSymbols, !clause.isEmpty {
                clause += ","
                finish()
            }
            // An ending such as "'s" belongs to the word before it.
            if !clause.isEmpty, !isEnding { clause += " " }
            clause += sounds
            guard let mark else { continue }
            clause.append(mark)
            if cuts.contains(mark) { finish() }
        }
        finish()
        return clauses
    }

    /// The mark after a word, if there is one.
    private static func mark(after word: AnalysedWord, isLast: Bool) -> Character? {
        if let mark = word.punctuation.first(where: { marks.contains($0) }) { return mark }
        if isLast { return "." }
        // A bracket or a quotation mark, or a pause that flite makes by itself.
        return !word.punctuation.isEmpty || word.endsPhrase ? "," : nil
    }

    /// A clause in pieces of bounded length. One without a sound is left out.
    private static func pieces(of clause: String, maxSymbols: Int) -> [String] {
        var rest = clause.unicodeScalars[...]
        var pieces: [String] = []
        while !rest.isEmpty {
            let piece = rest.prefix(maxSymbols)
            rest = rest.dropFirst(piece.count)
            if piece.contains(where: { $0 != " " && !marks.contains(Character($0)) }) {
                pieces.append(String(piece))
            }
        }
        return pieces
    }
}
