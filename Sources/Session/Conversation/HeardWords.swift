// Finds the words of a reply that were heard, where somebody else has spoken them and reports them in
// its own spelling: with other spaces, other punctuation and other capitals.

/// Compares the words of texts.
enum HeardWords {
    /// Words at the end of a report that must be found, where all of it is not in the text: the
    /// report may begin in an earlier message. 3: fewer occur in many places.
    private static let minWords = 3
    /// Bytes at the end of a report that count. 256: they are found in one place of a reply, and a
    /// longer search would only cost time.
    private static let maxBytes = 256

    private struct Word {
        let letters: String
        /// Where it ends in its text, in UTF-8 bytes.
        let end: Int
    }

    /// The text up to the end of the words that were heard; nil: it does not have them. Where it has
    /// them several times, the first counts: no more is claimed to be heard than is certain.
    static func prefix(of text: String, through heard: String) -> String? {
        let wanted = lastWords(of: heard)
        guard !wanted.isEmpty else { return heard.utf8.count > maxBytes ? nil : "" }
        return prefix(words(of: text), of: text, through: wanted)
    }

    /// The last words of a report. One that is cut at the limit does not count.
    private static func lastWords(of heard: String) -> ArraySlice<String> {
        guard heard.utf8.count > maxBytes else { return words(of: heard).map(\.letters)[...] }
        let end = String(decoding: heard.utf8.suffix(maxBytes), as: UTF8.self)
        return words(of: end).map(\.letters).dropFirst()
    }

    private static func prefix(
        _ all: [Word], of text: String, through wanted: ArraySlice<String>
    ) -> String? {
        var wanted = wanted
        let fewest = min(minWords, wanted.count)
        while wanted.count >= fewest {
            if let end = end(of: wanted, in: all) {
                return String(decoding: Array(text.utf8)[..<end], as: UTF8.self)
            }
            wanted.removeFirst()
        }
        return nil
    }

    private static func end(of wanted: ArraySlice<String>, in all: [Word]) -> Int? {
        guard wanted.count <= all.count else { return nil }
        for start in 0...all.count - wanted.count
        where zip(all[start...], wanted).allSatisfy({ $0.letters == $1 }) {
            return all[start + wanted.count - 1].end
        }
        return nil
    }

    private static func words(of text: String) -> [Word] {
        var words: [Word] = []
        var end = 0
        for piece in text.split(omittingEmptySubsequences: false, whereSeparator: \.isWhitespace) {
            end += piece.utf8.count
            let letters = piece.lowercased().filter { $0.isLetter || $0.isNumber }
            if !letters.isEmpty { words.append(Word(letters: letters, end: end)) }
            // The white space after it, which is one character.
            if piece.endIndex < text.endIndex { end += text[piece.endIndex].utf8.count }
        }
        return words
    }
}
