// The worker pool's threads. Jobs wait at gates that the test opens, so that the test knows which
// jobs are queued and which run.

import CLinux
import Codec
import Session
import Synchronization
import Testing

@testable import Server

extension WorkerPool {
    /// Submits work of no session.
    func submit(
        _ urgency: JobUrgency = .awaited, _ run: @escaping @Sendable () -> Void
    ) -> Bool { submit(urgency, for: nil, ComputeJob(run: run)) }
}

extension JobOwner {
    /// A session of a caller without a credential.
    static func of(caller: UInt32, session: UInt64) -> JobOwner {
        JobOwner(
            caller: CallerTag(principal: nil, address: NetworkAddress(v4: caller)),
            token: EventToken(rawValue: session))
    }
}

/// Stops each thread that passes until it is opened.
final class Gate: Sendable {
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
            let end = MonotonicClock.now + HangGuard.duration
            while state.withLock({ $0.waiting }) < count {
                guard MonotonicClock.now < end else {
                    Issue.record("\(count) do not come")
                    return
                }
                lock.wait(atMost: HangGuard.duration)
            }
        }
    }
}

/// Counts from any thread.
private final class Counter: Sendable {
    private let count = Atomic<Int>(0)

    var value: Int { count.load(ordering: .relaxed) }

    func add(_ amount: Int = 1) { count.add(amount, ordering: .relaxed) }
}

/// The jobs that a pool took, and those that ran or were evicted. Any thread.
private final class JobLedger: Sendable {
    private let state = Mutex<(taken: [Int], ended: [Int])>(([], []))

    var taken: [Int] { state.withLock { $0.taken } }
    /// In the order of their numbers.
    var ended: [Int] { state.withLock { $0.ended.sorted() } }

    func noteTaken(_ name: Int) { state.withLock { $0.taken.append(name) } }
    func noteEnd(of name: Int) { state.withLock { $0.ended.append(name) } }
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

    /// Of three threads, jobs that are not awaited may use all but one. Of those that will be
    /// awaited, two wait for each thread.
    @Test func keepsRoomForJobsThatAreAwaited() {
        let pool = WorkerPool(threads: 3, maxQueued: 10)
        let gate = Gate()
        func submit(_ urgency: JobUrgency) -> Bool { pool.submit(urgency) { gate.pass() } }
        #expect(submit(.spare))
        #expect(submit(.spare))
        #expect(!submit(.spare))
        for _ in 0..<6 { #expect(submit(.expected)) }
        #expect(submit(.awaited))
        #expect(!submit(.spare) && !submit(.expected))
        // The threads may come for their jobs only now, so that all counts are read at once.
        let counts = pool.counts
        #expect(counts.queued + counts.running == 9)
        #expect(counts.shedSpare == 2 && counts.shedExpected == 1)
        #expect(counts.refused == 0, "the refused jobs are not awaited")
        gate.open()
        pool.shutdown()
    }

    /// One session has five turns to recognise, the next two, the last one.
    @Test func sessionsTakeTurns() {
        let pool = WorkerPool(threads: 1, maxQueued: 100)
        let gate = Gate()
        let order = Mutex<[String]>([])
        func submit(_ name: String, _ session: UInt64) {
            let job = ComputeJob { order.withLock { $0.append(name) } }
            #expect(pool.submit(.awaited, for: .of(caller: 1, session: session), job))
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
        let caller = CallerTag(principal: nil, address: .unspecified)
        let owners = shards.map {
            JobOwner(caller: caller, shard: ObjectIdentifier($0), token: token)
        }
        #expect(owners[0] != owners[1])
    }

    /// One caller has filled the queue from three sessions. A job of another caller takes the place
    /// of its newest one, and runs after one job of the first caller.
    @Test func aCallerWithASmallShareIsTakenIntoAFullQueue() {
        let pool = WorkerPool(threads: 1, maxQueued: 4)
        let gate = Gate()
        let journal = Mutex<[String]>([])
        func submit(_ name: String, caller: UInt32, session: UInt64) -> Bool {
            let job = ComputeJob {
                journal.withLock { $0.append(name) }
            } evicted: {
                journal.withLock { $0.append("\(name) evicted") }
            }
            return pool.submit(.awaited, for: .of(caller: caller, session: session), job)
        }
        #expect(pool.submit { gate.pass() })
        gate.awaitWaiting(1)
        #expect(submit("a1", caller: 1, session: 1))
        #expect(submit("a2", caller: 1, session: 2))
        #expect(submit("a3", caller: 1, session: 3))
        #expect(submit("a1 again", caller: 1, session: 1))
        #expect(!submit("a2 again", caller: 1, session: 2))
        #expect(pool.counts.refused == 1)
        #expect(submit("b", caller: 2, session: 4))
        #expect(journal.withLock { $0 } == ["a1 again evicted"])
        #expect(pool.counts.evicted == 1 && pool.counts.queued == 4)
        #expect(!submit("a3 again", caller: 1, session: 3))
        #expect(!pool.submit(.expected) {} && !pool.submit(.spare) {})
        #expect(pool.counts.evicted == 1, "only an awaited job takes the place of another")
        gate.open()
        pool.shutdown()
        #expect(journal.withLock { $0 } == ["a1 again evicted", "a1", "b", "a2", "a3"])
        #expect(pool.counts.refused == 2)
        #expect(!submit("late", caller: 3, session: 5))
        #expect(pool.counts.evicted == 1)
    }

    /// Jobs come from many threads and callers to a queue that is always full.
    @Test func everyTakenJobRunsOrIsEvictedOnce() async {
        let pool = WorkerPool(threads: 2, maxQueued: 3)
        let ledger = JobLedger()
        await withTaskGroup(of: Void.self) { group in
            for caller in UInt32(0)..<4 {
                group.addTask {
                    for number in 0..<250 {
                        let name = Int(caller) * 1_000 + number
                        let job = ComputeJob {
                            ledger.noteEnd(of: name)
                        } evicted: {
                            ledger.noteEnd(of: name)
                        }
                        let owner = JobOwner.of(caller: caller, session: UInt64(number % 3))
                        if pool.submit(.awaited, for: owner, job) { ledger.noteTaken(name) }
                    }
                }
            }
        }
        pool.shutdown()
        #expect(ledger.ended == ledger.taken.sorted(), "each once, and no other")
        #expect(pool.counts.refused + ledger.taken.count == 1_000)
    }

    /// An evicted job may submit another: the queue is not locked.
    @Test func anEvictedJobMaySubmitAnother() {
        let pool = WorkerPool(threads: 1, maxQueued: 1)
        let gate = Gate()
        let journal = Mutex<[Bool]>([])
        #expect(pool.submit { gate.pass() })
        gate.awaitWaiting(1)
        let other = JobOwner.of(caller: 2, session: 1)
        // A queue of one job: its owner has no larger share than the next one would have.
        #expect(pool.submit(.awaited, for: .of(caller: 1, session: 1), ComputeJob(run: {})))
        #expect(!pool.submit(.awaited, for: other, ComputeJob(run: {})))
        gate.open()
        pool.shutdown()

        let larger = WorkerPool(threads: 1, maxQueued: 2)
        let second = Gate()
        #expect(larger.submit { second.pass() })
        second.awaitWaiting(1)
        for _ in 0..<2 {
            let job = ComputeJob(run: {}) {
                let isTaken = larger.submit(.awaited, for: other, ComputeJob(run: {}))
                journal.withLock { $0.append(isTaken) }
            }
            #expect(larger.submit(.awaited, for: .of(caller: 1, session: 1), job))
        }
        #expect(larger.submit(.awaited, for: other, ComputeJob(run: {})))
        #expect(journal.withLock { $0 } == [false], "both have one job of two")
        second.open()
        larger.shutdown()
    }

    /// Linux keeps the niceness of each thread (setpriority(2)), and stops at 19.
    @Test func workersAreNicerThanTheThreadThatStartedThem() {
        @Sendable func niceness() -> Int32 {
            getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0)
        }
        let pool = WorkerPool(threads: 2, maxQueued: 10)
        let heard = Mutex<[Int32]>([])
        for _ in 0..<4 { #expect(pool.submit { heard.withLock { $0.append(niceness()) } }) }
        pool.shutdown()
        let expected = min(19, niceness() + 5)
        #expect(heard.withLock { $0 } == [Int32](repeating: expected, count: 4))
    }

    @Test func givesItsOnlyThreadToEveryJobWhenItIsFree() {
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
        for _ in 0..<1_000 where pool.submit(.awaited, { ran.add() }) {
            taken += 1
        }
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
