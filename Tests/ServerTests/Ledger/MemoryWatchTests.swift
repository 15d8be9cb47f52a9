// When a shard looks at the process's memory, and what a look comes to.

import Session
import Synchronization
import Testing

@testable import Server

@Suite struct MemoryWatchTests {
    private final class World: Sendable {
        let resident = Atomic<Int>(0)
        let metrics = ServerMetrics(shards: 2, workers: { WorkerCounts() })
        let woken = Mutex<[Int]>([])
    }

    private let world = World()

    private func watches(limit: Int) -> [MemoryWatch] {
        var settings = MemorySettings()
        settings.maxBytes = limit
        let budget = MemoryBudget(settings) { [world] in
            world.resident.load(ordering: .relaxed)
        }
        for shard in 0..<2 {
            budget.register(shard: shard) { [world] in world.woken.withLock { $0.append(shard) } }
        }
        return (0..<2).map { MemoryWatch(budget: budget, metrics: world.metrics, shard: $0) }
    }

    @Test func withoutALimitNoLookIsDue() {
        let watch = watches(limit: 0)[0]
        #expect(!watch.isDue(total: 1 << 40, at: .milliseconds(1_000)) && !watch.isShort)
    }

    @Test func aLookIsDueAfterATimeOrAMegabyte() {
        var watch = watches(limit: 1 << 30)[0]
        #expect(watch.isDue(total: 0, at: .milliseconds(0)))
        _ = watch.look(total: 0, waiting: 0, at: .milliseconds(0))
        #expect(!watch.isDue(total: 1 << 20, at: .milliseconds(99)))
        #expect(watch.isDue(total: 1 << 20 + 1, at: .milliseconds(99)))
        #expect(watch.isDue(total: 0, at: .milliseconds(100)))
    }

    /// Both shards look; only the first that sees a change tells of it.
    @Test func oneShardSeesEachChangeOfAdmission() {
        var watches = watches(limit: 1_000_000)
        var changes: [MemoryFinding.Change?] = []
        for (time, ledgers) in [(0, 950_000), (100, 700_000)] {
            world.metrics.shards[0].set(.ledgerBytes, to: ledgers)
            for index in watches.indices {
                let finding = watches[index].look(
                    total: ledgers, waiting: 0, at: .milliseconds(time))
                changes.append(finding.change)
                #expect(finding.ledgers == ledgers)
            }
            #expect(watches[1].isShort == (ledgers == 950_000))
        }
        #expect(changes == [.becameShort, nil, .becameFree, nil])
    }

    /// Of 1,000,000 bytes, new sessions are refused from 900,000 on, and are taken again from 850,000
    /// down.
    @Test(arguments: [(300_000, 0), (250_000, 75_000), (50_000, 50_000)])
    func sessionsWithoutAClientKeepNoOtherOut(waiting: Int, excess: Int) {
        var watches = watches(limit: 1_000_000)
        let held = excess == 0 ? 900_000 : 950_000
        world.metrics.shards[0].set(.ledgerBytes, to: held)
        world.metrics.shards[1].set(.waitingBytes, to: waiting == 250_000 ? 83_333 : 0)
        let finding = watches[0].look(total: held, waiting: waiting, at: .milliseconds(0))
        // Each shard frees its share.
        #expect(abs(finding.waitingExcess - excess) <= 1)
        #expect(watches[0].isShort == (held - waiting > 900_000))
    }

    @Test func theExcessIsWhatLedgersCanGiveBack() {
        var watch = watches(limit: 1_000_000)[0]
        world.metrics.shards[0].set(.ledgerBytes, to: 1_300_000)
        let over = watch.look(total: 0, waiting: 0, at: .milliseconds(0))
        #expect(over.excess == 300_000 && over.held == 1_300_000)
        world.metrics.shards[0].set(.ledgerBytes, to: 900_000)
        let within = watch.look(total: 0, waiting: 0, at: .milliseconds(200))
        #expect(within.excess == 0)
    }

    @Test func evictionsPauseUntilTheirMemoryIsFree() {
        var watch = watches(limit: 1_000_000)[0]
        let turns = [0, 5, 9, 10].map { watch.takeEvictionTurn(at: .milliseconds($0)) }
        #expect(turns == [true, false, false, true])
    }

    @Test func theShardWithTheLargestOwnerIsWoken() {
        let watches = watches(limit: 1_000_000)
        world.metrics.shards[0].set(.largestLedgerBytes, to: 3_000)
        world.metrics.shards[1].set(.largestLedgerBytes, to: 5_000)
        #expect(watches.map(\.mayHaveLargest) == [false, true])
        watches[0].wakeShardWithLargest(leastBytes: 6_000)
        #expect(world.woken.withLock { $0 } == [])
        watches[0].wakeShardWithLargest(leastBytes: 2_048)
        #expect(world.woken.withLock { $0 } == [1])
    }
}
