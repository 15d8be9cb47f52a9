// The account of the process's memory: what each line is, and that they add up.

import Testing

@testable import Server

@Suite struct ProcessAccountTests {
    private func figures(
        private own: Int, allocated: Int, untouched: Int = 0, ledgers: Int = 0, pools: Int = 0
    ) -> ProcessAccount.Figures {
        ProcessAccount.Figures(
            private: own, allocated: allocated, untouched: untouched,
            parts: [.ledgers: ledgers, .pools: pools])
    }

    private func lines(
        _ now: ProcessAccount.Figures, since start: ProcessAccount.Figures
    ) -> [MemoryHolder: Int] {
        Dictionary(uniqueKeysWithValues: now.lines(since: start))
    }

    @Test func atTheStartEverythingBelongsToTheStart() {
        let start = figures(private: 3_000_000, allocated: 2_000_000, pools: 100_000)
        let lines = lines(start, since: start)
        #expect(lines[.start] == 2_900_000 && lines[.pools] == 100_000)
        #expect(lines[.allocator] == 0 && lines[.other] == 0)
    }

    @Test func whatIsInUseAndInNoPartIsOther() {
        let start = figures(private: 3_000_000, allocated: 2_000_000)
        let now = figures(private: 4_000_000, allocated: 2_700_000, ledgers: 600_000)
        let lines = lines(now, since: start)
        #expect(lines[.ledgers] == 600_000 && lines[.other] == 100_000)
        #expect(lines[.allocator] == 300_000)
    }

    /// A table takes address space at once, and memory as it fills.
    @Test func roomThatWasNeverWrittenIsNoMemory() {
        let start = figures(private: 3_000_000, allocated: 2_000_000, untouched: 500_000)
        // 100,000 bytes of the room were written, and belong to ledgers now.
        let now = figures(
            private: 3_100_000, allocated: 2_000_000, untouched: 400_000, ledgers: 100_000)
        let lines = lines(now, since: start)
        #expect(lines[.ledgers] == 100_000 && lines[.other] == 0 && lines[.allocator] == 0)
    }

    @Test(arguments: [(0, 0, 0), (7, 11, 13), (5_000_000, 1, 900_000), (1, 9_000_000, 40)])
    func theLinesAddUp(ledgers: Int, pools: Int, untouched: Int) {
        let start = figures(private: 3_141, allocated: 592, untouched: 65, ledgers: 3, pools: 58)
        let now = figures(
            private: 9_793, allocated: 2_384, untouched: untouched, ledgers: ledgers, pools: pools)
        #expect(now.lines(since: start).reduce(0) { $0 + $1.1 } == 9_793)
        #expect(now.lines(since: start).map(\.0) == MemoryHolder.allCases)
    }
}
