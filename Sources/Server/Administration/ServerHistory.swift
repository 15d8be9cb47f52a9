// The history of the server's last hour: the first shard takes a sample every ten seconds. So the charts
// of the operator's page begin before the page was opened. Prometheus has the rest.
//
// Invariant: at most `maxSamples` samples are kept. The cost is one deadline and some microseconds
// every ten seconds.

import Codec
import Session
import Synchronization

/// How late each shard's deadlines were, in the time between two looks.
struct LagWindow: Sendable {
    private var earlier: [MetricDistribution] = []

    /// Measures the lag of the shards.
    /// - Returns: the microseconds by which one deadline in a hundred of each shard was late since
    ///   the last look. 0 where none was due.
    mutating func look(at shards: [ShardMetrics]) -> [Int] {
        let current = shards.map { $0.distribution(of: .eventLoopLag) }
        defer { earlier = current }
        return current.indices.map { index in
            let before = index < earlier.count ? earlier[index] : nil
            return (current[index].since(before).quantile(0.99) ?? 0) / 1_000
        }
    }

    /// Heap bytes of the window.
    var heldBytes: Int { earlier.reduce(earlier.heapBytes) { $0 + $1.counts.heapBytes } }
}

/// The server at one time.
struct HistorySample: Equatable, Sendable {
    /// Seconds since 1970.
    var seconds: Int
    /// Resident memory of the process.
    var residentBytes: Int
    /// The sum of all ledgers.
    var ledgerBytes: Int
    var sessions: Int
    /// The largest lag of a shard.
    var lagMicroseconds: Int

    /// The server now.
    /// - Parameter lags: the lag of each shard since the sample before.
    init(_ metrics: ServerMetrics, seconds: Int, lags: [Int]) {
        self.seconds = seconds
        residentBytes = ProcessMemory.current.resident
        ledgerBytes = metrics.total(of: .ledgerBytes)
        sessions = metrics.sessions.load(ordering: .relaxed)
        lagMicroseconds = lags.max() ?? 0
    }
}

/// The last hour of a server. Any thread.
package final class ServerHistory: Sendable {
    private struct State {
        var samples: [HistorySample] = []
        var lags = LagWindow()
    }

    /// Time between two samples. 10 s: the charts are some hundred pixels wide.
    static let interval = Duration.seconds(10)
    /// One hour, in 14 kB.
    static let maxSamples = 360

    private let state = Mutex(State())

    /// Without a sample.
    package init() {}

    /// Oldest first.
    var samples: [HistorySample] { state.withLock(\.samples) }

    /// Takes a sample.
    func add(_ metrics: ServerMetrics, seconds: Int) {
        state.withLock { state in
            let lags = state.lags.look(at: metrics.shards)
            if state.samples.count >= Self.maxSamples { state.samples.removeFirst() }
            state.samples.append(HistorySample(metrics, seconds: seconds, lags: lags))
        }
    }
}
