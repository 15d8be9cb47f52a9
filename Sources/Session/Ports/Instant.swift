// Time as the pure layers see it: a number that is passed in. Nothing here reads a clock.

/// A point on the server's monotonic clock, or on a test's virtual one; never wall time.
public struct Instant: Comparable, Hashable, Sendable {
    /// Nanoseconds since the clock's own start.
    public var nanoseconds: Int64

    /// Creates an instant. Virtual clocks start at 0.
    @inlinable
    public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    /// An instant `milliseconds` after the clock's start, for tests and scripts.
    public static func milliseconds(_ milliseconds: Int) -> Instant {
        Instant(nanoseconds: Int64(milliseconds) * 1_000_000)
    }

    /// Whether one comes before the other on the same clock.
    @inlinable
    public static func < (left: Instant, right: Instant) -> Bool {
        left.nanoseconds < right.nanoseconds
    }

    /// The instant a duration later; earlier where it is negative.
    @inlinable
    public static func + (instant: Instant, duration: Duration) -> Instant {
        Instant(nanoseconds: instant.nanoseconds + duration.wholeNanoseconds)
    }

    /// The time between two instants of the same clock.
    @inlinable
    public static func - (later: Instant, earlier: Instant) -> Duration {
        .nanoseconds(later.nanoseconds - earlier.nanoseconds)
    }
}

extension Duration {
    /// The duration in whole nanoseconds, rounded toward zero.
    @inlinable
    public var wholeNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }

    /// The duration in whole milliseconds, rounded toward zero.
    @inlinable
    public var wholeMilliseconds: Int { Int(wholeNanoseconds / 1_000_000) }
}
