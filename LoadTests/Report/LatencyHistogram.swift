// Latencies as histograms of high dynamic range: three digits, from a microsecond to ten minutes,
// in a fixed amount of memory, so that a run may be of any length. Between processes only the
// buckets that are not empty are sent.

import Histogram

/// Latencies of one kind.
struct LatencyHistogram: Sendable {
    /// Ten minutes: a session that waits longer is counted as lost.
    private static let longestMicroseconds: UInt64 = 600_000_000
    private var histogram = Histogram<UInt32>(highestTrackableValue: longestMicroseconds)

    /// The longest latency exactly, in microseconds; a bucket has only bounds.
    private var longest: UInt64 = 0

    /// The number of recorded latencies.
    var count: Int { Int(clamping: histogram.totalCount) }

    /// Adds a latency. A negative one counts as zero, one out of range as the longest.
    mutating func record(nanoseconds: Int64) {
        let microseconds = min(UInt64(clamping: nanoseconds) / 1_000, Self.longestMicroseconds)
        longest = max(longest, microseconds)
        histogram.record(microseconds)
    }

    /// Adds the latencies of another histogram.
    mutating func add(_ other: Buckets) {
        longest = max(longest, other.longest)
        for (value, count) in zip(other.values, other.counts) {
            histogram.record(min(value, Self.longestMicroseconds), count: count)
        }
    }

    /// Removes all latencies.
    mutating func reset() {
        histogram.reset()
        longest = 0
    }

    /// The latency that the given percentage does not exceed, in milliseconds; nil without
    /// latencies.
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
            // A bucket's upper bound may be above the longest latency in it.
            Double(min(histogram.valueAtPercentile(percentile), longest)) / 1_000
        }
        return LatencySummary(
            count: count, mean: histogram.mean / 1_000, p50: at(50), p90: at(90), p95: at(95),
            p99: at(99), p999: at(99.9), max: Double(longest) / 1_000)
    }

    /// The content of a histogram in few bytes.
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
    /// The kind whose latencies are also recorded for each interval.
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

    /// Adds the latencies of another process.
    mutating func add(_ other: [LatencyKind: LatencyHistogram.Buckets]) {
        for (kind, buckets) in other {
            var histogram = histograms[kind.index] ?? LatencyHistogram()
            histogram.add(buckets)
            histograms[kind.index] = histogram
        }
    }

    /// The latencies of the watched kind since the last call.
    mutating func takeInterval() -> LatencyHistogram.Buckets {
        let buckets = interval.buckets
        if !buckets.values.isEmpty { interval.reset() }
        return buckets
    }

    /// Removes all latencies.
    mutating func reset() {
        for index in histograms.indices { histograms[index]?.reset() }
    }

    /// The histogram of a kind; nil when nothing was recorded.
    subscript(_ kind: LatencyKind) -> LatencyHistogram? { histograms[kind.index] }

    /// All latencies, for another process.
    var buckets: [LatencyKind: LatencyHistogram.Buckets] {
        var all: [LatencyKind: LatencyHistogram.Buckets] = [:]
        for kind in LatencyKind.allCases {
            if let histogram = histograms[kind.index], histogram.count > 0 {
                all[kind] = histogram.buckets
            }
        }
        return all
    }

    /// The percentiles of all kinds, for reports.
    var summaries: [LatencyKind: LatencySummary] {
        var all: [LatencyKind: LatencySummary] = [:]
        for kind in LatencyKind.allCases { all[kind] = histograms[kind.index]?.summary }
        return all
    }
}

extension LatencyKind {
    /// Its position in tables.
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
