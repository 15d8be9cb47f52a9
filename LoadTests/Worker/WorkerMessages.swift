// The messages between the parent and its workers: lines of JSON over the workers' standard input
// and output.

/// The order to a worker, with its share of a scenario.
struct WorkerOrder: Codable {
    var scenario: Scenario
    var urls: [String]
    /// The worker's number, from 0. It has every `workers`-th session.
    var worker: Int
    var workers: Int
    /// The time at which the first session of all workers connects, on the machine's monotonic
    /// clock.
    var start: Int64
    /// The WAV file that speaking sessions send.
    var recording: String
}

/// A call to a worker, after its order.
enum WorkerCall: Codable {
    /// Begin the measured part, whose times are on the machine's monotonic clock.
    case measure(begin: Int64, end: Int64)
    /// End all sessions.
    case end
}

/// A report from a worker.
enum WorkerReport: Codable {
    /// The current state, twice a second.
    case progress(WorkerProgress)
    /// All its sessions are ready or lost.
    case opened
    /// The measured part is over, and its turns have ended or their time limit has passed. The
    /// sessions are still open.
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
    /// The scenario's main latency since the last report.
    var interval: LatencyHistogram.Buckets
}

/// A worker's results.
struct WorkerResult: Codable {
    var counts: LoadCounts
    var errors: [String: Int]
    var latencies: [LatencyKind: LatencyHistogram.Buckets]
}
