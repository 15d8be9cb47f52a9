// The memory of each owner of a shard, by part: of its connections, with the sessions of their
// clients, of its text requests, and of the sessions that wait for their clients. A ledger is read
// off the objects (Session/MemoryLedger); an owner keeps only its total, 4 bytes, which
// LedgerKeeper charges at the end of a tick.
//
// Invariant: after a tick each owner is charged what its ledger says, and the sum of the charges
// is the shard's total; without any owner it is 0. Debug builds check this every few ticks, every
// simulated test at its end.

import Codec
import Session

extension Connection {
    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(Connection.self)

    /// Bytes of its places in the shard's table and queue: a slot, a deadline with its place.
    static let tableBytes = 8 + DeadlineQueue<DeadlineOwner>.entryBytes

    /// Bytes of the object and of its places.
    static let restingBytes = objectBytes + tableBytes

    /// Whether it has nothing beyond that.
    fileprivate var isResting: Bool {
        isEcho && tls == nil && output.isEmpty && pending.isEmpty && backlog == nil
            && contexts == nil && messageDue == Connection.noMessageDue
    }

    /// Whether it may have a part of a message. Asking the WebSocket itself copies all of it.
    fileprivate var mayHavePartialMessage: Bool {
        messageDue != Connection.noMessageDue || !pending.isEmpty || state != .webSocket
    }

    /// Whether evicting it would free memory. One that was evicted already has nothing but its
    /// last output.
    var isEvictable: Bool { state != .closed && state != .lingering }

    /// The state of its session.
    var sessionState: SessionState { live?.session.state ?? .connection }
}

extension TextRequest {
    /// Whether evicting it would free memory: the memory of its work, or of a reply without a
    /// reader, which is only kept in case the reader comes back.
    var isEvictable: Bool { !isOver || log.status.readers == 0 }
}

extension MemoryLedger {
    /// Reads a connection's ledger, without its session.
    fileprivate init(of connection: Connection) {
        self.init()
        self.connection = Connection.restingBytes + (connection.http?.heldBytes ?? 0)
        receive = connection.pending.heapBytes + (connection.http?.pending.heapBytes ?? 0)
        if connection.mayHavePartialMessage {
            receive += HeapBlock.bytes(connection.webSocket?.heldBytes ?? 0)
        }
        send = connection.output.heldBytes + (connection.backlog?.heldBytes ?? 0)
        if let tls = connection.tls {
            send += tls.unsent.heldBytes
            self.tls = tls.heldBytes
        }
        if let contexts = connection.contexts { compression = contexts.heldBytes }
    }

    /// Adds a session's ledger, without transfers of its agents.
    fileprivate mutating func add(_ live: LiveSession) {
        session += LiveSession.objectBytes + LiveSession.tableBytes
        if let grant = live.grant { session += grant.heldBytes }
        if let resume = live.resume { session += resume.heldBytes }
        live.session.add(to: &self)
        if live.work.isBusy { task += live.work.heldBytes }
    }
}

extension Shard {
    // MARK: Reading

    /// The ledger of a connection.
    package func ledger(ofConnection token: EventToken) -> MemoryLedger? {
        connections[token].map(ledger)
    }

    /// The ledger of a connection.
    func ledger(of connection: Connection) -> MemoryLedger {
        var ledger = MemoryLedger(of: connection)
        if let live = connection.live { add(live, to: &ledger) }
        switch connection.role {
        case .http, .echo, .client: break
        case .front: ledger.session += clients.fronts[connection.token]?.heldBytes ?? 0
        case .sideband: addSideband(at: connection.token, to: &ledger)
        case .operator:
            addSideband(at: connection.token, to: &ledger)
            ledger.session += questions.operators[connection.token]?.heldBytes ?? 0
        }
        return ledger
    }

    /// The ledger of a session that waits for its client.
    func ledger(of live: LiveSession) -> MemoryLedger {
        var ledger = MemoryLedger()
        ledger.session = WaitingSessions.placeBytes
        add(live, to: &ledger)
        return ledger
    }

    /// The ledger of a text request, without the connections that read its reply.
    func ledger(of request: TextRequest) -> MemoryLedger {
        var ledger = MemoryLedger()
        ledger.session = TextRequest.objectBytes + request.heldBytes
        ledger.response = request.log.heldBytes
        add(request.live, to: &ledger)
        return ledger
    }

    private func add(_ live: LiveSession, to ledger: inout MemoryLedger) {
        ledger.add(live)
        if live.isObserved {
            ledger.session += sidebands.observations[live.token]?.heldBytes ?? 0
        }
        guard live.work.isBusy, let upstream = upstreams.http else { return }
        ledger.upstream += upstream.heldBytes(of: live.token)
    }

    // MARK: Settling

    /// Charges the connections that the tick touched.
    func settleLedgers() {
        for owner in agents.gate.takeChargedOwners() {
            if let live = sessions[owner] { settle(live) }
        }
        let count = memory.ledgers.touched.beginRound()
        for position in 0..<count {
            connections.reference(inSlot: memory.ledgers.touched.slot(at: position))?
                ._withUnsafeGuaranteedRef {
                    $0.isTouched = false
                    if $0.isResting, $0.charged == memory.ledgers.restingBytes { return }
                    settle($0)
                }
        }
        if count > 0 { memory.ledgers.touched.endRound() }
        assert(isAudited, "a ledger is not what its connection holds")
    }

    @inline(never)
    func settle(_ connection: Connection) {
        let bytes = ledger(of: connection).total
        connection.live?.session.recorder?.noteLedger(bytes: bytes)
        memory.ledgers.settle(connection, bytes: UInt32(clamping: bytes))
    }

    /// Charges the connection of a session's client at the end of the tick; the request, or the session
    /// that waits, now.
    func settle(_ live: LiveSession) {
        if let connection = live.connection { return perform(.settle, on: connection) }
        if let request = textRequests[live.token] { return settle(request) }
        guard var charge = returning.waiting[live.token]?.charge else { return }
        let bytes = ledger(of: live).total
        live.session.recorder?.noteLedger(bytes: bytes)
        memory.ledgers.settle(
            &charge, of: live.token, bytes: UInt32(clamping: bytes), in: live.session.state)
        returning.waiting[live.token]?.charge = charge
    }

    /// Charges a text request.
    func settle(_ request: TextRequest) {
        memory.ledgers.settle(
            &request.charge, of: request.token, isEvictable: request.isEvictable,
            bytes: UInt32(clamping: ledger(of: request).total), in: .replying)
    }

    // MARK: The invariant

    /// Bytes that all owners of the shard are charged.
    package var ledgerBytes: Int { memory.ledgers.total }

    /// Whether every owner is charged what its ledger says, and the sum is the total. O(n): for tests and
    /// debug builds.
    package var isBalanced: Bool {
        var sum = 0
        var isTrue = true
        connections.forEach { connection in
            sum += Int(connection.charged)
            // libcurl's memory for agents at work changes by itself, between two ticks; so does what
            // other shards have sent a sideband.
            let isDue =
                connection.isTouched || connection.state == .closed
                || connection.live?.work.isBusy == true || connection.role == .sideband
                || connection.role == .operator
            isTrue = isTrue && (isDue || ledger(of: connection).total == Int(connection.charged))
        }
        for request in textRequests.all {
            sum += Int(request.charge.bytes)
            let isDue = request.live.work.isBusy
            isTrue = isTrue && (isDue || ledger(of: request).total == Int(request.charge.bytes))
        }
        for live in returning.waiting.tokens.compactMap({ sessions[$0] }) {
            let charged = Int(returning.waiting[live.token]?.charge.bytes ?? 0)
            sum += charged
            isTrue = isTrue && (live.work.isBusy || ledger(of: live).total == charged)
        }
        let isEmpty =
            connections.count == 0 && textRequests.all.isEmpty && returning.waiting.count == 0
        return isTrue && sum == memory.ledgers.total && (!isEmpty || metrics.ledgerCellsAreZero)
    }

    /// Checks all ledgers, every few ticks of a debug build.
    private var isAudited: Bool { !memory.ledgers.takeAuditTurn() || isBalanced }
}
