// `make nod-table`: how many nods stop a reply, how many interruptions do not, and how soon the
// others do, by the rule, the speaker, the loudness and the noise. `--words` tries that rule alone,
// `--every 5` every fifth utterance, and `--wrong` prints what was judged wrongly.

import Agents
import Codec
import Foundation
import Session

/// Prints the tables.
struct NodTable: Sendable {
    /// How an utterance reaches the microphone.
    private struct Condition {
        let name: String
        /// The speech's peak.
        let peak: Float
        var mix = SpeechMix.clean
    }

    private static let conditions = [
        Condition(name: "normal", peak: 8_000), Condition(name: "loud", peak: 28_000),
        Condition(name: "soft", peak: 1_600),
        Condition(name: "pink noise, 15 dB", peak: 8_000, mix: .pink15),
        Condition(name: "pink noise, 5 dB", peak: 8_000, mix: .pink5),
    ]

    private typealias Result = (speech: NodSpeech, condition: String, outcome: NodOutcome)

    let model: VoiceActivityModel
    let recognizer: MoonshineRecognizer
    let host: ModelHost

    func print() async throws {
        let all = try await NodSpeech.synthesized(on: host) + NodSpeech.recorded()
        let speech = stride(from: 0, to: all.count, by: Self.option("--every") ?? 1).map { all[$0] }
        let known = CachedRecognizer(recognizer, host: host)
        for rule in TurnDetectionParameters.Interruption.allCases
        where !CommandLine.arguments.contains("--words") || rule == .words {
            var results: [Result] = []
            for condition in Self.conditions {
                for utterance in speech {
                    var trial = NodTrial(rule, model: model, recognizer: known)
                    let outcome = try await trial.run(Self.microphone(utterance, condition))
                    results.append((utterance, condition.name, outcome))
                }
            }
            report(rule, results)
            fflush(nil)
        }
    }

    /// The number after an option.
    private static func option(_ name: String) -> Int? {
        let arguments = CommandLine.arguments
        return arguments.firstIndex(of: name).flatMap {
            arguments.indices.contains($0 + 1) ? Int(arguments[$0 + 1]) : nil
        }.map { max(1, $0) }
    }

    /// The microphone's samples: a quiet room, the utterance, and the room again.
    private static func microphone(_ speech: NodSpeech, _ condition: Condition) -> [Int16] {
        var noise = SeededNoise()
        func room(_ milliseconds: Int) -> [Int16] {
            (0..<16 * milliseconds).map { _ in Int16(8 * noise.next()) }
        }
        let peak = speech.samples.map { abs(Float($0)) }.max() ?? 1
        let scaled = speech.samples.map { Int16(Float($0) * condition.peak / max(1, peak)) }
        var samples = room(NodTrial.start) + scaled + room(3_000)
        condition.mix.apply(
            to: &samples, level: SpeechMix.level(of: scaled), voice: PausedSpeech.secondVoice)
        return samples
    }

    private func report(_ rule: TurnDetectionParameters.Interruption, _ results: [Result]) {
        Swift.print(
            """
            interruption: \(rule.rawValue)

            |  | nods | stop the reply | interruptions | missed | stopped after, p50 / p90 ms |
            |---|---|---|---|---|---|
            """)
        row("all", results)
        row("phrases that the rule was found with", results.filter(\.speech.isKnown))
        row("other phrases", results.filter { !$0.speech.isKnown })
        for name in Set(results.map(\.speech.speaker)).sorted() {
            row(name, results.filter { $0.speech.speaker == name })
        }
        for condition in Self.conditions {
            row(condition.name, results.filter { $0.condition == condition.name })
        }
        Swift.print("")
        guard CommandLine.arguments.contains("--wrong") else { return }
        for (speech, condition, outcome) in results
        where outcome.isStopped == (speech.meaning == .nod) {
            Swift.print(
                "\(rule.rawValue) \(speech.meaning) \(speech.speaker) \(condition): "
                    + "\(speech.words) → \(outcome.heard)")
        }
    }

    private func row(_ name: String, _ results: [Result]) {
        let nods = results.filter { $0.speech.meaning == .nod }
        let interruptions = results.filter { $0.speech.meaning == .interruption }
        let times = interruptions.compactMap(\.outcome.stoppedAfter).sorted()
        let spread =
            times.isEmpty ? "–" : "\(times[times.count / 2]) / \(times[times.count * 9 / 10])"
        let cells = [
            name, "\(nods.count)",
            Self.share(nods.count(where: \.outcome.isStopped), of: nods.count),
            "\(interruptions.count)",
            Self.share(interruptions.count { !$0.outcome.isStopped }, of: interruptions.count),
            spread,
        ]
        Swift.print("| " + cells.joined(separator: " | ") + " |")
    }

    /// A share in percent, with its interval of 95% (Wilson, JASA 1927).
    private static func share(_ count: Int, of whole: Int) -> String {
        guard whole > 0 else { return "–" }
        let (share, size, z) = (Double(count) / Double(whole), Double(whole), 1.96)
        let middle = share + z * z / (2 * size)
        let spread = z * (share * (1 - share) / size + z * z / (4 * size * size)).squareRoot()
        let scale = 100 / (1 + z * z / size)
        return String(
            format: "%.1f%% (%.1f…%.1f)", 100 * share, (middle - spread) * scale,
            (middle + spread) * scale)
    }
}
