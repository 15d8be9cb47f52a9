// `make room-table`: what the other sounds of a room do while an agent speaks to a silent user: music,
// the speech of others, a keyboard. Counted for an hour: how often speech is noticed (a false start),
// which holds the reply for a moment, and how often the reply is interrupted. The recordings are of
// Debian's packages.

import Agents
import Codec
import Foundation
import Session
import TestMaterial

/// Prints the table.
struct RoomTable: Sendable {
    /// A way to listen.
    private struct Mode {
        let rule: TurnDetectionParameters.Interruption
        var threshold = 0.5
        var name: String { "\(rule.rawValue), \(threshold)" }
    }

    private static let modes = [
        Mode(rule: .any), Mode(rule: .words), Mode(rule: .strict),
        Mode(rule: .strict, threshold: 0.8),
    ]
    /// Root mean squares of the disturbance. Speech into a headset has about 1,600 (−26 dB).
    private static let levels: [(name: String, rms: Float)] = [
        ("-46 dB", 164), ("-36 dB", 519), ("-26 dB", 1_640),
    ]
    /// Minutes of each source.
    private static let minutes = 5

    let model: VoiceActivityModel
    let recognizer: MoonshineRecognizer
    let host: ModelHost

    func print() async throws {
        Swift.print(
            "An hour of it: false starts / interruptions.\n\n| source | level | "
                + Self.modes.map(\.name).joined(separator: " | ") + " |\n|---|---|"
                + String(repeating: "---|", count: Self.modes.count))
        for (name, samples) in try Self.sources() {
            let known = CachedRecognizer(recognizer, host: host)
            for level in Self.levels {
                let scale = level.rms / SpeechMix.level(of: samples)
                let microphone = samples.map { Int16(max(-32_768, min(32_767, Float($0) * scale))) }
                var cells = [name, level.name]
                for mode in Self.modes {
                    var trial = NodTrial(
                        mode.rule, threshold: mode.threshold, model: model, recognizer: known,
                        isRepeated: true)
                    let outcome = try await trial.run(microphone)
                    let hours = 60 * 16_000 * 60 / microphone.count
                    cells.append("\(outcome.onsets * hours) / \(outcome.interruptions * hours)")
                }
                Swift.print("| " + cells.joined(separator: " | ") + " |")
                fflush(nil)
            }
        }
    }

    private static func sources() throws -> [(String, [Int16])] {
        let sounds = "/usr/share/asterisk"
        return [
            ("music", try files(in: sounds + "/moh", "asterisk-moh-opsound-wav")),
            (
                "a woman, English",
                try files(in: sounds + "/sounds/en_US_f_Allison", "asterisk-core-sounds-en-wav")
            ),
            (
                "a man, Italian",
                try files(in: sounds + "/sounds/it_IT_m_Carlo", "asterisk-core-sounds-it-wav")
            ),
            ("a keyboard", try typing()),
        ]
    }

    /// The WAV files of a folder one after another.
    private static func files(in folder: String, _ package: String) throws -> [Int16] {
        var samples: [Int16] = []
        for name in try names(in: folder, package) {
            samples += try SpeechRecording(wav: folder + "/" + name).samples
            if samples.count >= minutes * 60 * 16_000 { break }
        }
        return Array(samples.prefix(minutes * 60 * 16_000))
    }

    /// Five keys a second at random, as a fast typist strikes them.
    private static func typing() throws -> [Int16] {
        let folder = "/usr/share/buckle/wav"
        let keys = try names(in: folder, "bucklespring-data").prefix(60).map {
            try SpeechRecording(wav: folder + "/" + $0).samples
        }
        var noise = SeededNoise()
        var samples = [Int16](repeating: 0, count: minutes * 60 * 16_000)
        var place = 0
        while place < samples.count {
            let key = keys[Int((noise.next() + 1) / 2 * Float(keys.count - 1))]
            for (index, sample) in key.enumerated() where place + index < samples.count {
                samples[place + index] = Int16(
                    clamping: Int(samples[place + index]) + Int(sample))
            }
            place += 1_600 + Int((noise.next() + 1) * 1_600)
        }
        return samples
    }

    private static func names(in folder: String, _ package: String) throws -> [String] {
        guard let all = try? FileManager.default.contentsOfDirectory(atPath: folder) else {
            throw TurnTableFailure("\(folder) is missing: apt-get install \(package)")
        }
        return all.filter { $0.hasSuffix(".wav") }.sorted()
    }
}
