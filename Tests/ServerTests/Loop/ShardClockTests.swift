// The clock by which peers are judged: it stands still while the shard is away.

import Session
import Testing

@testable import Server

@Suite struct ShardClockTests {
    /// Begins a tick and returns the milliseconds that were taken off the peers' clock.
    private func begin(_ clock: inout ShardClock, at milliseconds: Int, wake: Int?) -> Int {
        let away = clock.beginTick(
            at: .milliseconds(milliseconds), wake: wake.map { .milliseconds($0) })
        return Int(away / 1_000_000)
    }

    @Test func bothClocksRunTogetherWhileTicksAreShort() {
        var clock = ShardClock(at: .milliseconds(0))
        for time in stride(from: 100, through: 60_000, by: 100) {
            let away = begin(&clock, at: time, wake: time)
            #expect(away == 0)
            clock.endTick(at: .milliseconds(time + 90))
        }
        #expect(clock.peerTime == clock.now && clock.now == .milliseconds(60_000))
        #expect(clock.tickNanoseconds == 90_000_000)
    }

    @Test func aWaitThatWasMeantToBeLongIsNoAbsence() {
        var clock = ShardClock(at: .milliseconds(0))
        let toDeadline = begin(&clock, at: 30_000, wake: 30_000)
        clock.endTick(at: .milliseconds(30_000))
        let withoutLimit = begin(&clock, at: 90_000, wake: nil)
        #expect(toDeadline == 0 && withoutLimit == 0)
        #expect(clock.peerTime == .milliseconds(90_000))
    }

    @Test func aLongTickStopsThePeersClock() {
        var clock = ShardClock(at: .milliseconds(0))
        clock.endTick(at: .milliseconds(800))
        let away = begin(&clock, at: 800, wake: 0)
        // 250 ms of work are normal.
        #expect(away == 550)
        #expect(clock.now == .milliseconds(800) && clock.peerTime == .milliseconds(250))
    }

    @Test func aWakeThatIsALittleLateCountsForWhatItIsLate() {
        var clock = ShardClock(at: .milliseconds(0))
        let away = begin(&clock, at: 10_900, wake: 10_000)
        #expect(away == 650)
        #expect(clock.peerTime == .milliseconds(10_250))
    }

    /// It is unknown when within the wait the process was stopped.
    @Test func ofAWaitThatEndsMuchTooLateNothingCounts() {
        var clock = ShardClock(at: .milliseconds(0))
        let away = begin(&clock, at: 20_000, wake: 10_000)
        #expect(away == 19_750)
        #expect(clock.peerTime == .milliseconds(250))
    }

    @Test func aDeadlineOfThePeersClockIsPutOffByTheAbsence() {
        var clock = ShardClock(at: .milliseconds(0))
        _ = begin(&clock, at: 20_000, wake: 10_000)
        #expect(clock.time(ofPeerTime: .milliseconds(300)) == .milliseconds(20_050))
    }
}
