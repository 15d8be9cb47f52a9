// A limit on how often something may happen, in eight bytes. Its owners decide what counts and what
// follows: AddressLimits (handshakes, failed attempts) and ShardFloods (input that costs a peer
// nothing).
//
// The generic cell rate algorithm (ITU-T I.371): it keeps the time at which the bucket will be full
// again, so that no tokens have to be refilled.

import Session

/// The rate at which a bucket fills, and its size.
struct TokenRate {
    /// Nanoseconds for one token; 0 is no limit.
    let interval: Int64
    /// The time until a bucket with one token is full, in nanoseconds.
    fileprivate let tolerance: Int64

    /// - Parameters:
    ///   - perSecond: at most 1,000,000; 0 is no limit.
    ///   - burst: tokens of a full bucket, 1…1,000,000.
    init(perSecond: Int, burst: Int) {
        interval = perSecond > 0 ? max(1, 1_000_000_000 / Int64(perSecond)) : 0
        tolerance = interval * Int64(max(1, burst) - 1)
    }

    /// A bucket with the tokens of a minute.
    /// - Parameter perMinute: at most 1,000,000; 0 is no limit.
    init(perMinute: Int) {
        interval = perMinute > 0 ? 60_000_000_000 / Int64(perMinute) : 0
        tolerance = interval * Int64(max(1, perMinute) - 1)
    }
}

/// A bucket that begins full.
struct TokenBucket {
    /// When it will be full; now or earlier: it is full.
    private(set) var full = Instant(nanoseconds: 0)

    /// Whether `rate` has a token.
    func hasToken(_ rate: TokenRate, at now: Instant) -> Bool {
        rate.interval == 0 || full.nanoseconds <= now.nanoseconds + rate.tolerance
    }

    /// Takes a token.
    mutating func take(_ rate: TokenRate, at now: Instant) {
        full = Instant(nanoseconds: max(full.nanoseconds, now.nanoseconds) + rate.interval)
    }

    /// Takes so many tokens at once, also where the bucket has fewer.
    /// - Returns: whether it had them.
    mutating func spend(_ count: Int, _ rate: TokenRate, at now: Instant) -> Bool {
        // A read buffer has room for thousands of them. Peers choose the count, so it is checked.
        let price = rate.interval.multipliedReportingOverflow(by: Int64(count))
        let start = max(full.nanoseconds, now.nanoseconds)
        let end = start.addingReportingOverflow(price.partialValue)
        guard !price.overflow, !end.overflow else { return false }
        full = Instant(nanoseconds: end.partialValue)
        return end.partialValue - now.nanoseconds <= rate.tolerance + rate.interval
    }
}
