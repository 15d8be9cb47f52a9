// The result of a load run, as a value that is written to a file and read back. Report/ shows it.

import Foundation

/// The result of one scenario against one target.
struct ScenarioResult: Codable, Sendable {
    var scenario: Scenario
    var target: String
    var counts: LoadCounts
    /// The errors, and how often each occurred.
    var errors: [String: Int] = [:]
    /// Latencies by kind.
    var latencies: [LatencyKind: LatencySummary] = [:]
    /// The server's own part of the deltas' latency; nil where it has no metrics.
    var serverDeltaDelay: DelayEstimate?
    /// The server before there were sessions.
    var before: ServerSample?
    /// The server once all sessions are open, before they begin their work.
    var opened: ServerSample?
    /// The server with its sessions, at the end of the measured part.
    var with: ServerSample?
    /// The server after all sessions were closed.
    var after: ServerSample?
    /// Measured length of the measured part without its ramp, in seconds.
    var measuredSeconds = 0.0
    /// Processor time of the target's processes in these seconds; nil when unknown.
    var serverCPUSeconds: Double?
    /// Their processor time while the sessions were opened.
    var openingCPUSeconds: Double?
    /// Processor time of the generator's own processes in the measured part.
    var generatorCPUSeconds = 0.0
    /// Time from the first connection until all sessions were open.
    var openingSeconds = 0.0
    /// The course of the run, in steps of half a second.
    var timeline: [TimelinePoint] = []
    /// The time of its beginning, ISO 8601.
    var date = ""
    /// The machine's processors, memory and system.
    var machine = ""
    /// The command that made the result.
    var command = ""

    /// Turns that were due and had not completed at the end of the run.
    var turnsOpen: Int { counts.turnsBegun - counts.turnsCompleted + counts.turnsNeverBegun }

    /// Growth of the server's anonymous memory for each open session, in bytes; nil when not
    /// measured.
    var bytesPerSession: Double? { perSession(opened) { Double($0.anonymousBytes) } }

    /// The same by the server's own ledger.
    var ledgerBytesPerSession: Double? { perSession(opened) { $0.ledgerBytes } }

    /// The same at the end of the measured part, after the sessions have worked.
    var busyBytesPerSession: Double? { perSession(with) { Double($0.anonymousBytes) } }

    /// The difference between the ledger's growth and the process's, in percent of the process's;
    /// positive when the ledger has more. At the end of the measured part.
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

    /// Sessions that were open before the measured part: as many as planned, unless some were lost.
    var openSessions: Int { opened?.sessions ?? counts.opened }

    /// - Throws: `LoadFailure` when a session was lost or never opened: figures per session would
    ///   then not be those of the plan.
    func checkNoSessionWasLost() throws(LoadFailure) {
        guard counts.lost > 0 else { return }
        let most = errors.max { ($0.value, $0.key) < ($1.value, $1.key) }
        throw LoadFailure(
            "\(scenario.name): \(grouped(counts.lost)) of \(grouped(scenario.sessions)) sessions "
                + "were lost" + (most.map { ": \($0.key) (\(grouped($0.value)) times)" } ?? ""))
    }

    /// The main latency of this kind of scenario.
    var mainLatency: (kind: LatencyKind, summary: LatencySummary)? {
        LatencyKind.main(of: scenario.kind).lazy.compactMap { kind in
            latencies[kind].map { (kind, $0) }
        }.first
    }
}

/// Counts over all sessions.
struct LoadCounts: Codable, Equatable, Sendable {
    /// Connections begun, sessions that became ready, and sessions lost before the end.
    var begun = 0
    var opened = 0
    var lost = 0
    /// Slow readers that the server closed, as it should. They are not in `lost`.
    var slowClosed = 0
    /// Sessions that came back to everything that they had missed, to their conversation, or to
    /// another session (`reconnect` with `resume`).
    var recovered = 0
    var restored = 0
    var begunAnew = 0
    var messagesSent = 0
    var messagesReceived = 0
    var bytesReceived = 0
    var turnsBegun = 0
    var turnsCompleted = 0
    var turnsCancelled = 0
    var turnsFailed = 0
    /// Turns that were due in the measured part but never begun, because the session's previous
    /// turn was still in flight.
    var turnsNeverBegun = 0
    /// Text deltas.
    var deltas = 0
    var transcripts = 0
    var interruptions = 0
    var audioPackets = 0
    /// Reply packets that arrived after their playback time.
    var latePackets = 0

    static func += (total: inout LoadCounts, other: LoadCounts) {
        for path in fields { total[keyPath: path] += other[keyPath: path] }
    }

    private static var fields: [WritableKeyPath<LoadCounts, Int>] {
        [
            \.begun, \.opened, \.lost, \.slowClosed, \.recovered, \.restored, \.begunAnew,
            \.messagesSent, \.messagesReceived, \.bytesReceived, \.turnsBegun, \.turnsCompleted,
            \.turnsCancelled, \.turnsFailed,
            \.turnsNeverBegun, \.deltas, \.transcripts, \.interruptions, \.audioPackets,
            \.latePackets,
        ]
    }
}

/// A kind of latency. Every latency counts from the scheduled time of the step before it, not from
/// the time at which the generator carried it out.
enum LatencyKind: String, Codable, CaseIterable, CodingKeyRepresentable, Sendable {
    /// From the beginning of a connection to the end of TCP's handshake, of the upgrade, and to a
    /// ready session.
    case connect, upgrade, session
    /// From a message to its echo.
    case echo
    /// From a turn's beginning to its first delta, and to its end.
    case firstDelta = "first-delta"
    case turn
    /// From the model's sending of a delta to its arrival at the client.
    case delta
    /// From the end of speech to the transcript, and to the first audio.
    case transcript
    case firstAudio = "first-audio"
    /// The lateness of reply audio against its playback time.
    case audioLateness = "audio-lateness"
    /// From the first packet of speech to `speech_started`, and to the last audio of the reply.
    case speechStarted = "speech-started"
    case replyStopped = "reply-stopped"
    /// The lateness of this program's own packets against their schedule.
    case generatorLateness = "generator-lateness"

    /// Its name in reports.
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

    /// The main latencies of a kind of scenario; reports show the first that was measured.
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

/// The percentiles of a histogram, in milliseconds.
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

/// The server's own delay of a delta in the measured part without its ramp, from
/// `parley_delta_delay_seconds`: in milliseconds, interpolated within its buckets.
struct DelayEstimate: Codable, Equatable, Sendable {
    var p50: Double
    var p90: Double
    var p99: Double
    var p999: Double

    /// Nil where no delta was counted between the two pages.
    init?(_ page: MetricsPage, since earlier: MetricsPage) {
        let values = [0.5, 0.9, 0.99, 0.999].compactMap {
            page.estimate($0, of: "parley_delta_delay_seconds", since: earlier).map { $0 * 1_000 }
        }
        guard values.count == 4 else { return nil }
        (p50, p90, p99, p999) = (values[0], values[1], values[2], values[3])
    }
}

/// The state of a server's processes at one time.
struct ServerSample: Codable, Equatable, Sendable {
    /// Sessions that the generator had open.
    var sessions: Int
    /// Anonymous and Rss of smaps_rollup, summed over all processes. Private_Dirty is not used: for
    /// a binary that was just built it includes file pages that are not written to disk yet.
    var anonymousBytes: Int
    var residentBytes: Int
    /// `parley_ledger_total_bytes`, summed over all shards; nil where the server has none.
    var ledgerBytes: Double?
    /// `parley_allocated_memory_bytes`, which leaves out memory that the allocator keeps for reuse;
    /// nil where the server has none.
    var allocatedBytes: Double?
    /// `parley_memory_bytes` by part, summed over all servers; nil where the server has none.
    var parts: [String: Double]?
    /// Processor time of its processes so far, in seconds.
    var cpuSeconds: Double
}

/// One step in the course of a run.
struct TimelinePoint: Codable, Equatable, Sendable {
    /// Seconds since the first connection.
    var seconds: Double
    var open: Int
    /// Messages, deltas and sessions received since the step before, per second.
    var rate: Double
    /// Percentiles of the scenario's main latency since the step before, in milliseconds.
    var p50: Double?
    var p99: Double?
    /// Resident bytes of the server.
    var residentBytes: Int?
}
