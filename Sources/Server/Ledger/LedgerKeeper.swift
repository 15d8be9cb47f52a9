// The charges of one shard's owners: its connections, which are charged for the sessions of their
// clients, its text requests, and the sessions that wait for their clients. It knows which
// connections a tick has touched, so that only their ledgers are read again. It knows the sum, the
// owners that are charged more than any may be, and a bound on the largest charge. The bytes of an
// owner are read in ShardLedger and passed in. The shard's cells change with each charge, so that the
// scrape of another thread reads the present sums.
//
// Settling is done once at the end of a tick: an echo pays a few comparisons for it, and a
// connection that had nothing to do is not looked at.
//
// Invariant: the sum of all charges is `total`, and no evictable owner is charged more than
// `largestCharge`. Without an owner all cells are 0.

import Session

/// Charges the owners of one shard for their memory.
struct LedgerKeeper {
    /// Ticks between two checks of all ledgers in a debug build.
    private static let ticksPerAudit = 64

    /// Bytes that all owners are charged.
    private(set) var total = 0
    private let metrics: ShardMetrics
    /// Connections whose ledger is to be settled at the end of the tick.
    var touched = SlotQueue()
    /// Bytes that one owner may be charged.
    private let limit: UInt32
    /// Owners that are charged more, until the end of the tick.
    private(set) var oversized: [EventToken] = []
    /// No evictable owner is charged more than this. It only grows, as ledgers are settled; it is
    /// exact where `setLargest(to:)` was just called with the finding of a look at all owners.
    private(set) var largestCharge: UInt32 = 0
    private var auditCountdown = 0
    /// The charge of a connection at rest. Here, because the path of every message compares it.
    let restingBytes = UInt32(clamping: Connection.restingBytes)

    /// - Parameter maxBytes: what one owner may be charged; 0: any number.
    init(metrics: ShardMetrics, maxBytes: Int) {
        self.metrics = metrics
        limit = maxBytes > 0 ? UInt32(clamping: maxBytes) : .max
    }

    // MARK: A tick

    /// The memory of a connection may have changed: its ledger is settled at the end of the tick.
    @inline(__always)
    mutating func touch(_ connection: Connection) {
        guard !connection.isTouched else { return }
        connection.isTouched = true
        touched.append(connection.token.index)
    }

    /// Forgets the owners in `oversized`, which have been handled. Owners that were settled since
    /// then were among them.
    mutating func forgetOversized() { oversized.removeAll() }

    /// Whether it is time to check all ledgers; asked once a tick in a debug build.
    mutating func takeAuditTurn() -> Bool {
        auditCountdown -= 1
        guard auditCountdown <= 0 else { return false }
        auditCountdown = Self.ticksPerAudit
        return true
    }

    // MARK: Charges

    /// Charges a connection for its memory now.
    mutating func settle(_ connection: Connection, bytes: UInt32) {
        let state = connection.sessionState
        guard bytes != connection.charged || state != connection.chargedState else { return }
        move(from: connection.charged, connection.chargedState, to: bytes, state)
        connection.charged = bytes
        connection.chargedState = state
        if bytes > limit { oversized.append(connection.token) }
        if bytes > largestCharge, connection.isEvictable { setLargest(to: bytes) }
    }

    /// Charges a session without a connection for its memory now.
    /// - Parameter isEvictable: whether evicting it would free memory.
    mutating func settle(
        _ charge: inout LedgerCharge, of token: EventToken, isEvictable: Bool = true,
        bytes: UInt32, in state: SessionState
    ) {
        guard bytes != charge.bytes || state != charge.state else { return }
        move(from: charge.bytes, charge.state, to: bytes, state)
        charge = LedgerCharge(bytes: bytes, state: state)
        if bytes > largestCharge { setLargest(to: bytes) }
        if bytes > limit, isEvictable { oversized.append(token) }
    }

    /// A connection is gone: it is charged nothing any more.
    mutating func refund(_ connection: Connection) {
        move(from: connection.charged, connection.chargedState, to: 0, nil)
        connection.charged = 0
        connection.chargedState = nil
    }

    /// A session without a connection is gone, or has one again.
    mutating func refund(_ charge: LedgerCharge) {
        move(from: charge.bytes, charge.state, to: 0, nil)
    }

    /// The charge or the state of an owner has changed.
    /// - Parameters:
    ///   - stateBefore: nil where it was charged nothing yet.
    ///   - state: nil where it is charged nothing any more.
    private mutating func move(
        from before: UInt32, _ stateBefore: SessionState?, to after: UInt32,
        _ state: SessionState?
    ) {
        if let stateBefore { metrics.countLedger(of: Int(before), stateBefore, by: -1) }
        if let state { metrics.countLedger(of: Int(after), state, by: 1) }
        total += Int(after) - Int(before)
        metrics.set(.ledgerBytes, to: total)
    }

    // MARK: The largest

    /// Sets the most that an evictable owner is charged. Either an owner with this charge was
    /// settled, or a look at all owners has found it. The other shards see the figure, so that the
    /// largest owner of the whole server is found without asking all of them.
    mutating func setLargest(to bytes: UInt32) {
        largestCharge = bytes
        metrics.set(.largestLedgerBytes, to: Int(bytes))
    }
}
