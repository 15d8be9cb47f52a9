// The deadline queue alone: order, ties, handles.

import Session
import Simulation
import Testing

@testable import Server

@Suite struct DeadlineQueueTests {
    private func drain(_ queue: inout DeadlineQueue<Int>, at now: Instant) -> [Int] {
        var owners: [Int] = []
        while let (owner, _) = queue.popExpired(at: now) { owners.append(owner) }
        return owners
    }

    @Test func expiresInOrderOfTime() {
        var queue = DeadlineQueue<Int>()
        for milliseconds in [50, 10, 40, 20, 30] {
            _ = queue.schedule(milliseconds, at: .milliseconds(milliseconds))
        }
        #expect(queue.next == .milliseconds(10))
        #expect(drain(&queue, at: .milliseconds(30)) == [10, 20, 30])
        #expect(queue.next == .milliseconds(40))
        #expect(drain(&queue, at: .milliseconds(39)).isEmpty)
        #expect(drain(&queue, at: .milliseconds(60)) == [40, 50])
        #expect(queue.next == nil)
    }

    @Test func equalDeadlinesExpireInOrderOfScheduling() {
        var queue = DeadlineQueue<Int>()
        let handles = (0..<20).map { queue.schedule($0, at: .milliseconds(5)) }
        queue.cancel(handles[3])
        // Rescheduled to the same instant, it comes after those that did not move.
        queue.reschedule(handles[0], at: .milliseconds(5))
        let expected = (0..<20).filter { $0 != 0 && $0 != 3 } + [0]
        #expect(drain(&queue, at: .milliseconds(5)) == expected)
    }

    @Test func agreesWithSortingUnderRandomOperations() {
        var generator = SeededGenerator(seed: 7)
        var queue = DeadlineQueue<Int>()
        var model: [(owner: Int, at: Int, order: Int, handle: DeadlineHandle)] = []
        var order = 0
        for step in 0..<3_000 {
            let at = Int.random(in: 0..<200, using: &generator)
            order += 1
            switch Int.random(in: 0..<4, using: &generator) {
            case 0, 1:
                let handle = queue.schedule(step, at: .milliseconds(at))
                model.append((step, at, order, handle))
            case 2 where !model.isEmpty:
                let index = Int.random(in: 0..<model.count, using: &generator)
                queue.reschedule(model[index].handle, at: .milliseconds(at))
                model[index].at = at
                model[index].order = order
            case 3 where !model.isEmpty:
                let index = Int.random(in: 0..<model.count, using: &generator)
                let removed = model.remove(at: index)
                #expect(queue.cancel(removed.handle) == removed.owner)
            default: break
            }
            queue.checkInvariants()
        }
        let expected = model.sorted { ($0.at, $0.order) < ($1.at, $1.order) }.map(\.owner)
        #expect(expected.count > 100)
        #expect(drain(&queue, at: .milliseconds(1_000)) == expected)
        queue.checkInvariants()
    }

    /// Long queues that become short move to other memory, and every handle stays good.
    @Test func handlesOutliveALongQueueThatBecomesShort() {
        var queue = DeadlineQueue<Int>(capacity: 100)
        let count = DeadlineQueue<Int>.longCount + 100
        for round in 0..<3 {
            let handles = (0..<count).map { queue.schedule($0, at: .milliseconds(count - $0)) }
            for owner in 10..<count { #expect(queue.cancel(handles[owner]) == owner) }
            queue.checkInvariants()
            queue.reschedule(handles[0], at: .milliseconds(1))
            #expect(queue.deadline(of: handles[9]) == .milliseconds(count - 9))
            #expect(drain(&queue, at: .milliseconds(count)) == [0, 9, 8, 7, 6, 5, 4, 3, 2, 1])
            queue.checkInvariants()
            #expect(queue.count == 0, "round \(round)")
        }
    }

    /// A queue that was long once and never empty since moves its entries once, not each time that
    /// it is short again.
    @Test func movesItsEntriesOnceForEachTimeThatItWasLong() {
        var queue = DeadlineQueue<Int>()
        let long = DeadlineQueue<Int>.longCount
        for _ in 0..<2 {
            var handles = (0..<long).map { queue.schedule($0, at: .milliseconds($0)) }
            while queue.count > 64 { queue.cancel(handles.removeLast()) }
            #expect(queue.roomCount < 500)
            for _ in 0..<3 {
                let more = (0..<1_000).map { queue.schedule($0, at: .milliseconds($0)) }
                for handle in more { queue.cancel(handle) }
                #expect(queue.count == 64 && queue.roomCount >= 1_000)
            }
            queue.checkInvariants()
            #expect(drain(&queue, at: .milliseconds(long)).count == 64)
            #expect(queue.count == 0 && queue.roomCount == 0)
        }
    }

    @Test func refusesAHandleThatHasExpired() async {
        await #expect(processExitsWith: .failure) {
            var queue = DeadlineQueue<Int>()
            let handle = queue.schedule(1, at: .milliseconds(1))
            _ = queue.popExpired(at: .milliseconds(1))
            queue.reschedule(handle, at: .milliseconds(2))
        }
    }
}
