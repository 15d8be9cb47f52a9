// What a shard does when memory runs short: who asks for a session is told to come back later;
// beyond the limit the connection, or the text request, that holds the most of the whole server
// is given up, one after another until it is enough; and one that holds more than any may is given
// up in any case.
//
// Whose it is that holds the most is known by a number that each shard publishes: the most that any
// of its own may be charged. It only grows, as ledgers are settled, and is looked up anew by the
// shard that is asked to give somebody up: so nobody looks through his connections before memory is
// short, and a shard with many small ones gives none of them up for a large one elsewhere.
//
// Invariant: whoever is given up is told why, unless he does not read: then a farewell would only
// wait behind what he should let go of.

import Codec
import Logging
import Session

/// What a shard remembers between two looks at memory.
struct MemoryWatch {
    /// When the server's memory is next looked at, and what was charged when it was last.
    var review = Instant(nanoseconds: .min)
    var reviewedTotal = 0
    /// What nobody of the shard is charged more than; it is exact where it was just looked up.
    var largestCharge: UInt32 = 0
    /// When somebody may next be given up for the others: those who were before are gone by then.
    var nextGivingUp = Instant(nanoseconds: .min)
}

extension Shard {
    /// Growth of the shard's ledgers after which it looks at the budget before it is time. 1 MiB.
    private static var notableGrowth: Int { 1 << 20 }
    /// How often it looks otherwise, while it ticks. 100 ms.
    private static var reviewInterval: Duration { .milliseconds(100) }
    /// Who holds less is never given up for the others: 2 KiB, little more than an idle session.
    private static var leastOffence: Int { 2_048 }
    /// How many are given up in one look at all connections. 64: a tick stays short, and another
    /// look goes on.
    private static var maxOffenders: Int { 64 }

    /// Looks at those who have become too large, and now and then at the budget. Once a tick.
    func reviewMemory() {
        if !oversized.isEmpty { giveUpOversized() }
        guard services.memory.isLimited,
            now >= memoryWatch.review || book.total > memoryWatch.reviewedTotal + Self.notableGrowth
        else { return }
        judgeMemory()
    }

    /// Whether the server has no memory for another session.
    func isShortOfMemory() -> Bool {
        guard services.memory.isLimited,
            services.metrics.isShortOfMemory.load(ordering: .relaxed)
        else { return false }
        // It may have been long ago that anybody looked.
        if now >= memoryWatch.review { judgeMemory() }
        return services.metrics.isShortOfMemory.load(ordering: .relaxed)
    }

    /// Looks at the budget, and gives up who holds the most while it is exceeded.
    func judgeMemory() {
        memoryWatch.review = now + Self.reviewInterval
        memoryWatch.reviewedTotal = book.total
        let budget = services.memory
        let ledgers = services.metrics.total(of: .ledgerBytes)
        let held = budget.held(ledgers: ledgers, at: now)
        if budget.takeReturnRequest() {
            let giveBack = ComputeJob { [returnMemory = services.returnMemory] in
                returnMemory()
                budget.handleReturned()
            }
            if services.pool.submit(.spare, for: nil, giveBack) {
                metrics.add(.memoryReturns)
            } else {
                // Every worker is busy.
                budget.requestReturn()
            }
        }
        noteShortage(held: held, ledgers: ledgers)
        // Where all of them together are not what is too much, giving them up would not help.
        guard held > budget.limit, ledgers > held - budget.limit else { return }
        giveUpLargest(held - budget.limit)
    }

    /// Opens or closes admission, and logs each change once, whichever shard sees it.
    private func noteShortage(held: Int, ledgers: Int) {
        let budget = services.memory
        let metrics = services.metrics
        let wasShort = metrics.isShortOfMemory.load(ordering: .relaxed)
        let isShort = budget.isShort(held: held, wasShort: wasShort)
        guard isShort != wasShort,
            metrics.isShortOfMemory.exchange(isShort, ordering: .relaxed) == wasShort
        else { return }
        let account = budget.account(ledgers: ledgers)
        let numbers: Logger.Metadata = [
            "limit_bytes": "\(account.limit)", "refused_from_bytes": "\(account.near)",
            "held_bytes": "\(held)", "resident_bytes": "\(account.resident)",
            "ledgers_bytes": "\(account.ledgers)", "server_bytes": "\(account.server)",
            "unaccounted_bytes": "\(account.unaccounted)", "largest": "\(account.largestPart)",
        ]
        if isShort {
            logger.warning("memory is short: new sessions are refused", metadata: numbers)
        } else {
            logger.notice("memory is free again: new sessions are taken", metadata: numbers)
        }
    }

    // MARK: Giving up

    /// Gives up those who hold the most, as long as nobody on another shard may hold more. What is
    /// missing then is seen at the next look, when they have let go of all that they held.
    /// - Parameter excess: bytes that are to be charged no more.
    private func giveUpLargest(_ excess: Int) {
        guard holdsTheLargest else { return passOn() }
        guard now >= memoryWatch.nextGivingUp else { return }
        memoryWatch.nextGivingUp = now + Self.reviewInterval
        let offenders = largestOffenders
        var next = offenders[...]
        noteLargest(UInt32(clamping: next.first?.rank.value ?? 0))
        var left = excess
        while left > 0, holdsTheLargest, let offender = next.popFirst() {
            giveUp(offender.token, .shortOfMemory)
            left -= offender.rank.value
            // Those that were not found hold no more than the last that was.
            let rest = offenders.count < Self.maxOffenders ? 0 : offender.rank.value
            noteLargest(UInt32(clamping: next.first?.rank.value ?? rest))
        }
    }

    private var holdsTheLargest: Bool {
        services.metrics.shardWithLargestLedger == services.index
    }

    /// Has the shard look that may hold the largest.
    private func passOn() {
        let all = services.metrics
        let fullest = all.shardWithLargestLedger
        guard all.shards[fullest].value(of: .largestLedgerBytes) >= Self.leastOffence
        else { return }
        services.memory.wake(shard: fullest)
    }

    /// Those who hold the most, and enough to matter, the largest first.
    private var largestOffenders: [SessionCandidate] {
        var ranking = SessionRanking(limit: Self.maxOffenders)
        func rank(_ token: EventToken, _ charged: UInt32) {
            guard charged >= Self.leastOffence, ranking.mayTake(Int(charged)) else { return }
            let rank = SessionRank(value: Int(charged), id: "")
            ranking.offer(SessionCandidate(rank: rank, token: token))
        }
        connections.forEach { if $0.canBeGivenUp { rank($0.token, $0.charged) } }
        for turn in textRequests.all where turn.canBeGivenUp { rank(turn.token, turn.charged) }
        return ranking.sorted
    }

    private func giveUpOversized() {
        for token in oversized { giveUp(token, .tooLarge) }
        oversized.removeAll()
    }

    private func giveUp(_ token: EventToken, _ reason: MemoryOffence) {
        if let turn = textRequests[token], token.kind == .textRequest {
            // It may have grown many times in the tick in which it ended.
            guard turn.canBeGivenUp else { return }
            metrics.add(reason.metric)
            note(reason, bytes: turn.charged, session: turn.live.session.id)
            // Nobody reads what is only kept in case its reader comes back.
            return turn.isOver ? remove(turn) : giveUp(turn, reason)
        }
        guard token.kind == .connection, let connection = connections[token],
            connection.state != .closed
        else { return }
        metrics.add(reason.metric)
        note(
            reason, bytes: connection.charged, session: connection.live?.session.id ?? "none")
        switch connection.state {
        case .webSocket where !connection.interest.contains(.writes):
            closeWebSocket(connection, reason.closeCode, reason: reason.closeReason)
            // Neither the rest of its message nor its Close is worth waiting for.
            linger(connection)
            connection.webSocket = nil
        case .http where connection.output.isEmpty && connection.http?.answer == nil:
            let failure = reason == .tooLarge ? routes.tooMuchMemory : routes.shortOfMemory
            refuse(failure.response, on: connection)
        case .proxyHeader, .http, .webSocket, .closing, .lingering: close(connection)
        case .closed: break
        }
        settle(connection)
    }

    private func note(_ reason: MemoryOffence, bytes: UInt32, session: String) {
        logger.warning(
            "given up for its memory",
            metadata: [
                "session": "\(session)", "bytes": "\(bytes)", "reason": "\(reason.option)",
            ])
    }
}

extension Routes {
    /// The answer to a request that takes more than one connection may; again it would be so.
    var tooMuchMemory: RouteFailure {
        RouteFailure(
            status: 413, code: "request_too_large", message: "The request takes too much memory.")
    }

    /// The answer when there is no memory for another session.
    var shortOfMemory: RouteFailure {
        .unavailable(
            "server_full", "The server has no memory for another session.",
            retryAfterSeconds: configuration.retryAfterSeconds)
    }
}

/// Why somebody is given up for what he holds.
enum MemoryOffence {
    /// He holds more than anybody may.
    case tooLarge
    /// The server holds too much, and he the most of it.
    case shortOfMemory

    /// Where it is counted.
    var metric: ShardMetric {
        switch self {
        case .tooLarge: .memoryClosesConnection
        case .shortOfMemory: .memoryClosesTotal
        }
    }

    /// The option that says how much.
    var option: String {
        switch self {
        case .tooLarge: "max-connection-memory-bytes"
        case .shortOfMemory: "max-memory-bytes"
        }
    }

    var closeCode: WebSocketCloseCode {
        switch self {
        case .tooLarge: .policyViolation
        case .shortOfMemory: .tryAgainLater
        }
    }

    var closeReason: StaticString {
        switch self {
        case .tooLarge: "The connection holds too much memory."
        case .shortOfMemory: "The server is short of memory, and this connection holds the most."
        }
    }

    /// What a reply over HTTP ends with.
    var failure: ReplyPart {
        .failed(
            code: "server_overloaded", message: "\(closeReason)", isRequestError: false)
    }
}
