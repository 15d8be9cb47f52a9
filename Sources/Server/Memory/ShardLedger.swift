// What each connection of a shard makes the process hold, by part, and what all of them do. A
// ledger is read off the objects (Session/MemoryLedger); what a connection keeps of it is the
// total, 4 bytes. That is settled once at the end of a tick, for those that the tick touched, and
// the shard's sum moves by the difference: an echo pays a few comparisons for it, and nobody is
// looked at who had nothing to do.
//
// Invariant: the sum of what connections and text requests are charged is the shard's total, and
// after a tick each is charged what its ledger says. Without any the total is 0. Debug builds check
// this every few ticks, every simulated test at its end.

import Codec
import Session

extension Connection {
    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.bytes(328)

    /// Bytes of the object and of its places in the shard's tables and queue: a slot with its
    /// generation, a deadline with its place, and the same of a free one.
    static let restingBytes =
        objectBytes + 8 + 4 + DeadlineQueue<DeadlineOwner>.entryBytes

    /// Whether it holds nothing beyond that.
    fileprivate var isResting: Bool {
        state == .webSocket && live == nil && tls == nil && output.isEmpty && held.isEmpty
            && backlog == nil && contexts == nil && messageDue == Connection.noMessageDue
    }

    /// Whether a part of a message may be held. Asking the WebSocket itself copies all of it.
    fileprivate var mayHoldMessage: Bool {
        messageDue != Connection.noMessageDue || !held.isEmpty || state != .webSocket
    }

    /// Whether it would let go of something. Whoever was given up already holds no more than what
    /// he is still sent.
    var canBeGivenUp: Bool { state != .closed && state != .lingering }

    /// What it is doing.
    var sessionState: SessionState { live?.session.state ?? .connection }
}

extension TextRequest {
    /// Whether it would let go of something: of its work, or of a reply that nobody reads and that
    /// is only kept in case its reader comes back.
    var canBeGivenUp: Bool { !isOver || log.status.readers == 0 }
}

extension Shard {
    /// Turns between two checks of all ledgers in a debug build.
    private static var ticksPerAudit: Int { 64 }

    // MARK: Reading

    /// What a connection holds, by part.
    package func ledger(ofConnection token: EventToken) -> MemoryLedger? {
        connections[token].map(ledger)
    }

    /// What a connection holds, by part.
    func ledger(of connection: Connection) -> MemoryLedger {
        var ledger = MemoryLedger()
        ledger.connection = Connection.restingBytes + (connection.http?.heldBytes ?? 0)
        ledger.receive = connection.held.heapBytes
        if connection.mayHoldMessage {
            ledger.receive += HeapBlock.bytes(connection.webSocket?.heldBytes ?? 0)
        }
        ledger.send = connection.output.heldBytes + (connection.backlog?.heldBytes ?? 0)
        if let tls = connection.tls {
            ledger.send += tls.unsent.heldBytes
            ledger.tls = tls.heldBytes
        }
        if let contexts = connection.contexts { ledger.compression = contexts.heldBytes }
        if let live = connection.live { add(live, at: connection.token, to: &ledger) }
        return ledger
    }

    /// What a text request holds, by part, without the connections that read it.
    func ledger(of turn: TextRequest) -> MemoryLedger {
        var ledger = MemoryLedger()
        ledger.session = TextRequest.objectBytes
        ledger.response = turn.log.heldBytes
        add(turn.live, at: turn.token, to: &ledger)
        return ledger
    }

    private func add(_ live: LiveSession, at token: EventToken, to ledger: inout MemoryLedger) {
        ledger.session += LiveSession.objectBytes
        if live.grant != nil { ledger.session += SessionGrant.objectBytes }
        live.session.add(to: &ledger)
        guard live.work.isBusy else { return }
        ledger.task += live.work.heldBytes
        ledger.upstream += upstreamBytes(of: token)
    }

    /// Bytes of an owner's transfers.
    private func upstreamBytes(of owner: EventToken) -> Int { upstream?.heldBytes(of: owner) ?? 0 }

    // MARK: Settling

    /// A connection may hold other than before: its ledger is settled at the end of the tick.
    @inline(__always)
    func touch(_ connection: Connection) {
        guard !connection.isTouched else { return }
        connection.isTouched = true
        touchedSlots.append(connection.token.index)
    }

    /// Charges the connections that the tick touched what they hold now.
    func settleLedgers() {
        for owner in gate.takeChargedOwners() {
            if let turn = textRequests[owner], owner.kind == .textRequest {
                settle(turn)
            } else if owner.kind == .connection, let connection = connections[owner] {
                touch(connection)
            }
        }
        for slot in touchedSlots {
            connections.reference(inSlot: slot)?._withUnsafeGuaranteedRef {
                $0.isTouched = false
                if $0.isResting, $0.charged == UInt32(Connection.restingBytes) { return }
                settle($0)
            }
        }
        touchedSlots.removeAll(keepingCapacity: true)
        assert(isAudited, "a ledger is not what its connection holds")
    }

    @inline(never)
    func settle(_ connection: Connection) {
        let bytes = UInt32(clamping: ledger(of: connection).total)
        let state = connection.sessionState
        guard bytes != connection.charged || state != connection.chargedState else { return }
        book.move(from: connection.charged, connection.chargedState, to: bytes, state)
        connection.charged = bytes
        connection.chargedState = state
        if bytes > maxLedgerBytes { oversized.append(connection.token) }
        if bytes > memoryWatch.largestCharge, connection.canBeGivenUp { noteLargest(bytes) }
    }

    /// Charges a text request what it holds now.
    func settle(_ turn: TextRequest) {
        let bytes = UInt32(clamping: ledger(of: turn).total)
        guard bytes != turn.charged else { return }
        let before: SessionState? = turn.charged == 0 ? nil : .replying
        book.move(from: turn.charged, before, to: bytes, .replying)
        turn.charged = bytes
        if bytes > memoryWatch.largestCharge { noteLargest(bytes) }
        if bytes > maxLedgerBytes, turn.canBeGivenUp { oversized.append(turn.token) }
    }

    /// Somebody may be charged this, and nobody more. The other shards see it, so that whoever
    /// holds the most of the whole server is found without asking all of them.
    func noteLargest(_ bytes: UInt32) {
        memoryWatch.largestCharge = bytes
        metrics.set(.largestLedgerBytes, to: Int(bytes))
    }

    /// A connection is gone: nothing of it is charged any more.
    func refund(_ connection: Connection) {
        book.move(from: connection.charged, connection.chargedState, to: 0, nil)
        connection.charged = 0
        connection.chargedState = nil
    }

    /// The same of a text request.
    func refund(_ turn: TextRequest) {
        guard turn.charged > 0 else { return }
        book.move(from: turn.charged, .replying, to: 0, nil)
        turn.charged = 0
    }

    // MARK: The invariant

    /// Bytes that all connections and text requests of the shard hold.
    package var ledgerBytes: Int { book.total }

    /// Whether everybody is charged what he holds, and the sum is the total. O(n): for tests and
    /// debug builds.
    package var isBalanced: Bool {
        var sum = 0
        var isTrue = true
        connections.forEach { connection in
            sum += Int(connection.charged)
            // What libcurl holds for agents at work changes by itself, between two ticks.
            let isDue =
                connection.isTouched || connection.state == .closed
                || connection.live?.work.isBusy == true
            isTrue = isTrue && (isDue || ledger(of: connection).total == Int(connection.charged))
        }
        for turn in textRequests.all {
            sum += Int(turn.charged)
            let isDue = turn.live.work.isBusy
            isTrue = isTrue && (isDue || ledger(of: turn).total == Int(turn.charged))
        }
        let isEmpty = connections.count == 0 && textRequests.all.isEmpty
        return isTrue && sum == book.total && (!isEmpty || metrics.ledgerCellsAreZero)
    }

    private var isAudited: Bool {
        auditCountdown -= 1
        guard auditCountdown <= 0 else { return true }
        auditCountdown = Self.ticksPerAudit
        return isBalanced
    }
}
