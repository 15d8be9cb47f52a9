// The two clocks of a shard. `now` is the monotonic clock as of the beginning of the tick.
// `peerTime` is the clock by which peers are judged: it stands still while the shard is away
// (stopped, descheduled, or busy for long), when their bytes wait unread and their pings unsent.
// Otherwise a shard that was away for a minute would close every client for its silence.
//
// Reads no clock itself: the loop passes the time in.
//
// Invariant: both only grow, and `peerTime` never grows faster than `now`.

import Session

/// The time of a shard's tick.
struct ShardClock {
    /// How long a tick may last, or begin late, before the peers' clock is held back. 250 ms: far
    /// less than any timeout, and more than a busy shard needs for a tick.
    static let unnoticedNanoseconds: Int64 = 250_000_000
    /// The same as a duration.
    static let unnoticed = Duration.nanoseconds(unnoticedNanoseconds)
    /// An absence that is worth a line in the log. 1 s: speech would have had a gap.
    static let notableNanoseconds: Int64 = 1_000_000_000

    /// The time of this tick.
    private(set) var now: Instant
    /// The clock by which peers are judged.
    private(set) var peerTime: Instant
    /// When the last tick ended.
    private(set) var tickEnd: Instant

    /// Both clocks begin with the same time.
    init(at now: Instant) { (self.now, peerTime, tickEnd) = (now, now, now) }

    /// Begins a tick. Since the last one began, the shard was away during its own work, and for the
    /// time by which the wait exceeded its limit. A little of that is normal. Where the wait ended
    /// much too late, the process was stopped at an unknown time within it, so that none of the
    /// wait counts for the peers.
    /// - Parameter wake: when the wait was to end at the latest, or nil where it had no limit.
    /// - Returns: nanoseconds by which the peers' clock is held back.
    @inline(__always)
    mutating func beginTick(at time: Instant, wake: Instant?) -> Int64 {
        let before = now
        now = time
        let late = max(0, now.nanoseconds - max(wake ?? now, tickEnd).nanoseconds)
        let work = tickEnd.nanoseconds - before.nanoseconds
        let passed = now.nanoseconds - before.nanoseconds
        let spent = late >= Self.notableNanoseconds ? passed : work + late
        let away = max(0, spent - Self.unnoticedNanoseconds)
        peerTime.nanoseconds += passed - away
        return away
    }

    /// The tick's work is done.
    @inline(__always)
    mutating func endTick(at time: Instant) { tickEnd = time }

    /// Nanoseconds that the tick's work took.
    var tickNanoseconds: Int { Int(tickEnd.nanoseconds - now.nanoseconds) }

    /// When something that is due by the peers' clock is due, unless the shard is away until then.
    @inline(__always)
    func time(ofPeerTime due: Instant) -> Instant {
        Instant(nanoseconds: due.nanoseconds + (now.nanoseconds - peerTime.nanoseconds))
    }
}
