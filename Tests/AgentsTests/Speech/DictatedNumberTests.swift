// Lists of bare items, which the embedded model hears badly as a whole: digits that people recorded, one
// after another, as a telephone number is dictated. The recordings are those of Debian's
// asterisk-core-sounds-en-wav.

import Agents
import Session
import TestMaterial
import Testing

@testable import Agents

@Suite struct DictatedNumberTests {
    private static let recognizer = MoonshineRecognizer(
        modelsDirectory: modelsDirectory,
        voiceActivity: try? VoiceActivityModel(weights: InstalledModels.voiceActivityWeights))
    private static let names = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
    ]

    /// The digits of a transcript, however it is written.
    static func digits(in text: String) -> String {
        var words = text.lowercased()
        for (digit, name) in names.enumerated() { words = words.replacing(name, with: "\(digit)") }
        return words.filter(\.isNumber)
    }

    /// Numbers of four to ten digits, and single ones.
    private static let numbers = [
        "5550199", "2125550142", "5917", "8005551234", "3", "90210", "4155550173", "6021", "7",
        "33871",
    ]

    /// As a whole, the model heard nothing in most of them.
    @Test(arguments: [0, 3_200, 8_000])
    func everyNumberHasWordsAndMostAreRight(silentSamples: Int) async throws {
        let silence = [Int16](repeating: 0, count: silentSamples)
        var wrong: [String] = []
        for number in Self.numbers {
            let text = try await Self.recognizer.transcribe(
                Utterance(samples: try silence + SpokenPrompts.samples(of: number)),
                on: ScriptedAgentHost()
            ).text
            #expect(!text.isEmpty, "\(number)")
            if Self.digits(in: text) != number { wrong.append("\(number): \(text)") }
        }
        #expect(wrong.count <= 2, "\(wrong)")
    }
}

@Suite struct SpokenStretchTests {
    @Test(arguments: [
        ("", 0), ("Go forward.", 9), ("555-0199", 28), ("♪ [..]", 0), ("три", 3), ("٣", 4),
    ])
    func digitsCountAsWords(text: String, letters: Int) {
        #expect(SpokenStretch.letters(in: text) == letters)
    }

    @Test(arguments: [
        (["Five.", "Five, five.", "Zero one."], "Five Five, five Zero one."),
        (["", " Yes. "], "Yes."),
        (["No?", ""], "No?"), ([], ""),
    ])
    func partsAreNoSentences(parts: [String], whole: String) {
        #expect(MoonshineRecognizer.join(parts) == whole)
    }

    /// Without the network of voice activity it is not known how much is speech.
    @Test func withoutTheNetworkNothingIsCut() {
        let samples = [Int16](repeating: 1_000, count: 160_000)
        let stretch = SpokenStretch(of: samples[...], model: nil)
        #expect(stretch.samples.count == 160_000)
        #expect(!stretch.lacksWords("") && stretch.halves == nil)
    }
}
