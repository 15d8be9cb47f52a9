// The time of day at which a session ends, for `expires_at`. Sessions end by the monotonic clock;
// the time of day may be set meanwhile. Both are read in whole seconds, so that their difference
// changes by one now and then. The difference is kept until it is wrong by more, so that all events
// of a session show the same end.
//
// Pure: both times are arguments.

import Session

/// Turns instants into seconds since 1970.
struct SessionCalendar {
    private static let nanosecondsPerSecond: Int64 = 1_000_000_000
    /// Seconds since 1970 when the monotonic clock was at zero.
    private var start: Int?

    /// When an instant comes, in seconds since 1970.
    /// - Parameter wallSeconds: the time of day at `now`.
    mutating func seconds(at instant: Instant, now: Instant, wallSeconds: Int) -> Int {
        let measured = wallSeconds - Self.seconds(now)
        if start.map({ abs($0 - measured) > 1 }) ?? true { start = measured }
        return (start ?? measured) + Self.seconds(instant)
    }

    private static func seconds(_ instant: Instant) -> Int {
        Int(instant.nanoseconds / nanosecondsPerSecond)
    }
}
