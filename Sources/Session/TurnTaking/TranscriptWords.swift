// Whether a transcript has words. Recognisers also write texts without words: a mark alone, or a
// sound that they heard instead of speech: [BLANK_AUDIO], [Music], (applause), （笑）, *coughs*,
// <|nospeech|>, ♪. Such a transcript is shown as it is. It starts no response, interrupts none,
// ends no turn, and no model is given it.
//
// This is the one place that decides it. Words beside a remark count: "(laughs) Yes."

import Codec

/// The words of transcripts.
package enum TranscriptWords {
    /// Whether a transcript has a word.
    package static func has(in transcript: String) -> Bool {
        spoken(transcript).contains { character in
            TextSteps.note()
            return character.isLetter || character.isNumber
        }
    }

    /// The words of a text in small letters, without marks; "555-0199" and "e-mail" are two.
    static func bare(_ text: String) -> [String] {
        TextSteps.note(text.utf8.count)
        return text.lowercased().split { !$0.isLetter && !$0.isNumber && $0 != "'" && $0 != "’" }
            .map { String($0.map { $0 == "’" ? "'" : $0 }) }
    }

    /// A transcript without remarks in brackets. Digits in brackets are said: "(555) 123".
    static func spoken(_ transcript: String) -> String {
        guard transcript.unicodeScalars.contains(where: { closers[$0] != nil }) else {
            return transcript
        }
        var spoken: [Unicode.Scalar] = []
        // The remark that is open: its last bracket, and where it begins in the spoken text.
        var open: (closer: Unicode.Scalar, start: Int)?
        for scalar in transcript.unicodeScalars {
            TextSteps.note()
            spoken.append(scalar)
            if let remark = open {
                guard scalar == remark.closer else { continue }
                if spoken[(remark.start + 1)..<(spoken.count - 1)].contains(where: isOfRemark) {
                    spoken.removeSubrange(remark.start...)
                }
                open = nil
            } else if let closer = closers[scalar] {
                open = (closer, spoken.count - 1)
            }
        }
        var text = String.UnicodeScalarView()
        text.append(contentsOf: spoken)
        return String(text)
    }

    /// Whether a remark has a character other than digits and the marks of ASCII.
    private static func isOfRemark(_ scalar: Unicode.Scalar) -> Bool {
        scalar.isASCII
            ? scalar.properties.isAlphabetic : scalar.properties.numericType != .decimal
    }

    /// The brackets of remarks, also those of full width.
    private static let closers: [Unicode.Scalar: Unicode.Scalar] = [
        "[": "]", "(": ")", "*": "*", "<": ">", "（": "）", "【": "】", "［": "］", "〔": "〕",
    ]
}
