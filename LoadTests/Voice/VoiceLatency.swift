// The delays of one conversation, from voice to voice. The client speaks in real time, hears the
// reply begin, and interrupts it with its next turn. The client takes all times, so they include
// the way over the socket.

import CLinux
import Codec

/// A conversation of several turns with the embedded parts.
struct VoiceLatency {
    let turns: Int
    /// Milliseconds of a reply before it is interrupted.
    let interruptAfter: Int
    let port: UInt16
    let parley: String
    let models: String
    let utterance: String

    private static let update = """
        {"type":"session.update","session":{"type":"realtime","audio":{"input":{"format":\
        {"type":"audio/opus"},"transcription":{"model":"default"},"turn_detection":\
        {"type":"server_vad"}},"output":{"format":{"type":"audio/opus"},"transport":"binary"}}}}
        """

    /// Measures, and returns the tables.
    func run() throws(LoadFailure) -> String {
        let server = try PinnedProcess(
            [
                parley, "serve", "--host", "127.0.0.1", "--port", "\(port)", "--models", models,
                "--log-level", "error",
            ], core: nil)
        try server.awaitListening(on: port, name: "Parley")
        return try converse(with: ServerAddress("ws://127.0.0.1:\(port)/v1/realtime"))
    }

    /// Runs the conversation. The session is closed on return, so that the server can end without a
    /// drain.
    private func converse(with address: ServerAddress) throws(LoadFailure) -> String {
        let speech = try SpokenLoop(path: utterance, pause: .seconds(20))
        let talker = try Talker(to: address, speech: speech, update: Self.update)
        // The first turn is not counted, because it waits until the recogniser is loaded.
        _ = try talker.takeTurn(interruptAfter: Int64(interruptAfter) * 1_000_000)
        var delays = TurnDelays()
        for turn in 1...turns {
            printError("turn \(turn) of \(turns)\n")
            let heard = try talker.takeTurn(interruptAfter: Int64(interruptAfter) * 1_000_000)
            delays.append(heard)
        }
        return table(delays, try MetricsPage(of: address))
    }

    private func table(_ delays: TurnDelays, _ page: MetricsPage) -> String {
        func row(_ title: String, _ samples: Samples) -> String {
            let cells = [0.5, 0.95, 0.99, 1].map { milliseconds(samples.quantile($0)) }
            return "| \(title) | " + cells.joined(separator: " | ") + " | \(samples.count) |"
        }
        let head = "| median | p95 | p99 | max | turns |\n|---|---|---|---|---|---|\n"
        return "| voice to voice, from the end of speech " + head
            + row("turn decided (`speech_stopped`)", delays.decided) + "\n"
            + row("→ transcript", delays.transcript) + "\n"
            + row("→ first model token (the transcript of the reply)", delays.token) + "\n"
            + row("→ first audio at the client", delays.audio) + "\n\n"
            + "| of that, each step by itself " + head
            + row("end of speech → turn decided", delays.decided) + "\n"
            + row("turn decided → transcript", delays.transcriptStep) + "\n"
            + row("transcript → first model token", delays.tokenStep) + "\n"
            + row("first model token → first audio at the client", delays.audioStep) + "\n\n"
            + "| interruption " + head
            + row("first packet of speech → `speech_started`", delays.onset) + "\n"
            + row("first packet of speech → last byte of reply audio", delays.stopped) + "\n"
            + row("`speech_started` → last byte of reply audio", delays.stoppedAfterOnset) + "\n\n"
            + "The server's own mean over all turns: " + serverMeans(page) + "."
    }

    private func serverMeans(_ page: MetricsPage) -> String {
        ["transcript", "first_token", "first_audio"].map { hop in
            let name = "parley_turn_latency_seconds"
            let count = page.sum(of: "\(name)_count", labelled: "hop=\"\(hop)\"")
            let sum = page.sum(of: "\(name)_sum", labelled: "hop=\"\(hop)\"")
            return "\(hop) \(count > 0 ? decimal(sum / count * 1_000) : "–") ms"
        }.joined(separator: ", ")
    }
}

/// The times of one turn's steps, on the monotonic clock; nil for a step that did not happen.
struct HeardTurn {
    /// The time at which the last loud packet of the turn was due.
    var endOfSpeech: Int64 = 0
    var decided: Int64?
    var transcript: Int64?
    var token: Int64?
    var audio: Int64?
    /// The times of the interruption, with which the next turn begins.
    var interruptionBegan: Int64?
    var interruptionHeard: Int64?
    /// The arrival of the last reply audio after the interruption began; nil when none arrived.
    var lastAudio: Int64?
}

/// The delays of all turns, in nanoseconds.
struct TurnDelays {
    private(set) var decided = Samples(), transcript = Samples(), token = Samples()
    private(set) var audio = Samples(), transcriptStep = Samples(), tokenStep = Samples()
    private(set) var audioStep = Samples(), onset = Samples(), stopped = Samples()
    private(set) var stoppedAfterOnset = Samples()

    /// Adds the delays of a turn; steps that did not happen are left out.
    mutating func append(_ turn: HeardTurn) {
        func add(_ samples: inout Samples, _ from: Int64?, _ to: Int64?) {
            if let from, let to { samples.append(to - from) }
        }
        add(&decided, turn.endOfSpeech, turn.decided)
        add(&transcript, turn.endOfSpeech, turn.transcript)
        add(&token, turn.endOfSpeech, turn.token)
        add(&audio, turn.endOfSpeech, turn.audio)
        add(&transcriptStep, turn.decided, turn.transcript)
        add(&tokenStep, turn.transcript, turn.token)
        add(&audioStep, turn.token, turn.audio)
        guard let heard = turn.interruptionHeard else { return }
        add(&onset, turn.interruptionBegan, heard)
        // Without audio after the interruption began, the delay is zero.
        add(&stopped, turn.interruptionBegan, turn.lastAudio ?? turn.interruptionBegan)
        add(&stoppedAfterOnset, heard, max(heard, turn.lastAudio ?? heard))
    }
}
