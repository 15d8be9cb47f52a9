// Words as people dictate them: digits, letters and single words that a person recorded, joined. The
// recordings are the prompts of a telephone exchange, from Debian's asterisk-core-sounds-en-wav; other
// languages are in packages of their own.

import Foundation

package enum SpokenPrompts {
    /// The speakers, by language.
    private static let folders = [
        "en": "en_US_f_Allison", "es": "es_MX_f_Allison", "fr": "fr_CA_f_June",
        "it": "it_IT_m_Carlo", "ru": "ru_RU_f_IvrvoiceRU",
    ]
    private static func folder(_ language: String) -> String {
        "/usr/share/asterisk/sounds/\(folders[language] ?? language)"
    }
    /// Louder than the noise around a word.
    private static let loud = 300

    /// The digits of a number one after another, at 16 kHz.
    package static func samples(of number: String) throws -> [Int16] {
        try samples(of: number.map { "digits/\($0)" })
    }

    /// Prompts one after another, with 40 ms between two and half a second behind the last, at 16 kHz.
    /// - Parameter prompts: names of files without the ending: `digits/7`, `letters/a`, `hello`.
    /// - Parameter language: en, es, fr, it or ru.
    package static func samples(
        of prompts: [String], in language: String = "en"
    ) throws -> [Int16] {
        var noise = SeededGenerator(seed: 3)
        func room(_ milliseconds: Int) -> [Int16] {
            (0..<16 * milliseconds).map { _ in Int16.random(in: -15...15, using: &noise) }
        }
        var samples = room(100)
        for prompt in prompts { samples += try recording(of: prompt, in: language) + room(40) }
        return samples + room(500)
    }

    /// The prompts of a language whose files have at least so many bytes, sorted. Digits and letters are
    /// in folders of their own.
    package static func names(in language: String, minBytes: Int) throws -> [String] {
        let folder = folder(language)
        return try FileManager.default.contentsOfDirectory(atPath: folder).sorted().filter {
            guard $0.hasSuffix(".wav") else { return false }
            let file = try FileManager.default.attributesOfItem(atPath: "\(folder)/\($0)")
            return (file[.size] as? Int ?? 0) >= minBytes
        }.map { String($0.dropLast(4)) }
    }

    /// One prompt without the silence around it.
    private static func recording(
        of prompt: String, in language: String
    ) throws -> [Int16] {
        let path = "\(folder(language))/\(prompt).wav"
        guard FileManager.default.isReadableFile(atPath: path) else {
            fatalError("\(path) is missing: apt-get install asterisk-core-sounds-\(language)-wav")
        }
        let samples = try SpeechRecording(wav: path).samples
        let first = samples.firstIndex { abs(Int($0)) > loud } ?? 0
        let last = samples.lastIndex { abs(Int($0)) > loud } ?? 0
        return Array(samples[max(0, first - 270)..<min(samples.count, last + 800)])
    }
}
