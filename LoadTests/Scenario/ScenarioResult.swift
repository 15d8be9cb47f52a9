// What a load run found, as a value that is written to a file and read again. How it is shown is in
// Report/.

import Foundation

/// The result of one scenario against one target.
struct ScenarioResult: Codable, Sendable {
    var scenario: Scenario
    var target: String
    var counts: LoadCounts
    /// What went wrong, and how often.
    var errors: [String: Int] = [:]
    /// By what they measure; see `LatencyKind`.
    var latencies: [LatencyKind: LatencySummary] = [:]
    /// The server before the sessions, with them (at the end of the measured part), and after.
    var before: ServerSample?
    /// Once all are open, before they do anything.
    var opened: ServerSample?
    var with: ServerSample?
    var after: ServerSample?
    /// Seconds of the measured part without its ramp, as they were.
    var measuredSeconds = 0.0
    /// What the target's processes spent in these seconds. Nil: unknown.
    var serverCPUSeconds: Double?
    /// What they spent while the sessions were opened.
    var openingCPUSeconds: Double?
    /// What the generator's own processes spent in the measured part.
    var generatorCPUSeconds = 0.0
    /// How long all sessions took to open, from the first.
    var openingSeconds = 0.0
    /// The run in steps of half a second.
    var timeline: [TimelinePoint] = []
    /// When it began, ISO 8601.
    var date = ""
    /// Processors, memory and system.
    var machine = ""
    /// What made it.
    var command = ""

    /// Turns that were due and had not ended well when the run's patience was over.
    var turnsOpen: Int { counts.turnsBegun - counts.turnsCompleted + counts.turnsNeverBegun }

    /// Bytes of anonymous memory that the server grew by for each session that was open; nil when
    /// it was not measured.
    var bytesPerSession: Double? { perSession(opened) { Double($0.anonymousBytes) } }

    /// The same by the server's own ledger.
    var ledgerBytesPerSession: Double? { perSession(opened) { $0.ledgerBytes } }

    /// The same at the end of the measured part, when sessions have done what they do.
    var busyBytesPerSession: Double? { perSession(with) { Double($0.anonymousBytes) } }

    /// By how much the ledger's growth differs from the process's, in percent of the process's;
    /// positive when the ledger says more. At the end of the measured part.
    var ledgerDifferencePercent: Double? {
        guard let before, let with, let was = before.ledgerBytes, let ledger = with.ledgerBytes
        else { return nil }
        let grown = Double(with.anonymousBytes - before.anonymousBytes)
        return grown > 0 ? ((ledger - was) / grown - 1) * 100 : nil
    }

    private func perSession(
        _ sample: ServerSample?, _ value: (ServerSample) -> Double?
    ) -> Double? {
        guard let before, let sample, sample.sessions > 0,
            let first = value(before), let second = value(sample)
        else { return nil }
        return (second - first) / Double(sample.sessions)
    }

    /// Sessions that were open before the measured part; as many as were planned, where nothing
    /// was lost.
    var openSessions: Int { opened?.sessions ?? counts.opened }

    /// - Throws: `LoadFailure` when a session was lost, or never opened: figures for each session
    ///   would be about others than the plan says.
    func checkNobodyWasLost() throws(LoadFailure) {
        guard counts.lost > 0 else { return }
        let most = errors.max { ($0.value, $0.key) < ($1.value, $1.key) }
        throw LoadFailure(
            "\(scenario.name): \(grouped(counts.lost)) of \(grouped(scenario.sessions)) sessions "
                + "were lost" + (most.map { ": \($0.key) (\(grouped($0.value)) times)" } ?? ""))
    }

    /// The latency that this kind of scenario is about.
    var mainLatency: (kind: LatencyKind, summary: LatencySummary)? {
        LatencyKind.main(of: scenario.kind).lazy.compactMap { kind in
            latencies[kind].map { (kind, $0) }
        }.first
    }
}

/// What happened, counted over all sessions.
struct LoadCounts: Codable, Equatable, Sendable {
    /// Connections begun, sessions that came to be ready, and those lost before the end.
    var begun = 0
    var opened = 0
    var lost = 0
    /// Of those, slow readers that the server closed, which it ought to.
    var slowClosed = 0
    var messagesSent = 0
    var messagesReceived = 0
    var bytesReceived = 0
    var turnsBegun = 0
    var turnsCompleted = 0
    var turnsCancelled = 0
    var turnsFailed = 0
    /// Turns that were due in the measured part, while the session's turn before was still in
    /// flight at its end.
    var turnsNeverBegun = 0
    /// Text deltas.
    var deltas = 0
    var transcripts = 0
    var interruptions = 0
    var audioPackets = 0
    /// Reply packets that came after the moment at which they should have been heard.
    var latePackets = 0

    static func += (total: inout LoadCounts, other: LoadCounts) {
        for path in fields { total[keyPath: path] += other[keyPath: path] }
    }

    private static var fields: [WritableKeyPath<LoadCounts, Int>] {
        [
            \.begun, \.opened, \.lost, \.slowClosed, \.messagesSent, \.messagesReceived,
            \.bytesReceived, \.turnsBegun, \.turnsCompleted, \.turnsCancelled, \.turnsFailed,
            \.turnsNeverBegun, \.deltas, \.transcripts, \.interruptions, \.audioPackets,
            \.latePackets,
        ]
    }
}

/// What a latency is the time of. All count from the moment at which the step before was intended,
/// not from when the generator got round to it.
enum LatencyKind: String, Codable, CaseIterable, CodingKeyRepresentable, Sendable {
    /// To the end of TCP's handshake, of the upgrade, and to a session that is ready.
    case connect, upgrade, session
    /// A message and its echo.
    case echo
    /// A turn's beginning to its first delta, and to its end.
    case firstDelta = "first-delta"
    case turn
    /// The model's sending of a delta to its arrival at the client.
    case delta
    /// End of speech to the transcript, and to the first audio.
    case transcript
    case firstAudio = "first-audio"
    /// Reply audio against the moment at which it should be heard.
    case audioLateness = "audio-lateness"
    /// The first packet of speech to `speech_started`, and to the last audio of the reply.
    case speechStarted = "speech-started"
    case replyStopped = "reply-stopped"
    /// Of this program: a packet's sending against its time.
    case generatorLateness = "generator-lateness"

    /// What a report calls it.
    var title: String {
        switch self {
        case .connect: "connect"
        case .upgrade: "connect + upgrade"
        case .session: "connect + upgrade + session"
        case .echo: "message and echo"
        case .firstDelta: "turn → first delta"
        case .turn: "turn → its end"
        case .delta: "delta, model → client"
        case .transcript: "end of speech → transcript"
        case .firstAudio: "end of speech → first audio"
        case .audioLateness: "reply audio after its time"
        case .speechStarted: "first packet of speech → speech_started"
        case .replyStopped: "first packet of speech → last reply audio"
        case .generatorLateness: "generator's own lateness"
        }
    }

    /// The latencies that a kind of scenario is about, the first of which is shown.
    static func main(of kind: Scenario.Kind) -> [LatencyKind] {
        switch kind {
        case .idle, .storm, .churn, .reconnect: [.session, .upgrade]
        case .echo, .slowReaders: [.echo]
        case .chat, .mixed: [.delta, .firstAudio, .session]
        case .voice: [.firstAudio, .session]
        case .bargeIn: [.replyStopped, .firstAudio]
        }
    }
}

/// A histogram's essence, in milliseconds.
struct LatencySummary: Codable, Equatable, Sendable {
    var count: Int
    var mean: Double
    var p50: Double
    var p90: Double
    var p95: Double
    var p99: Double
    var p999: Double
    var max: Double
}

/// A server's processes at one moment.
struct ServerSample: Codable, Equatable, Sendable {
    /// Sessions that the generator had open.
    var sessions: Int
    /// Anonymous and Rss of smaps_rollup, all processes together. Not Private_Dirty: of a binary
    /// that was just written, that counts pages of the file as well, as long as the disk has not.
    var anonymousBytes: Int
    var residentBytes: Int
    /// `parley_ledger_total_bytes`, all shards together; nil where the server has none.
    var ledgerBytes: Double?
    /// `parley_allocated_memory_bytes`: without what the allocator only keeps; nil likewise.
    var allocatedBytes: Double?
    /// What its processes have spent of the processor so far, in seconds.
    var cpuSeconds: Double
}

/// One step of a run's course.
struct TimelinePoint: Codable, Equatable, Sendable {
    /// Since the first connection.
    var seconds: Double
    var open: Int
    /// Messages, deltas and sessions received since the step before, per second.
    var rate: Double
    /// Of the scenario's main latency since the step before, in milliseconds.
    var p50: Double?
    var p99: Double?
    /// Resident bytes of the server.
    var residentBytes: Int?
}
