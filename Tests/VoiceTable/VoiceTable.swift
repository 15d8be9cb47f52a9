// `make bench-voices`: the embedded voices side by side. Each says the same sentences, which the
// embedded recogniser writes down again; the table has the words that it mistook, by kind of sentence,
// and the CPU: to the first sound, and in all.
//
//   voice-table [--voices marin,slt] [--runs 1] [--mistakes] [--save FOLDER]
//
// --mistakes prints what was misheard, --save writes the sound, for LoadTests/peers/voice_mos.py.
// PARLEY_MODELS: the models directory.

import Agents
import Codec
import Foundation
import Session

@main
struct VoiceTable {
    /// Silence around a recording, as a microphone would give it. 250 ms at 16 kHz.
    private static let silence = [Int16](repeating: 0, count: 4_000)
    /// What a reply may begin with: six words.
    private static let opening = "Your order has left the warehouse."

    private let recognizer: MoonshineRecognizer
    private let synthesizer: EmbeddedSynthesizer
    private let host = VoiceHost()

    static func main() async throws {
        let models = ProcessInfo.processInfo.environment["PARLEY_MODELS"] ?? "models"
        let table = VoiceTable(
            recognizer: MoonshineRecognizer(modelsDirectory: models),
            synthesizer: EmbeddedSynthesizer(modelsDirectory: models, engine: .natural) {
                print("No natural voice, flite speaks: \($0)")
            })
        try table.recognizer.prepare()
        let kinds = VoiceSentences.kinds.map(\.name)
        print(
            "\(VoiceSentences.kinds.map(\.sentences.count).reduce(0, +)) sentences, \(runs) runs;",
            "CPU is that of the process")
        print(
            "| voice | " + kinds.joined(separator: " | ")
                + " | all | to the first sound p50 / p95 | … of six words "
                + "| CPU a second of speech | voices a core |")
        print(String(repeating: "|---", count: kinds.count + 6) + "|")
        var mistakes: [String] = []
        for voice in voices {
            let row = try await table.row(voice)
            print(row.text)
            mistakes += row.mistakes
        }
        if CommandLine.arguments.contains("--mistakes") { print(mistakes.joined(separator: "\n")) }
    }

    private static func option(_ name: String) -> String? {
        guard let index = CommandLine.arguments.firstIndex(of: name),
            index + 1 < CommandLine.arguments.count
        else { return nil }
        return CommandLine.arguments[index + 1]
    }

    private static var voices: [String] {
        (option("--voices") ?? "marin,alloy,sage,coral,nova,shimmer,slt,rms,awb,kal16")
            .split(separator: ",").map(String.init)
    }

    private static var runs: Int { option("--runs").flatMap(Int.init) ?? 1 }

    /// What a voice's sentences gave.
    private struct Row {
        let voice: String
        /// By kind.
        var errors = Array(repeating: 0, count: VoiceSentences.kinds.count)
        var words = Array(repeating: 0, count: VoiceSentences.kinds.count)
        /// Milliseconds of CPU.
        var firstSounds: [Double] = []
        var openings: [Double] = []
        var cpu = 0.0
        var sound = 0.0
        var mistakes: [String] = []

        var text: String {
            func quantile(_ share: Double, of values: [Double]) -> String {
                let sorted = values.sorted()
                let index = min(sorted.count - 1, Int(Double(sorted.count) * share))
                return String(format: "%.1f", sorted[index])
            }
            func percent(_ errors: Int, of words: Int) -> String {
                String(format: "%.1f%% of %d", 100 * Double(errors) / Double(words), words)
            }
            let rate = cpu / sound
            let columns =
                [voice] + zip(errors, words).map { percent($0.0, of: $0.1) }
                + [
                    percent(errors.reduce(0, +), of: words.reduce(0, +)),
                    "\(quantile(0.5, of: firstSounds)) / \(quantile(0.95, of: firstSounds)) ms",
                    "\(quantile(0.5, of: openings)) ms", String(format: "%.1f ms", 1_000 * rate),
                    "\(Int(1 / rate))",
                ]
            return "| " + columns.joined(separator: " | ") + " |"
        }
    }

    private func row(_ voice: String) async throws -> Row {
        var row = Row(voice: voice)
        // Not measured: the first words load the voice.
        for _ in 0..<3 { _ = try await speak(Self.opening, voice) }
        for _ in 0..<20 { row.openings.append(try await speak(Self.opening, voice).firstSound) }
        for run in 0..<Self.runs {
            for (kind, sentences) in VoiceSentences.kinds.map(\.sentences).enumerated() {
                for (number, sentence) in sentences.enumerated() {
                    let speech = try await speak(sentence, voice)
                    row.firstSounds.append(speech.firstSound)
                    row.cpu += speech.cpu
                    row.sound += speech.seconds
                    let samples = try speech.samples()
                    try save(samples, "\(voice)-\(run)-\(kind)-\(number)")
                    try await hear(samples, sentence, kind, &row)
                }
            }
        }
        return row
    }

    private func hear(
        _ samples: [Int16], _ sentence: String, _ kind: Int, _ row: inout Row
    ) async throws {
        let heard = try await recognizer.transcribe(
            Utterance(samples: Self.silence + samples + Self.silence), on: host
        ).text
        let comparison = WordComparison(said: sentence, heard: heard)
        row.errors[kind] += comparison.errors
        row.words[kind] += comparison.words
        if comparison.errors > 0 { row.mistakes.append("\(row.voice): \(sentence) → \(heard)") }
    }

    /// Writes samples of 16 kHz as they are.
    private func save(_ samples: [Int16], _ name: String) throws {
        guard let folder = Self.option("--save") else { return }
        let bytes = samples.withUnsafeBytes { Data($0) }
        let path = "\(folder)/\(name).s16"
        guard FileManager.default.createFile(atPath: path, contents: bytes) else {
            throw CocoaError(.fileWriteUnknown)
        }
    }

    private func speak(_ text: String, _ voice: String) async throws -> MeasuredSpeech {
        let speech = MeasuredSpeech()
        try await synthesizer.speak(SpeechRequest(text: text, voice: voice), on: host) {
            speech.append($0)
        }
        speech.finish()
        return speech
    }
}
