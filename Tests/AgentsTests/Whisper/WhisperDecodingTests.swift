// The choice of tokens, with made-up odds and a vocabulary of five texts.

import Testing

@testable import Agents

@Suite struct WhisperDecodingTests {
    private static let stamps = (0...100).map { hundredths in
        "<|\(hundredths / 50).\(hundredths % 50 < 5 ? "0" : "")\(hundredths % 50 * 2)|>"
    }
    /// "a", "b", a lone space, "c", and half of a letter of two bytes.
    private static let file =
        """
        whisper layers=6 heads=8
        61
        62
        20
        63
        c3
        <|endoftext|>
        <|startoftranscript|>
        <|en|>
        <|fr|>
        <|translate|>
        <|transcribe|>
        <|notimestamps|>

        """ + stamps.joined(separator: "\n") + "\n"
    private static let end = 5
    private static let firstStamp = 12
    private static let vocabulary = WhisperVocabulary(file)

    /// What the model offers at a step: the odds of some tokens; all others are unlikely.
    private typealias Offer = [Int: Float]

    /// The text for what the model offers step by step, and how many steps were asked for.
    private func decode(
        _ offers: [Offer], seconds: Double = 2
    ) throws -> (text: String, steps: Int) {
        let vocabulary = try #require(Self.vocabulary)
        var decoding = WhisperDecoding(vocabulary: vocabulary, seconds: seconds)
        var steps = 0
        for offer in offers {
            var logits = [Float](repeating: -20, count: vocabulary.count)
            for (token, odds) in offer { logits[token] = odds }
            steps += 1
            guard logits.withUnsafeBufferPointer({ decoding.next($0) }) != nil else { break }
        }
        return (decoding.text, steps)
    }

    /// A time stamp, in seconds.
    private func at(_ seconds: Double) -> Int { Self.firstStamp + Int((seconds * 50).rounded()) }

    @Test func readsTheVocabulary() throws {
        let vocabulary = try #require(Self.vocabulary)
        #expect(vocabulary.languages == ["en": 7, "fr": 8])
        #expect(vocabulary.layers == 6 && vocabulary.heads == 8 && vocabulary.blank == 2)
        #expect(vocabulary.firstStamp == Self.firstStamp && vocabulary.count == 113)
        #expect(vocabulary.text(of: [0, 3, 1]) == "acb")
        #expect(vocabulary.text(of: [4]) == "\u{FFFD}")
        let prompt = WhisperDecoding.prompt(language: 8, vocabulary)
        #expect(prompt == [6, 8, 10, Self.firstStamp])
    }

    @Test(arguments: [
        "", "moonshine\n61\n", file.replacing("layers=6", with: "layers=0"),
        file.replacing("62\n", with: "6\n"), file.replacing("<|transcribe|>\n", with: ""),
        file.replacing("\n63\n", with: "\n") + "63\n",
    ])
    func refusesAnotherFile(_ text: String) {
        #expect(WhisperVocabulary(text) == nil)
    }

    @Test func endsWhereTheModelEndsTheText() throws {
        #expect(try decode([[0: 1], [1: 1], [Self.end: 1], [3: 1]]) == ("ab", 3))
    }

    @Test func neverBeginsWithTheEndOrALoneSpace() throws {
        #expect(try decode([[Self.end: 5, 2: 4, 3: 1], [Self.end: 1]]).text == "c")
    }

    @Test func endsAtATimeStampThatReachesTheEndOfTheSpeech() throws {
        let offers: [Offer] = [[0: 1], [at(1.8): 1], [1: 1], [Self.end: 1]]
        #expect(try decode(offers) == ("a", 2))
        // The speech goes on.
        #expect(try decode(offers, seconds: 4) == ("ab", 4))
    }

    @Test func timeStampsTogetherOutweighAWord() throws {
        // Three stamps of a third each, and a word of a half.
        let offer: Offer = [1: 0.5, at(1.8): 0, at(1.82): 0, at(1.84): 0]
        #expect(try decode([[0: 1], offer]) == ("a", 2))
    }

    @Test func timeDoesNotGoBack() throws {
        let offers: [Offer] = [[0: 1], [at(1): 1], [1: 1], [at(0.5): 9, 3: 1], [Self.end: 1]]
        #expect(try decode(offers) == ("abc", 5))
    }

    @Test func leavesOutWhatIsSaidAgain() throws {
        let phrase: [Offer] = [[0: 1], [1: 1], [3: 1], [1: 1]]
        #expect(try decode(phrase + phrase + phrase) == ("abcb", 8))
    }

    @Test func keepsDigitsThatAreDictated() throws {
        let zeros = [Offer](repeating: [0: 1], count: 5)
        #expect(try decode(zeros + [[Self.end: 1]]).text == "aaaaa")
        // More of them are no dictation any more.
        #expect(try decode(zeros + zeros + [[Self.end: 1]]) == ("a", 6))
    }

    @Test(arguments: [0.1, 0.5, 1.0, 7.3])
    func hasAtMostTwelveTokensASecond(seconds: Double) throws {
        // A text without repeats: more and more "a" or "c" between two "b".
        var offers: [Offer] = []
        for count in 1...20 {
            for place in 0..<count { offers.append([(count + place) % 2 * 3: 1]) }
            offers.append([1: 1])
        }
        let text = try decode(offers, seconds: seconds).text
        #expect(!text.isEmpty && Double(text.count) <= max(1, 12 * seconds))
    }

    @Test func aModelThatOffersOnlyTimeStampsEnds() throws {
        let offers = [Offer](repeating: [at(0.1): 1], count: 1_000)
        let result = try decode(offers)
        #expect(result.text.isEmpty && result.steps < 100)
    }

    /// A model that ends after each word would cost an encoder pass for each.
    @Test func aSegmentIsHeardThreeTimesAtMost() {
        var rounds = WhisperRounds([Int16](repeating: 0, count: 15 * 16_000)[...])
        var heard: [Int] = []
        while let rest = rounds.next {
            heard.append(rest.count)
            rounds.note(tokens: 1, reached: 0.5)
        }
        #expect(heard == [240_000, 232_000, 224_000])
    }

    @Test func theRoundsOfASegmentShareItsTokens() throws {
        var rounds = WhisperRounds([Int16](repeating: 0, count: 32_000)[...])
        #expect(rounds.tokensLeft == 24)
        rounds.note(tokens: 22, reached: 0.5)
        #expect(rounds.next?.count == 24_000 && rounds.tokensLeft == 2)
        let vocabulary = try #require(Self.vocabulary)
        var decoding = WhisperDecoding(vocabulary: vocabulary, seconds: 1.5, atMost: 2)
        let logits = (0..<vocabulary.count).map { Float($0 == 0 ? 0 : -20) }
        logits.withUnsafeBufferPointer { while decoding.next($0) != nil {} }
        #expect(decoding.tokens.count == 2)
        rounds.note(tokens: 2, reached: 0.2)
        #expect(rounds.next == nil)
    }

    @Test(arguments: [nil, 1.2, 2] as [Double?])
    func nothingIsHeardAnewWhereTheTextEndsWithTheSpeech(reached: Double?) {
        var rounds = WhisperRounds([Int16](repeating: 0, count: 32_000)[...])
        rounds.note(tokens: 4, reached: reached)
        #expect(rounds.next == nil)
    }
}
