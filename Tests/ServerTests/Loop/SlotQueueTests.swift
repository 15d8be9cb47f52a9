// The queue of slots that the loop works through in rounds.

import Testing

@testable import Server

@Suite struct SlotQueueTests {
    /// Takes a whole round; `body` may queue slots.
    private func round(_ queue: inout SlotQueue, _ body: (Int, inout SlotQueue) -> Void) {
        let count = queue.beginRound()
        for position in 0..<count { body(queue.slot(at: position), &queue) }
        if count > 0 { queue.endRound() }
    }

    @Test func aRoundHasWhatWaitedInOrder() {
        var queue = SlotQueue()
        for slot in [4, 1, 9] { queue.append(slot) }
        var seen: [Int] = []
        round(&queue) { slot, _ in seen.append(slot) }
        #expect(seen == [4, 1, 9] && queue.isEmpty)
        let count = queue.beginRound()
        #expect(count == 0)
    }

    @Test func aSlotQueuedInARoundWaitsForTheNextOne() {
        var queue = SlotQueue()
        queue.append(1)
        queue.append(2)
        var seen: [Int] = []
        round(&queue) { slot, queue in
            seen.append(slot)
            queue.append(slot + 10)
        }
        #expect(seen == [1, 2] && queue.slots == [11, 12])
        round(&queue) { slot, _ in seen.append(slot) }
        #expect(seen == [1, 2, 11, 12] && queue.isEmpty)
    }

    @Test func postponedSlotsComeFirstInTheNextRound() {
        var queue = SlotQueue()
        for slot in [1, 2, 3] { queue.append(slot) }
        round(&queue) { slot, queue in if slot == 1 { queue.append(7) } }
        queue.postpone([2, 3])
        #expect(queue.slots == [2, 3, 7])
    }
}
