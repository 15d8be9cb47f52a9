// A limit on how often something may happen, in eight bytes. Its owners decide what counts and what
// follows: AddressLimits (handshakes, failed attempts), ShardFloods (input that costs a peer nothing)
// and QuotaBuckets (what a caller may use).
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
    init(perMinute: Int) { self.init(perMinute, inSeconds: 60) }

    /// A bucket with the tokens of a time.
    /// - Parameters:
    ///   - tokens: at most 1,000,000,000; 0 is no limit.
    ///   - seconds: the time in which an empty bucket becomes full, 1…86,400.
    init(_ tokens: Int, inSeconds seconds: Int) {
        interval = tokens > 0 ? max(1, Int64(seconds) * 1_000_000_000 / Int64(tokens)) : 0
        tolerance = interval * Int64(max(1, tokens) - 1)
    }
}

/// Tokens that fill up with time.
struct TokenBucket {
    /// When it will be full; now or earlier: it is full.
    private(set) var full = Instant(nanoseconds: 0)

    /// A bucket that begins full.
    init() {}

    /// A bucket that will be full at a time.
    init(full: Instant) { self.full = full }

    /// Whether `rate` has a token.
    func hasToken(_ rate: TokenRate, at now: Instant) -> Bool {
        rate.interval == 0 || full.nanoseconds <= now.nanoseconds + rate.tolerance
    }

    /// Takes a token.
    mutating func take(_ rate: TokenRate, at now: Instant) {
        full = Instant(nanoseconds: max(full.nanoseconds, now.nanoseconds) + rate.interval)
    }

    /// Takes this many tokens at once, even where the bucket has fewer.
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

// MARK: - Several tokens

extension TokenRate {
    /// The time in which an empty bucket becomes full, in nanoseconds.
    fileprivate var span: Int64 { tolerance + interval }

    /// The time in which this many tokens are added, at most `limit`, in nanoseconds.
    fileprivate func price(of count: Int, atMost limit: Int64) -> Int64 {
        Int64(clamping: count) > limit / interval ? limit : interval * Int64(count)
    }
}

/// A bucket that may be charged for something after it was used. The rates must be limits.
extension TokenBucket {
    /// The tokens that it has, 0 or more.
    func tokens(_ rate: TokenRate, at now: Instant) -> Int {
        let missing = max(0, full.nanoseconds - now.nanoseconds)
        return Int(max(0, rate.span - missing) / rate.interval)
    }

    /// The time until it has this many tokens, or is full; zero where it has them.
    func wait(for count: Int, _ rate: TokenRate, at now: Instant) -> Duration {
        let spare = rate.span - rate.price(of: count, atMost: rate.span)
        return .nanoseconds(max(0, full.nanoseconds - now.nanoseconds - spare))
    }

    /// Takes this many tokens, even where the bucket has fewer. It then has a debt of at most its
    /// capacity: otherwise one large reply could shut a caller out for days.
    mutating func charge(_ count: Int, _ rate: TokenRate, at now: Instant) {
        let start = max(full.nanoseconds, now.nanoseconds)
        let end = start + rate.price(of: count, atMost: 2 * rate.span)
        full = Instant(nanoseconds: max(start, min(end, now.nanoseconds + 2 * rate.span)))
    }

    /// Puts tokens back that were taken and not used.
    mutating func refund(_ count: Int, _ rate: TokenRate) {
        full = Instant(
            nanoseconds: full.nanoseconds - rate.price(of: count, atMost: rate.span))
    }
}
