// The token bucket: its burst, its rate, and counts that are too large for a bucket.

import Session
import Testing

@testable import Server

@Suite struct TokenBucketTests {
    @Test func allowsTheBurstAndThenTheRate() {
        let rate = TokenRate(perSecond: 100, burst: 50)
        var bucket = TokenBucket()
        func spend(_ count: Int, at milliseconds: Int) -> Bool {
            bucket.spend(count, rate, at: .milliseconds(milliseconds))
        }
        let burst = (0..<50).map { _ in spend(1, at: 1_000) }
        #expect(burst.allSatisfy { $0 })
        let steady = (1...1_000).map { spend(1, at: 1_000 + 10 * $0) }
        #expect(steady.allSatisfy { $0 })
        let excess = spend(1, at: 11_000)
        #expect(!excess)
        let saved = spend(50, at: 3_600_000)
        #expect(saved)
        let more = spend(1, at: 3_600_000)
        #expect(!more, "an hour of quiet saves up no more than the burst")
    }

    @Test func tellsWhatIsLeftAndHowLongToWait() {
        let rate = TokenRate(60, inSeconds: 60)
        var bucket = TokenBucket()
        let start = Instant.milliseconds(5_000)
        #expect(bucket.tokens(rate, at: start) == 60)
        #expect(bucket.wait(for: 60, rate, at: start) == .zero)
        bucket.charge(59, rate, at: start)
        #expect(bucket.tokens(rate, at: start) == 1)
        #expect(bucket.wait(for: 1, rate, at: start) == .zero)
        #expect(bucket.wait(for: 3, rate, at: start) == .seconds(2))
        bucket.charge(1, rate, at: start)
        #expect(bucket.tokens(rate, at: start + .milliseconds(999)) == 0)
        #expect(bucket.tokens(rate, at: start + .milliseconds(1_000)) == 1)
        #expect(bucket.wait(for: 1_000, rate, at: start) == .seconds(60), "until it is full")
        bucket.refund(60, rate)
        #expect(bucket.tokens(rate, at: start) == 60)
    }

    @Test(arguments: [61, 1_000, Int.max])
    func aDebtIsAtMostWhatTheBucketHolds(count: Int) {
        let rate = TokenRate(60, inSeconds: 60)
        var bucket = TokenBucket()
        bucket.charge(count, rate, at: .milliseconds(0))
        let wait = bucket.wait(for: 1, rate, at: .milliseconds(0))
        #expect(wait == .seconds(min(count - 59, 61)))
        bucket.charge(count, rate, at: .milliseconds(0))
        #expect(bucket.wait(for: 1, rate, at: .milliseconds(0)) == .seconds(61))
    }

    @Test(arguments: [Int.max, 1 << 40])
    func refusesCountsThatWouldOverflow(count: Int) {
        var bucket = TokenBucket()
        let rate = TokenRate(perSecond: 1, burst: 1_000_000)
        let isWithin = bucket.spend(count, rate, at: .milliseconds(0))
        #expect(!isWithin)
    }
}
