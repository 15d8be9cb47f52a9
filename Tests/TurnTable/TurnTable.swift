// `make turn-table`: false cut-offs and added wait of every mode of turn detection, on recordings
// with pauses in them, with the embedded voice activity model and recogniser. The clock is
// virtual, so the table depends on the models and the code, not on the machine.

import Codec
import Foundation
import Session

@main
struct TurnTable {
    /// Pauses that people make inside a turn, in milliseconds.
    private static let pauses = [200, 300, 400, 500, 600, 700, 800, 900]

    private static let modes: [(name: String, mode: TurnDetectionParameters.Mode)] = [
        ("server_vad, 200 ms", .serverVAD(threshold: 0.5, silenceMilliseconds: 200)),
        ("server_vad, 500 ms (default)", .serverVAD(threshold: 0.5, silenceMilliseconds: 500)),
        ("server_vad, 800 ms", .serverVAD(threshold: 0.5, silenceMilliseconds: 800)),
        ("semantic_vad, high", .semanticVAD(eagerness: .high)),
        ("semantic_vad, medium (auto)", .semanticVAD(eagerness: .medium)),
        ("semantic_vad, low", .semanticVAD(eagerness: .low)),
    ]

    static func main() async throws {
        let models = ProcessInfo.processInfo.environment["PARLEY_MODELS"] ?? "models"
        let weights = try Data(contentsOf: URL(filePath: models + "/silero_vad.bin"))
        let model = try VoiceActivityModel(weights: [UInt8](weights))
        let host = ModelHost()
        let recognizer = try CachedRecognizer(modelsDirectory: models, host: host)
        let table = TurnTable(model: model, recognizer: recognizer)
        let recordings = try PausedSpeech.recordings()
        try await table.printTurns(of: recordings, "Human recordings")
        try await table.printTurns(
            of: try await PausedSpeech.synthesized(on: host), "The embedded voice")
        try await table.printPartialTranscripts(of: recordings)
        let seconds = Double(recognizer.samples) / 16_000
        let milliseconds = Double(recognizer.time.wholeMilliseconds) / seconds
        print("Recognition took \(Int(milliseconds)) ms of wall clock per second of audio here.")
    }

    private let model: VoiceActivityModel
    private let recognizer: CachedRecognizer

    /// Every pause, of every length, in every mode.
    private func printTurns(of speech: [PausedSpeech], _ title: String) async throws {
        print("\(title), \(speech.count) pauses: false cut-offs by the pause's milliseconds; then")
        print("milliseconds, median / 95th percentile.\n")
        print(
            "| mode | " + Self.pauses.map { "\($0)" }.joined(separator: " | ")
                + " | all | end of speech → end of turn | → transcript | end of turn → transcript |"
        )
        print("|" + String(repeating: "---|", count: Self.pauses.count + 5))
        for (name, mode) in Self.modes {
            var cells = [name]
            var outcomes: [TurnOutcome] = []
            for pause in Self.pauses {
                let before = outcomes.count(where: \.isCutOff)
                for utterance in speech {
                    var trial = TurnTrial(mode, model: model, recognizer: recognizer)
                    outcomes.append(try await trial.run(utterance, pauseMilliseconds: pause))
                }
                cells.append("\(outcomes.count(where: \.isCutOff) - before)")
            }
            cells += [
                "\(outcomes.count(where: \.isCutOff) * 100 / outcomes.count)%",
                Self.spread(outcomes.map(\.wait)), Self.spread(outcomes.map(\.transcript)),
                Self.spread(outcomes.map(\.transcriptAfterTurn)),
            ]
            print("| " + cells.joined(separator: " | ") + " |")
            // A row takes a while: into a file, too, it goes at once.
            fflush(nil)
        }
        print("")
    }

    /// The recordings as they are, without pauses, shown word by word.
    private func printPartialTranscripts(of speech: [PausedSpeech]) async throws {
        var outcomes: [TurnOutcome] = []
        var known: Set<[Int16]> = []
        for utterance in speech where known.insert(utterance.before + utterance.after).inserted {
            let mode = Self.modes[1].mode
            var trial = TurnTrial(mode, model: model, recognizer: recognizer, showsWords: true)
            outcomes.append(try await trial.run(utterance, pauseMilliseconds: 0))
        }
        let words = outcomes.reduce(0) { $0 + $1.words }
        let early = outcomes.reduce(0) { $0 + $1.wordsShownEarly }
        print(
            "Partial transcripts of the \(outcomes.count) whole recordings, \(Self.modes[1].name):\n"
        )
        print("|  | measured |\n|---|---|")
        print("| words shown before the turn's end | \(early) of \(words) |")
        print(
            "| first words after the audio's start | \(Self.spread(outcomes.compactMap(\.firstWords))) ms |"
        )
        print(
            "| transcripts that contradict what was shown | \(outcomes.count(where: \.isRevised)) |"
        )
        let work = outcomes.map(\.work)
        print(
            String(
                format: "| audio recognised / audio, mean and most | %.1f, %.1f |\n",
                work.reduce(0, +) / Double(work.count), work.max() ?? 0))
    }

    private static func spread(_ values: [Int]) -> String {
        guard !values.isEmpty else { return "–" }
        let sorted = values.sorted()
        return "\(sorted[sorted.count / 2]) / \(sorted[sorted.count * 95 / 100])"
    }
}
