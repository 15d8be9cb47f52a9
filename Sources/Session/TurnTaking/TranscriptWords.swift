// Whether a transcript has words. Recognisers also write what is none: a mark alone, and what they heard
// instead of speech: [BLANK_AUDIO], [Music], (applause), *coughs*, <|nospeech|>, ♪. Such a transcript is
// shown as it is. It starts no response, interrupts none, ends no turn, and no model is given it.
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

    /// A transcript without remarks in brackets. Digits in brackets are said: "(555) 123".
    static func spoken(_ transcript: String) -> String {
        guard transcript.utf8.contains(where: { openers.contains($0) }) else { return transcript }
        var spoken: [UInt8] = []
        // The remark that is open: its brackets, and where it begins in what was spoken.
        var open: (closer: UInt8, start: Int)?
        for byte in transcript.utf8 {
            TextSteps.note()
            spoken.append(byte)
            if let remark = open {
                guard byte == remark.closer else { continue }
                let content = spoken[(remark.start + 1)...]
                if content.contains(where: { $0 >= 0x80 || $0 | 0x20 >= 97 && $0 | 0x20 <= 122 }) {
                    spoken.removeSubrange(remark.start...)
                }
                open = nil
            } else if let index = openers.firstIndex(of: byte) {
                open = (closers[index], spoken.count - 1)
            }
        }
        return String(decoding: spoken, as: UTF8.self)
    }

    private static let openers = Array("[(*<".utf8)
    private static let closers = Array("])*>".utf8)
}
