// How busy a shard is, second by second.

import Session
import Testing

@testable import Server

@Suite struct ShardCodecTests {
    @Test func theShareIsThatOfTheTicksInASecond() throws {
        var load = ShardLoad(since: .milliseconds(0))
        for turn in 0..<9 {
            let start = turn * 100
            let early = load.handleTick(
                from: .milliseconds(start), to: .milliseconds(start + 80))
            #expect(early == nil)
        }
        let first = load.handleTick(from: .milliseconds(920), to: .milliseconds(1_000))
        let (share, seconds) = try #require(first)
        #expect(abs(share - 0.8) < 0.001)
        #expect(seconds == 1)
        // The next second begins anew.
        let second = load.handleTick(from: .milliseconds(4_900), to: .milliseconds(5_000))
        let next = try #require(second)
        #expect(abs(next.share - 0.025) < 0.001)
        #expect(next.seconds == 4)
    }
}
