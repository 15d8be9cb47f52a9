// Judges the words of speech over a reply: an assent ("mhm"), the reply itself where the microphone
// picks up the loudspeaker, a command ("wait"), or other words. LanguageRules has assents and
// commands. InterruptionJudge decides what follows.
//
// A recogniser repeats the words of a short sound ("yeah yeah yeah"). Of other words each counts once.

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
        /// Words that begin with one that asks to stop, objects, or asks a question.
        case command
        /// Anything else, with so many different words.
        case words(Int)
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
    ///   - isWhole: whether no more words come. Otherwise "of" may become "of course".
    static func judge(
        _ transcript: String, over reply: String, in language: LanguageRules,
        run: Int = minEchoRun, isWhole: Bool = true
    ) -> Judgement {
        let heard = words(of: TranscriptWords.spoken(transcript))
        guard !heard.isEmpty else { return .none }
        if language.assents.cover(heard[...], isWhole: isWhole) { return .backchannel }
        let said = words(of: reply)
        let isEcho =
            commonWords(heard, said) * echoShare.of >= heard.count * echoShare.words
            && hasCommonRun(of: run, heard, said)
        if isEcho { return .echo }
        // "Okay, stop."
        let first = heard.first { !language.assents.words.contains($0) } ?? heard[0]
        let asks = language.turnEnds.questionWords.contains(first)
        return asks || language.commands.contains(first) ? .command : .words(Set(heard).count)
    }

    private static func words(of text: String) -> [String] {
        Array(TranscriptWords.bare(text).prefix(maxWords))
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
    /// - Parameter isWhole: whether no more words come; otherwise the last ones may begin a phrase.
    fileprivate func cover(_ heard: ArraySlice<String>, isWhole: Bool) -> Bool {
        guard let first = heard.first else { return true }
        if words.contains(first), cover(heard.dropFirst(), isWhole: isWhole) { return true }
        return phrases.contains { phrase in
            if !isWhole, phrase.starts(with: heard) { return true }
            return heard.starts(with: phrase)
                && cover(heard.dropFirst(phrase.count), isWhole: isWhole)
        }
    }
}
