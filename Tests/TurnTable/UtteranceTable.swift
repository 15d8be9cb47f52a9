// `turn-table --utterances`: how often the embedded recogniser writes nothing, or something else, for
// what has no sentence around it: numbers, letters, single words. Each is said by one speaker, with
// silence of several lengths before it.

import Agents
import Codec
import Session
import TestMaterial

/// Prints the table.
struct UtteranceTable {
    /// Utterances of one kind: the prompts that make each, and what it says.
    private struct Kind {
        let name: String
        let utterances: [(prompts: [String], text: String)]
    }

    /// Silence before the words, in milliseconds: none, a client that ends turns itself and records a
    /// little too early, and one that records long before.
    private static let leads = [0, 200, 500, 1_000, 3_000]
    private static let digitNames = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
    ]
    private static let days = [
        "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
    ]

    let recognizer: MoonshineRecognizer
    let host: ModelHost

    func print() async throws {
        Swift.print("Of the utterances: without a word / with other words.\n")
        Swift.print(
            "| kind | utterances | " + Self.leads.map { "\($0) ms before" }.joined(separator: " | ")
                + " |\n|---|---|" + String(repeating: "---|", count: Self.leads.count))
        for kind in Self.kinds() {
            var cells: [String] = []
            for lead in Self.leads { cells.append(try await cell(of: kind, lead: lead)) }
            Swift.print(
                "| \(kind.name) | \(kind.utterances.count) | "
                    + cells.joined(separator: " | ") + " |")
        }
    }

    private func cell(of kind: Kind, lead: Int) async throws -> String {
        var empty = 0
        var wrong = 0
        for (prompts, said) in kind.utterances {
            let silence = [Int16](repeating: 0, count: 16 * lead)
            let heard = try await recognizer.transcribe(
                Utterance(samples: silence + SpokenPrompts.samples(of: prompts)), on: host
            ).text
            if !TranscriptWords.has(in: heard) {
                empty += 1
            } else if Self.plain(heard) != Self.plain(said) {
                wrong += 1
            }
        }
        return "\(empty) / \(wrong)"
    }

    /// Letters and digits alone, numbers as digits: a recogniser may write `5550199` in many ways.
    private static func plain(_ text: String) -> String {
        var text = text.lowercased()
        for (digit, name) in digitNames.enumerated() {
            text = text.replacing(name, with: "\(digit)")
        }
        return text.filter { $0.isLetter || $0.isNumber }
    }

    private static func kinds() -> [Kind] {
        var random = SeededGenerator(seed: 11)
        func numbers(of length: Int, count: Int) -> Kind {
            let numbers = (0..<count).map { _ in
                (0..<length).map { _ in "\(Int.random(in: 0...9, using: &random))" }.joined()
            }
            return Kind(
                name: "numbers of \(length) digits",
                utterances: numbers.map { number in (number.map { "digits/\($0)" }, number) })
        }
        func words(_ name: String, _ words: [(String, String)]) -> Kind {
            Kind(name: name, utterances: words.map { ([$0.0], $0.1) })
        }
        let names = ["anna", "mueller", "smith", "okafor", "garcia", "li", "novak", "tanaka"]
        return [
            words("one digit", (0...9).map { ("digits/\($0)", "\($0)") }),
            numbers(of: 4, count: 20), numbers(of: 7, count: 20), numbers(of: 10, count: 20),
            words("one letter", "abcdefghijklmnopqrstuvwxyz".map { ("letters/\($0)", "\($0)") }),
            Kind(
                name: "spelled names",
                utterances: names.map { name in (name.map { "letters/\($0)" }, name) }),
            words(
                "one word",
                ["hello", "goodbye", "sorry", "cancelled", "hours", "number", "transfer"].map {
                    ($0, $0)
                } + ["today", "tomorrow", "yesterday"].map { ("digits/\($0)", $0) }),
            words("days", days.enumerated().map { ("digits/day-\($0)", $1) }),
        ]
    }
}
