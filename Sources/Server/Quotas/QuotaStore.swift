// Where the use of quotas is counted that several sessions share: those of a key and of an address.
// QuotaTable counts it in the memory of one server, SharedQuotaTable for several servers.

import Codec
import Session

/// The owner of a quota, whose sessions share it.
package enum QuotaSubject: Hashable, Sendable {
    /// A key, together with its client secrets, or the subject of tokens.
    case principal(SHA256Digest)
    /// An address, an IPv6 one as its /64.
    case address(NetworkAddress)
}

/// A subject and its quotas, as they apply to one session.
package struct QuotaAccount: Sendable {
    let subject: QuotaSubject
    /// At most one for each unit and period.
    let quotas: [Quota]

    /// Whether it has a quota of a unit.
    func limits(_ unit: QuotaUnit) -> Bool { quotas.contains { $0.unit == unit } }
}

/// An account has nothing left of a quota.
package struct ExhaustedAccount: Error, Equatable {
    let subject: QuotaSubject
    let exhausted: ExhaustedQuota
}

/// Counts the use of shared quotas. Any thread; a call must not wait for a network.
package protocol QuotaStore: Sendable {
    /// Takes units from all accounts, or from none.
    /// - Parameter wanted: the most to take, 1 or more.
    /// - Returns: how many were taken, 1…`wanted`.
    /// - Throws: the account that has none left.
    func take(
        _ wanted: Int, of unit: QuotaUnit, from accounts: [QuotaAccount], at now: Instant
    ) throws(ExhaustedAccount) -> Int

    /// The account that has no unit left for the longest time, or nil. Nothing is taken.
    func exhausted(
        _ unit: QuotaUnit, in accounts: [QuotaAccount], at now: Instant
    ) -> ExhaustedAccount?

    /// Charges units that were used without having been taken.
    func charge(
        _ count: Int, of unit: QuotaUnit, to accounts: [QuotaAccount], at now: Instant)

    /// Gives back units that were taken and not used.
    func refund(_ count: Int, of unit: QuotaUnit, to accounts: [QuotaAccount])

    /// The quota of the accounts of which least is left, if there is one.
    func balance(
        of unit: QuotaUnit, in accounts: [QuotaAccount], at now: Instant
    ) -> QuotaBalance?
}
