// Words as people dictate them: digits, letters and single words that a person recorded, joined. The
// recordings are the prompts of a telephone exchange, from Debian's asterisk-core-sounds-en-wav and -fr-wav.

import Codec
import Foundation

package enum SpokenPrompts {
    /// The language of the prompts.
    package enum Language: String {
        case english = "en_US_f_Allison"
        case french = "fr_CA_f_June"
    }

    /// Louder than the noise around a word.
    private static let loud = 300

    /// The digits of a number one after another, at 16 kHz.
    package static func samples(of number: String) throws -> [Int16] {
        try samples(of: number.map { "digits/\($0)" })
    }

    /// Prompts one after another, with 40 ms between two and half a second behind the last, at 16 kHz.
    /// - Parameter prompts: names of files without the ending: `digits/7`, `letters/a`, `hello`.
    package static func samples(
        of prompts: [String], language: Language = .english
    ) throws -> [Int16] {
        var noise = SeededGenerator(seed: 3)
        func room(_ milliseconds: Int) -> [Int16] {
            (0..<16 * milliseconds).map { _ in Int16.random(in: -15...15, using: &noise) }
        }
        var samples = room(100)
        for prompt in prompts { samples += try recording(of: prompt, language) + room(40) }
        return samples + room(500)
    }

    /// One prompt without the silence around it.
    private static func recording(of prompt: String, _ language: Language) throws -> [Int16] {
        let path = "/usr/share/asterisk/sounds/\(language.rawValue)/\(prompt).wav"
        guard let data = FileManager.default.contents(atPath: path) else {
            fatalError("\(path) is missing: make setup-tests")
        }
        let file = try WAVFile(parsing: [UInt8](data))
        var resampler = try Resampler(from: file.rate, to: .hz16000)
        var output = [Int16](
            repeating: 0, count: resampler.maxOutputSamples(for: file.samples.count))
        let count = file.samples.withUnsafeBufferPointer { input in
            output.withUnsafeMutableBufferPointer { resampler.process(input, into: $0) }
        }
        let samples = output[..<count]
        let first = samples.firstIndex { abs(Int($0)) > loud } ?? 0
        let last = samples.lastIndex { abs(Int($0)) > loud } ?? 0
        return Array(samples[max(0, first - 270)..<min(count, last + 800)])
    }
}
