// `turn-table --echo`: measures what happens to replies that an open microphone picks up again, and
// to users who speak over them.

import Codec
import Foundation
import Session

/// Prints the table.
struct EchoTable {
    let model: VoiceActivityModel
    /// Samples of replies and of users, normalised to one level.
    private let replies: [[Int16]]
    private let users: [[Int16]]

    /// - Parameter sentences: sentences of the embedded voice; three of them make a reply.
    init(model: VoiceActivityModel, sentences: [PausedSpeech]) throws {
        self.model = model
        var synthesized: [[Int16]] = []
        for (index, sentence) in sentences.enumerated() {
            if index.isMultiple(of: 3) { synthesized.append([]) }
            synthesized[index / 3] += sentence.before
            synthesized[index / 3] += sentence.after
        }
        let recordings = try HumanRecording.all.map { try $0.samples() }
        // Long recordings of one speaker also serve as replies; users speak the others.
        let long = recordings.filter { $0.count > 16 * 3_500 }
        replies = (synthesized + long).map { Self.scaled($0, by: 0) }
        users = recordings.filter { $0.count <= 16 * 3_500 }.map { Self.scaled($0, by: 0) }
    }

    /// Normalises to −26 dB of full scale, plus `gain` decibels.
    private static func scaled(_ samples: [Int16], by gain: Float) -> [Int16] {
        let factor = 1_642 / SpeechMix.level(of: samples) * EchoTrial.factor(gain)
        return samples.map { Int16(max(-32_768, min(32_767, Float($0) * factor))) }
    }

    func print() throws {
        Swift.print(
            "Replies: \(replies.count), each heard after another one; users: \(users.count).\n")
        Swift.print(
            "| echo | delay | walls | first reply: times held | second "
                + "| second reply, time / length |"
                + "\n|---|---|---|---|---|---|")
        for gain in [Float(-6), -12, -20] {
            for delay in [60, 150, 300] {
                for isLive in [false, true] {
                    try printEcho(
                        EchoRoom(gain: gain, delayMilliseconds: delay, isLive: isLive))
                }
            }
        }
        Swift.print(
            "\n| user over echo | delay "
                + "| noticed later than without an echo: median / 95% / most, ms "
                + "| not noticed | interrupted |\n|---|---|---|---|---|")
        for gain in [Float(0), -6] {
            for delay in [60, 150, 300] {
                try printInterruptions(
                    EchoRoom(gain: -12, delayMilliseconds: delay, isLive: true), user: gain)
            }
        }
    }

    private func printEcho(_ room: EchoRoom) throws {
        var before: [Int] = []
        var after: [Int] = []
        var ratio = 0.0
        for (index, reply) in replies.enumerated() {
            let first = replies[(index + 1) % replies.count]
            let trial = try EchoTrial(model: model, room: room, replies: [first, reply])
            try trial.run()
            before.append(trial.onsetsBefore)
            after.append(trial.onsets.count)
            ratio += Double(trial.duration) * 16 / Double(reply.count)
        }
        let count = replies.count
        Swift.print(
            String(
                format: "| %.0f dB | %d ms | %@ | %.2f, most %d | %.2f, most %d | %.2f |",
                Double(room.gain), room.delayMilliseconds, room.isLive ? "yes" : "no",
                Double(before.reduce(0, +)) / Double(count), before.max() ?? 0,
                Double(after.reduce(0, +)) / Double(count), after.max() ?? 0,
                ratio / Double(count)))
        fflush(nil)
    }

    private func printInterruptions(_ room: EchoRoom, user gain: Float) throws {
        var later: [Int] = []
        var missed = 0
        var interrupted = 0
        var expected = 0
        for (index, user) in users.enumerated() {
            let long = replies.filter { $0.count > 16 * 4_000 }
            let replies = [long[index % long.count], long[(index + 1) % long.count]]
            let speech = Self.scaled(user, by: room.gain + gain)
            func trial(hearsEcho: Bool) throws -> EchoTrial {
                let trial = try EchoTrial(model: model, room: room, replies: replies)
                try trial.run(user: speech, at: 1_500, hearsEcho: hearsEcho)
                return trial
            }
            let quiet = try trial(hearsEcho: false)
            let loud = try trial(hearsEcho: true)
            guard let baseline = quiet.onsets.first(where: { $0 >= 1_500 }) else { continue }
            if quiet.interruption != nil { expected += 1 }
            if quiet.interruption != nil, loud.interruption != nil { interrupted += 1 }
            let latest = baseline + user.count / 16
            if let onset = loud.onsets.first(where: { $0 >= 1_500 && $0 < latest }) {
                later.append(onset - baseline)
            } else {
                missed += 1
            }
        }
        later.sort()
        guard let most = later.last else { return }
        Swift.print(
            String(format: "| %.0f dB | %d ms | ", Double(gain), room.delayMilliseconds)
                + "\(later[later.count / 2]) / \(later[later.count * 95 / 100]) / \(most) "
                + "| \(missed) of \(later.count + missed) | \(interrupted) of \(expected) |")
        fflush(nil)
    }
}
