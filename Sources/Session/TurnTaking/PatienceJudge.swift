// How patiently a turn's end is waited for, by what the agent has asked and what the user is saying.
// After a question for a number, an address, a name or a spelling the user pauses: to look it up, and
// between its groups. After a question for yes or no the user does not.
//
// Pure functions: VoiceSession has the texts, LanguageRules the words. Work: once per turn, on the end
// of one reply, and once per hypothesis.

import Codec

/// Chooses the patience with a turn.
enum PatienceJudge {
    /// UTF-8 bytes at the end of a reply that are looked at. 300: its last sentences.
    static let maxBytes = 300
    /// Words of a question that may be nothing but what it asks for: "And your last name?"
    private static let shortQuestion = 4
    /// Numbers or letters in a row that are dictated. 2: one may be all.
    private static let minDictated = 2

    // MARK: What the agent has asked

    /// The patience with the answer to a reply.
    /// - Parameters:
    ///   - reply: its text, as far as it is written.
    ///   - tools: the session's functions: what one of them requires is asked for.
    static func patience(
        after reply: String, in language: LanguageRules, tools: [FunctionTool]
    ) -> Patience {
        let sentences = lastSentences(of: reply)
        // "What is your number? Take your time."
        guard let last = sentences.last(where: { TurnEndEstimator.asks($0) }) ?? sentences.last
        else { return .usual }
        TextSteps.note(last.utf8.count)
        let words = words(of: last)
        guard let first = words.first else { return .usual }
        let questions = language.questions
        let isQuestion = TurnEndEstimator.asks(last)
        let parts = words.flatMap(parts)
        let isRequest = parts.contains { questions.requests.contains($0) }
        let isOpen = parts.contains { language.turnEnds.questionWords.contains($0) }
        // "Is that your number?"
        let isConfirmation =
            isQuestion && !isOpen && language.turnEnds.auxiliaries.contains(first)
        let mayAskDetails =
            isQuestion && !isConfirmation
            && (isRequest || isOpen || words.count <= shortQuestion)
        let asksDetails =
            parts.contains { questions.details.contains($0) }
            || (mayAskDetails && asks(parts, for: tools))
        if asksDetails {
            if isRequest || isOpen { return isQuestion || isRequest ? .long : .usual }
            if isQuestion, !isConfirmation {
                return words.count <= shortQuestion ? .long : .usual
            }
        }
        let isYesOrNo =
            isQuestion && !isOpen && !isRequest
            && !parts.contains { questions.choices.contains($0) }
        return isYesOrNo && !questions.requests.isEmpty ? .brief : .usual
    }

    /// The last two sentences.
    private static func lastSentences(of text: String) -> [String] {
        let end = String(decoding: text.utf8.suffix(maxBytes), as: UTF8.self)
        var sentences = [""]
        var isEnded = false
        for character in end {
            if isEnded, character.isWhitespace { sentences.append("") }
            isEnded = character.unicodeScalars.last?.endsSentence == true
            sentences[sentences.count - 1].append(character)
        }
        return sentences.filter { $0.contains(where: \.isLetter) }.suffix(2)
    }

    /// Whether a question names something that a function requires: "vin" of a parameter `car_vin`.
    private static func asks(_ words: [String], for tools: [FunctionTool]) -> Bool {
        tools.contains { tool in
            guard let text = tool.parameters?.text else { return false }
            TextSteps.note(text.utf8.count)
            guard let schema = try? JSONParser().parse(text),
                let required = schema["required"]?.elements?.compactMap(\.string),
                let properties = schema["properties"]?.members
            else { return false }
            return properties.contains { name, property in
                required.contains(name) && property["type"]?.isString("string") == true
                    && property["enum"] == nil
                    && name.lowercased().split { !$0.isLetter }.contains {
                        $0.count >= 3 && words.contains(String($0))
                    }
            }
        }
    }

    // MARK: What the user is saying

    /// Whether words end in the middle of what is dictated: numbers, letters that are spelt, and "and
    /// then".
    static func isDictating(_ transcript: String, in language: LanguageRules) -> Bool {
        TextSteps.note(transcript.utf8.count)
        let rules = language.turnEnds
        let words = words(of: TranscriptWords.spoken(transcript))
        guard let last = words.last else { return false }
        if words.count >= 2,
            rules.wantMoreAfter[last]?.contains(words[words.count - 2]) == true
        {
            return true
        }
        let dictated = words.reversed().prefix { word in
            rules.isNumber(word)
                || (word.count == 1 && !rules.wantMore.contains(word)
                    && !rules.mayGoOn.contains(word))
        }
        return dictated.count >= minDictated
    }

    private static func words(of text: String) -> [String] { TranscriptWords.bare(text) }

    /// A word, and what its apostrophe joins: "l'adresse" is "adresse", too.
    private static func parts(of word: String) -> [String] {
        let parts = word.split(separator: "'").map(String.init)
        return parts.count > 1 ? [word] + parts : [word]
    }
}
