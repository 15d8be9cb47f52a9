// Charges of a shard's owners, without a shard.

import Session
import Testing

@testable import Server

@Suite struct LedgerKeeperTests {
    private let metrics = ServerMetrics(shards: 1, workers: { WorkerCounts() })

    private var shard: ShardMetrics { metrics.shards[0] }

    private func connection(_ slot: Int) -> Connection {
        let connection = Connection(
            token: EventToken(.connection, index: slot, generation: 0), handle: 1,
            at: .milliseconds(0))
        connection.state = .webSocket
        return connection
    }

    @Test func aConnectionIsTouchedOnceATick() {
        var ledgers = LedgerKeeper(metrics: shard, maxBytes: 0)
        let (one, other) = (connection(1), connection(2))
        for each in [one, other, one] { ledgers.touch(each) }
        let count = ledgers.touched.beginRound()
        #expect((0..<count).map { ledgers.touched.slot(at: $0) } == [1, 2])
        ledgers.touched.endRound()
        one.isTouched = false
        ledgers.touch(one)
        let next = ledgers.touched.beginRound()
        #expect(next == 1)
        ledgers.touched.endRound()
    }

    @Test func theTotalIsTheSumOfTheCharges() {
        var ledgers = LedgerKeeper(metrics: shard, maxBytes: 0)
        let (one, other) = (connection(1), connection(2))
        ledgers.settle(one, bytes: 1_000)
        ledgers.settle(other, bytes: 500)
        ledgers.settle(one, bytes: 700)
        #expect(ledgers.total == 1_200 && one.charged == 700)
        #expect(shard.value(of: .ledgerBytes) == 1_200)
        ledgers.refund(one)
        ledgers.refund(other)
        #expect(ledgers.total == 0 && one.charged == 0 && one.chargedState == nil)
        #expect(shard.ledgerCellsAreZero)
    }

    @Test func ownersBeyondTheLimitAreListedUntilTheyAreDealtWith() {
        var ledgers = LedgerKeeper(metrics: shard, maxBytes: 1_000)
        let (one, other) = (connection(1), connection(2))
        ledgers.settle(one, bytes: 1_000)
        ledgers.settle(other, bytes: 1_001)
        #expect(ledgers.oversized == [other.token])
        ledgers.forgetOversized()
        // Unchanged, it is not listed again.
        ledgers.settle(other, bytes: 1_001)
        #expect(ledgers.oversized.isEmpty)
        for each in [one, other] { ledgers.refund(each) }
    }

    @Test func theLargestChargeGrowsUntilItIsSet() {
        var ledgers = LedgerKeeper(metrics: shard, maxBytes: 0)
        let (one, other) = (connection(1), connection(2))
        ledgers.settle(one, bytes: 3_000)
        ledgers.settle(other, bytes: 2_000)
        ledgers.settle(one, bytes: 100)
        #expect(ledgers.largestCharge == 3_000)
        ledgers.setLargest(to: 2_000)
        #expect(shard.value(of: .largestLedgerBytes) == 2_000)
        // One that was evicted frees nothing more.
        other.state = .lingering
        ledgers.settle(other, bytes: 5_000)
        #expect(ledgers.largestCharge == 2_000)
        for each in [one, other] { ledgers.refund(each) }
    }

    @Test func anAuditIsDueEverySoManyTicks() {
        var ledgers = LedgerKeeper(metrics: shard, maxBytes: 0)
        let due = (0..<200).filter { _ in ledgers.takeAuditTurn() }
        #expect(due == [0, 64, 128, 192])
    }
}
