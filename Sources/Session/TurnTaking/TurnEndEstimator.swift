// How long a silence must last to end a turn (`semantic_vad`). The words before it, their sound and,
// where there is one, a turn model make a score: the log odds that the turn is over. The better the
// score, the shorter the wait. TurnDetector finds the silence, PartialTranscript has the words, Prosody
// measures the sound, a TurnEndModel hears it.
//
// LanguageRules has the words. In a language without rules only punctuation counts.

import Codec
import Glibc

/// Judges by what is known of a turn whether it is over.
package struct TurnEndEstimator {
    /// How a transcript ends.
    package enum Ending: CaseIterable, Sendable {
        /// With a question, after which the user waits for the answer.
        case question
        /// With a whole sentence.
        case sentence
        /// With words that may end a turn or go on: no full stop, "in", "is".
        case open
        /// With a number that may have more digits.
        case number
        /// With words that want another: "and", "the", "um".
        case unfinished
    }

    /// What is known of the speech before a silence.
    package struct Evidence: Equatable, Sendable {
        /// How its words end. Nil where they are not known, or there are none.
        package var ending: Ending?
        /// `Prosody.finality` of its sound. Nil where it is not known.
        package var finality: Float?
        /// `modelOdds` of a turn model's judgement. Nil where there is none yet.
        package var model: Float?

        /// Nothing is known.
        package init() {}
    }

    /// What each ending adds to a score, and a unit of the rest. Fitted to the pauses and ends of
    /// `make turn-table` (LoadTests/results/turns.md) and rounded, but for questions: they are rare there,
    /// and a user who has asked waits for the answer.
    private enum Weight {
        static let constant: Float = -0.8
        static let question: Float = 1.5
        static let sentence: Float = 0.9
        static let open: Float = 0
        static let number: Float = 0
        static let unknown: Float = 0.2
        static let finality: Float = 0.4
        static let model: Float = 0.3
    }

    /// Largest effect of the sound, and of a judgement, in units of each: one alone must not end a turn.
    /// With 1.25, words that come within 330 ms still decide at `high`.
    private static let mostFinality: Float = 1.25
    private static let mostOdds: Float = 4
    /// The speech from which a turn model counts fully, in milliseconds. 2,000: on one or two words it
    /// is not better than chance.
    private static let wholeSpeech: Float = 2_000
    /// What a turn model is given of a turn, at most: 6 s at 16 kHz, all that Smart Turn hears.
    static let judgedSamples = 96_000

    /// How soon a score ends a turn.
    package struct Rule: Equatable, Sendable {
        /// The score from which a turn ends after `delay`.
        package var threshold: Float
        /// The shortest wait, in milliseconds.
        package var delay: Int
        /// The longest, in milliseconds. Words that want another wait so long.
        package var timeout: Int

        package init(threshold: Float, delay: Int, timeout: Int) {
            self.threshold = threshold
            self.delay = delay
            self.timeout = timeout
        }

        /// The silence, in milliseconds, that ends a turn with this score. Below the threshold the wait
        /// grows as the odds fall: half the odds, twice the wait.
        package func wait(score: Float, patience: Patience = .usual) -> Int {
            let wait = Float(delay) * patience.factor * exp(max(0, threshold - score))
            return wait < Float(timeout) ? Int(wait.rounded()) : timeout
        }
    }

    /// The rule of this eagerness. Timeouts are the protocol's longest waits.
    package let rule: Rule

    package init(eagerness: TurnDetectionParameters.Eagerness) {
        rule =
            switch eagerness {
            case .low: Rule(threshold: 0.3, delay: 800, timeout: 8_000)
            case .medium, .auto: Rule(threshold: 0.3, delay: 400, timeout: 4_000)
            case .high: Rule(threshold: 0, delay: 300, timeout: 2_000)
            }
    }

    /// The log odds of a turn model's probability, less of them after short speech.
    package static func modelOdds(_ probability: Float, speechMilliseconds: Int) -> Float {
        guard probability.isFinite else { return 0 }
        let p = min(max(probability, 0.001), 0.999)
        let odds = min(max(log(p / (1 - p)), -mostOdds), mostOdds)
        return odds * min(1, Float(max(0, speechMilliseconds)) / wholeSpeech)
    }

    /// The sound's part of a score: none where the words decide. The melody of a question may rise, and
    /// that of "and" may fall.
    package static func sound(of evidence: Evidence) -> Float {
        guard let finality = evidence.finality, finality.isFinite,
            evidence.ending != .question, evidence.ending != .unfinished
        else { return 0 }
        return min(max(finality, -mostFinality), mostFinality)
    }

    /// The turn model's part of a score. It never says that a phrase that wants more is over, or a
    /// number: a dictated number sounds the same after each group.
    package static func judgement(of evidence: Evidence) -> Float {
        guard let odds = evidence.model else { return 0 }
        switch evidence.ending {
        case .unfinished: return 0
        case .number: return min(odds, 0)
        case .question, .sentence, .open, nil: return odds
        }
    }

    /// The log odds that the turn is over, where its words do not want another.
    package static func score(of evidence: Evidence) -> Float {
        let words =
            switch evidence.ending {
            case .question: Weight.question
            case .sentence: Weight.sentence
            case .open, .unfinished: Weight.open
            case .number: Weight.number
            case nil: Weight.unknown
            }
        return Weight.constant + words + Weight.finality * sound(of: evidence)
            + Weight.model * judgement(of: evidence)
    }

    /// The silence, in milliseconds, that ends a turn.
    package func wait(after evidence: Evidence, patience: Patience = .usual) -> Int {
        guard evidence.ending != .unfinished else { return rule.timeout }
        // Words that are not known yet may want another, so they are waited for.
        let isHasty = evidence.ending == nil && patience == .brief
        return rule.wait(
            score: Self.score(of: evidence), patience: isHasty ? .usual : patience)
    }

    /// How a transcript ends, or nil where it holds no word.
    package static func ending(
        of transcript: String, in language: LanguageRules
    ) -> Ending? {
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
        guard !rules.mayGoOn.contains(final) else { return .open }
        if rules.asks(words.prefix(3).map { bare($0) ?? "" }) { return .question }
        if rules.isNumber(final) { return .number }
        return last.unicodeScalars.last?.endsSentence == true ? .sentence : .open
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
        if wantMoreAfter[word]?.contains(before) == true { return true }
        // "Quando?" is complete.
        if wantMore.contains(word) { return !(isQuestion && questionWords.contains(word)) }
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

    func isNumber(_ word: String) -> Bool {
        word.allSatisfy(\.isNumber) || numbers.contains(word)
    }
}
