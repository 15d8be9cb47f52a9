// The worker pool's threads. Jobs are held at gates that the test opens, so that what is queued and
// what runs is known at every step.

import Synchronization
import Testing

@testable import Server

/// Holds whoever passes until it is opened.
private final class Gate: Sendable {
    private struct State {
        var isOpen = false
        var waiting = 0
    }

    private let lock = ConditionLock()
    private let state = Mutex(State())

    func pass() {
        lock.withLock {
            state.withLock { $0.waiting += 1 }
            lock.broadcast()
            while !state.withLock({ $0.isOpen }) { lock.wait() }
        }
    }

    func open() {
        lock.withLock {
            state.withLock { $0.isOpen = true }
            lock.broadcast()
        }
    }

    /// Returns once so many wait here.
    func awaitWaiting(_ count: Int) {
        lock.withLock {
            while state.withLock({ $0.waiting }) < count { lock.wait() }
        }
    }
}

/// Counts from any thread.
private final class Counter: Sendable {
    private let count = Atomic<Int>(0)

    var value: Int { count.load(ordering: .relaxed) }

    func add(_ amount: Int = 1) { count.add(amount, ordering: .relaxed) }
}

@Suite struct WorkerPoolTests {
    @Test func runsJobsInTheirOrder() {
        let pool = WorkerPool(threads: 1, maxQueued: 100)
        let order = Mutex<[Int]>([])
        for number in 0..<100 {
            #expect(pool.submit { order.withLock { $0.append(number) } })
        }
        pool.shutdown()
        #expect(order.withLock { $0 } == Array(0..<100))
    }

    @Test func runsAsManyJobsAtOnceAsItHasThreads() {
        let pool = WorkerPool(threads: 3, maxQueued: 0)
        let gate = Gate()
        for _ in 0..<3 { #expect(pool.submit { gate.pass() }) }
        // Only three threads at once can all be waiting here.
        gate.awaitWaiting(3)
        #expect(pool.counts.running == 3)
        gate.open()
        pool.shutdown()
        #expect(pool.counts.running == 0)
    }

    @Test func refusesJobsWhenItsQueueIsFull() {
        let pool = WorkerPool(threads: 1, maxQueued: 2)
        let gate = Gate()
        let ran = Counter()
        #expect(pool.submit { gate.pass() })
        gate.awaitWaiting(1)
        for _ in 0..<2 { #expect(pool.submit { ran.add() }) }
        #expect(pool.counts.queued == 2)
        for _ in 0..<3 { #expect(!pool.submit { ran.add(100) }) }
        #expect(pool.counts.refused == 3)
        gate.open()
        pool.shutdown()
        #expect(ran.value == 2)
        #expect(pool.counts.queued == 0)
    }

    /// Of three threads, jobs that nobody awaits may use all but one, those that will be awaited
    /// use all, and none of them waits in the queue.
    @Test func keepsRoomForJobsThatAreAwaited() {
        let pool = WorkerPool(threads: 3, maxQueued: 10)
        let gate = Gate()
        func submit(_ urgency: JobUrgency) -> Bool { pool.submit(urgency) { gate.pass() } }
        #expect(submit(.spare))
        #expect(submit(.spare))
        #expect(!submit(.spare))
        #expect(submit(.expected))
        #expect(!submit(.expected))
        #expect(submit(.awaited))
        #expect(!submit(.spare) && !submit(.expected))
        // The threads may not have come for their jobs yet.
        #expect(pool.counts.queued + pool.counts.running == 4)
        #expect(pool.counts.refused == 0, "nobody waits for what was refused")
        gate.open()
        pool.shutdown()
    }

    /// One session has five turns to recognise, the next two, the last one.
    @Test func sessionsTakeTurns() {
        let pool = WorkerPool(threads: 1, maxQueued: 100)
        let gate = Gate()
        let order = Mutex<[String]>([])
        func submit(_ name: String, _ session: UInt64) {
            let owner = JobOwner(token: EventToken(rawValue: session))
            #expect(pool.submit(.awaited, for: owner) { order.withLock { $0.append(name) } })
        }
        #expect(pool.submit { gate.pass() })
        gate.awaitWaiting(1)
        for number in 1...5 { submit("a\(number)", 1) }
        for number in 1...2 { submit("b\(number)", 2) }
        submit("c1", 3)
        gate.open()
        pool.shutdown()
        #expect(
            order.withLock { $0 } == ["a1", "b1", "c1", "a2", "b2", "a3", "a4", "a5"])
    }

    @Test func theSameTokenOnAnotherShardIsAnotherSession() {
        let shards = [Counter(), Counter()]
        let token = EventToken(rawValue: 1)
        let owners = shards.map { JobOwner(shard: ObjectIdentifier($0), token: token) }
        #expect(owners[0] != owners[1])
    }

    @Test func givesItsOnlyThreadToAnybodyWhenItIsFree() {
        let pool = WorkerPool(threads: 1, maxQueued: 10)
        let gate = Gate()
        #expect(pool.submit(.spare) { gate.pass() })
        #expect(!pool.submit(.spare) {})
        #expect(pool.submit(.awaited) {})
        gate.open()
        pool.shutdown()
        #expect(!pool.submit(.spare) {})
    }

    @Test func runsWhatItHasTakenBeforeItStops() {
        let pool = WorkerPool(threads: 2, maxQueued: 1_000)
        let ran = Counter()
        var taken = 0
        for _ in 0..<1_000 where pool.submit({ ran.add() }) { taken += 1 }
        pool.shutdown()
        #expect(taken == 1_000)
        #expect(ran.value == taken)
        #expect(!pool.submit { ran.add() })
        // A second shutdown finds nothing to do.
        pool.shutdown()
        #expect(ran.value == taken)
    }

    @Test func takesJobsFromManyThreadsAndFromJobs() async {
        let pool = WorkerPool(threads: 2, maxQueued: 10_000)
        let ran = Counter()
        let done = Gate()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    for _ in 0..<100 {
                        _ = pool.submit {
                            _ = pool.submit { ran.add() }
                            ran.add()
                            done.pass()
                        }
                    }
                }
            }
            done.open()
        }
        // The jobs that jobs submit come after all others.
        done.awaitWaiting(800)
        pool.shutdown()
        #expect(ran.value == 1_600)
    }

    @Test func finishesWhenItIsDropped() {
        let gate = Gate()
        do {
            let pool = WorkerPool(threads: 1, maxQueued: 1)
            #expect(pool.submit { gate.pass() })
        }
        gate.awaitWaiting(1)
        gate.open()
    }
}
