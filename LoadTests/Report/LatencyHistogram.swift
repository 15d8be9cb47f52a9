// Latencies as histograms of high dynamic range: three digits from a microsecond to ten minutes, in
// memory that does not grow, so that no run is too long to be measured. Processes hand them on as
// the few buckets that are not empty.

import Histogram

/// Latencies of one kind.
struct LatencyHistogram: Sendable {
    /// Ten minutes: a session that waits longer is counted as lost.
    private static let longestMicroseconds: UInt64 = 600_000_000
    private var histogram = Histogram<UInt32>(highestTrackableValue: longestMicroseconds)

    /// The longest, exactly: a bucket only knows its bounds. Microseconds.
    private var longest: UInt64 = 0

    /// How many were recorded.
    var count: Int { Int(clamping: histogram.totalCount) }

    /// Adds a latency. What is negative counts as none, what is too long as the longest.
    mutating func record(nanoseconds: Int64) {
        let microseconds = min(UInt64(clamping: nanoseconds) / 1_000, Self.longestMicroseconds)
        longest = max(longest, microseconds)
        histogram.record(microseconds)
    }

    /// Adds what another one has recorded.
    mutating func add(_ other: Buckets) {
        longest = max(longest, other.longest)
        for (value, count) in zip(other.values, other.counts) {
            histogram.record(min(value, Self.longestMicroseconds), count: count)
        }
    }

    /// Forgets everything.
    mutating func reset() {
        histogram.reset()
        longest = 0
    }

    /// The latency that a share of all do not exceed, in milliseconds; nil without any.
    func milliseconds(atPercentile percentile: Double) -> Double? {
        count == 0 ? nil : Double(histogram.valueAtPercentile(percentile)) / 1_000
    }

    /// The buckets that are not empty.
    var buckets: Buckets {
        var buckets = Buckets(longest: longest)
        guard count > 0 else { return buckets }
        for bucket in histogram.recordedValues() {
            buckets.values.append(bucket.value)
            buckets.counts.append(bucket.count)
        }
        return buckets
    }

    /// Percentiles; nil without any latency.
    var summary: LatencySummary? {
        guard count > 0 else { return nil }
        func at(_ percentile: Double) -> Double {
            // A bucket's upper bound may be beyond what was recorded in it.
            Double(min(histogram.valueAtPercentile(percentile), longest)) / 1_000
        }
        return LatencySummary(
            count: count, mean: histogram.mean / 1_000, p50: at(50), p90: at(90), p95: at(95),
            p99: at(99), p999: at(99.9), max: Double(longest) / 1_000)
    }

    /// What a histogram holds, in few bytes.
    struct Buckets: Codable, Equatable, Sendable {
        /// Microseconds.
        var values: [UInt64] = []
        var counts: [UInt32] = []
        var longest: UInt64 = 0
    }
}

/// Latencies of all kinds.
struct LatencyRecorder: Sendable {
    private var histograms: [LatencyHistogram?] = .init(
        repeating: nil, count: LatencyKind.allCases.count)
    /// The kind whose latencies are also kept by the interval.
    private let watched: LatencyKind?
    private var interval = LatencyHistogram()

    init(watching kind: LatencyKind? = nil) { watched = kind }

    /// Adds a latency.
    mutating func record(_ kind: LatencyKind, _ nanoseconds: Int64) {
        if kind == watched { interval.record(nanoseconds: nanoseconds) }
        let index = kind.index
        if histograms[index] == nil { histograms[index] = LatencyHistogram() }
        histograms[index]?.record(nanoseconds: nanoseconds)
    }

    /// Adds what another process recorded.
    mutating func add(_ other: [LatencyKind: LatencyHistogram.Buckets]) {
        for (kind, buckets) in other {
            var histogram = histograms[kind.index] ?? LatencyHistogram()
            histogram.add(buckets)
            histograms[kind.index] = histogram
        }
    }

    /// What the watched kind had since this was asked last.
    mutating func takeInterval() -> LatencyHistogram.Buckets {
        let buckets = interval.buckets
        if !buckets.values.isEmpty { interval.reset() }
        return buckets
    }

    /// Forgets everything.
    mutating func reset() {
        for index in histograms.indices { histograms[index]?.reset() }
    }

    /// The histogram of a kind; nil when nothing was recorded.
    subscript(_ kind: LatencyKind) -> LatencyHistogram? { histograms[kind.index] }

    /// All that was recorded, for another process.
    var buckets: [LatencyKind: LatencyHistogram.Buckets] {
        var all: [LatencyKind: LatencyHistogram.Buckets] = [:]
        for kind in LatencyKind.allCases {
            if let histogram = histograms[kind.index], histogram.count > 0 {
                all[kind] = histogram.buckets
            }
        }
        return all
    }

    /// All that was recorded, for people.
    var summaries: [LatencyKind: LatencySummary] {
        var all: [LatencyKind: LatencySummary] = [:]
        for kind in LatencyKind.allCases { all[kind] = histograms[kind.index]?.summary }
        return all
    }
}

extension LatencyKind {
    /// Its place in tables.
    fileprivate var index: Int {
        switch self {
        case .connect: 0
        case .upgrade: 1
        case .session: 2
        case .echo: 3
        case .firstDelta: 4
        case .turn: 5
        case .delta: 6
        case .transcript: 7
        case .firstAudio: 8
        case .audioLateness: 9
        case .speechStarted: 10
        case .replyStopped: 11
        case .generatorLateness: 12
        }
    }
}
