// Where the state of sessions is kept that may go on elsewhere: on another connection, another
// shard or another server. MemorySessionStore keeps it in this process, the server's
// RedisSessionStore where several servers reach it. Their writer decides what the fields contain.
//
// Ownership: a record has an owner and a fence, a number that grows with each claim. Only the owner
// with the current fence can change the record. So two servers that both believe they own a session
// cannot both write: the one with the older fence learns that it has lost it.

/// A change of the record of a session.
public struct SessionChange: Equatable, Sendable {
    /// The session's id.
    public var sessionID: String
    /// The writer's fence: from the outcome of its claim, or 1 for a session that it has created. 0
    /// is 1 with `isWhole`: the record of a new session.
    public var fence: UInt64
    /// Whether `set` is all of the state. Then the record is created, or replaced where it is not
    /// of a newer owner.
    public var isWhole: Bool
    /// Fields and their new values. `proof` and `proof.old` are SHA-256 digests of the secrets with
    /// which the session may be claimed; `owner` and `fence` are the store's own.
    public var set: [(name: String, value: [UInt8])]
    /// Fields that are gone.
    public var removed: [String]
    /// How long the record is kept after this change.
    public var lifetime: Duration

    /// Creates a change.
    public init(
        sessionID: String, fence: UInt64, isWhole: Bool = false,
        set: [(name: String, value: [UInt8])] = [], removed: [String] = [], lifetime: Duration
    ) {
        precondition(set.allSatisfy { $0.name != "owner" && $0.name != "fence" })
        self.sessionID = sessionID
        self.fence = max(1, fence)
        self.isWhole = isWhole || fence == 0
        self.set = set
        self.removed = removed
        self.lifetime = lifetime
    }

    /// Whether two changes are the same.
    public static func == (one: SessionChange, other: SessionChange) -> Bool {
        one.sessionID == other.sessionID && one.fence == other.fence
            && one.isWhole == other.isWhole && one.removed == other.removed
            && one.lifetime == other.lifetime
            && one.set.elementsEqual(other.set) { $0.name == $1.name && $0.value == $1.value }
    }

    /// Bytes of the names and values.
    public var byteCount: Int {
        self.set.reduce(sessionID.utf8.count) { $0 + $1.name.utf8.count + $1.value.count }
    }
}

/// The outcome of a change.
public enum StoreWriteOutcome: Equatable, Sendable {
    /// The record has it.
    case written
    /// The session has another owner. The writer must end its own one.
    case fenced
    /// The record does not exist, or is older: the store has lost data. Write everything
    /// (`isWhole`) with the same fence.
    case missing
    /// The store is away or too slow. Whether the change was made is not known, and later changes
    /// may be made without it: write everything with the next one.
    case failed
}

/// An attempt to become the owner of a session.
public struct SessionClaim: Equatable, Sendable {
    /// The session's id.
    public var sessionID: String
    /// The digest of the secret that the client has shown; it must be the record's `proof` or
    /// `proof.old`.
    public var proof: [UInt8]
    /// Whether the session is taken from an owner whose server is alive.
    public var force: Bool
    /// How long the record is kept if nothing changes it.
    public var lifetime: Duration

    /// Creates a claim.
    public init(sessionID: String, proof: [UInt8], force: Bool, lifetime: Duration) {
        (self.sessionID, self.proof) = (sessionID, proof)
        (self.force, self.lifetime) = (force, lifetime)
    }
}

/// The outcome of a claim.
public enum ClaimOutcome: Equatable, Sendable {
    /// The claimant is the owner now. The fields come from a store that other programs reach: treat
    /// them as the input of a peer.
    case claimed(fields: [String: [UInt8]], fence: UInt64)
    /// There is no such session, or the secret is not its own.
    case missing
    /// Its owner's server is alive, and `force` was not set.
    case heldBy(node: String)
    /// The store is away or too slow.
    case unavailable
}

/// Keeps sessions. Confined to one shard's thread; outcomes come by closure on it, perhaps before
/// the call returns, and exactly once. No call waits.
public protocol SessionStore: AnyObject {
    /// Whether sessions outlive this process in it: then state is written as it happens.
    var isShared: Bool { get }
    /// Whether it answers. A change that is made while it does not fails.
    var isReachable: Bool { get }
    /// Changes whose outcome is not known. A server that ends waits for them.
    var pendingChanges: Int { get }

    /// Changes the record of a session. Changes of one session are made in the order of the calls.
    func write(_ change: SessionChange, then: @escaping (StoreWriteOutcome) -> Void)

    /// Becomes the owner of a session.
    func claim(_ claim: SessionClaim, then: @escaping (ClaimOutcome) -> Void)

    /// Gives a session up: its record has no owner, and may be claimed within `lifetime`.
    func release(_ sessionID: String, fence: UInt64, lifetime: Duration)

    /// The session has ended for good: its record goes.
    func remove(_ sessionID: String, fence: UInt64)
}
