// Reports this server's use of quotas to the buckets in Redis, and takes their state back. One shard
// of a server does this for all. SharedQuotaTable says what is reported.
//
// Invariant: at most one report is under way.

import Codec
import Session

/// The reports of a server. Confined to its shard's thread.
final class QuotaReports {
    private let link: StoreLink
    private let table: SharedQuotaTable
    private let now: () -> Instant
    private var isUnderWay = false

    init(over link: StoreLink, table: SharedQuotaTable, now: @escaping () -> Instant) {
        (self.link, self.table, self.now) = (link, table, now)
    }

    /// Whether there is something to report.
    var hasUses: Bool { table.hasUses }

    /// Reports the use, unless a report has no outcome yet.
    func send() {
        guard !isUnderWay, link.isReady else { return }
        let report = table.takeReport()
        guard !report.isEmpty else { return }
        isUnderWay = true
        let command = RedisCommand(
            StoreScripts.use, keys: report.map { StoreScripts.quota(of: $0.bucket) },
            arguments: report.flatMap { bucket, use in
                let quota = use.quota
                let missing = table.missing(in: bucket, after: use, at: now())
                return [
                    "\(quota.unitMicroseconds)", "\(quota.period.seconds * 1_000_000)",
                    "\(use.count)", "\(missing)",
                ].map { Array($0.utf8) }
            })
        link.send(.use, command) { [self] result in
            isUnderWay = false
            switch result {
            case .success(let reply):
                let missing = reply.array?.map { Self.duration($0.integer) } ?? []
                table.apply(missing, of: report, at: now())
            case .failure(let error):
                // Where it may have been made, it is not made again: that errs in the callers'
                // favour.
                if error.isHarmless { table.putBack(report) }
            }
        }
    }

    /// Redis is not trusted to stay within the range of a quota.
    private static func duration(_ microseconds: Int64?) -> Duration {
        let longest: Int64 = 2 * 86_400 * 1_000_000
        return .microseconds(min(max(microseconds ?? 0, 0), longest))
    }
}

extension StoreScripts {
    /// The key of a quota's common bucket. It contains a part of the digest of a key or subject.
    static func quota(of bucket: SharedBucket) -> String {
        let subject =
            switch bucket.subject {
            case .principal(let digest): digest.hexadecimal(ofBytes: 16)
            case .address(let address): "\(address)"
            }
        return "parley:quota:\(subject):\(bucket.unit.rawValue):\(bucket.period.rawValue)"
    }

    /// Keys: buckets. Arguments for each bucket: microseconds of one unit, microseconds of all
    /// units, units used, and microseconds until it is full by the server's own state. Answers with
    /// the microseconds until each is full. A bucket is the time at which it will be full, as in
    /// TokenBucket; its debt is at most what it holds. Where a bucket does not exist, it is full or
    /// was lost. Then the server's own state counts, which has the units used already.
    static let use = RedisScript(
        """
        local time = redis.call('TIME')
        local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
        local answer = {}
        for i = 1, #KEYS do
            local unit, span = tonumber(ARGV[4 * i - 3]), tonumber(ARGV[4 * i - 2])
            local count, known = tonumber(ARGV[4 * i - 1]), tonumber(ARGV[4 * i])
            local full = tonumber(redis.call('GET', KEYS[i]) or '')
            if full == nil or full ~= full then
                full = now + known
            else
                if count > 0 then full = math.max(full, now) end
                full = full + unit * count
            end
            full = math.max(math.min(full, now + 2 * span), now)
            if full > now then
                redis.call('SET', KEYS[i], string.format('%.3f', full),
                    'PX', math.ceil((full - now) / 1000))
            else
                redis.call('DEL', KEYS[i])
            end
            answer[i] = math.ceil(full - now)
        end
        return answer
        """)
}
