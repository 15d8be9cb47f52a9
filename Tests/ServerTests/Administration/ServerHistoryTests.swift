// The last hour of a server, and how late its event loops are.

import Session
import Simulation
import Testing

@testable import Server

@Suite struct ServerHistoryTests {
    @Test func oneHourIsKept() throws {
        let history = ServerHistory()
        let server = try SimulatedServer { $0.history = history }
        #expect(history.samples.count == 1)
        server.run(for: .seconds(30))
        #expect(
            history.samples.map { $0.seconds - SimulatedServer.firstSecond } == [0, 10, 20, 30])
        _ = server.openClient()
        server.run(for: .seconds(10))
        #expect(history.samples.last?.sessions == 1)
        #expect((history.samples.last?.ledgerBytes ?? 0) > 0)
        server.run(for: .seconds(3_600))
        #expect(history.samples.count == ServerHistory.maxSamples)
        #expect(history.samples.first?.seconds == SimulatedServer.firstSecond + 50)
    }

    @Test func lagIsThatOfTheTimeSinceTheLastLook() {
        let metrics = ServerMetrics(shards: 2, workers: { WorkerCounts() })
        var window = LagWindow()
        #expect(window.look(at: metrics.shards) == [0, 0])
        for _ in 0..<99 { metrics.shards[1].observe(.eventLoopLag, nanoseconds: 50_000) }
        #expect(window.look(at: metrics.shards) == [0, 99])
        for _ in 0..<50 { metrics.shards[1].observe(.eventLoopLag, nanoseconds: 3_000_000) }
        metrics.shards[0].observe(.eventLoopLag, nanoseconds: 60_000_000_000)
        // Buckets double from 0.1 ms; the last one has no bound.
        #expect(window.look(at: metrics.shards) == [26_214_400, 3_184])
        #expect(window.look(at: metrics.shards) == [0, 0])
    }

    @Test func aQuantileIsInterpolatedWithinItsBucket() {
        let metrics = ServerMetrics(shards: 1, workers: { WorkerCounts() }).shards[0]
        #expect(metrics.distribution(of: .firstAudio).quantile(0.5) == nil)
        for milliseconds in [0, 1, 1, 100] {
            metrics.observe(.firstAudio, .milliseconds(milliseconds))
        }
        let distribution = metrics.distribution(of: .firstAudio)
        // The buckets of the values end at 0.1, 1.6 and 102.4 ms, and have 1, 2 and 1 of them.
        #expect(distribution.quantile(0) == 0)
        #expect(distribution.quantile(0.25) == 100_000)
        #expect(distribution.quantile(0.5) == 1_200_000)
        #expect(distribution.quantile(0.875) == 76_800_000)
        #expect(distribution.quantile(1) == 102_400_000)
    }
}
