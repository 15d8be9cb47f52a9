// The time of a tick, and who has how much of it.

import Session
import Testing

@testable import Server

@Suite struct MessageTimeTests {
    /// A tick that begins at 7 ms, as a list of answers. Times are microseconds since its beginning.
    private struct Tick {
        var time = MessageTime()

        init() { time.begin(at: .milliseconds(7)) }

        private func instant(_ microseconds: Int64) -> Instant {
            Instant(nanoseconds: 7_000_000 + microseconds * 1_000)
        }

        mutating func areSpent(_ times: Int64...) -> [Bool] {
            times.map { time.isSpent(at: instant($0)) }
        }

        mutating func areSharesSpent(_ times: Int64...) -> [Bool] {
            times.map { time.isShareSpent(at: instant($0)) }
        }
    }

    @Test func theTickIsOverAfterAMillisecond() {
        var tick = Tick()
        let spent = tick.areSpent(0, 999, 1_000)
        #expect(spent == [false, false, true])
        let shares = tick.areSharesSpent(999, 1_000)
        #expect(shares == [true, true], "the time does not come back")
        tick.time.begin(at: .milliseconds(8))
        let next = tick.areSpent(1_001, 1_999, 2_000)
        #expect(next == [false, false, true])
    }

    @Test func connectionsThatWereLeftShareItEvenly() {
        var tick = Tick()
        for position in 0..<4 {
            tick.time.beginShare(position, of: 4)
            let end = Int64(position + 1) * 250
            let spent = tick.areSharesSpent(end - 1, end)
            #expect(spent == [false, true])
        }
        tick = Tick()
        tick.time.beginShare(0, of: 4)
        tick.time.endShares()
        let spent = tick.areSharesSpent(600, 1_000)
        #expect(spent == [false, true])
    }

    @Test func theClockIsLookedAtAfterMessagesOfSomeWeight() {
        var tick = Tick()
        #expect([15, 16].map { tick.time.needsLook(after: $0, bytes: 1_000) } == [false, true])
        #expect([14, 15].map { tick.time.needsLook(after: $0, bytes: 2_000) } == [false, true])
        _ = tick.areSpent(1_000)
        #expect([1, 2].map { tick.time.needsLook(after: $0, bytes: 100) } == [false, true])
    }
}
