// What a shard measures of its ticks.

import Session
import Testing

@testable import Server

@Suite struct TickMeterTests {
    private let metrics = ServerMetrics(shards: 1, workers: { WorkerCounts() })

    private var shard: ShardMetrics { metrics.shards[0] }

    /// A tick of a shard that worked for so long.
    private func tick(
        _ meter: inout TickMeter, _ clock: inout ShardClock, from beginning: Int, to end: Int,
        deltas: Int = 0, jobs: (ran: Int, left: Int) = (0, 0)
    ) -> (share: Double, seconds: Int)? {
        _ = clock.beginTick(at: .milliseconds(beginning), wake: .milliseconds(beginning))
        meter.beginJobs(at: clock.now)
        meter.endJobs(ran: jobs.ran, left: jobs.left)
        for _ in 0..<deltas { meter.noteDelta() }
        clock.endTick(at: .milliseconds(end))
        return meter.endTick(clock, shard)
    }

    @Test func theShareOfWorkIsOfASecondOrMore() {
        var clock = ShardClock(at: .milliseconds(0))
        var meter = TickMeter(at: clock.now)
        let early = tick(&meter, &clock, from: 100, to: 300)
        let first = tick(&meter, &clock, from: 900, to: 1_000)
        #expect(early == nil)
        #expect(first?.share == 0.3 && first?.seconds == 1)
        // Slept for long, and worked for a tenth of the second after.
        let next = tick(&meter, &clock, from: 4_900, to: 5_000)
        #expect(next?.share == 0.025 && next?.seconds == 4)
    }

    @Test func aDeltaTakesUntilTheEndOfTheTickThatPassesItOn() {
        var clock = ShardClock(at: .milliseconds(0))
        var meter = TickMeter(at: clock.now)
        _ = tick(&meter, &clock, from: 10, to: 30, deltas: 2)
        _ = tick(&meter, &clock, from: 40, to: 90)
        let delays = shard.distribution(of: .deltaDelay)
        #expect(delays.counts.reduce(0, +) == 2 && delays.sum == 40_000_000)
    }

    /// Jobs that a tick leaves are as old as that tick, and so are their deltas.
    @Test func aDeltaOfAJobThatHadToWaitIsAsOldAsTheJob() {
        var clock = ShardClock(at: .milliseconds(0))
        var meter = TickMeter(at: clock.now)
        _ = tick(&meter, &clock, from: 10, to: 20, jobs: (ran: 5, left: 8))
        _ = tick(&meter, &clock, from: 30, to: 40, deltas: 1, jobs: (ran: 8, left: 0))
        #expect(shard.distribution(of: .deltaDelay).sum == 30_000_000)
    }

    /// A piece of a model's answer counts from the tick that read it, however many jobs wait.
    @Test func jobsThatWaitForALaterTickAreAsOldAsTheirOwn() {
        var backlog = JobBacklog(at: .milliseconds(0))
        func tick(_ now: Int, ran: Int, left: Int) -> Int {
            backlog.begin(at: .milliseconds(now))
            defer { backlog.end(ran: ran, left: left) }
            return Int(backlog.tickSince.nanoseconds / 1_000_000)
        }
        #expect(tick(10, ran: 5, left: 0) == 10)
        #expect(tick(20, ran: 5, left: 8) == 20)
        #expect(tick(30, ran: 5, left: 9) == 20)
        #expect(tick(40, ran: 5, left: 4) == 20)
        #expect(tick(50, ran: 4, left: 0) == 30)
        #expect(tick(60, ran: 1, left: 0) == 60)
    }
}
