// The numbers and their text.

import Codec
import Session
import Testing

@testable import Server

@Suite struct MetricsTests {
    private func exposition(_ metrics: ServerMetrics) -> [String] {
        var text = ByteWriter(capacity: 1_024)
        metrics.write(into: &text)
        let whole = String(decoding: text.copiedBytes, as: UTF8.self)
        return whole.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    }

    @Test func addsUpTheShards() {
        let metrics = ServerMetrics(shards: 3) {
            var counts = WorkerCounts()
            (counts.queued, counts.running) = (4, 2)
            (counts.refused, counts.evicted) = (9, 3)
            (counts.shedExpected, counts.shedSpare) = (5, 7)
            counts.used.awaited = .milliseconds(2_500)
            counts.used.spare = .milliseconds(1_250)
            return counts
        }
        for (index, shard) in metrics.shards.enumerated() {
            shard.add(.connectionsAccepted, index + 1)
            shard.set(.connectionsOpen, to: index)
        }
        var counters = SessionCounters()
        counters.samplesIn = 24_000
        metrics.shards[0].publish(counters)
        let lines = exposition(metrics)
        #expect(lines.contains("parley_connections_accepted_total 6"))
        #expect(lines.contains("parley_connections 3"))
        #expect(lines.contains("parley_shard_connections{shard=\"2\"} 2"))
        #expect(lines.contains("parley_audio_received_seconds_total 1.5"))
        #expect(lines.contains("parley_worker_queue_jobs 4"))
        #expect(lines.contains("parley_worker_running_jobs 2"))
        #expect(lines.contains("parley_worker_refused_jobs_total 9"))
        #expect(lines.contains("parley_worker_evicted_jobs_total 3"))
        #expect(lines.contains("parley_hypotheses_shed_total{use=\"turn\"} 5"))
        #expect(lines.contains("parley_hypotheses_shed_total{use=\"words\"} 7"))
        #expect(lines.contains("parley_worker_cpu_seconds_total{use=\"awaited\"} 2.5"))
        #expect(lines.contains("parley_worker_cpu_seconds_total{use=\"words\"} 1.25"))
    }

    @Test func countsTheClausesOfAnotherVoice() {
        let metrics = ServerMetrics(
            shards: 1, workers: { WorkerCounts() }, substitutedClauses: { 12 })
        #expect(exposition(metrics).contains("parley_voice_substitutions_total 12"))
    }

    @Test(arguments: [
        (-5, 0), (0, 0), (1, 0), (100_000, 0), (100_001, 1), (200_000, 1), (200_001, 2),
        (400_001, 3), (26_214_400_000, 18), (26_214_400_001, 19), (900_000_000_000, 19),
    ])
    func putsADurationIntoItsBucket(nanoseconds: Int, bucket: Int) {
        let shard = ShardMetrics()
        shard.observe(.firstToken, .nanoseconds(nanoseconds))
        let distribution = shard.distribution(of: .firstToken)
        #expect(distribution.counts.firstIndex(of: 1) == bucket)
        #expect(distribution.counts.reduce(0, +) == 1)
        #expect(distribution.sum == max(0, nanoseconds))
        #expect(shard.distribution(of: .firstAudio).sum == 0)
    }

    /// Four steps for each doubling: 100, 125, 150, 175, 200, 250 µs …
    @Test(arguments: [
        (0, 0), (100_000, 0), (100_001, 1), (125_000, 1), (125_001, 2), (175_000, 3),
        (175_001, 4), (200_000, 4), (200_001, 5), (250_000, 5), (3_200_000, 20),
        (3_200_001, 21), (409_600_000, 48), (409_600_001, 49), (900_000_000_000, 49),
    ])
    func putsTheDelayOfADeltaIntoAFinerBucket(nanoseconds: Int, bucket: Int) {
        let shard = ShardMetrics()
        shard.observe(.deltaDelay, nanoseconds: nanoseconds, times: 3)
        let distribution = shard.distribution(of: .deltaDelay)
        #expect(distribution.counts.firstIndex(of: 3) == bucket)
        #expect(distribution.sum == 3 * nanoseconds)
        #expect(distribution.buckets.bound(of: 21) == 4_000_000)
        let others = ShardHistogram.allCases.filter { $0 != .deltaDelay }
        #expect(others.allSatisfy { shard.distribution(of: $0).sum == 0 })
        #expect(shard.ledgerCellsAreZero)
    }

    @Test func bucketsAreCumulative() {
        let metrics = ServerMetrics(shards: 2, workers: { WorkerCounts() })
        metrics.shards[0].observe(.transcript, .milliseconds(1))
        metrics.shards[1].observe(.transcript, .milliseconds(3))
        metrics.shards[1].observe(.transcript, .seconds(100))
        let name = "parley_turn_latency_seconds"
        let lines = exposition(metrics).filter { $0.contains("hop=\"transcript\"") }
        #expect(lines.contains("\(name)_bucket{hop=\"transcript\",le=\"0.0016\"} 1"))
        #expect(lines.contains("\(name)_bucket{hop=\"transcript\",le=\"0.0032\"} 2"))
        #expect(lines.contains("\(name)_bucket{hop=\"transcript\",le=\"+Inf\"} 3"))
        #expect(lines.contains("\(name)_count{hop=\"transcript\"} 3"))
        #expect(lines.contains("\(name)_sum{hop=\"transcript\"} 100.004"))
    }

    /// The rules of the text format that a scraper relies on.
    @Test func namesAndTypesEveryMetricOnce() throws {
        let lines = exposition(ServerMetrics(shards: 2, workers: { WorkerCounts() }))
        #expect(lines.last == "")
        var types: [String: String] = [:]
        for line in lines.dropLast() {
            let words = line.split(separator: " ").map(String.init)
            if line.hasPrefix("# HELP ") { continue }
            if line.hasPrefix("# TYPE ") {
                #expect(types.updateValue(words[3], forKey: words[2]) == nil, "\(line)")
                continue
            }
            #expect(words.count == 2 && Double(words[1]) != nil, "\(line)")
            let name = String(words[0].prefix { $0 != "{" })
            let families = ["", "_bucket", "_sum", "_count"].compactMap { suffix in
                name.hasSuffix(suffix) ? types[String(name.dropLast(suffix.count))] : nil
            }
            let type = try #require(families.first, "\(line)")
            #expect((type == "counter") == name.hasSuffix("_total"), "\(line)")
        }
        #expect(types.count > 20)
        #expect(lines.filter { $0.hasPrefix("# HELP") }.count == types.count)
    }

    @Test func reservesPlacesUpToTheLimit() {
        let metrics = ServerMetrics(shards: 1, workers: { WorkerCounts() })
        let taken = (0..<5).map { _ in metrics.reserve(metrics.sessions, limit: 3) }
        #expect(taken == [true, true, true, false, false])
        #expect(metrics.sessions.load(ordering: .relaxed) == 3)
    }
}
