// Which jobs the worker pool takes, and which runs next. A value without threads, locks or a clock;
// WorkerPool guards it, and tests run it on a virtual clock. FairJobQueue has the order.
//
// Under load, hypotheses are shed before transcripts, in this order:
//
//   spare     words shown while they are spoken. Refused unless a thread is free, another thread
//             stays free, and the threads have spare time (SpareTime).
//   expected  a transcript before the turn is certain to have ended. Taken while at most
//             `expectedPerThread` jobs run and wait for each thread.
//   awaited   everything else: refused when `maxQueued` jobs wait and no larger share makes room.
//
// An expected job waits for its turn as awaited ones do. It begins some 300 ms before the transcript
// that it replaces would have been asked for, and nearly all of these are used.
//
// Invariant: `counts.queued` is the number of jobs that wait; each job that was taken leaves through
// `start` or is evicted.

import Session

/// The counts of a worker pool.
package struct WorkerCounts: Equatable, Sendable {
    /// Jobs that wait for a thread.
    package var queued = 0
    /// Jobs that a thread runs.
    package var running = 0
    /// Awaited jobs refused because the queue was full, since the start.
    package var refused = 0
    /// Jobs that lost their place in a full queue to a job of another owner, since the start.
    package var evicted = 0
    /// Expected jobs refused because too many jobs waited, since the start.
    package var shedExpected = 0
    /// Spare jobs refused because the threads had no spare time, since the start.
    package var shedSpare = 0
    /// Processor time that jobs have used, since the start.
    package var used = UsedTime()

    /// Processor time by the urgency of jobs.
    package struct UsedTime: Equatable, Sendable {
        package var (awaited, expected, spare) = (Duration.zero, Duration.zero, Duration.zero)

        package init() {}
    }

    /// All zero.
    package init() {}
}

/// The limits that decide which hypotheses are shed.
enum SheddingLimits {
    /// Jobs for each thread, running or waiting, below which an expected job is taken. 3: one that
    /// runs and two that wait end within the silence that ends a turn.
    static let expectedPerThread = 3
}

/// The jobs of a worker pool.
struct JobSchedule<Job> {
    private let threads: Int
    private let maxQueued: Int
    private var waiting = FairJobQueue<Job>()
    private var spareTime: SpareTime
    /// Its `queued` stays 0; `counts` fills it in.
    private var tally = WorkerCounts()
    /// Whether no more jobs are taken.
    private(set) var isStopping = false

    /// - Parameters:
    ///   - threads: how many jobs run at once.
    ///   - maxQueued: jobs that may wait beyond those.
    init(threads: Int, maxQueued: Int) {
        self.threads = threads
        self.maxQueued = maxQueued
        spareTime = SpareTime(threads: threads)
    }

    /// Its counts now.
    var counts: WorkerCounts {
        var counts = tally
        counts.queued = waiting.count
        return counts
    }

    /// Takes no more jobs.
    mutating func stop() { isStopping = true }

    /// Puts a job into the queue if there is room, or if another job makes room.
    /// - Returns: whether it is in the queue, and the job that was evicted.
    mutating func submit(
        _ job: Job, _ urgency: JobUrgency, of owner: JobOwner?, at now: Instant
    ) -> (isTaken: Bool, evicted: Job?) {
        let hasRoom = !isStopping && hasRoom(for: urgency, at: now)
        let mayEvict = !hasRoom && urgency == .awaited && !isStopping
        let evicted = mayEvict ? waiting.evict(for: owner) : nil
        guard hasRoom || evicted != nil else {
            noteRefusal(of: urgency)
            return (false, nil)
        }
        if evicted != nil { tally.evicted += 1 }
        waiting.append(job, of: owner)
        return (true, evicted)
    }

    /// A thread is free: the job that it runs now; nil where none waits.
    mutating func start() -> Job? {
        guard let job = waiting.popFirst() else { return nil }
        tally.running += 1
        return job
    }

    /// Notes the processor time of a job that was started.
    mutating func note(_ time: Duration, of urgency: JobUrgency) {
        switch urgency {
        case .awaited: tally.used.awaited += time
        case .expected: tally.used.expected += time
        case .spare: tally.used.spare += time
        }
    }

    /// Notes how long a job that was started has run.
    mutating func end(after time: Duration, at now: Instant) {
        tally.running -= 1
        spareTime.spend(time, at: now)
    }

    private mutating func hasRoom(for urgency: JobUrgency, at now: Instant) -> Bool {
        // For a job that waits, a thread may already be on its way.
        let busy = waiting.count + tally.running
        let room = threads + maxQueued
        return switch urgency {
        case .awaited: busy < room
        case .expected: busy < min(room, threads * SheddingLimits.expectedPerThread)
        case .spare: busy < max(1, threads - 1) && spareTime.isLeft(at: now)
        }
    }

    private mutating func noteRefusal(of urgency: JobUrgency) {
        switch urgency {
        case .awaited: tally.refused += 1
        case .expected: tally.shedExpected += 1
        case .spare: tally.shedSpare += 1
        }
    }
}
