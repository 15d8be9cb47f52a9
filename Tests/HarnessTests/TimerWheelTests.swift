// The timer wheel, which keeps the open loop's schedule: no timer fires early, none is lost, and a
// late check does not move later timers.

import Testing

@testable import parley_load

@Suite struct TimerWheelTests {
    private static let tick = TimerWheel.tickNanoseconds

    @Test func aTimerFiresAtItsRoundedTimeAndNotBefore() {
        let wheel = TimerWheel(now: 0)
        let time = 10 * Self.tick + 1
        wheel.set(3, at: time)
        let due = TimerWheel.rounded(time)
        #expect(due == 11 * Self.tick)
        #expect(wheel.expire(at: due - 1) == [])
        #expect(wheel.expire(at: due) == [3])
        #expect(wheel.expire(at: due + Self.tick) == [])
    }

    @Test func aTimerBeyondOneRoundWaitsForItsRound() {
        let wheel = TimerWheel(now: 0)
        let far = 5_000_000_000 as Int64
        wheel.set(1, at: far)
        #expect(wheel.expire(at: far - 3_000_000_000) == [])
        #expect(wheel.expire(at: far - Self.tick) == [])
        #expect(wheel.expire(at: far) == [1])
    }

    @Test func aMovedTimerFiresOnceAndACancelledOneNever() {
        let wheel = TimerWheel(now: 0)
        wheel.set(0, at: 10 * Self.tick)
        wheel.set(0, at: 20 * Self.tick)
        wheel.set(1, at: 20 * Self.tick)
        wheel.set(2, at: 20 * Self.tick)
        wheel.cancel(1)
        #expect(wheel.expire(at: 15 * Self.tick) == [])
        #expect(Set(wheel.expire(at: 30 * Self.tick)) == [0, 2])
    }

    @Test func aLongPauseLosesNoTimer() {
        let wheel = TimerWheel(now: 0)
        for timer in 0..<100 { wheel.set(timer, at: Int64(timer) * 37_000_000) }
        let fired = wheel.expire(at: 60_000_000_000)
        #expect(fired.sorted() == Array(0..<100))
    }

    @Test func theNextCheckIsNeverAfterTheNextTimer() {
        let wheel = TimerWheel(now: 0)
        #expect(wheel.nextCheck > 0)
        wheel.set(7, at: 700 * Self.tick)
        #expect(wheel.nextCheck == 700 * Self.tick)
        wheel.set(8, at: 65 * Self.tick)
        #expect(wheel.nextCheck == 65 * Self.tick)
        #expect(wheel.expire(at: 66 * Self.tick) == [8])
        #expect(wheel.nextCheck == 700 * Self.tick)
    }

    @Test func aTimerInThePastFiresAtTheNextTick() {
        let wheel = TimerWheel(now: 1_000 * Self.tick)
        wheel.set(0, at: 0)
        #expect(wheel.expire(at: 1_001 * Self.tick) == [0])
    }

    /// Compares the wheel with a plain list: random times, moves and cancellations.
    @Test func aWheelAgreesWithAPlainList() throws {
        var random = SplitMix64(state: 42)
        let wheel = TimerWheel(now: 0)
        var due: [Int: Int64] = [:]
        var now: Int64 = 0
        for _ in 0..<3_000 {
            let timer = Int(random.next(upperBound: 50 as UInt64))
            if random.next(upperBound: 5 as UInt64) == 0 {
                wheel.cancel(timer)
                due[timer] = nil
            } else {
                let time = now + Int64(random.next(upperBound: 4_000_000_000 as UInt64)) + 1
                wheel.set(timer, at: time)
                due[timer] = max(TimerWheel.rounded(time), (now / Self.tick + 1) * Self.tick)
            }
            now += Int64(random.next(upperBound: 100_000_000 as UInt64))
            let expected = due.filter { $0.value <= now }.keys.sorted()
            let fired = wheel.expire(at: now).sorted()
            try #require(fired == expected)
            for timer in expected { due[timer] = nil }
        }
    }
}
