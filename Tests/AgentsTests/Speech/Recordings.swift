// Real speech for the tests: the recordings of Debian's pocketsphinx-testdata (16 kHz, 16 bit,
// mono), their words, and the word errors of a transcript.

import Foundation
import TestMaterial
import Testing

/// A recording and its words.
struct Recording: CustomTestStringConvertible {
    var file: String
    var words: String

    var testDescription: String { file }

    static let all = [
        Recording(file: "goforward.raw", words: "go forward ten meters"),
        Recording(file: "something.raw", words: "go somewhere and do something"),
        Recording(
            file: "librivox/sense_and_sensibility_01_austen_64kb-0870.wav",
            words: "and mister john dashwood had then leisure to consider how much there might be "
                + "prudently in his power to do for them"),
        Recording(
            file: "librivox/sense_and_sensibility_01_austen_64kb-0880.wav",
            words: "he was not an ill disposed young man"),
        Recording(
            file: "librivox/sense_and_sensibility_01_austen_64kb-0890.wav",
            words: "unless to be rather cold hearted and rather selfish is to be ill disposed"),
        Recording(
            file: "librivox/sense_and_sensibility_01_austen_64kb-0920.wav",
            words: "had he married a more amiable woman he might have been made still more "
                + "respectable than he was"),
        Recording(
            file: "librivox/sense_and_sensibility_01_austen_64kb-0930.wav",
            words: "he might even have been made amiable himself"),
        Recording(file: "cards/001.wav", words: "ten of clubs"),
        Recording(file: "cards/003.wav", words: "seven of clubs"),
        Recording(file: "cards/005.wav", words: "eight of spades four of clubs seven of hearts"),
        Recording(file: "tidigits/dhd.2934z.raw", words: "two nine three four zero"),
        Recording(file: "cards/002.wav", words: "four queen of clubs"),
        Recording(file: "cards/004.wav", words: "five five"),
    ]

    /// The samples, at 16 kHz.
    func samples() throws -> [Int16] {
        let path = "/usr/share/pocketsphinx/test/data/" + file
        let data = try #require(
            FileManager.default.contents(atPath: path),
            "no recordings: install the package pocketsphinx-testdata (make test does)")
        // These WAV files all have the plain header of 44 bytes.
        let header = file.hasSuffix(".wav") ? 44 : 0
        return stride(from: header, to: data.count - 1, by: 2).map {
            Int16(truncatingIfNeeded: Int(data[$0]) | Int(data[$0 + 1]) << 8)
        }
    }

    /// The number of insertions, deletions and substitutions in a transcript.
    func wordErrors(in transcript: String) -> Int {
        TestMaterial.wordErrors(
            said: Self.normalised(words), heard: Self.normalised(transcript))
    }

    var wordCount: Int { Self.normalised(words).count }

    /// The words in lower case without punctuation, with numbers and titles spelled out.
    static func normalised(_ text: String) -> [String] {
        let spellings = ["mr": "mister", "10": "ten", "metres": "meters"]
        let digits = [
            "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
        ]
        let letters = text.lowercased().map { $0.isLetter || $0.isNumber ? $0 : " " }
        return String(letters).split(separator: " ").flatMap { word in
            if let spelling = spellings[String(word)] { return [spelling] }
            let values = word.compactMap(\.wholeNumberValue)
            return values.count == word.count ? values.map { digits[$0] } : [String(word)]
        }
    }
}

/// The folder that `make models` fills.
let modelsDirectory = URL(filePath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .appending(path: "models").path
