// Which words of a sentence the recogniser mistook. Both texts are first written as they are spoken:
// the recogniser writes "4:15" for what the voice said as "four fifteen".

import Agents
import TestMaterial

/// The words of a sentence beside those that were heard.
struct WordComparison {
    /// Words of the sentence.
    let words: Int
    /// Words that are missing, added or replaced.
    let errors: Int

    init(said: String, heard: String) {
        let (said, heard) = (Self.words(in: said), Self.words(in: heard))
        words = said.count
        errors = wordErrors(said: said, heard: heard)
    }

    /// Spellings that sound alike.
    private static let alike = ["mr": "mister", "dr": "doctor", "prof": "professor", "ok": "okay"]

    private static func words(in text: String) -> [String] {
        let spoken = SpokenText.pieces(of: text).joined(separator: " ").lowercased()
        let letters = spoken.filter { $0 != "'" }.map { $0.isLetter || $0.isNumber ? $0 : " " }
        return String(letters).split(separator: " ").map { alike[String($0)] ?? String($0) }
    }
}
