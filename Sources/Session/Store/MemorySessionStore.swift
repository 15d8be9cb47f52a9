// The store of a server without a Redis server: records in the memory of the process, shared by its
// shards. It keeps the last state of sessions, so that a client that returns late gets its
// conversation back.
//
// Invariant: `bytes` is the sum of all records and at most `maxBytes`; the records that were used
// least recently go first. No clock is read here.

import Synchronization

/// Records of sessions in memory. Any thread.
public final class MemorySessionRecords: Sendable {
    fileprivate struct Record {
        var fields: [String: [UInt8]]
        var fence: UInt64
        var isOwned: Bool
        var expiry: Instant
        /// When it was last used, in counts of uses.
        var use: UInt64
        var bytes: Int
    }

    fileprivate struct State {
        var records: [String: Record] = [:]
        var bytes = 0
        var uses: UInt64 = 0
        /// Uses in order, the oldest first. Only the last use of a record counts.
        var order: [(use: UInt64, sessionID: String)] = []
        var firstInOrder = 0
    }

    /// Bytes of a record beside its fields. 400: its place in the table and in the order of use.
    static let recordBytes = 400
    /// Bytes of a field beside its name and value.
    static let fieldBytes = 100

    /// Bytes of all records.
    public let maxBytes: Int
    private let state = Mutex(State())

    /// Without a record.
    /// - Parameter maxBytes: 0: nothing is kept.
    public init(maxBytes: Int) { self.maxBytes = maxBytes }

    /// Bytes of all records now.
    public var bytes: Int { state.withLock { $0.bytes } }
    /// How many records there are.
    public var count: Int { state.withLock { $0.records.count } }

    func write(_ change: SessionChange, at now: Instant) -> StoreWriteOutcome {
        state.withLock { state in
            let known = state.live(change.sessionID, at: now)
            if let known, known.fence > change.fence { return .fenced }
            if !change.isWhole {
                guard let known, known.fence == change.fence else { return .missing }
                // It was released.
                guard known.isOwned else { return .fenced }
            }
            var fields = change.isWhole ? [:] : known?.fields ?? [:]
            for name in change.removed { fields[name] = nil }
            for field in change.set { fields[field.name] = field.value }
            let bytes = Self.bytes(of: fields, change.sessionID)
            guard bytes <= maxBytes else {
                state.remove(change.sessionID)
                return .failed
            }
            state.put(
                Record(
                    fields: fields, fence: change.fence, isOwned: true,
                    expiry: now + change.lifetime, use: 0, bytes: bytes),
                as: change.sessionID)
            state.removeExpired(at: now)
            while state.bytes > maxBytes { state.removeOldest() }
            return .written
        }
    }

    func claim(_ claim: SessionClaim, at now: Instant) -> ClaimOutcome {
        state.withLock { state in
            guard var record = state.live(claim.sessionID, at: now),
                record.fields["proof"] == claim.proof || record.fields["proof.old"] == claim.proof
            else { return .missing }
            record.fence += 1
            record.isOwned = true
            record.expiry = now + claim.lifetime
            state.put(record, as: claim.sessionID)
            return .claimed(fields: record.fields, fence: record.fence)
        }
    }

    func release(_ sessionID: String, fence: UInt64, lifetime: Duration, at now: Instant) {
        state.withLock { state in
            guard var record = state.live(sessionID, at: now), record.fence == fence else {
                return
            }
            record.isOwned = false
            record.expiry = now + lifetime
            state.put(record, as: sessionID)
        }
    }

    func remove(_ sessionID: String, fence: UInt64) {
        state.withLock { state in
            guard state.records[sessionID]?.fence == fence else { return }
            state.remove(sessionID)
        }
    }

    private static func bytes(of fields: [String: [UInt8]], _ sessionID: String) -> Int {
        fields.reduce(recordBytes + sessionID.utf8.count) {
            $0 + fieldBytes + $1.key.utf8.count + $1.value.count
        }
    }

    /// Checks the invariant of this file; for tests.
    package func checkInvariants() {
        state.withLock { state in
            precondition(state.bytes == state.records.values.reduce(0) { $0 + $1.bytes })
            precondition(state.bytes <= maxBytes)
            let last = Dictionary(
                state.order[state.firstInOrder...].map { ($0.sessionID, $0.use) }
            ) { $1 }
            precondition(state.records.allSatisfy { last[$0.key] == $0.value.use })
        }
    }
}

extension MemorySessionRecords.State {
    fileprivate typealias Record = MemorySessionRecords.Record

    /// A record that has not expired.
    fileprivate mutating func live(_ sessionID: String, at now: Instant) -> Record? {
        guard let record = records[sessionID] else { return nil }
        if record.expiry > now { return record }
        remove(sessionID)
        return nil
    }

    fileprivate mutating func put(_ record: Record, as sessionID: String) {
        uses += 1
        bytes += record.bytes - (records[sessionID]?.bytes ?? 0)
        records[sessionID] = record
        records[sessionID]?.use = uses
        order.append((uses, sessionID))
        guard order.count > 64 + 2 * records.count else { return }
        order = order[firstInOrder...].filter { records[$0.sessionID]?.use == $0.use }
        firstInOrder = 0
    }

    fileprivate mutating func remove(_ sessionID: String) {
        bytes -= records.removeValue(forKey: sessionID)?.bytes ?? 0
    }

    /// Removes the records at the front of the order that have expired.
    fileprivate mutating func removeExpired(at now: Instant) {
        while firstInOrder < order.count {
            let (use, sessionID) = order[firstInOrder]
            if let record = records[sessionID], record.use == use {
                guard record.expiry <= now else { return }
                remove(sessionID)
            }
            firstInOrder += 1
        }
    }

    fileprivate mutating func removeOldest() {
        while firstInOrder < order.count {
            let (use, sessionID) = order[firstInOrder]
            firstInOrder += 1
            guard records[sessionID]?.use == use else { continue }
            return remove(sessionID)
        }
    }
}

/// One shard's view of the records in memory.
public final class MemorySessionStore: SessionStore {
    private let records: MemorySessionRecords
    private let now: () -> Instant

    /// - Parameter now: the shard's time.
    public init(_ records: MemorySessionRecords, now: @escaping () -> Instant) {
        (self.records, self.now) = (records, now)
    }

    /// False: the records end with the process.
    public var isShared: Bool { false }
    /// Always.
    public var isReachable: Bool { true }
    /// None: every outcome is known at once.
    public var pendingChanges: Int { 0 }

    /// Changes a record; `then` is called at once.
    public func write(_ change: SessionChange, then: @escaping (StoreWriteOutcome) -> Void) {
        then(records.write(change, at: now()))
    }

    /// Claims a session; `then` is called at once. No other server can hold it.
    public func claim(_ claim: SessionClaim, then: @escaping (ClaimOutcome) -> Void) {
        then(records.claim(claim, at: now()))
    }

    /// Gives a session up.
    public func release(_ sessionID: String, fence: UInt64, lifetime: Duration) {
        records.release(sessionID, fence: fence, lifetime: lifetime, at: now())
    }

    /// Removes a record.
    public func remove(_ sessionID: String, fence: UInt64) {
        records.remove(sessionID, fence: fence)
    }
}
