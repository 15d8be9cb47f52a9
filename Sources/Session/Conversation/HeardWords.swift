// Finds the words of a reply that were heard, where a carrier has spoken them and reports them in its
// own spelling: with other spaces, other punctuation and other capitals. The carrier was given the
// reply without Markdown, so the words of the reply are compared as they are said (SpokenMarkdown).
//
// Invariant: the work is proportional to the reply's length.

import Codec

/// Compares the words of texts.
enum HeardWords {
    /// Words at the end of a report that must be found where the whole report is not in the text.
    /// The report may begin in an earlier message. 3: fewer occur in many places.
    private static let minWords = 3
    /// Bytes at the end of a report that count. 256: they are found in one place of a reply, and a
    /// longer search would only cost time.
    private static let maxBytes = 256

    /// The text up to the end of the words that were heard, or nil where it does not have them.
    /// Where it has them several times, the first place counts: no more is reported as heard than
    /// is certain.
    static func prefix(of text: String, through heard: String) -> String? {
        let wanted = lastWords(of: heard)
        guard !wanted.isEmpty else { return heard.utf8.count > maxBytes ? nil : "" }
        guard let end = end(of: wanted, in: SpokenMarkdown.words(of: text)) else { return nil }
        return String(decoding: text.utf8.prefix(end), as: UTF8.self)
    }

    /// The last words of a report. One that is cut at the limit does not count.
    private static func lastWords(of heard: String) -> ArraySlice<String> {
        guard heard.utf8.count > maxBytes else { return words(of: heard)[...] }
        let end = String(decoding: heard.utf8.suffix(maxBytes), as: UTF8.self)
        return words(of: end).dropFirst()
    }

    /// Where the wanted words end in a text. Where the text does not have all, the longest run of
    /// the last ones counts.
    private static func end(
        of wanted: ArraySlice<String>, in all: [SpokenMarkdown.Word]
    ) -> Int? {
        let lengths = commonLengths(of: wanted.reversed(), in: all.reversed().map(\.letters))
        var most = min(minWords, wanted.count)
        var end: Int?
        // The search begins at the end of the text, so that among places with the same number of
        // words the first one in the text counts.
        for (index, length) in lengths.enumerated() where length >= most {
            most = length
            end = all[all.count - 1 - index].end
        }
        return end
    }

    /// For each place of a text, how many words of a pattern stand there, from its first on (the Z
    /// algorithm; Gusfield, "Algorithms on Strings, Trees and Sequences", §1.4).
    private static func commonLengths(of pattern: [String], in text: [String]) -> [Int] {
        let words = pattern.map(Optional.some) + [nil] + text.map(Optional.some)
        var lengths = [Int](repeating: 0, count: words.count)
        // The place that reaches the furthest.
        var (left, right) = (0, 0)
        for index in words.indices.dropFirst() {
            if index < right { lengths[index] = min(right - index, lengths[index - left]) }
            while index + lengths[index] < words.count, words[lengths[index]] != nil,
                words[lengths[index]] == words[index + lengths[index]]
            {
                TextSteps.note()
                lengths[index] += 1
            }
            if index + lengths[index] > right { (left, right) = (index, index + lengths[index]) }
        }
        return Array(lengths.dropFirst(pattern.count + 1))
    }

    private static func words(of text: String) -> [String] {
        text.split(whereSeparator: \.isWhitespace).map { piece in
            piece.lowercased().filter { $0.isLetter || $0.isNumber }
        }.filter { !$0.isEmpty }
    }
}
