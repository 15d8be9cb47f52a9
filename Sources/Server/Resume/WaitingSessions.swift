// The sessions of a shard that wait for their clients. They are known by caller, because one of
// them ends where others need room. Each entry has the state that a connection would keep of its
// session.
//
// Invariant: exactly the sessions that wait have a place here. ShardWaiting moves them.

import Session

/// The state that the shard keeps of a session while it waits.
struct WaitingSession {
    /// Its entry in the deadline queue.
    var timer: DeadlineHandle
    /// When the connection began that its client has lost, and when that last heard of the client; by
    /// the peers' clock.
    let began: Instant
    let lastActive: Instant
    var charge = LedgerCharge()
}

/// The sessions that wait on one shard.
struct WaitingSessions {
    private var places: [EventToken: WaitingSession] = [:]
    private var byCaller: WaitingByCaller

    /// - Parameter share: how many of one caller wait at most.
    init(share: Int) { byCaller = WaitingByCaller(share: share) }

    /// How many wait.
    var count: Int { places.count }
    /// All of them, in the order of their slots.
    var tokens: [EventToken] { places.keys.sorted { $0.index < $1.index } }

    /// A session begins to wait.
    mutating func insert(_ place: WaitingSession, at token: EventToken, of caller: CallerTag) {
        byCaller.insert(token, of: caller)
        places[token] = place
    }

    /// Removes a session that waits no longer.
    /// - Returns: its place, whose entry and charge the caller must release. Nil where it did not
    ///   wait.
    mutating func remove(_ token: EventToken, of caller: CallerTag) -> WaitingSession? {
        byCaller.remove(token, of: caller)
        return places.removeValue(forKey: token)
    }

    /// The place of a session, or nil where it does not wait.
    subscript(token: EventToken) -> WaitingSession? {
        _read { yield places[token] }
        _modify { yield &places[token] }
    }

    // MARK: Room

    /// The session that ends before another of the caller may wait, or nil where the caller has
    /// less than its share.
    func beyondShare(of caller: CallerTag) -> EventToken? { byCaller.beyondShare(of: caller) }

    /// The session that ends where too many wait, so that one of this caller may wait.
    func surplus(for caller: CallerTag) -> EventToken? { byCaller.surplus(for: caller) }

    /// The session that ends where a place is needed.
    var first: EventToken? { byCaller.first }

    /// Those that end where memory is needed.
    func first(taking bytes: Int) -> [EventToken] { byCaller.first(taking: bytes, size: charge) }

    /// The bytes of all.
    var bytes: Int { places.values.reduce(0) { $0 + Int($1.charge.bytes) } }

    private func charge(of token: EventToken) -> Int { Int(places[token]?.charge.bytes ?? 0) }
}
