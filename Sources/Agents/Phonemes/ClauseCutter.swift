// Cuts a text into sentences, and the phonemes of a sentence into clauses, which the voice speaks one
// by one. A cut costs a pause of its own, so a sentence is cut only where the voice would need too much
// memory.

/// Cuts texts and phonemes.
enum ClauseCutter {
    private static let soundless = Set(" ,;:.!?—()ˈˌ".unicodeScalars)
    private static let innerMarks = Set(",;:—".unicodeScalars)

    /// The sentences of a text of ASCII. A dot before a small letter, and one after an initial
    /// ("J. K. Rowling"), end none.
    static func sentences(of text: String) -> [Substring] {
        let words = text.split(separator: " ")
        var sentences: [Substring] = []
        var start = text.startIndex
        for (word, following) in zip(words, words.dropFirst()) where ends(word, before: following) {
            sentences.append(text[start..<word.endIndex])
            start = following.startIndex
        }
        if let last = words.last { sentences.append(text[start..<last.endIndex]) }
        return sentences
    }

    /// Whether a word ends a sentence.
    private static func ends(_ word: Substring, before following: Substring) -> Bool {
        let bytes = word.utf8
        let closing = bytes.reversed().prefix { $0 == 0x27 || $0 == 0x29 }.count
        let core = bytes.dropLast(closing)
        guard let last = core.last, ".!?".utf8.contains(last),
            let next = following.utf8.first, !(0x61...0x7A).contains(next)
        else { return false }
        let isInitial = core.count == 2 && core.first.map { (0x41...0x5A).contains($0) } == true
        return last != UInt8(ascii: ".") || !isInitial
    }

    /// The clauses of a sentence, each with its mark. A clause without a sound is left out.
    /// - Parameters:
    ///   - sounds: the phonemes and marks of the sentence.
    ///   - maxSymbols: Unicode scalars of a clause, at most; at least 2.
    static func clauses(of sounds: String, maxSymbols: Int) -> [String] {
        var clauses: [String] = []
        var rest = Array(sounds.unicodeScalars)[...]
        while true {
            rest = rest.drop { $0 == " " }
            guard !rest.isEmpty else { return clauses }
            let cut = end(of: rest, maxSymbols: maxSymbols)
            var clause = Array(rest[..<cut])
            rest = rest[cut...]
            while clause.last == " " { clause.removeLast() }
            if hasSound(clause) { clauses.append(Stress.text(clause)) }
        }
    }

    /// Where the first clause ends.
    private static func end(of rest: ArraySlice<Unicode.Scalar>, maxSymbols: Int) -> Int {
        let limit = rest.startIndex + min(maxSymbols, rest.count)
        // A mark counts where a space follows it: the whole of "..." stays together.
        func isCut(_ index: Int) -> Bool {
            innerMarks.contains(rest[index]) && index + 1 < rest.endIndex && rest[index + 1] == " "
        }
        let window = rest.startIndex..<limit
        if limit == rest.endIndex { return limit }
        if let mark = window.last(where: isCut) { return mark + 1 }
        return window.last { rest[$0] == " " }.map { $0 + 1 } ?? limit
    }

    private static func hasSound(_ clause: [Unicode.Scalar]) -> Bool {
        clause.contains { !soundless.contains($0) }
    }
}
