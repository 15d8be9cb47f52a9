// Which hypotheses a busy worker pool sheds, and that transcripts are not late for them. The pool and
// the users are simulated, on a virtual clock.

import Session
import TestMaterial
import Testing

@testable import Server

/// Spare time by milliseconds of a clock.
private final class Balance {
    private var time: SpareTime

    init(threads: Int) { time = SpareTime(threads: threads) }

    func isLeft(at milliseconds: Int) -> Bool { time.isLeft(at: .milliseconds(milliseconds)) }

    func spend(_ spent: Int, at milliseconds: Int) {
        time.spend(.milliseconds(spent), at: .milliseconds(milliseconds))
    }
}

@Suite struct HypothesisSheddingTests {
    @Test func spareTimeIsHalfOfTheThreads() {
        let balance = Balance(threads: 2)
        #expect(balance.isLeft(at: 0))
        // The reserve is 1 s for two threads, and a second of the clock brings another.
        balance.spend(1_000, at: 0)
        #expect(!balance.isLeft(at: 0))
        #expect(balance.isLeft(at: 1))
        balance.spend(1_001, at: 1_000)
        #expect(!balance.isLeft(at: 1_001))
        #expect(balance.isLeft(at: 1_003))
    }

    @Test func anOverloadIsForgottenWithinASecond() {
        let balance = Balance(threads: 1)
        for second in 0..<60 { balance.spend(1_000, at: second * 1_000) }
        #expect(!balance.isLeft(at: 60_000))
        #expect(balance.isLeft(at: 60_001))
    }

    @Test func aLongQuietTimeSavesUpNoMoreThanTheReserve() {
        let balance = Balance(threads: 1)
        #expect(balance.isLeft(at: 0))
        #expect(balance.isLeft(at: 86_400_000))
        balance.spend(SpareTime.reserve.wholeMilliseconds, at: 86_400_000)
        #expect(!balance.isLeft(at: 86_400_000))
    }

    /// A clock that stands still, or moves back, brings no time.
    @Test func spareTimeNeedsTime() {
        let balance = Balance(threads: 1)
        balance.spend(SpareTime.reserve.wholeMilliseconds, at: 5_000)
        #expect(!balance.isLeft(at: 5_000))
        #expect(!balance.isLeft(at: 4_000))
        #expect(!balance.isLeft(at: 5_000))
    }

    /// Words to show are wanted all the time. With the transcripts they take no more than half of
    /// the threads, and with transcripts for more than half of them nothing.
    @Test(arguments: [(threads: 1, percent: 20), (1, 40), (1, 60), (2, 20), (2, 60), (4, 70)])
    func wordsGetTheTimeThatTranscriptsLeave(threads: Int, percent: Int) {
        let workers = SimulatedWorkers(threads: threads)
        every(.milliseconds(200), on: workers) {
            // So many percent of the threads, in transcripts that are evenly spread.
            for _ in 0..<threads {
                workers.submit(.awaited, taking: .milliseconds(2 * percent))
            }
        }
        every(.milliseconds(10), on: workers) {
            workers.submit(.spare, taking: .milliseconds(50))
        }
        workers.run(for: .seconds(60))
        let share = (workers.spare.time + workers.awaited.time) / (.seconds(60) * threads)
        #expect(workers.awaited.refused == 0)
        #expect(workers.counts.shedSpare == workers.spare.refused)
        if percent < SpareTime.busyPercent {
            #expect(share > 0.45 && share < 0.53)
        } else {
            // Those of the first moment.
            #expect(workers.spare.time <= .milliseconds(600) * threads)
        }
    }

    /// The second one of two jobs for the turn's end waits, and the one after those that fit does
    /// not.
    @Test func transcriptsAheadOfTheirTurnWaitForAFewOthers() {
        let workers = SimulatedWorkers(threads: 2)
        for _ in 0..<6 { #expect(workers.submit(.expected, taking: .milliseconds(100))) }
        #expect(!workers.submit(.expected, taking: .milliseconds(100)))
        #expect(workers.submit(.awaited, taking: .milliseconds(100)))
        #expect(workers.counts.shedExpected == 1 && workers.counts.queued == 5)
        workers.run(for: .milliseconds(300))
        #expect(workers.expected.delays.map(\.wholeMilliseconds) == [100, 100, 200, 200, 300, 300])
        workers.run(for: .milliseconds(100))
        #expect(workers.awaited.delays.map(\.wholeMilliseconds) == [400])
    }

    @Test func aStoppedPoolTakesNothing() {
        var schedule = JobSchedule<Int>(threads: 1, maxQueued: 1)
        let first = schedule.submit(1, .awaited, of: nil, at: .milliseconds(0))
        #expect(first.isTaken && first.evicted == nil)
        schedule.stop()
        for urgency in [JobUrgency.awaited, .expected, .spare] {
            let late = schedule.submit(2, urgency, of: nil, at: .milliseconds(0))
            #expect(!late.isTaken && late.evicted == nil)
        }
        let (next, none) = (schedule.start(), schedule.start())
        #expect(next == 1, "what was taken runs")
        #expect(none == nil)
        #expect(schedule.counts.refused == 1 && schedule.counts.running == 1)
    }

    /// So many users a thread take turns of 2 to 7 s with 2 to 4 s between them, on a recogniser
    /// that takes 0.04 s for each second. The transcript is there 500 ms after the turn's end for 19
    /// turns of 20, with up to 16 users; and the words of two users are shown while they speak.
    @Test(arguments: [(threads: 1, users: 2), (1, 8), (1, 16), (2, 32)])
    func transcriptsAreInTimeWhileWordsAreShed(threads: Int, users: Int) {
        let workers = SimulatedWorkers(threads: threads)
        let crowd = SpeakingUsers(users, on: workers)
        workers.run(for: .seconds(300))
        #expect(crowd.delays.count > 30 * users)
        #expect(crowd.delay(percentile: 95) <= .milliseconds(500))
        #expect(workers.awaited.refused == 0)
        let shown = Double(workers.spare.delays.count) / Double(crowd.delays.count)
        switch users / threads {
        case ...2: #expect(shown > 3)
        case 16...: #expect(shown < 1)
        default: #expect(workers.spare.refused > 0)
        }
    }

    private func every(
        _ interval: Duration, on workers: SimulatedWorkers, _ action: @escaping () -> Void
    ) {
        workers.after(interval) {
            action()
            every(interval, on: workers, action)
        }
    }
}

/// Users who take turns, and whose words are recognised as VoiceSession has it: at growing intervals
/// while they speak, after 200 ms of silence, and after 500 ms if they are not known by then.
private final class SpeakingUsers {
    private final class Turn {
        let user: UInt64
        let length: Duration
        var committed: Instant?
        var isAsked = false
        var isKnown = false

        init(user: UInt64, length: Duration) { (self.user, self.length) = (user, length) }
    }

    private let workers: SimulatedWorkers
    private var random = SeededGenerator(seed: 17)
    /// From the turn's end, 500 ms after the speech, to its words.
    private(set) var delays: [Duration] = []

    init(_ count: Int, on workers: SimulatedWorkers) {
        self.workers = workers
        for user in 0..<count {
            workers.after(.milliseconds(user * 8_000 / count)) { self.begin(UInt64(user)) }
        }
    }

    func delay(percentile: Int) -> Duration {
        let sorted = delays.sorted()
        return sorted[min(sorted.count - 1, sorted.count * percentile / 100)]
    }

    private func cost(of length: Duration) -> Duration { .milliseconds(20) + length / 25 }

    private func begin(_ user: UInt64) {
        let turn = Turn(
            user: user, length: .milliseconds(Int.random(in: 2_000...7_000, using: &random)))
        workers.after(.milliseconds(500)) { self.showWords(of: turn, at: .milliseconds(500)) }
        workers.after(turn.length + .milliseconds(200)) { self.expect(turn) }
        workers.after(turn.length + .milliseconds(500)) { self.commit(turn) }
    }

    /// Asks for the words so far, at an age of the speech and at growing intervals after it.
    private func showWords(of turn: Turn, at age: Duration) {
        guard age < turn.length else { return }
        workers.submit(.spare, of: turn.user, taking: cost(of: age))
        let next = max(age + .milliseconds(500), age * 3 / 2)
        workers.after(next - age) { self.showWords(of: turn, at: next) }
    }

    private func expect(_ turn: Turn) {
        turn.isAsked = workers.submit(.expected, of: turn.user, taking: cost(of: turn.length)) {
            self.finish(turn)
        }
    }

    private func commit(_ turn: Turn) {
        turn.committed = workers.now
        guard !turn.isKnown else { return end(turn) }
        guard !turn.isAsked else { return }
        workers.submit(.awaited, of: turn.user, taking: cost(of: turn.length)) {
            self.finish(turn)
        }
    }

    private func finish(_ turn: Turn) {
        turn.isKnown = true
        if turn.committed != nil { end(turn) }
    }

    private func end(_ turn: Turn) {
        delays.append(workers.now - turn.committed!)
        let pause = Int.random(in: 2_000...4_000, using: &random)
        workers.after(.milliseconds(pause)) { self.begin(turn.user) }
    }
}
