// Memory that runs short. Near the limit of the process new sessions are refused. Beyond it the
// largest owner of the whole server (a connection, a text request, a session that waits for its
// client) is evicted, one after another until the rest fits. An owner that is charged more than any may be is evicted in any case.
//
// The largest owner is found by a number that each shard publishes: the most that any of its own
// may be charged (LedgerKeeper). Beyond the limit, only the shard with the highest number looks
// through its connections. So a shard with many small ones evicts none of them for a large one
// elsewhere.
//
// Invariant: an evicted client is sent the reason, unless its socket is blocked: then a Close frame
// would queue behind the very output that is to be freed.

import Codec
import Logging
import Session

extension Shard {
    /// An owner that is charged less is never evicted for the others: 2 KiB, little more than an
    /// idle session.
    private static var leastEvictedBytes: Int { 2_048 }
    /// How many owners one look at all connections evicts. 64: a tick stays short, and the next
    /// look goes on.
    private static var maxEvictions: Int { 64 }

    /// Evicts owners that have become too large, and now and then looks at the budget. Once a tick.
    func reviewMemory() {
        if !memory.ledgers.oversized.isEmpty { evictOversized() }
        if memory.watch.isDue(total: memory.ledgers.total, at: now) { judgeMemory() }
    }

    /// Whether the server has no memory for another session.
    func isShortOfMemory() -> Bool {
        guard memory.watch.isShort else { return false }
        // An idle server takes no tick, so that the last look may be long ago.
        if memory.watch.isStale(at: now) { judgeMemory() }
        return memory.watch.isShort
    }

    /// Looks at the budget, and evicts the largest owners while it is exceeded.
    func judgeMemory() {
        let finding = memory.watch.look(
            total: memory.ledgers.total, waiting: returning.waiting.bytes, at: now)
        if services.memory.takeReturnRequest() { returnMemory() }
        if let change = finding.change { log(change, finding) }
        if finding.waitingExcess > 0 { endWaiting(bytes: finding.waitingExcess) }
        if finding.excess > 0 { evictLargest(finding.excess) }
    }

    /// Has a worker give back the allocator's free pages.
    private func returnMemory() {
        let budget = services.memory
        let job = ComputeJob { [returnMemory = services.returnMemory] in
            returnMemory()
            budget.handleReturned()
        }
        if services.pool.submit(.spare, for: nil, job) {
            metrics.add(.memoryReturns)
        } else {
            // Every worker is busy.
            budget.requestReturn()
        }
    }

    private func log(_ change: MemoryFinding.Change, _ finding: MemoryFinding) {
        let account = services.memory.account(ledgers: finding.ledgers)
        let numbers: Logger.Metadata = [
            "limit_bytes": "\(account.limit)", "refused_from_bytes": "\(account.near)",
            "held_bytes": "\(finding.held)", "resident_bytes": "\(account.resident)",
            "ledgers_bytes": "\(account.ledgers)", "server_bytes": "\(account.server)",
            "unaccounted_bytes": "\(account.unaccounted)", "largest": "\(account.largestPart)",
        ]
        switch change {
        case .becameShort:
            logger.warning("memory is short: new sessions are refused", metadata: numbers)
        case .becameFree:
            logger.notice("memory is free again: new sessions are taken", metadata: numbers)
        }
    }

    // MARK: Eviction

    /// Evicts the owners with the largest charges, as long as no other shard may have a larger one.
    /// Where that is not enough, the next look goes on, when their memory is free.
    /// - Parameter excess: bytes that must be charged no more.
    private func evictLargest(_ excess: Int) {
        guard memory.watch.mayHaveLargest else {
            return memory.watch.wakeShardWithLargest(leastBytes: Self.leastEvictedBytes)
        }
        guard memory.watch.takeEvictionTurn(at: now) else { return }
        let candidates = largestOwners
        var next = candidates[...]
        memory.ledgers.setLargest(to: UInt32(clamping: next.first?.rank.value ?? 0))
        var left = excess
        while left > 0, memory.watch.mayHaveLargest, let candidate = next.popFirst() {
            evict(candidate.token, .shortOfMemory)
            left -= candidate.rank.value
            // Owners beyond the list are charged no more than the last of it.
            let rest = candidates.count < Self.maxEvictions ? 0 : candidate.rank.value
            memory.ledgers.setLargest(to: UInt32(clamping: next.first?.rank.value ?? rest))
        }
    }

    /// The owners that are charged the most, and enough to matter, the largest first.
    private var largestOwners: [SessionCandidate] {
        var ranking = SessionRanking(limit: Self.maxEvictions)
        func rank(_ token: EventToken, _ charged: UInt32) {
            guard charged >= Self.leastEvictedBytes, ranking.mayTake(Int(charged)) else { return }
            let rank = SessionRank(value: Int(charged), id: "")
            ranking.offer(SessionCandidate(rank: rank, token: token))
        }
        connections.forEach { if $0.isEvictable { rank($0.token, $0.charged) } }
        for request in textRequests.all where request.isEvictable {
            rank(request.token, request.charge.bytes)
        }
        for token in returning.waiting.tokens {
            rank(token, returning.waiting[token]?.charge.bytes ?? 0)
        }
        return ranking.sorted
    }

    private func evictOversized() {
        for token in memory.ledgers.oversized { evict(token, .tooLarge) }
        memory.ledgers.forgetOversized()
    }

    private func evict(_ token: EventToken, _ reason: EvictionReason) {
        if let request = textRequests[token] {
            // It may have grown many times in the tick in which it ended.
            guard request.isEvictable else { return }
            metrics.add(reason.metric)
            log(reason, bytes: request.charge.bytes, session: request.live.session.id)
            // A reply that is over has no reader here: it is only kept in case one comes back.
            return request.isOver ? remove(request) : evict(request, reason)
        }
        if let live = sessions[token] {
            // Its client has come back since: the connection is judged, with the session.
            guard let place = returning.waiting[token] else { return }
            metrics.add(reason.metric)
            log(reason, bytes: place.charge.bytes, session: live.session.id)
            return close(live, reason.closeCode, reason: reason.closeReason)
        }
        guard let connection = connections[token], connection.state != .closed else { return }
        metrics.add(reason.metric)
        log(reason, bytes: connection.charged, session: connection.live?.session.id ?? "none")
        switch connection.state {
        case .webSocket where !connection.interest.contains(.writes):
            closeWebSocket(connection, reason.closeCode, reason: reason.closeReason)
            // Neither the rest of its message nor its Close is worth waiting for.
            linger(connection)
            connection.webSocket = nil
        case .http
        where connection.output.isEmpty && connection.http?.reply == nil
            && connection.http?.relay == nil:
            let isTooLarge = reason.metric == .memoryClosesConnection
            let failure = isTooLarge ? fixtures.routes.tooMuchMemory : fixtures.routes.shortOfMemory
            refuse(failure.response, on: connection)
        case .proxyHeader, .http, .webSocket, .closing, .lingering: close(connection)
        case .closed: break
        }
        settle(connection)
    }

    private func log(_ reason: EvictionReason, bytes: UInt32, session: String) {
        logger.warning(
            "evicted for its memory",
            metadata: [
                "session": "\(session)", "bytes": "\(bytes)", "reason": "\(reason.option)",
            ])
    }
}

extension Routes {
    /// The answer to a request that takes more memory than one connection may; a repetition would
    /// get the same.
    var tooMuchMemory: RouteFailure {
        RouteFailure(
            status: 413, code: "request_too_large", message: "The request takes too much memory.")
    }

    /// The answer when there is no memory for another session.
    var shortOfMemory: RouteFailure {
        .unavailable(
            "server_full", "The server has no memory for another session.",
            retryAfterSeconds: configuration.admission.retryAfterSeconds)
    }
}

/// Why a connection or a text request is evicted.
struct EvictionReason {
    /// The metric that counts it.
    let metric: ShardMetric
    /// The option that sets the limit.
    let option: StaticString
    let closeCode: WebSocketCloseCode
    let closeReason: StaticString

    /// It is charged more than any may be.
    static let tooLarge = EvictionReason(
        metric: .memoryClosesConnection, option: "max-connection-memory-bytes",
        closeCode: .policyViolation, closeReason: "The connection holds too much memory.")
    /// The process takes too much memory, and this owner has the most of it.
    static let shortOfMemory = EvictionReason(
        metric: .memoryClosesTotal, option: "max-memory-bytes", closeCode: .tryAgainLater,
        closeReason: "The server is short of memory, and this connection holds the most.")

    /// The end of a reply over HTTP.
    var failure: ReplyPart {
        .failed(code: "server_overloaded", message: "\(closeReason)", isRequestError: false)
    }
}
