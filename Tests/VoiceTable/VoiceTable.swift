// `make bench-voices`: the embedded voices side by side. Each says the same sentences, which the
// embedded recogniser writes down again; the table has the words that it mistook, the time to the
// first sound, and the CPU. The clock is real, so the machine should be quiet.
//
//   voice-table [--voices marin,natural] [--runs 3]      PARLEY_MODELS: the models directory

import Agents
import Codec
import Foundation
import Session

@main
struct VoiceTable {
    /// Silence around a recording, as a microphone would give it. 250 ms at 16 kHz.
    private static let silence = [Int16](repeating: 0, count: 4_000)

    private let recognizer: MoonshineRecognizer
    private let synthesizer: EmbeddedSynthesizer
    private let host = VoiceHost()

    static func main() async throws {
        let models = ProcessInfo.processInfo.environment["PARLEY_MODELS"] ?? "models"
        let table = VoiceTable(
            recognizer: MoonshineRecognizer(modelsDirectory: models),
            synthesizer: EmbeddedSynthesizer(modelsDirectory: models, engine: .flite))
        try table.recognizer.prepare()
        print("\(VoiceSentences.all.count) sentences, \(runs) runs")
        print(
            "| voice | words mistaken | first sound p50 / p95 | CPU a second of speech | voices a core |"
        )
        print("|---|---|---|---|---|")
        var mistakes: [String] = []
        for voice in voices {
            if voice == EmbeddedSynthesizer.naturalName, let missing = table.synthesizer.missingFile
            {
                print("| \(voice) | not installed: run `make voice` (\(missing)) | | | |")
                continue
            }
            let row = try await table.row(voice)
            print(row.text)
            mistakes += row.mistakes
        }
        if CommandLine.arguments.contains("--mistakes") { print(mistakes.joined(separator: "\n")) }
    }

    private static func option(_ name: String, or standard: String) -> String {
        guard let index = CommandLine.arguments.firstIndex(of: name),
            index + 1 < CommandLine.arguments.count
        else { return standard }
        return CommandLine.arguments[index + 1]
    }

    private static var voices: [String] {
        option("--voices", or: "marin,cedar,natural").split(separator: ",").map(String.init)
    }

    private static var runs: Int { Int(option("--runs", or: "3")) ?? 3 }

    /// What a voice's sentences gave.
    private struct Row {
        let voice: String
        var errors = 0
        var words = 0
        var firstSounds: [Double] = []
        var cpu = 0.0
        var sound = 0.0
        var mistakes: [String] = []

        var text: String {
            let sorted = firstSounds.sorted()
            func quantile(_ share: Double) -> Int {
                Int(sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))].rounded())
            }
            let rate = cpu / sound
            let errors = String(format: "%.1f%%", 100 * Double(errors) / Double(words))
            let cost = String(format: "%.3f s", rate)
            return "| \(voice) | \(errors) of \(words) | \(quantile(0.5)) / \(quantile(0.95)) ms "
                + "| \(cost) | \(Int(1 / rate)) |"
        }
    }

    private func row(_ voice: String) async throws -> Row {
        var row = Row(voice: voice)
        // Not measured: the first word loads the voice.
        _ = try await speak("Ready.", voice)
        for sentence in (0..<Self.runs).flatMap({ _ in VoiceSentences.all }) {
            let speech = try await speak(sentence, voice)
            row.firstSounds.append(speech.firstSound)
            row.cpu += speech.cpu
            row.sound += speech.seconds
            let heard = try await recognizer.transcribe(
                Utterance(samples: Self.silence + speech.samples() + Self.silence), on: host)
            let comparison = WordComparison(said: sentence, heard: heard)
            row.errors += comparison.errors
            row.words += comparison.words
            if comparison.errors > 0 { row.mistakes.append("\(voice): \(sentence) → \(heard)") }
        }
        return row
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
