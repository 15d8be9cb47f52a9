// Which words of a growing transcript can be shown: those on which two successive hypotheses agree
// (LocalAgreement-2; Liu, Spanakis and Niehues, Interspeech 2020). PartialTranscript decides when a
// hypothesis is made.
//
// Invariant: `shown` only grows, and no word of it is ever taken back.

import Codec

/// The words of one item that the client has been shown.
struct TranscriptAgreement: Equatable {
    /// The text of the deltas so far.
    private(set) var shown = ""
    /// The hypothesis before, word by word; its last word left out.
    private var previous: [Substring] = []
    private var shownWords = 0

    /// Bytes of the words that were shown. The words of the hypothesis before are parts of its
    /// text, which they keep.
    var heldBytes: Int {
        shown.heapBytes + previous.heapBytes + (previous.first?.base.heapBytes ?? 0)
    }

    /// Takes the next hypothesis and returns the text that it confirms, to be sent as a delta, or
    /// nil.
    ///
    /// Words count as the same only with the same capitals and punctuation, so that the deltas add
    /// up to the beginning of the final text. A hypothesis' last word is left out: the end of the
    /// audio may have cut it, and its punctuation is that of a sentence which ends there.
    mutating func confirm(_ hypothesis: String) -> String? {
        let words = Self.words(of: hypothesis).dropLast()
        defer { previous = Array(words) }
        let agreed = zip(words, previous).prefix { $0 == $1 }.count
        // A hypothesis that contradicts what was shown confirms nothing.
        guard agreed > shownWords, words.prefix(shownWords) == Self.words(of: shown)[...] else {
            return nil
        }
        let delta = words[shownWords..<agreed].joined(separator: " ")
        shownWords = agreed
        return append(delta)
    }

    /// The rest of the final text, as the last delta. Nil where there is no rest, or where the text
    /// does not begin with the shown words: no delta can correct those, only the final text itself.
    mutating func finish(_ text: String) -> String? {
        guard !text.isEmpty else { return nil }
        guard !shown.isEmpty else {
            shown = text
            return text
        }
        // The next character must begin a word: "go for" is no beginning of "go forward".
        TextSteps.note(shown.utf8.count)
        guard text.utf8.starts(with: (shown + " ").utf8) else { return nil }
        let delta = String(decoding: text.utf8.dropFirst(shown.utf8.count), as: UTF8.self)
        shown = text
        return delta
    }

    /// Takes the next piece of the final text itself, and returns it as a delta; nil when words of
    /// hypotheses are shown, as the pieces may not go on from them.
    mutating func extend(by piece: String) -> String? {
        guard shownWords == 0, !piece.isEmpty else { return nil }
        shown += piece
        return piece
    }

    private mutating func append(_ words: String) -> String {
        let delta = shown.isEmpty ? words : " " + words
        shown += delta
        return delta
    }

    private static func words(of text: String) -> [Substring] {
        TextSteps.note(text.utf8.count)
        return text.split(whereSeparator: \.isWhitespace)
    }
}
