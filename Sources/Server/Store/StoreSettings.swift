// Where sessions are kept for a client that comes back, and how the servers of a store find each other.

import Codec
import Session

/// Settings of the store of sessions.
public struct StoreSettings: Sendable {
    /// `memory`: a server alone needs nothing else.
    public var location = "memory"
    /// None: the URL is made of host and port.
    public var nodeURL: String?
    /// 32 MiB: a thousand conversations of an hour.
    public var maxSavedSessionBytes = 32 << 20

    static let settings: [Setting<Self>] = [
        .text(
            "store", \.location, "memory, or a URL as redis://host:6379/0", isSecret: true,
            """
            Where sessions are kept that may go on elsewhere: memory, or a Redis or Valkey \
            server, redis[s]://[user:password@]host[:6379][/database], which several servers \
            share. A server that is away is never felt in a session. Prefer the variable where \
            the URL has a password.
            """, isAllowed: { $0 == "memory" || RedisAddress($0) != nil }),
        .optionalText(
            "node-url", \.nodeURL, "a URL as http://10.0.0.5:8080",
            """
            Where other servers that share the store reach this one, to pass on requests for its \
            sessions. By default the address that it listens on; with 0.0.0.0 or :: there is none, \
            and its sessions are not found from elsewhere.
            """, isAllowed: { NodeRecord.isURL($0) }),
        .integer(
            "max-saved-session-bytes", \.maxSavedSessionBytes, 0...(64 << 30), unit: "bytes",
            """
            Memory for the last states of sessions that have ended without their client's \
            wish, where store is memory; the oldest go first. 0 keeps none.
            """),
    ]

    /// The Redis server that keeps sessions, or nil where they are kept in memory.
    var address: RedisAddress? { RedisAddress(location) }
}
