// What the parent and its workers tell each other, a line of JSON each, over the workers' standard
// input and output.

/// A worker's share of a scenario.
struct WorkerOrder: Codable {
    var scenario: Scenario
    var urls: [String]
    /// Its number, from 0, and how many there are: it has every `workers`-th session.
    var worker: Int
    var workers: Int
    /// When the first session of all connects, on the machine's monotonic clock.
    var start: Int64
    /// What speaking sessions say: a WAV file.
    var recording: String
}

/// What a worker is told after its order.
enum WorkerCall: Codable {
    /// The measured part, on the machine's monotonic clock.
    case measure(begin: Int64, end: Int64)
    /// End all sessions.
    case end
}

/// What a worker says.
enum WorkerReport: Codable {
    /// How it stands, twice a second.
    case progress(WorkerProgress)
    /// All its sessions are ready, or lost.
    case opened
    /// The measured part is over, and what was under way has ended or was given up. The sessions
    /// are still open.
    case measured(WorkerResult)
    /// All its sessions are closed.
    case ended
    case failed(String)
}

/// A worker's state.
struct WorkerProgress: Codable {
    var open: Int
    var counts: LoadCounts
    var errors: Int
    /// Of the scenario's main latency since the last progress.
    var interval: LatencyHistogram.Buckets
}

/// A worker's findings.
struct WorkerResult: Codable {
    var counts: LoadCounts
    var errors: [String: Int]
    var latencies: [LatencyKind: LatencyHistogram.Buckets]
}
