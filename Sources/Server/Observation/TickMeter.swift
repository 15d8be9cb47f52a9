// Measurements of a shard's ticks. One is the share of time that it works. The other is how long a
// piece of a model's reply takes from the tick that read it to the end of the tick that passed it on.
// Events within a tick are counted where they happen.
//
// Reads no clock: a tick's beginning and end are passed in.
//
// Invariant: a measured time is never shorter than the real one, as far as this process can know it.
// How long bytes lay in a socket before the tick that found them is known to the kernel alone.

import Session

/// Since when agents' jobs wait that ticks have left to the next ones. They run in the order in
/// which they came, so that some are counted off and the others are younger.
struct JobBacklog {
    /// Jobs that were left for a later tick, and the earliest tick in which one of them was queued.
    private var count = 0
    private var since: Instant
    /// The first tick after that in which the jobs behind them may have been queued.
    private var sinceNext: Instant?
    /// When the tick began in which the oldest job of this tick was queued, at the latest.
    private(set) var tickSince: Instant

    init(at now: Instant) { (since, tickSince) = (now, now) }

    /// A tick begins to run jobs.
    mutating func begin(at now: Instant) {
        if sinceNext == nil { sinceNext = now }
        tickSince = count > 0 ? since : now
    }

    /// Notes how many jobs the tick has run, and how many it has left.
    mutating func end(ran: Int, left: Int) {
        count -= ran
        guard count <= 0, let next = sinceNext.take() else { return }
        (count, since) = (left, next)
    }
}

/// The share of time that a shard works, measured over a second or more.
struct ShardLoad {
    /// How long is measured at least.
    private static let period = Int64(1_000_000_000)

    private var since: Instant
    private var busy: Int64 = 0

    init(since: Instant) { self.since = since }

    /// A tick has worked from its beginning to its end.
    /// - Returns: the share, 0…1, if a second has passed, and how many whole ones have.
    mutating func handleTick(
        from beginning: Instant, to end: Instant
    ) -> (share: Double, seconds: Int)? {
        busy += end.nanoseconds - beginning.nanoseconds
        let passed = end.nanoseconds - since.nanoseconds
        guard passed >= Self.period else { return nil }
        defer {
            busy = 0
            since = end
        }
        return (min(1, Double(busy) / Double(passed)), Int(passed / Self.period))
    }
}

/// The measurements of one shard's ticks.
struct TickMeter {
    private var load: ShardLoad
    private var jobs: JobBacklog
    /// Pieces of models' replies that this tick has taken.
    private var deltas = 0
    /// Whether the last tick has passed on pieces of models' replies.
    private(set) var hadDeltas = false

    /// Measures from now on.
    init(at now: Instant) {
        load = ShardLoad(since: now)
        jobs = JobBacklog(at: now)
    }

    /// The tick begins to run agents' jobs.
    @inline(__always)
    mutating func beginJobs(at now: Instant) { jobs.begin(at: now) }

    /// Notes how many jobs the tick has run, and how many it has left to the next one.
    @inline(__always)
    mutating func endJobs(ran: Int, left: Int) { jobs.end(ran: ran, left: left) }

    /// Counts a piece of a model's reply that goes to its session.
    mutating func noteDelta() { deltas += 1 }

    /// The tick ends: observes how long its deltas took. What the tick has read of models' replies
    /// has been handed to the kernel, or waits for slow peers: the last delta took this long, all
    /// others at most. A piece whose task had to wait for a later tick counts from the tick that
    /// read it.
    /// - Returns: the share of the time that the shard worked, where a second has passed since the
    ///   last, and how many whole ones have.
    @inline(__always)
    mutating func endTick(
        _ clock: ShardClock, _ metrics: ShardMetrics
    ) -> (share: Double, seconds: Int)? {
        hadDeltas = deltas > 0
        if hadDeltas {
            let nanoseconds = clock.tickEnd.nanoseconds - jobs.tickSince.nanoseconds
            metrics.observe(.deltaDelay, nanoseconds: Int(nanoseconds), times: deltas)
            deltas = 0
        }
        return load.handleTick(from: clock.now, to: clock.tickEnd)
    }
}
