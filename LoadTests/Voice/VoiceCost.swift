// The cost of speaking sessions compared with the bare cost of their codec and voice activity. Both
// are measured on one core, alternately, because the machine's speed drifts by more than the
// difference.

import CLinux
import Foundation

/// A run of the comparison.
final class VoiceCost {
    private static let core = 0

    private let sessions: Int
    private let speechShare: Int
    private let rounds: Int
    private let seconds: Int
    private let speech: SpokenLoop
    private let address: ServerAddress
    private let server: PinnedProcess
    private let bare: PinnedProcess
    private let target: EchoTarget

    /// Starts the server, without speech recognition, and the bare loop.
    init(
        sessions: Int, speechShare: Int, rounds: Int, seconds: Int, port: UInt16, parley: String,
        models: String,
        recording: String, executable: String
    ) throws(LoadFailure) {
        self.sessions = sessions
        self.speechShare = speechShare
        self.rounds = rounds
        self.seconds = seconds
        speech = try SpokenLoop(path: recording, pause: .aroundSpeech(percent: speechShare))
        address = try ServerAddress("ws://127.0.0.1:\(port)/v1/realtime")
        let folder = try Self.modelsWithoutRecognition(models)
        server = try PinnedProcess(
            [
                parley, "serve", "--host", "127.0.0.1", "--port", "\(port)", "--shards", "1",
                "--models", folder, "--log-level", "error",
            ], core: Self.core)
        bare = try PinnedProcess(
            [
                executable, "voice-bare", "--wav", recording, "--streams", "\(sessions)",
                "--speech-share", "\(speechShare)", "--models", models,
            ], core: Self.core, isTalking: true)
        try server.awaitListening(on: port, name: "Parley")
        target = EchoTarget(
            wire: .webSocket(path: address.target), port: port, process: server.identifier)
    }

    /// Makes a folder with only the voice activity model, so that the server does not recognise
    /// speech.
    private static func modelsWithoutRecognition(_ models: String) throws(LoadFailure) -> String {
        let folder = ".build/load/voice-models"
        let link = folder + "/silero_vad.bin"
        let files = FileManager.default
        do {
            try files.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try? files.removeItem(atPath: link)
            let model = URL(fileURLWithPath: models + "/silero_vad.bin")
            try files.createSymbolicLink(
                at: URL(fileURLWithPath: link), withDestinationURL: model)
        } catch {
            throw LoadFailure("\(link) cannot be made: \(error.localizedDescription)")
        }
        return folder
    }

    /// Measures, and returns the table.
    func run() throws(LoadFailure) -> String {
        // Some sessions are opened and closed first, so that shared memory is not counted.
        let early = try SpeakingCrowd(min(20, sessions), speech: speech, at: target)
        try early.speak(forNanoseconds: 2_000_000_000)
        early.hangUp()
        poll(nil, 0, 1_000)
        let before = try MemoryMap(of: server.identifier)
        let crowd = try SpeakingCrowd(sessions, speech: speech, at: target)
        try crowd.speak(forNanoseconds: 2_000_000_000)
        let firstPage = try MetricsPage(of: address)
        var results: [Round] = []
        for round in 1...rounds {
            printError("round \(round) of \(rounds)\n")
            // Bring the decoders' state back into the caches before measuring.
            try crowd.speak(forNanoseconds: 300_000_000)
            results.append(try measureRound(crowd, before))
        }
        let lastPage = try MetricsPage(of: address)
        // Without sessions the server ends at once, without a drain.
        crowd.hangUp()
        guard server.isRunning else { throw LoadFailure("the server has ended") }
        return table(results, firstPage, lastPage, lateness: crowd.lateness)
    }

    /// One round: nanoseconds of the core per 20 ms of a session, and bytes per session.
    private struct Round {
        let server: Double
        let bare: Double
        let memory: Double
        let audio: Double
    }

    private func measureRound(
        _ crowd: SpeakingCrowd, _ before: MemoryMap
    ) throws(LoadFailure) -> Round {
        try awaitQuiet()
        let begin = processorNanoseconds(of: server.identifier)
        let packets = try crowd.speak(forNanoseconds: Int64(seconds) * 1_000_000_000)
        let memory = try MemoryMap(of: server.identifier)
        let page = try MetricsPage(of: address)
        // On a busy machine the server may be behind. Wait for it, so that its remaining work
        // counts here and does not slow the bare loop.
        try awaitQuiet()
        let spent = processorNanoseconds(of: server.identifier) - begin
        return Round(
            server: Double(spent) / Double(packets), bare: try bareNanoseconds(),
            memory: Double(memory.anonymous - before.anonymous) / Double(sessions),
            audio: page.sum(of: "parley_ledger_total_bytes") / Double(sessions))
    }

    /// Waits until the server has decoded all audio that was sent.
    private func awaitQuiet() throws(LoadFailure) {
        let deadline = monotonicNanoseconds() + 30_000_000_000
        var before = -1.0
        while monotonicNanoseconds() < deadline {
            let heard = try MetricsPage(of: address).sum(of: "parley_audio_received_seconds_total")
            if heard == before { return }
            before = heard
            poll(nil, 0, 60)
        }
        throw LoadFailure("the server does not keep up with \(sessions) sessions")
    }

    private func bareNanoseconds() throws(LoadFailure) -> Double {
        bare.input?.write(Data("1000\n".utf8))
        guard let line = bare.readLine(), let text = String(data: line, encoding: .utf8),
            let value = Double(text)
        else { throw LoadFailure("the bare loop has ended") }
        return value
    }

    private func table(
        _ rounds: [Round], _ first: MetricsPage, _ last: MetricsPage, lateness: Samples
    ) -> String {
        func cell(_ values: [Double], _ places: Int) -> String {
            let spread = Spread(values)
            return "\(decimal(spread.median, places)) "
                + "(\(decimal(spread.least, places)) … \(decimal(spread.greatest, places)))"
        }
        // Nanoseconds per packet of 20 ms → milliseconds per second of audio.
        let perSecond = 50 / 1e6
        let lag = last.quantile(0.99, of: "parley_event_loop_lag_seconds", since: first)
        let errors = last.sum(of: "parley_audio_decode_errors_total")
        let server = rounds.map { $0.server * perSecond }
        let bare = rounds.map { $0.bare * perSecond }
        let lagText = lag.map { "≤ \(decimal($0 * 1_000)) ms" } ?? "–"
        let memory = cell(rounds.map { $0.memory / 1_000 }, 1)
        let audio = cell(rounds.map { $0.audio / 1_000 }, 1)
        return """
            | \(sessions) sessions that speak \(speechShare)% of the time, median (min … max) of \(rounds.count) rounds | |
            |---|---|
            | Parley: CPU per session-second | \(cell(server, 3)) ms |
            | bare decode + voice activity: CPU per session-second | \(cell(bare, 3)) ms |
            | ratio | \(cell(rounds.map { $0.server / $0.bare }, 3)) |
            | sessions per core, Parley / bare | \(Int(1_000 / Spread(server).median)) \
            / \(Int(1_000 / Spread(bare).median)) |
            | anonymous memory per speaking session | \(memory) kB |
            | counted by the server in its ledger | \(audio) kB |
            | event-loop lag p99 (bucket bound) | \(lagText) |
            | generator's own lateness p50 / p99 | \(milliseconds(lateness.quantile(0.5))) \
            / \(milliseconds(lateness.quantile(0.99))) |
            | packets that did not decode | \(Int(errors)) |
            """
    }
}
