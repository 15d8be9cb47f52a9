// The queue of the worker pool as a value: order, shares, and both under random use.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct FairJobQueueTests {
    private func owner(_ caller: UInt32, _ session: UInt64 = 1) -> JobOwner {
        .of(caller: caller, session: session)
    }

    private func drain(_ queue: inout FairJobQueue<String>) -> [String] {
        var jobs: [String] = []
        while let job = queue.popFirst() { jobs.append(job) }
        return jobs
    }

    @Test func callersTakeTurnsAndSessionsWithinThem() {
        var queue = FairJobQueue<String>()
        for session in UInt64(1)...3 {
            for number in 1...2 { queue.append("a\(session).\(number)", of: owner(1, session)) }
        }
        for number in 1...3 { queue.append("b\(number)", of: owner(2)) }
        queue.append("server", of: nil)
        #expect(queue.count == 10)
        #expect(
            drain(&queue) == [
                "a1.1", "b1", "server", "a2.1", "b2", "a3.1", "b3", "a1.2", "a2.2", "a3.2",
            ])
        #expect(queue.count == 0 && queue.popFirst() == nil)
    }

    /// A caller that always has one job more, submitted when its last one was taken, gets every
    /// second turn and no more.
    @Test func aCallerThatSubmitsInTimeDoesNotStarveOthers() {
        var queue = FairJobQueue<String>()
        for _ in 0..<4 { queue.append("b", of: owner(2)) }
        queue.append("a", of: owner(1))
        var order: [String] = []
        for _ in 0..<8 {
            guard let job = queue.popFirst() else { break }
            order.append(job)
            if job == "a" { queue.append("a", of: owner(1)) }
        }
        #expect(order == ["b", "a", "b", "a", "b", "a", "b", "a"])
    }

    @Test func theLargestCallerLosesTheNewestJobOfItsLargestSession() {
        var queue = FairJobQueue<String>()
        queue.append("a1", of: owner(1, 1))
        for number in 1...3 { queue.append("a2.\(number)", of: owner(1, 2)) }
        for number in 1...2 { queue.append("b\(number)", of: owner(2)) }
        #expect(queue.evict(for: owner(3)) == "a2.3")
        #expect(queue.evict(for: owner(2)) == nil, "three jobs of three are no smaller share")
        #expect(queue.evict(for: owner(3)) == "a2.2")
        // Both have two jobs now: the turn of the second is the later one.
        #expect(queue.evict(for: owner(3)) == "b2")
        #expect(queue.evict(for: owner(3)) == "a2.1")
        #expect(queue.evict(for: owner(3)) == nil, "one job each")
        #expect(drain(&queue) == ["a1", "b1"])
    }

    @Test func withinACallerTheLargestSessionLosesAJob() {
        var queue = FairJobQueue<String>()
        for number in 1...3 { queue.append("a1.\(number)", of: owner(1, 1)) }
        queue.append("a2", of: owner(1, 2))
        queue.append("b", of: owner(2))
        #expect(queue.evict(for: owner(1, 1)) == nil, "it is the largest itself")
        #expect(queue.evict(for: owner(1, 2)) == "a1.3")
        #expect(queue.evict(for: owner(1, 2)) == nil, "two jobs of two")
        #expect(queue.evict(for: owner(1, 3)) == "a1.2")
        #expect(queue.evict(for: nil) == "a2", "two jobs beside none of the server's own")
        #expect(drain(&queue) == ["a1.1", "b"])
    }

    /// A job of this test: its owner, and its number.
    private struct Job: Equatable {
        let caller: UInt32
        let session: UInt64
        let number: Int
    }

    @Test(arguments: UInt64(1)...20)
    func keepsItsOrderAndItsShares(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var queue = FairJobQueue<Job>()
        var waiting: [Job] = []
        for number in 0..<2_000 {
            let job = Job(
                caller: .random(in: 0..<5, using: &generator),
                session: .random(in: 0..<4, using: &generator), number: number)
            let owner = owner(job.caller, job.session)
            if waiting.count >= 12 {
                let most = Dictionary(grouping: waiting, by: \.caller).values.map(\.count).max()
                let own = waiting.count { $0.caller == job.caller } + 1
                let evicted = queue.evict(for: owner)
                if let evicted {
                    // The newest of its session, and of the largest share: that of another
                    // caller, or where the new job makes its own share the largest, of that one.
                    #expect(
                        !waiting.contains {
                            ($0.caller, $0.session) == (evicted.caller, evicted.session)
                                && $0.number > evicted.number
                        })
                    let share = waiting.count { $0.caller == evicted.caller }
                    if evicted.caller == job.caller {
                        #expect(most.map { $0 <= own } == true)
                    } else {
                        #expect(share == most && share > own)
                    }
                    waiting.removeAll { $0 == evicted }
                } else {
                    #expect(most.map { $0 <= own } == true)
                    continue
                }
            }
            queue.append(job, of: owner)
            waiting.append(job)
            if Bool.random(using: &generator) { takeOne(&queue, &waiting) }
            #expect(queue.count == waiting.count)
        }
        while !waiting.isEmpty { takeOne(&queue, &waiting) }
        #expect(queue.popFirst() == nil)
    }

    private func takeOne(_ queue: inout FairJobQueue<Job>, _ waiting: inout [Job]) {
        let first = queue.popFirst()
        let oldest = waiting.first {
            ($0.caller, $0.session) == (first?.caller, first?.session)
        }
        #expect(first == oldest, "the jobs of a session keep their order")
        waiting.removeAll { $0 == first }
    }

    /// A caller with no other job waits for at most one job of each other caller.
    @Test(arguments: UInt64(1)...20)
    func aSingleJobWaitsForOneOfEachOtherCaller(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var queue = FairJobQueue<UInt32>()
        for _ in 0..<200 {
            let caller = UInt32.random(in: 1...6, using: &generator)
            queue.append(caller, of: owner(caller, .random(in: 0..<12, using: &generator)))
            if Int.random(in: 0..<3, using: &generator) == 0 { _ = queue.popFirst() }
        }
        queue.append(0, of: owner(0))
        var before: [UInt32] = []
        while let caller = queue.popFirst(), caller != 0 { before.append(caller) }
        #expect(Set(before).count == before.count, "\(before)")
    }
}

@Suite struct CallerTagTests {
    private func tag(_ principal: String?, _ address: String) -> CallerTag? {
        NetworkAddress(address).map {
            CallerTag(principal: principal.map { SHA256Digest(of: $0) }, address: $0)
        }
    }

    @Test func aCredentialCountsBeforeTheAddress() {
        #expect(tag("one", "192.0.2.1") == tag("one", "192.0.2.2"))
        #expect(tag("one", "192.0.2.1") != tag("two", "192.0.2.1"))
    }

    @Test func withoutACredentialTheAddressCountsAsForItsLimits() {
        #expect(tag(nil, "192.0.2.1") == tag(nil, "192.0.2.1"))
        #expect(tag(nil, "192.0.2.1") != tag(nil, "192.0.2.2"))
        #expect(tag(nil, "2001:db8::1") == tag(nil, "2001:db8::2"))
        #expect(tag(nil, "2001:db8::1") != tag(nil, "2001:db8:0:1::1"))
    }
}
