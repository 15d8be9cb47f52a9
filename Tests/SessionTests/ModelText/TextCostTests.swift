// What reading a text costs: its length and no more, whatever it is made of and however it comes. Steps
// are counted, not time (TextSteps). Agents' own readers are in SpokenTextCostTests, JSON's in
// JSONCostTests.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct TextCostTests {
    private func expect(
        bytes: Int = 8_000, sourceLocation: SourceLocation = #_sourceLocation,
        _ read: (String) -> Void
    ) {
        let found = TextShape.tooExpensive(bytes: bytes) { text in
            TextSteps.counting { read(text) }
        }
        #expect(found == [], sourceLocation: sourceLocation)
    }

    @Test(arguments: [1, 1_000_000])
    func clauses(delta: Int) {
        // Code up to 8 KiB is not looked at closely: the text must be much longer.
        expect(bytes: 40_000) { text in
            var splitter = ClauseSplitter(.english)
            for delta in text.deltas(ofScalars: delta) {
                _ = splitter.append(delta)
                _ = splitter.endingPause
            }
            _ = splitter.finish()
        }
    }

    @Test(arguments: [1, 1_000_000])
    func thoughts(delta: Int) {
        expect { text in
            var filter = ThoughtFilter()
            for delta in text.deltas(ofScalars: delta) { _ = filter.append(delta) }
            _ = filter.finish()
        }
    }

    @Test(arguments: [1, 1_000_000])
    func markdown(delta: Int) {
        expect { text in
            var markdown = SpokenMarkdown()
            for delta in text.deltas(ofScalars: delta) { _ = markdown.append(delta) }
            _ = markdown.finish()
        }
    }

    @Test func heardWords() {
        expect { text in
            _ = HeardWords.prefix(of: text, through: text)
            _ = HeardWords.prefix(of: text, through: text + " and other words")
            _ = HeardWords.prefix(of: text + " b", through: String(repeating: "a ", count: 200))
        }
        // Long reports that occur nearly everywhere.
        let steps = [8_000, 32_000].map { bytes in
            TextSteps.counting {
                let text = String(repeating: "a ", count: bytes / 2)
                let heard = "b " + String(repeating: "a ", count: 100) + "c"
                _ = HeardWords.prefix(of: text, through: heard)
            }
        }
        #expect(Double(steps[1]) <= 4.5 * Double(steps[0]))
    }

    @Test func wordsOfSpeech() {
        expect { text in
            _ = TranscriptWords.has(in: text)
            _ = InterruptionWords.judge(text, over: text, in: .english)
            _ = TurnEndEstimator.ending(of: text)
            _ = text.isSilent
        }
    }

    @Test func transcriptAgreement() {
        expect { text in
            var agreement = TranscriptAgreement()
            _ = agreement.confirm(text)
            _ = agreement.confirm(text)
            _ = agreement.finish(text + " more")
            var pieces = TranscriptAgreement()
            for piece in text.deltas(ofScalars: 7) { _ = pieces.extend(by: piece) }
            _ = pieces.finish(text)
        }
    }

    @Test func conversationCut() {
        expect { text in
            let marks = (1...text.utf8.count / 100).map {
                Conversation.SpokenMark(transcriptBytes: $0 * 100, audioMilliseconds: $0 * 1_000)
            }
            for part in 1...4 {
                _ = Conversation.heard(
                    text, marks: marks, audioMilliseconds: marks.count * 250 * part - 1)
            }
        }
    }

    /// The steps of a text that is read again for each of its bytes grow with its square, and are found.
    @Test func aSquareIsFound() {
        let found = TextShape.tooExpensive(bytes: 100) { text in
            TextSteps.counting { for _ in text.utf8 { _ = TranscriptWords.has(in: text + "[") } }
        }
        #expect(found.count > 50)
    }
}
