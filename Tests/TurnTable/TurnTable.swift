// `make turn-table`: the false cut-offs and the added wait of every mode of turn detection. It uses
// recordings with inserted pauses, the embedded voice activity model and recogniser, clean and
// noisy audio. The clock is virtual, so the tables depend on the models and the code, not on the
// machine. `--echo` measures the effect of the agent's own voice in the microphone. `--prosody`
// measures how well sound alone predicts the end of a turn; the weights in Session/Prosody come
// from it. `--utterances` counts what the recogniser makes of bare numbers, letters and words.
// `--nods` tells nods from interruptions, `--room` counts what other sounds of a room do.

import Agents
import Codec
import Foundation
import Session

@main
struct TurnTable: Sendable {
    /// Typical pauses inside a turn, in milliseconds.
    private static let pauses = [200, 300, 400, 500, 600, 700, 800, 900]
    /// Those that are also tried in noise, where every trial must be recognised anew.
    private static let pausesInNoise = [300, 700]

    private static let modes = [
        TurnMode(
            name: "server_vad, 200 ms",
            detection: .serverVAD(threshold: 0.5, silenceMilliseconds: 200)),
        TurnMode(
            name: "server_vad, 500 ms (default)",
            detection: .serverVAD(threshold: 0.5, silenceMilliseconds: 500)),
        TurnMode(
            name: "server_vad, 800 ms",
            detection: .serverVAD(threshold: 0.5, silenceMilliseconds: 800)),
        TurnMode(name: "semantic_vad, high", detection: .semanticVAD(eagerness: .high)),
        TurnMode(name: "semantic_vad, medium (auto)", detection: .semanticVAD(eagerness: .medium)),
        TurnMode(name: "semantic_vad, low", detection: .semanticVAD(eagerness: .low)),
        TurnMode(
            name: "medium without prosody", detection: .semanticVAD(eagerness: .medium),
            hasProsody: false),
        TurnMode(
            name: "medium without words", detection: .semanticVAD(eagerness: .medium),
            hasWords: false),
        TurnMode(
            name: "medium, silence alone", detection: .semanticVAD(eagerness: .medium),
            hasWords: false, hasProsody: false),
        TurnMode(name: "manual commit (baseline)", detection: nil),
    ]

    static func main() async throws {
        let models = ProcessInfo.processInfo.environment["PARLEY_MODELS"] ?? "models"
        let weights = try Data(contentsOf: URL(filePath: models + "/silero_vad.bin"))
        let host = ModelHost()
        let model = try VoiceActivityModel(weights: [UInt8](weights))
        let table = TurnTable(
            model: model,
            recognizer: MoonshineRecognizer(modelsDirectory: models, voiceActivity: model),
            host: host)
        try table.recognizer.prepare()
        if CommandLine.arguments.contains("--echo") {
            let sentences = try await PausedSpeech.synthesized(on: host)
            return try EchoTable(model: table.model, sentences: sentences).print()
        }
        if CommandLine.arguments.contains("--utterances") {
            return try await UtteranceTable(recognizer: table.recognizer, host: host).print()
        }
        if CommandLine.arguments.contains("--nods") {
            return try await NodTable(model: model, recognizer: table.recognizer, host: host)
                .print()
        }
        if CommandLine.arguments.contains("--room") {
            return try await RoomTable(model: model, recognizer: table.recognizer, host: host)
                .print()
        }
        let pauseTable = PauseTable(
            finder: TurnEvents(
                voiceActivity: model, recognizer: CachedRecognizer(table.recognizer, host: host),
                turnModel: SmartTurn(modelsDirectory: models)))
        if CommandLine.arguments.contains("--pauses") { return try await pauseTable.print() }
        let recordings = try PausedSpeech.recordings()
        let synthesized = try await PausedSpeech.synthesized(on: host)
        if CommandLine.arguments.contains("--prosody") {
            ProsodyFit(recordings, mixes: [.clean]).report("Human recordings, clean")
            ProsodyFit(recordings, mixes: SpeechMix.allCases).report("Human recordings, all mixes")
            ProsodyFit(synthesized, mixes: [.clean]).report("The embedded voice, clean")
            return
        }
        try await pauseTable.print()
        var sections = [
            Section(title: "Human recordings", speech: recordings, pauses: pauses),
            Section(title: "The embedded voice", speech: synthesized, pauses: pausesInNoise),
        ]
        for mix in SpeechMix.allCases where mix != .clean {
            sections.append(
                Section(
                    title: "Human recordings, \(mix.name)", speech: recordings,
                    pauses: pausesInNoise, mix: mix))
        }
        try await table.printAll(sections)
        let timed = CachedRecognizer(table.recognizer, host: host)
        try await table.printPartialTranscripts(of: recordings, timed)
        try await table.printTranscriptTimes(of: recordings, timed)
        try await table.printContinuousSpeech(timed)
    }

    /// One table: a set of speech, its pauses, and the disturbances.
    private struct Section: Sendable {
        let title: String
        let speech: [PausedSpeech]
        let pauses: [Int]
        var mix = SpeechMix.clean
    }

    private let model: VoiceActivityModel
    private let recognizer: MoonshineRecognizer
    private let host: ModelHost

    /// Computes two tables at a time, for two cores, and prints each when it is complete.
    private func printAll(_ sections: [Section]) async throws {
        try await withThrowingTaskGroup(of: String.self) { group in
            for (index, section) in sections.enumerated() {
                if index >= 2, let done = try await group.next() { print(done) }
                fflush(nil)
                group.addTask { try await turns(of: section) }
            }
            for try await done in group { print(done) }
        }
    }

    /// Runs every utterance with every pause in every mode.
    private func turns(of section: Section) async throws -> String {
        let recognizer = CachedRecognizer(recognizer, host: host)
        var lines = [
            "\(section.title), \(section.speech.count) pauses: false cut-offs by the pause's",
            "milliseconds, of all, and of the recordings that had no say; then milliseconds,",
            "median / 95th percentile.", "",
            "| mode | " + section.pauses.map { "\($0)" }.joined(separator: " | ")
                + " | all | judges | lost | end of speech → end of turn | → transcript "
                + "| end of turn → transcript |",
            "|" + String(repeating: "---|", count: section.pauses.count + 7),
        ]
        for mode in Self.modes {
            var cells = [mode.name]
            var outcomes: [TurnOutcome] = []
            for pause in section.pauses {
                let before = outcomes.count(where: \.isCutOff)
                for utterance in section.speech {
                    var trial = TurnTrial(mode, model: model, recognizer: recognizer)
                    outcomes.append(
                        try await trial.run(utterance, pauseMilliseconds: pause, section.mix))
                }
                cells.append("\(outcomes.count(where: \.isCutOff) - before)")
            }
            let ended = outcomes.filter { !$0.isLost }
            cells += [
                Self.share(outcomes), Self.share(outcomes.filter(\.isJudge)),
                "\(outcomes.count - ended.count)", Self.spread(ended.map(\.wait)),
                Self.spread(ended.map(\.transcript)), Self.spread(ended.map(\.transcriptAfterTurn)),
            ]
            lines.append("| " + cells.joined(separator: " | ") + " |")
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func share(_ outcomes: [TurnOutcome]) -> String {
        let cutOff = Double(outcomes.count(where: \.isCutOff))
        return String(format: "%.0f%%", 100 * cutOff / Double(max(1, outcomes.count)))
    }

    /// Recognises whole recordings without pauses, with partial transcripts.
    private func printPartialTranscripts(
        of speech: [PausedSpeech], _ recognizer: CachedRecognizer
    ) async throws {
        var outcomes: [TurnOutcome] = []
        var known: Set<Int> = []
        for utterance in speech where known.insert(utterance.recording).inserted {
            var trial = TurnTrial(
                Self.modes[1], model: model, recognizer: recognizer, showsWords: true)
            outcomes.append(try await trial.run(utterance, pauseMilliseconds: 0))
        }
        outcomes.removeAll(where: \.isLost)
        let words = outcomes.reduce(0) { $0 + $1.words }
        let early = outcomes.reduce(0) { $0 + $1.wordsShownEarly }
        let first = outcomes.compactMap(\.firstWords)
        print("Partial transcripts of \(outcomes.count) whole recordings, \(Self.modes[1].name):\n")
        print("|  | measured |\n|---|---|")
        print("| words shown before the turn's end | \(early) of \(words) |")
        print("| first words after the audio's start | \(Self.spread(first)) ms |")
        print(
            "| transcripts that contradict what was shown | \(outcomes.count(where: \.isRevised)) |"
        )
        let work = outcomes.map(\.work)
        print(
            String(
                format: "| audio recognised / audio, mean and most | %.1f, %.1f |\n",
                work.reduce(0, +) / Double(max(1, work.count)), work.max() ?? 0))
    }

    /// Measures when the transcript is available, with recognition timed on this machine.
    private func printTranscriptTimes(
        of speech: [PausedSpeech], _ recognizer: CachedRecognizer
    ) async throws {
        print("Milliseconds from the end of the turn to its transcript, recognition timed on this")
        print("machine, whole recordings.\n")
        print("| mode | median | 95th percentile | most | within 150 ms |\n|---|---|---|---|---|")
        for mode in Self.modes {
            var delays: [Int] = []
            var known: Set<Int> = []
            for utterance in speech where known.insert(utterance.recording).inserted {
                var trial = TurnTrial(mode, model: model, recognizer: recognizer)
                trial.isTimed = true
                let outcome = try await trial.run(utterance, pauseMilliseconds: 0)
                if !outcome.isLost { delays.append(outcome.transcriptAfterTurn) }
            }
            delays.sort()
            guard let most = delays.last else { continue }
            let early = delays.count { $0 <= 150 }
            print(
                "| \(mode.name) | \(delays[delays.count / 2]) | \(delays[delays.count * 95 / 100]) "
                    + "| \(most) | \(early) of \(delays.count) |")
        }
        print("")
    }

    /// A reader who does not pause, with partial transcripts.
    private func printContinuousSpeech(_ recognizer: CachedRecognizer) async throws {
        let samples = PausedSpeech.continuousSpeech
        let speech = PausedSpeech(
            words: "", speaker: .human, recording: 0, before: [], after: samples)
        var trial = TurnTrial(
            Self.modes[2], model: model, recognizer: recognizer, showsWords: true)
        trial.isTimed = true
        let before = recognizer.time
        let outcome = try await trial.run(speech, pauseMilliseconds: 0)
        let share =
            Double((recognizer.time - before).wholeMilliseconds) * 16 / Double(samples.count)
        print(
            String(
                format:
                    "Continuous speech, %d s: %.1f times the audio recognised, %.0f%% of a core; ",
                samples.count / 16_000, outcome.work, share * 100)
                + "\(outcome.wordsShownEarly) of \(outcome.words) words shown before the end.")
    }

    private static func spread(_ values: [Int]) -> String {
        guard !values.isEmpty else { return "–" }
        let sorted = values.sorted()
        return "\(sorted[sorted.count / 2]) / \(sorted[sorted.count * 95 / 100])"
    }
}
