// The model sometimes ends after the first sentence of a segment. Then the rest is heard anew. This is
// how often, and how many tokens a segment may have in all: a model that ends after each word would cost
// an encoder pass for each.

/// The rounds in which one segment is heard.
struct WhisperRounds {
    /// Rounds of a segment, at most.
    static let most = 3
    /// Shorter speech holds no word, in samples at 16 kHz: 100 ms.
    static let minSamples = 1_600
    /// Speech behind the end of a text that is heard anew, in seconds.
    private static let leastRest = 1.0

    private var rest: ArraySlice<Int16>
    private var left = most
    /// Tokens that the following rounds may choose.
    private(set) var tokensLeft: Int

    /// - Parameter segment: samples at 16 kHz.
    init(_ segment: ArraySlice<Int16>) {
        rest = segment
        tokensLeft = WhisperDecoding.maxTokens(seconds: Double(segment.count) / 16_000)
    }

    /// What the next round hears; nil when there is none.
    var next: ArraySlice<Int16>? {
        left > 0 && tokensLeft > 0 && rest.count >= Self.minSamples ? rest : nil
    }

    /// Notes what a round has heard.
    /// - Parameter reached: where its text ends, in seconds; nil where there is no rest.
    mutating func note(tokens: Int, reached: Double?) {
        left -= 1
        tokensLeft -= tokens
        let seconds = Double(rest.count) / 16_000
        guard let reached, seconds - reached >= Self.leastRest else { return left = 0 }
        rest = rest.dropFirst(max(Self.minSamples, Int(reached * 16_000)))
    }
}
