// A bound on how often a peer may do what costs it nothing and its server something, in eight
// bytes of the connection. What counts, and what happens beyond it, is the shard's.
//
// The generic cell rate algorithm: instead of tokens that would have to be refilled, it keeps the
// time at which everything spent so far will be paid for.

import Session

/// How fast a budget grows, and how far.
struct FloodLimit {
    /// Time that pays for one, in nanoseconds.
    fileprivate let interval: Int64
    /// Time that a peer who was quiet has saved up, in nanoseconds.
    fileprivate let allowance: Int64

    /// - Parameters:
    ///   - rate: per second, in the long run; 1…1,000,000.
    ///   - burst: at once, after some quiet; 1…1,000,000.
    init(rate: Int, burst: Int) {
        interval = Int64(1_000_000_000 / rate)
        allowance = interval * Int64(burst)
    }
}

/// One connection's budget.
struct FloodBudget {
    private var paidUntil = Instant(nanoseconds: 0)

    /// Spends so many at once.
    /// - Returns: whether that keeps the limit.
    mutating func spend(_ count: Int, at now: Instant, limit: FloodLimit) -> Bool {
        let start = max(paidUntil, now)
        // A read buffer holds some thousands: no count is near an overflow, but peers choose it.
        let price = limit.interval.multipliedReportingOverflow(by: Int64(count))
        guard !price.overflow else { return false }
        let (end, overflow) = start.nanoseconds.addingReportingOverflow(price.partialValue)
        guard !overflow else { return false }
        paidUntil = Instant(nanoseconds: end)
        return end - now.nanoseconds <= limit.allowance
    }
}
