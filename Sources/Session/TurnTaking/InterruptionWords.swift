// Judges by its words whether speech over a reply interrupts it. An assent ("mhm") does not, nor
// does the reply itself where the microphone picks up the loudspeaker. LanguageRules has the assents.
// InterruptionJudge decides what follows.

import Codec

/// Judges the words of speech over a reply.
enum InterruptionWords {
    /// The meaning of the words.
    enum Judgement: Equatable {
        /// No words at all: a cough, a door.
        case none
        /// Assent that asks the speaker to go on.
        case backchannel
        /// Words of the reply itself.
        case echo
        /// Anything else: the user wants to say something.
        case words
    }

    /// The words count as an echo if this share of them is the reply's own, in its order. 0.75:
    /// recognisers mishear one word in four from a loudspeaker in the room.
    private static let echoShare = (words: 3, of: 4)
    /// Words in a row that an echo has in common with the reply, at least. 3: an answer to "Tea or
    /// coffee?" repeats one or two words of the question.
    static let minEchoRun = 3

    /// Judges a transcript.
    /// - Parameters:
    ///   - reply: the reply's words at about that time; empty: unknown.
    ///   - run: how many words of the reply's must follow one another in its echo.
    static func judge(
        _ transcript: String, over reply: String, in language: LanguageRules,
        run: Int = minEchoRun
    ) -> Judgement {
        let heard = words(of: TranscriptWords.spoken(transcript))
        guard !heard.isEmpty else { return .none }
        if language.assents.cover(heard[...]) { return .backchannel }
        let said = words(of: reply)
        let isEcho =
            commonWords(heard, said) * echoShare.of >= heard.count * echoShare.words
            && hasCommonRun(of: run, heard, said)
        return isEcho ? .echo : .words
    }

    /// Words in small letters, without marks.
    private static func words(of text: String) -> [String] {
        TextSteps.note(text.utf8.count)
        return text.lowercased().split { !$0.isLetter && !$0.isNumber && $0 != "'" && $0 != "’" }
            .prefix(maxWords).map(String.init)
    }

    /// Words that are looked at. 64: half a minute of speech, and the comparison stays cheap.
    private static let maxWords = 64

    /// Whether two texts have a run of this many words in common.
    private static func hasCommonRun(of count: Int, _ left: [String], _ right: [String]) -> Bool {
        guard left.count >= count, right.count >= count else { return false }
        return (0...left.count - count).contains { start in
            let run = left[start..<start + count]
            return (0...right.count - count).contains { right[$0..<$0 + count] == run }
        }
    }

    /// How many words two texts have in common, in the same order.
    private static func commonWords(_ left: [String], _ right: [String]) -> Int {
        var before = [Int](repeating: 0, count: right.count + 1)
        for word in left {
            var row = before
            for (index, other) in right.enumerated() {
                row[index + 1] =
                    word == other ? before[index] + 1 : max(row[index], before[index + 1])
            }
            before = row
        }
        return before[right.count]
    }
}

extension AssentWords {
    /// Whether there is nothing but assents among the words.
    fileprivate func cover(_ heard: ArraySlice<String>) -> Bool {
        guard let first = heard.first else { return true }
        if words.contains(first) { return cover(heard.dropFirst()) }
        guard let phrase = phrases.first(where: { heard.starts(with: $0) }) else { return false }
        return cover(heard.dropFirst(phrase.count))
    }
}
