// The Prometheus text of the server's metrics. Names and help are in MetricFamilies, the figures in
// ServerMetrics. Format: Prometheus exposition format 0.0.4; `promtool check metrics` accepts it.
//
// Invariant: HELP and TYPE once per name, before its lines.

import Codec
import Session

/// The figures of the process at one scrape. Those of the shards are read cell by cell.
struct MetricsSnapshot {
    let workers: WorkerCounts
    /// Clauses that were spoken by another voice than the requested one.
    let substitutedClauses: Int
    let providers: [ModelProviderCounts]
    /// The counts of records, where records are kept.
    let records: RecordCounts?
    /// Nil where nothing is recorded.
    let recordings: RecordingCounts?
    /// Failures of configured services since the start, by service.
    let serviceFailures: [(service: String, count: Int)]
    let memory = ProcessMemory.current
    /// The memory of the process by what holds it.
    let account: [(MemoryHolder, Int)]
    let isShortOfMemory: Bool
    let isDraining: Bool
    /// Whether every place of a session is taken.
    let isFull: Bool
}

/// Writes one exposition.
struct MetricsText {
    let shards: [ShardMetrics]
    let snapshot: MetricsSnapshot

    /// Writes every metric.
    func write(into text: inout ByteWriter) {
        for (_, families) in MetricFamily.sections {
            for family in families { write(family, into: &text) }
        }
    }

    private func write(_ family: MetricFamily, into text: inout ByteWriter) {
        switch family.lines {
        case .sums(let samples):
            writeHead(of: family, into: &text)
            for (label, cell) in samples {
                let sum = shards.reduce(0) { $0 + $1.value(ofCell: cell) }
                writeLine(family.name, label, scaled(sum, by: family.divisor), into: &text)
            }
        case .shards(let cell):
            writeHead(of: family, into: &text)
            for (index, shard) in shards.enumerated() {
                let value = scaled(shard.value(ofCell: cell), by: family.divisor)
                writeLine(family.name, "shard=\"\(index)\"", value, into: &text)
            }
        case .durations(let samples):
            writeHead(of: family, into: &text)
            for (label, histogram) in samples {
                var sum = shards[0].distribution(of: histogram)
                for shard in shards.dropFirst() { sum.add(shard.distribution(of: histogram)) }
                write(sum, of: family.name, label, divisor: 1_000_000_000, into: &text)
            }
        case .ledgers:
            writeHead(of: family, into: &text)
            for (index, shard) in shards.enumerated() {
                for state in SessionState.allCases {
                    let label = "shard=\"\(index)\",state=\"\(state.rawValue)\""
                    write(shard.ledgers(of: state), of: family.name, label, into: &text)
                }
            }
        case .figures(let lines):
            let lines = lines(snapshot)
            if !lines.isEmpty { writeHead(of: family, into: &text) }
            for (label, value) in lines {
                writeLine(
                    family.name, label, scaled(value, by: family.divisor), into: &text)
            }
        }
    }

    private func write(
        _ distribution: MetricDistribution, of name: String, _ label: String, divisor: Int = 1,
        into text: inout ByteWriter
    ) {
        let prefix = label.isEmpty ? "" : label + ","
        var total = 0
        for (index, count) in distribution.counts.enumerated() {
            total += count
            let bound = distribution.buckets.bound(of: index).map { scaled($0, by: divisor) }
            writeLine(
                "\(name)_bucket", "\(prefix)le=\"\(bound ?? "+Inf")\"", "\(total)", into: &text)
        }
        writeLine("\(name)_sum", label, scaled(distribution.sum, by: divisor), into: &text)
        writeLine("\(name)_count", label, "\(total)", into: &text)
    }

    private func scaled(_ value: Int, by divisor: Int) -> String {
        divisor == 1 ? "\(value)" : "\(Double(value) / Double(divisor))"
    }

    private func writeHead(of family: MetricFamily, into text: inout ByteWriter) {
        text.append("# HELP \(family.name) \(family.help)\n")
        text.append("# TYPE \(family.name) \(family.kind)\n")
    }

    private func writeLine(
        _ name: String, _ label: String, _ value: String, into text: inout ByteWriter
    ) {
        text.append(label.isEmpty ? "\(name) \(value)\n" : "\(name){\(label)} \(value)\n")
    }
}
