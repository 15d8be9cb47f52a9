// The tables of metrics in docs/operations.md are made from the exposition, so that a new metric is
// declared once, in MetricFamilies. `UPDATE_GOLDEN=1 make unit T=MetricsPageTests` rewrites them; the
// diff is reviewed.

import Codec
import Foundation
import Logging
import Session
import TestMaterial
import Testing

@testable import Server

@Suite("The page of metrics")
struct MetricsPageTests {
    /// Labels whose values are not fixed.
    private static let openLabels = ["shard", "provider", "service", "le"]

    @Test("docs/operations.md has the names, types, help and labels of all metrics")
    func pageIsTrue() throws {
        let page = GoldenFile("docs/operations.md")
        var expected = try page.text()
        for (heading, families) in MetricFamily.sections {
            let rows = families.map(row).joined()
            let section = try #require(expected.range(of: "### \(heading)\n"), "\(heading)")
            let table = try #require(
                expected.range(
                    of: #"(?<=\n\|---\|---\|---\|---\|\n)(\|.*\n)*"#, options: .regularExpression,
                    range: section.upperBound..<expected.endIndex))
            expected.replaceSubrange(table, with: rows)
        }
        if let difference = try page.difference(from: expected) {
            Issue.record("\(difference)")
        }
    }

    /// `parley_memory_bytes` adds the last two up.
    @Test("Every number of a shard is shown, but what shards tell each other, and parts of sums")
    func everyNumberIsShown() {
        let cells = MetricFamily.sections.flatMap { $0.1 }.flatMap { family -> [Int] in
            switch family.lines {
            case .sums(let samples): samples.map(\.cell)
            case .shards(let cell): [cell]
            case .durations, .ledgers, .figures: []
            }
        }
        let hidden = Set(0..<ShardMetrics.firstHistogramCell).subtracting(cells)
        let known: [ShardMetric] = [
            .largestLedgerBytes, .waitingBytes, .pooledBytes, .untouchedTableBytes,
        ]
        #expect(hidden == Set(known.map(\.cell)))
    }

    @Test("Sessions' counters are nothing but integers, because they are copied as such")
    func countersAreIntegers() {
        let counters = Mirror(reflecting: SessionCounters()).children
        #expect(counters.allSatisfy { $0.value is Int })
        #expect(counters.count * MemoryLayout<Int>.size == MemoryLayout<SessionCounters>.size)
    }

    private func row(of family: MetricFamily) -> String {
        "| `\(family.name)` | \(family.kind) | \(family.help) | \(labels(of: family)) |\n"
            .replacing("|  |", with: "| |")
    }

    /// The labels of a metric with the values that they have.
    private func labels(of family: MetricFamily) -> String {
        var text = ByteWriter(capacity: 1_024)
        let provider = ModelProviderCounts(name: "a")
        let metrics = ServerMetrics(shards: 1, workers: { WorkerCounts() }) { [provider] }
        metrics.serviceFaults.note(
            ServiceFault(service: "a", url: "", reason: ""), at: Instant(nanoseconds: 0),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        metrics.write(into: &text)
        var values: [(label: String, values: [String])] = []
        for line in String(decoding: text.copiedBytes, as: UTF8.self).split(separator: "\n")
        where line.prefix(while: { $0 != "{" }).hasPrefix(family.name) {
            guard let name = line.firstMatch(of: /^(\w+)\{/)?.1,
                ["", "_bucket"].contains(name.dropFirst(family.name.count))
            else { continue }
            for match in line.matches(of: /(\w+)="([^"]*)"/) {
                let (label, value) = (String(match.1), "`\(match.2)`")
                let place = values.firstIndex { $0.label == label }
                if place == nil, label != "le" { values.append((label, [])) }
                guard !Self.openLabels.contains(label) else { continue }
                let own = place ?? values.count - 1
                if !values[own].values.contains(value) { values[own].values.append(value) }
            }
        }
        return values.map { label, values in
            "`\(label)`" + (values.isEmpty ? "" : ": " + values.joined(separator: ", "))
        }.joined(separator: "; ")
    }
}
