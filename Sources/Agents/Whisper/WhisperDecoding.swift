// Chooses the words of one utterance, token by token, from what a Whisper model offers: the likeliest
// each time. WhisperModel runs the network; nothing is run here.
//
// The model hears the utterance and one second of silence, not the 30 s that it was trained on. It then
// often misses the end, and begins anew or says the last words again. Three rules end the text: a time
// stamp that reaches the end of the speech, words that are said once more, and more tokens than a person
// says in that time.

import Glibc

/// The choice of an utterance's tokens.
struct WhisperDecoding {
    /// People say at most about eight tokens a second, in the languages that have the most for a word.
    static let maxTokensPerSecond = 12.0
    /// A time stamp this close to the end of the speech ends the text, in seconds.
    private static let endMargin = 0.3
    /// So many tokens that are said twice in a row end the text.
    private static let leastRepeated = 4
    /// Fewer tokens end it once they were said so often in a row: a user dictates "0 0 0 0".
    private static let mostRepeats = 6

    private let vocabulary: WhisperVocabulary
    private let seconds: Double
    private let maxTokens: Int
    /// The chosen tokens, without time stamps.
    private(set) var tokens: [Int] = []
    /// The newest time stamp.
    private var stamp: Int
    /// Tokens since then.
    private var sinceStamp = 0
    private var steps = 0

    /// - Parameters:
    ///   - seconds: the length of the speech.
    ///   - tokens: the most tokens, where its length allows more.
    init(vocabulary: WhisperVocabulary, seconds: Double, atMost tokens: Int = .max) {
        self.vocabulary = vocabulary
        self.seconds = seconds
        maxTokens = min(tokens, Self.maxTokens(seconds: seconds))
        stamp = vocabulary.firstStamp
    }

    /// Tokens of speech of a length, at most.
    static func maxTokens(seconds: Double) -> Int { max(1, Int(seconds * maxTokensPerSecond)) }

    /// The tokens before the first choice.
    static func prompt(language: Int, _ vocabulary: WhisperVocabulary) -> [Int] {
        [vocabulary.start, language, vocabulary.transcribe, vocabulary.firstStamp]
    }

    /// Where the text ends, in seconds. Nil where it has no words, or does not end with a time stamp.
    var reached: Double? {
        guard sinceStamp == 0, !tokens.isEmpty else { return nil }
        return Double(stamp - vocabulary.firstStamp) * WhisperVocabulary.secondsPerStamp
    }

    /// The text so far.
    var text: String { vocabulary.text(of: tokens) }

    /// Chooses the next token.
    /// - Parameter logits: one for each token of the vocabulary.
    /// - Returns: the token that the model hears next, or nil at the end of the text.
    mutating func next(_ logits: UnsafeBufferPointer<Float>) -> Int? {
        steps += 1
        // Between two time stamps is at least one token; a model that never offers words ends here.
        guard logits.count == vocabulary.count, steps <= 2 * maxTokens + 2 else { return nil }
        let word = bestWord(logits)
        let later = stamp + (sinceStamp > 0 ? 1 : 0)
        let nextStamp = Self.best(logits, in: later..<vocabulary.count)
        if let nextStamp, isStamp(logits, word: word, stamp: nextStamp) {
            stamp = nextStamp
            defer { sinceStamp = 0 }
            let time = Double(stamp - vocabulary.firstStamp) * WhisperVocabulary.secondsPerStamp
            return sinceStamp > 0 && time >= seconds - Self.endMargin ? nil : stamp
        }
        guard word < vocabulary.end else { return nil }
        tokens.append(word)
        sinceStamp += 1
        if let repeated = Self.repeated(tokens) {
            tokens.removeLast(repeated)
            return nil
        }
        return tokens.count < maxTokens ? word : nil
    }

    /// The likeliest token of text, or the end of the text. A text does not begin with either the end
    /// or a lone space.
    private func bestWord(_ logits: UnsafeBufferPointer<Float>) -> Int {
        guard tokens.isEmpty, steps == 1 else {
            return Self.best(logits, in: 0..<vocabulary.end + 1) ?? vocabulary.end
        }
        let before = Self.best(logits, in: 0..<min(vocabulary.blank, vocabulary.end))
        let after = Self.best(
            logits, in: min(vocabulary.blank + 1, vocabulary.end)..<vocabulary.end)
        return [before, after].compactMap { $0 }.max { logits[$0] < logits[$1] } ?? vocabulary.end
    }

    /// Whether a time stamp comes next: it is likelier than any word, or all of them together are.
    private func isStamp(
        _ logits: UnsafeBufferPointer<Float>, word: Int, stamp next: Int
    ) -> Bool {
        guard logits[next] <= logits[word] else { return true }
        var odds: Float = 0
        for index in stamp..<vocabulary.count { odds += expf(logits[index] - logits[word]) }
        return odds > 1
    }

    private static func best(
        _ logits: UnsafeBufferPointer<Float>, in range: Range<Int>
    ) -> Int? {
        guard var best = range.first else { return nil }
        for index in range.dropFirst() where logits[index] > logits[best] { best = index }
        return best
    }

    /// How many tokens at the end only say again what was said before; nil where there are none.
    static func repeated(_ tokens: [Int]) -> Int? {
        for length in stride(from: leastRepeated, through: tokens.count / 2, by: 1) {
            let last = tokens.suffix(length)
            if last.elementsEqual(tokens.dropLast(length).suffix(length)) { return length }
        }
        for length in 1..<leastRepeated where tokens.count >= mostRepeats * length {
            let last = tokens.suffix(mostRepeats * length)
            if last.dropFirst(length).elementsEqual(last.dropLast(length)) {
                return (mostRepeats - 1) * length
            }
        }
        return nil
    }
}
