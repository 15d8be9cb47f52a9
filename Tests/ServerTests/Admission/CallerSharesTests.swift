// What one caller may have of something that all share.

import Codec
import Testing

@testable import Server

@Suite struct CallerSharesTests {
    private let one = CallerTag(principal: SHA256Digest(of: "one"), address: .unspecified)
    private let two = CallerTag(principal: SHA256Digest(of: "two"), address: .unspecified)

    /// Takes as many as a caller gets.
    private func take(_ caller: CallerTag, _ shares: inout CallerShares, taken: inout Int) -> Int {
        let before = taken
        while shares.admits(caller, taken: taken, of: 100) {
            shares.add(caller)
            taken += 1
        }
        return taken - before
    }

    @Test func theLastQuarterIsForTheOthers() {
        var shares = CallerShares()
        var taken = 0
        #expect(take(one, &shares, taken: &taken) == 75)
        #expect(take(two, &shares, taken: &taken) == 25)
        #expect(taken == 100 && !shares.admits(two, taken: 99, of: 100))
        for _ in 0..<60 { shares.remove(one) }
        taken -= 60
        #expect(take(two, &shares, taken: &taken) == 35)
        #expect(take(one, &shares, taken: &taken) == 10, "up to a quarter, or until all are taken")
    }

    @Test func withoutAQuarterTheFirstHasIt() {
        var shares = CallerShares()
        var taken = 0
        while shares.admits(one, taken: taken, of: 3) {
            shares.add(one)
            taken += 1
        }
        #expect(taken == 3)
        #expect(!shares.admits(two, taken: 0, of: 0))
    }
}
