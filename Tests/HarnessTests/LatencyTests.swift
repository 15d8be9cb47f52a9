// Latency histograms: their percentiles, and merging those of several processes.

import Testing

@testable import parley_load

@Suite struct LatencyTests {
    @Test func percentilesAreWithinAThousandth() throws {
        var histogram = LatencyHistogram()
        for millisecond in 1...1_000 {
            histogram.record(nanoseconds: Int64(millisecond) * 1_000_000)
        }
        let summary = try #require(histogram.summary)
        #expect(summary.count == 1_000)
        for (value, expected) in [
            (summary.p50, 500.0), (summary.p90, 900), (summary.p99, 990), (summary.max, 1_000),
        ] {
            #expect((value / expected - 1).magnitude < 0.001)
        }
    }

    @Test func mergingPartsGivesTheWhole() {
        var random = SplitMix64(state: 7)
        var whole = LatencyRecorder()
        var parts = [LatencyRecorder(), LatencyRecorder(), LatencyRecorder()]
        for number in 0..<1_000 {
            let kind: LatencyKind = number % 4 == 0 ? .session : .delta
            let nanoseconds = Int64(random.next(upperBound: 2_000_000_000 as UInt64))
            whole.record(kind, nanoseconds)
            parts[number % 3].record(kind, nanoseconds)
        }
        var merged = LatencyRecorder()
        for part in parts { merged.add(part.buckets) }
        #expect(merged.summaries == whole.summaries)
        #expect(merged.summaries[.session]?.count == 250)
        #expect(merged.summaries[.echo] == nil)
    }

    @Test func anIntervalHoldsTheValuesSinceTheLastOne() {
        var recorder = LatencyRecorder(watching: .echo)
        recorder.record(.echo, 1_000_000)
        recorder.record(.session, 5_000_000)
        #expect(recorder.takeInterval().counts == [1])
        #expect(recorder.takeInterval().counts == [])
        recorder.record(.echo, 2_000_000)
        #expect(recorder.takeInterval().counts == [1])
        #expect(recorder[.echo]?.count == 2)
    }

    @Test func valuesOutsideTheRangeAreClamped() {
        var histogram = LatencyHistogram()
        histogram.record(nanoseconds: -5)
        histogram.record(nanoseconds: .max)
        #expect(histogram.count == 2)
        #expect(histogram.milliseconds(atPercentile: 50) == 0)
        #expect((histogram.milliseconds(atPercentile: 100) ?? 0) > 590_000)
    }

    @Test func countsOfWorkersAddUp() {
        var total = LoadCounts()
        var part = LoadCounts()
        (part.begun, part.deltas, part.latePackets, part.slowClosed) = (1, 2, 3, 4)
        total += part
        total += part
        #expect(
            (total.begun, total.deltas, total.latePackets, total.slowClosed) == (2, 4, 6, 8))
    }
}
