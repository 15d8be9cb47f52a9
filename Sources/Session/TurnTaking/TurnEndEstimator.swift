// How long a silence must last to end a turn, judged by the words before it and their sound
// (`semantic_vad`). TurnDetector finds the silence, PartialTranscript has the words, Prosody
// measures the sound.
//
// LanguageRules has these words. In a language without rules only punctuation counts.

import Codec

/// Judges by its last words and by its sound whether a turn is over.
struct TurnEndEstimator {
    /// How a transcript ends, from the surest end to none.
    enum Ending: CaseIterable {
        /// With a question, after which the user waits for the answer.
        case question
        /// With a whole sentence.
        case sentence
        /// With words that may end a turn or go on: no full stop, a number that may have more
        /// digits, "in", "is".
        case open
        /// With words that want another: "and", "the", "um".
        case unfinished
    }

    /// Silences that end a turn, in milliseconds.
    struct Waits: Equatable {
        let question: Int
        let sentence: Int
        let open: Int
        /// The protocol's longest wait for this eagerness.
        let unfinished: Int
        /// When no words are known: recognition is missing, late, or heard none.
        let unknown: Int
    }

    /// The waits of this eagerness.
    let waits: Waits

    init(eagerness: TurnDetectionParameters.Eagerness) {
        waits =
            switch eagerness {
            case .low:
                Waits(
                    question: 800, sentence: 1_000, open: 2_000, unfinished: 8_000, unknown: 1_200)
            case .medium, .auto:
                Waits(question: 450, sentence: 550, open: 1_100, unfinished: 4_000, unknown: 800)
            case .high:
                Waits(question: 300, sentence: 350, open: 600, unfinished: 2_000, unknown: 500)
            }
    }

    /// How much a unit of `Prosody.finality` shortens the wait, and its largest effect. Sound alone
    /// judges three silences in four correctly (LoadTests/RESULTS.md), so it adjusts the judgement
    /// by words and does not overrule it.
    private static let prosodyWeight: Float = 0.25
    private static let prosodyRange: ClosedRange<Float> = 0.7...1.4

    /// The silence, in milliseconds, that ends a turn.
    /// - Parameters:
    ///   - ending: how its words end, or nil where they are not known, or there are none.
    ///   - finality: `Prosody.finality` of its sound, if that is known.
    ///   - patience: with `long`, each ending waits as the next less sure one; with `brief`, as the
    ///     next surer one.
    func wait(
        after ending: Ending?, finality: Float?, patience: Patience = .usual
    ) -> Int {
        switch (ending, patience) {
        // The melody of a question may rise, and that of "and" may fall: here the words decide.
        case (.question, _): waits.question
        case (.unfinished, _): waits.unfinished
        case (.sentence, .brief): adapted(waits.question, to: finality)
        case (.sentence, .usual), (.open, .brief), (nil, .brief):
            adapted(waits.sentence, to: finality)
        case (nil, .usual): adapted(waits.unknown, to: finality)
        case (.open, .usual), (.sentence, .long), (nil, .long):
            adapted(waits.open, to: finality)
        case (.open, .long):
            // Groups of a number have a second and more between them.
            adapted(waits.open * 3 / 2, to: finality)
        }
    }

    private func adapted(_ wait: Int, to finality: Float?) -> Int {
        guard let finality, finality.isFinite else { return wait }
        let factor = 1 - Self.prosodyWeight * finality
        let range = Self.prosodyRange
        let adapted = Float(wait) * min(max(factor, range.lowerBound), range.upperBound)
        return min(Int(adapted.rounded()), waits.unfinished)
    }

    /// How a transcript ends, or nil where it holds no word.
    static func ending(of transcript: String, in language: LanguageRules) -> Ending? {
        TextSteps.note(transcript.utf8.count)
        let rules = language.turnEnds
        let words = TranscriptWords.spoken(transcript).split(whereSeparator: \.isWhitespace)
        guard var last = words.last, let final = bare(last) else { return nil }
        // Punctuation counts inside quotation marks too.
        while let character = last.last, closingMarks.contains(character) { last.removeLast() }
        let isQuestion = last.last.map(questionMarks.contains) ?? false
        let before = words.dropLast().last.flatMap { bare($0) } ?? ""
        if rules.wantsMore(final, after: before, isQuestion: isQuestion) { return .unfinished }
        if last.hasSuffix("...") || last.hasSuffix("…") || last.hasSuffix("-") {
            return .unfinished
        }
        if isQuestion { return .question }
        let asks = rules.asks(words.prefix(3).map { bare($0) ?? "" })
        guard last.unicodeScalars.last?.endsSentence == true, !rules.isNumber(final),
            !rules.mayGoOn.contains(final)
        else { return asks && !rules.mayGoOn.contains(final) ? .question : .open }
        return asks ? .question : .sentence
    }

    /// Whether a text ends with a question mark.
    static func asks(_ text: String) -> Bool {
        text.last { !$0.isWhitespace && !closingMarks.contains($0) }
            .map(questionMarks.contains) ?? false
    }

    /// A word in lower case without the punctuation around it; nil when nothing is left.
    private static func bare(_ word: Substring) -> String? {
        let isWord = { (character: Character) in character.isLetter || character.isNumber }
        guard let first = word.firstIndex(where: isWord), let last = word.lastIndex(where: isWord)
        else { return nil }
        return word[first...last].lowercased()
    }

    /// The question marks of Latin, East Asian, Arabic and Ethiopic script.
    private static let questionMarks: Set<Character> = ["?", "？", "؟", "፧"]
    private static let closingMarks: Set<Character> = ["\"", "'", "”", "’", "»", ")", "]"]
}

extension TurnEndWords {
    /// Whether a word, the last one of a transcript, must be followed by another.
    fileprivate func wantsMore(_ word: String, after before: String, isQuestion: Bool) -> Bool {
        if let ends = wantMoreUnlessAfter[word] { return !ends.contains(before) }
        if let begins = wantMoreAfter[word] { return begins.contains(before) }
        if wantMore.contains(word) { return true }
        // "What is it for?" and "Can I?" are complete; "What is the?" is not.
        guard !isQuestion else { return false }
        return wantMoreOutsideQuestions.contains(word)
            || unfinishedEnds.contains { word.hasSuffix($0) }
    }

    /// Whether the first words of three or more are in the order of a question, whatever its punctuation.
    fileprivate func asks(_ words: [String]) -> Bool {
        guard words.count >= 3 else { return false }
        if auxiliaries.contains(words[0]) { return subjects.contains(words[1]) }
        return questionWords.contains(words[0]) && auxiliaries.contains(words[1])
    }

    fileprivate func isNumber(_ word: String) -> Bool {
        word.allSatisfy(\.isNumber) || numbers.contains(word)
    }
}
