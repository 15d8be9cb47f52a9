// The use that one key, address or session has made of its quotas: a bucket for each unit and
// period. The quotas themselves come with each call, so that quotas which a reload of the keys
// changes apply to earlier use, too.

import Codec
import Session

/// A quota of which nothing is left.
package struct ExhaustedQuota: Error, Equatable {
    let quota: Quota
    /// The time until one unit is left again.
    let wait: Duration
}

/// The balance of a quota.
package struct QuotaBalance: Equatable {
    let quota: Quota
    /// Units that may be used now.
    let remaining: Int
    /// The time until all of it may be used again.
    let reset: Duration
}

/// One bucket for each unit and period, in 80 bytes.
struct QuotaBuckets {
    private var buckets = InlineArray<10, TokenBucket>(repeating: TokenBucket())

    /// When the last of them will be full; now or earlier: all are.
    var full: Instant {
        buckets.indices.reduce(buckets[0].full) { max($0, buckets[$1].full) }
    }

    /// When each bucket that is not full will be, by its index.
    func fullTimes(after now: Instant) -> [Int: Instant] {
        buckets.indices.reduce(into: [:]) { times, index in
            if buckets[index].full > now { times[index] = buckets[index].full }
        }
    }

    /// Charges use on other servers: the bucket at this index is not full before a time, which is
    /// at most two periods away, as after the largest charge.
    mutating func raise(_ index: Int, to full: Instant, at now: Instant) {
        guard buckets.indices.contains(index) else { return }
        let period = index.isMultiple(of: 2) ? QuotaPeriod.minute : .day
        let latest = now + .seconds(2 * period.seconds)
        buckets[index] = TokenBucket(full: max(buckets[index].full, min(full, latest)))
    }

    /// The quota of a unit that stays exhausted for the longest time, or nil where none is
    /// exhausted.
    func exhausted(
        _ unit: QuotaUnit, in quotas: [Quota], at now: Instant
    ) -> ExhaustedQuota? {
        var longest: ExhaustedQuota?
        for quota in quotas where quota.unit == unit {
            let wait = buckets[quota.bucket].wait(for: 1, quota.rate, at: now)
            guard wait > longest?.wait ?? .zero else { continue }
            longest = ExhaustedQuota(quota: quota, wait: wait)
        }
        return longest
    }

    /// How many units of `wanted` are left.
    func left(
        of unit: QuotaUnit, upTo wanted: Int, in quotas: [Quota], at now: Instant
    ) -> Int {
        quotas.reduce(wanted) { least, quota in
            guard quota.unit == unit else { return least }
            return min(least, buckets[quota.bucket].tokens(quota.rate, at: now))
        }
    }

    /// Counts units as used, even where fewer are left.
    mutating func charge(
        _ count: Int, of unit: QuotaUnit, in quotas: [Quota], at now: Instant
    ) {
        for quota in quotas where quota.unit == unit {
            buckets[quota.bucket].charge(count, quota.rate, at: now)
        }
    }

    /// Units that were counted as used have not been used.
    mutating func refund(_ count: Int, of unit: QuotaUnit, in quotas: [Quota]) {
        for quota in quotas where quota.unit == unit {
            buckets[quota.bucket].refund(count, quota.rate)
        }
    }

    /// Replaces the bucket of a quota.
    /// - Parameter count: units that were used beside that. Less than 0 where units were given
    ///   back.
    mutating func replace(
        _ quota: Quota, full: Instant, andUsed count: Int, at now: Instant
    ) {
        var bucket = TokenBucket(full: full)
        if count > 0 { bucket.charge(count, quota.rate, at: now) }
        if count < 0 { bucket.refund(-count, quota.rate) }
        buckets[quota.bucket] = bucket
    }

    /// The quota of a unit of which least is left, if there is one.
    func balance(of unit: QuotaUnit, in quotas: [Quota], at now: Instant) -> QuotaBalance? {
        var least: QuotaBalance?
        for quota in quotas where quota.unit == unit {
            let bucket = buckets[quota.bucket]
            let remaining = bucket.tokens(quota.rate, at: now)
            guard remaining < least?.remaining ?? .max else { continue }
            least = QuotaBalance(
                quota: quota, remaining: remaining, reset: max(.zero, bucket.full - now))
        }
        return least
    }
}

extension Quota {
    /// The place of its bucket.
    fileprivate var bucket: Int {
        let unitIndex =
            switch unit {
            case .connections: 0
            case .events: 1
            case .audioSeconds: 2
            case .turns: 3
            case .tokens: 4
            }
        return switch period {
        case .minute: 2 * unitIndex
        case .day: 2 * unitIndex + 1
        }
    }

    fileprivate var rate: TokenRate { TokenRate(amount, inSeconds: period.seconds) }
}
