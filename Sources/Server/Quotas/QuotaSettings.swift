// The quotas of those that have none of their own.

import Codec
import Session

/// Quotas of keys, addresses and sessions.
public struct QuotaSettings: Sendable {
    /// Quotas of each key, and of each subject of tokens, that has no such quota of its own. None by default.
    public var perKey: [Quota] = []
    /// Quotas that the clients of one address share. None by default: many people may share an address.
    public var perAddress: [Quota] = []
    /// Quotas of each session. None by default.
    public var perSession: [Quota] = []

    static let settings: [Setting<Self>] = [
        .list(
            "quotas-per-key", \.perKey, of: Quota.form,
            """
            What all sessions of one key, or one subject of tokens, may use together; a key's \
            own quotas come before these. A quota fills up continuously: of turns=60/minute, \
            60 may be used at once, and then one each second. Beyond it, connections are \
            answered with 429, events with an error, and responses fail.
            """),
        .list(
            "quotas-per-address", \.perAddress, of: Quota.form,
            """
            What all sessions of one address may use together, an IPv6 one with its /64. \
            Addresses of unlimited-addresses have no such quota.
            """),
        .list(
            "quotas-per-session", \.perSession, of: Quota.form,
            "What one session may use."),
    ]

    /// The error in these settings; nil where there is none.
    var objection: String? {
        for (owner, quotas) in [("key", perKey), ("address", perAddress), ("session", perSession)]
        where quotas.hasRepeats {
            return "quotas-per-\(owner) has two quotas of the same unit and period"
        }
        if perSession.contains(where: { $0.unit == .connections }) {
            return "quotas-per-session cannot limit connections: a session has one"
        }
        return nil
    }
}
