// The use of quotas that several servers share. Every decision is made at once, by this server's
// own table. Use is reported to the common buckets every 200 ms, and their state then replaces the
// table's own. So all servers together use a quota, and none waits for another.
//
// Between two reports a server may allow what others have used up. That becomes a debt of the common
// bucket, which is paid before anything else is allowed. So the long-term rate is the quota's.
//
// While the common buckets are away, each server goes on with its share: a quota divided by the
// number of servers that were last alive. The use meanwhile is reported when they are back. A
// report also has this server's own state of each bucket, which counts where the common bucket is
// lost.
//
// Invariant: a use is counted once in the own table, and is in `waiting` until a report takes it.

import Codec
import Session
import Synchronization

/// One quota of one subject.
struct SharedBucket: Hashable {
    let subject: QuotaSubject
    let unit: QuotaUnit
    let period: QuotaPeriod
}

/// The use of one bucket that is to be reported.
struct SharedUse: Equatable {
    /// The quota as it was last applied.
    var quota: Quota
    /// Units; less than 0 where more was given back than used.
    var count: Int
    /// Units that the own table has charged in addition: in a share, one unit costs as much as one
    /// unit for each server.
    var surcharge = 0

    /// Adds another use. One that would be too great does not count.
    mutating func add(_ other: SharedUse) {
        let (count, isGreat) = count.addingReportingOverflow(other.count)
        let (surcharge, isTooGreat) = surcharge.addingReportingOverflow(other.surcharge)
        let isCounted = !isGreat && !isTooGreat
        self = SharedUse(
            quota: other.quota, count: isCounted ? count : self.count,
            surcharge: isCounted ? surcharge : self.surcharge)
    }
}

/// A report: buckets in order, with their use.
typealias SharedReport = [(bucket: SharedBucket, use: SharedUse)]

/// Counts the use of quotas for several servers. Any thread.
package final class SharedQuotaTable: QuotaStore {
    /// Time from the first use to its report. 200 ms: a caller gains little by asking several
    /// servers within it, and a busy server reports five times a second.
    static let reportDelay = Duration.milliseconds(200)
    /// Buckets of one report; the others wait for the next. 500: the script takes about 1 ms.
    static let maxReport = 500
    /// Buckets that wait for a report. 65,536, as many as a table has subjects. The use of further
    /// ones counts on this server alone.
    static let maxWaiting = 65_536

    private struct State {
        var waiting: [SharedBucket: SharedUse] = [:]
        /// The keys of `waiting`, in the order in which they came.
        var order: [SharedBucket] = []
    }

    private let table: QuotaTable
    private let state = Mutex(State())
    /// Whether the common buckets are away.
    private let isAlone = Atomic<Bool>(false)
    private let servers = Atomic<Int>(1)
    private let wake = Mutex<(@Sendable () -> Void)?>(nil)

    /// Creates an empty table.
    init(table: QuotaTable = QuotaTable()) { self.table = table }

    /// Sets the function that is called when there is something to report, on any thread.
    func onUse(_ wake: @escaping @Sendable () -> Void) { self.wake.withLock { $0 = wake } }

    /// Notes the number of servers that are alive, at least 1.
    func noteServers(_ count: Int) { servers.store(max(1, count), ordering: .relaxed) }

    /// Notes whether the common buckets answer.
    func noteReachable(_ isReachable: Bool) { isAlone.store(!isReachable, ordering: .relaxed) }

    // MARK: Reports

    /// Takes the uses that are to be reported next.
    func takeReport() -> SharedReport {
        state.withLock { state in
            let buckets = state.order.prefix(Self.maxReport)
            state.order.removeFirst(buckets.count)
            return buckets.compactMap { bucket in
                state.waiting.removeValue(forKey: bucket).map { (bucket, $0) }
            }
        }
    }

    /// Whether there is more to report.
    var hasUses: Bool { state.withLock { !$0.order.isEmpty } }

    /// Takes back a report that was not made: its uses wait again.
    func putBack(_ report: SharedReport) {
        for (bucket, use) in report { note(use, of: bucket) }
    }

    /// Handles a report that was made.
    /// - Parameter missing: the time until each common bucket is full, in the report's order.
    func apply(_ missing: [Duration], of report: SharedReport, at now: Instant) {
        for ((bucket, use), missing) in zip(report, missing) {
            let since = state.withLock { $0.waiting[bucket]?.count ?? 0 }
            table.replace(
                bucket.subject, use.quota, full: now + max(.zero, missing), andUsed: since, at: now)
        }
    }

    /// The microseconds until a bucket of a report is full, by the own table. Use between the report
    /// and this call counts as well.
    func missing(in bucket: SharedBucket, after use: SharedUse, at now: Instant) -> Double {
        let account = QuotaAccount(subject: bucket.subject, quotas: [use.quota])
        let reset = table.balance(of: bucket.unit, in: [account], at: now)?.reset ?? .zero
        let surcharge = Double(use.surcharge) * use.quota.unitMicroseconds
        return max(0, Double(reset.wholeNanoseconds) / 1_000 - surcharge)
    }

    private func note(_ count: Int, of unit: QuotaUnit, in accounts: [QuotaAccount]) {
        guard count != 0 else { return }
        let beside = isAlone.load(ordering: .relaxed) ? servers.load(ordering: .relaxed) - 1 : 0
        let (surcharge, isTooGreat) = count.multipliedReportingOverflow(by: beside)
        for account in accounts {
            for quota in account.quotas where quota.unit == unit {
                let bucket = SharedBucket(
                    subject: account.subject, unit: unit, period: quota.period)
                let use = SharedUse(
                    quota: quota, count: count, surcharge: isTooGreat ? 0 : surcharge)
                note(use, of: bucket)
            }
        }
    }

    private func note(_ use: SharedUse, of bucket: SharedBucket) {
        let isFirst = state.withLock { state -> Bool in
            if state.waiting[bucket] != nil {
                state.waiting[bucket]?.add(use)
                return false
            }
            guard state.order.count < Self.maxWaiting else { return false }
            state.waiting[bucket] = use
            state.order.append(bucket)
            return state.order.count == 1
        }
        if isFirst { wake.withLock { $0 }?() }
    }

    /// The accounts with the quotas that this server may use.
    private func shares(of accounts: [QuotaAccount]) -> [QuotaAccount] {
        let servers = servers.load(ordering: .relaxed)
        guard servers > 1, isAlone.load(ordering: .relaxed) else { return accounts }
        return accounts.map { account in
            QuotaAccount(
                subject: account.subject,
                quotas: account.quotas.map {
                    Quota($0.unit, max(1, $0.amount / servers), per: $0.period)
                })
        }
    }

    // MARK: QuotaStore

    package func take(
        _ wanted: Int, of unit: QuotaUnit, from accounts: [QuotaAccount], at now: Instant
    ) throws(ExhaustedAccount) -> Int {
        let count = try table.take(wanted, of: unit, from: shares(of: accounts), at: now)
        note(count, of: unit, in: accounts)
        return count
    }

    package func exhausted(
        _ unit: QuotaUnit, in accounts: [QuotaAccount], at now: Instant
    ) -> ExhaustedAccount? { table.exhausted(unit, in: shares(of: accounts), at: now) }

    package func charge(
        _ count: Int, of unit: QuotaUnit, to accounts: [QuotaAccount], at now: Instant
    ) {
        table.charge(count, of: unit, to: shares(of: accounts), at: now)
        note(count, of: unit, in: accounts)
    }

    package func refund(_ count: Int, of unit: QuotaUnit, to accounts: [QuotaAccount]) {
        table.refund(count, of: unit, to: shares(of: accounts))
        note(-count, of: unit, in: accounts)
    }

    package func balance(
        of unit: QuotaUnit, in accounts: [QuotaAccount], at now: Instant
    ) -> QuotaBalance? { table.balance(of: unit, in: shares(of: accounts), at: now) }
}

extension Quota {
    /// Microseconds in which one unit fills up. It may be less than one microsecond.
    var unitMicroseconds: Double { Double(period.seconds) * 1_000_000 / Double(amount) }
}
