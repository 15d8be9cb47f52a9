// The use of quotas in the memory of this server. One table for all shards.
//
// Invariants: keys and addresses have a part each, so that a flood of addresses does not push out
// the entries of keys. A part has at most `maxSubjects` entries; QuotaSubjects decides which one
// goes.

import Codec
import Session
import Synchronization

/// Counts the use of quotas. Any thread.
package final class QuotaTable: QuotaStore {
    /// Entries of each part. 65,536: they take 14 MB, at 120 bytes each and 96 of the index.
    static let maxSubjects = 65_536

    private let parts: Mutex<QuotaParts>

    /// Creates an empty table.
    package convenience init() { self.init(maxSubjects: Self.maxSubjects) }

    /// - Parameter maxSubjects: entries of each part, 1 or more.
    init(maxSubjects: Int) { parts = Mutex(QuotaParts(maxSubjects: maxSubjects)) }

    /// Subjects whose use is known now.
    var count: Int { parts.withLock { $0.count } }

    package func take(
        _ wanted: Int, of unit: QuotaUnit, from accounts: [QuotaAccount], at now: Instant
    ) throws(ExhaustedAccount) -> Int {
        let outcome = parts.withLock { parts -> Result<Int, ExhaustedAccount> in
            if let exhausted = parts.exhausted(unit, in: accounts, at: now) {
                return .failure(exhausted)
            }
            let count = parts.left(of: unit, upTo: wanted, in: accounts, at: now)
            parts.charge(count, of: unit, to: accounts, at: now)
            return .success(count)
        }
        return try outcome.get()
    }

    package func exhausted(
        _ unit: QuotaUnit, in accounts: [QuotaAccount], at now: Instant
    ) -> ExhaustedAccount? {
        parts.withLock { $0.exhausted(unit, in: accounts, at: now) }
    }

    package func charge(
        _ count: Int, of unit: QuotaUnit, to accounts: [QuotaAccount], at now: Instant
    ) {
        parts.withLock { $0.charge(count, of: unit, to: accounts, at: now) }
    }

    package func refund(_ count: Int, of unit: QuotaUnit, to accounts: [QuotaAccount]) {
        parts.withLock { $0.refund(count, of: unit, to: accounts) }
    }

    package func balance(
        of unit: QuotaUnit, in accounts: [QuotaAccount], at now: Instant
    ) -> QuotaBalance? {
        parts.withLock { $0.balance(of: unit, in: accounts, at: now) }
    }

    /// Replaces the known state of one quota of a subject.
    /// - Parameters:
    ///   - full: when it will be full.
    ///   - count: units that were used beside that. Less than 0 where units were given back.
    func replace(
        _ subject: QuotaSubject, _ quota: Quota, full: Instant, andUsed count: Int,
        at now: Instant
    ) {
        parts.withLock { parts in
            parts.change(subject, at: now) {
                $0.replace(quota, full: full, andUsed: count, at: now)
            }
        }
    }
}

/// The two parts of the table.
private struct QuotaParts {
    private var principals: QuotaSubjects
    private var addresses: QuotaSubjects

    init(maxSubjects: Int) {
        principals = QuotaSubjects(limit: maxSubjects)
        addresses = QuotaSubjects(limit: maxSubjects)
    }

    var count: Int { principals.count + addresses.count }

    private func buckets(of subject: QuotaSubject) -> QuotaBuckets {
        switch subject {
        case .principal: principals[subject]
        case .address: addresses[subject]
        }
    }

    mutating func change(
        _ subject: QuotaSubject, at now: Instant, _ change: (inout QuotaBuckets) -> Void
    ) {
        switch subject {
        case .principal: principals.change(subject, at: now, change)
        case .address: addresses.change(subject, at: now, change)
        }
    }

    private mutating func changeKnown(
        _ subject: QuotaSubject, _ change: (inout QuotaBuckets) -> Void
    ) {
        switch subject {
        case .principal: principals.changeKnown(subject, change)
        case .address: addresses.changeKnown(subject, change)
        }
    }

    func exhausted(
        _ unit: QuotaUnit, in accounts: [QuotaAccount], at now: Instant
    ) -> ExhaustedAccount? {
        accounts.compactMap { account in
            buckets(of: account.subject).exhausted(unit, in: account.quotas, at: now)
                .map { ExhaustedAccount(subject: account.subject, exhausted: $0) }
        }.max { $0.exhausted.wait < $1.exhausted.wait }
    }

    func left(
        of unit: QuotaUnit, upTo wanted: Int, in accounts: [QuotaAccount], at now: Instant
    ) -> Int {
        accounts.reduce(wanted) { least, account in
            guard account.limits(unit) else { return least }
            return buckets(of: account.subject)
                .left(of: unit, upTo: least, in: account.quotas, at: now)
        }
    }

    mutating func charge(
        _ count: Int, of unit: QuotaUnit, to accounts: [QuotaAccount], at now: Instant
    ) {
        for account in accounts where account.limits(unit) {
            change(account.subject, at: now) {
                $0.charge(count, of: unit, in: account.quotas, at: now)
            }
        }
    }

    /// Refunds units. A subject that was pushed out of the table meanwhile gets none: it has no
    /// buckets.
    mutating func refund(_ count: Int, of unit: QuotaUnit, to accounts: [QuotaAccount]) {
        for account in accounts where account.limits(unit) {
            changeKnown(account.subject) { $0.refund(count, of: unit, in: account.quotas) }
        }
    }

    func balance(
        of unit: QuotaUnit, in accounts: [QuotaAccount], at now: Instant
    ) -> QuotaBalance? {
        accounts.compactMap {
            buckets(of: $0.subject).balance(of: unit, in: $0.quotas, at: now)
        }.min { $0.remaining < $1.remaining }
    }
}
