// A worker pool on a virtual clock: JobSchedule with threads that are simulated. A job is the time
// that it takes, and what happens at its end.

import Codec
import Session

@testable import Server

/// Threads, jobs and a clock that a test moves.
final class SimulatedWorkers {
    private struct Job {
        let length: Duration
        let urgency: JobUrgency
        let submitted: Instant
        let atEnd: () -> Void
    }

    private struct Event {
        let at: Instant
        let number: Int
        let action: () -> Void
    }

    /// What the jobs of one urgency took.
    struct Work {
        /// From submission to end, in the order of the ends.
        var delays: [Duration] = []
        /// All of their time.
        var time = Duration.zero
        /// Those that were refused.
        var refused = 0

        /// The smallest delay that the given share does not exceed.
        func delay(percentile: Int) -> Duration {
            let sorted = delays.sorted()
            return sorted.isEmpty
                ? .zero : sorted[min(sorted.count - 1, sorted.count * percentile / 100)]
        }
    }

    private(set) var now = Instant(nanoseconds: 0)
    private(set) var awaited = Work()
    private(set) var expected = Work()
    private(set) var spare = Work()
    private let threads: Int
    private var schedule: JobSchedule<Job>
    private var events: [Event] = []
    private var eventNumber = 0

    var counts: WorkerCounts { schedule.counts }

    init(threads: Int, maxQueued: Int = 128) {
        self.threads = threads
        schedule = JobSchedule(threads: threads, maxQueued: maxQueued)
    }

    /// Does something after a while.
    func after(_ delay: Duration, _ action: @escaping () -> Void) {
        eventNumber += 1
        let event = Event(at: now + delay, number: eventNumber, action: action)
        let place = events.firstIndex { $0.at > event.at } ?? events.endIndex
        events.insert(event, at: place)
    }

    /// Lets time pass.
    func run(for time: Duration) {
        let end = now + time
        while let next = events.first, next.at <= end {
            events.removeFirst()
            now = next.at
            next.action()
        }
        now = end
    }

    /// Submits a job of a session.
    /// - Parameter atEnd: called when the job has run.
    @discardableResult
    func submit(
        _ urgency: JobUrgency, of session: UInt64 = 0, taking length: Duration,
        _ atEnd: @escaping () -> Void = {}
    ) -> Bool {
        let job = Job(length: length, urgency: urgency, submitted: now, atEnd: atEnd)
        let owner = JobOwner.of(caller: 1, session: session)
        let isTaken = schedule.submit(job, urgency, of: owner, at: now).isTaken
        if !isTaken { note(urgency) { $0.refused += 1 } }
        startJobs()
        return isTaken
    }

    private func startJobs() {
        while schedule.counts.running < threads, let job = schedule.start() {
            after(job.length) { self.end(job) }
        }
    }

    private func end(_ job: Job) {
        schedule.end(after: job.length, at: now)
        note(job.urgency) {
            $0.time += job.length
            $0.delays.append(now - job.submitted)
        }
        job.atEnd()
        startJobs()
    }

    private func note(_ urgency: JobUrgency, _ change: (inout Work) -> Void) {
        switch urgency {
        case .awaited: change(&awaited)
        case .expected: change(&expected)
        case .spare: change(&spare)
        }
    }
}
