// What a shard does when memory runs short: who asks for a session is told to come back later; beyond
// the limit the connection, or the turn over HTTP, that holds the most is given up, one after
// another until it is enough; and one that holds more than any may is given up in any case.
//
// Invariant: whoever is given up is told why, unless he does not read: then a farewell would only
// wait behind what he should let go of.

import Codec
import Session

extension Shard {
    /// Growth of the shard's ledgers after which it looks at the budget before it is time. 1 MiB.
    private static var notableGrowth: Int { 1 << 20 }
    /// How often it looks otherwise, while it turns. 100 ms.
    private static var reviewInterval: Duration { .milliseconds(100) }
    /// Who holds less is never given up for the others: 2 KiB, little more than an idle session.
    private static var leastOffence: Int { 2_048 }

    /// Looks at those who have become too large, and now and then at the budget. Once a turn.
    func reviewMemory() {
        if !oversized.isEmpty { giveUpOversized() }
        guard services.memory.isLimited,
            now >= memoryReview || book.total > reviewedTotal + Self.notableGrowth
        else { return }
        judgeMemory()
    }

    /// Whether the server has no memory for another session.
    func isShortOfMemory() -> Bool {
        guard services.memory.isLimited,
            services.metrics.isShortOfMemory.load(ordering: .relaxed)
        else { return false }
        // It may have been long ago that anybody looked.
        judgeMemory()
        return services.metrics.isShortOfMemory.load(ordering: .relaxed)
    }

    /// Looks at the budget, and gives up who holds the most while it is exceeded.
    func judgeMemory() {
        memoryReview = now + Self.reviewInterval
        reviewedTotal = book.total
        let budget = services.memory
        let ledgers = services.metrics.total(of: .ledgerBytes)
        var held = budget.held(ledgers: ledgers, at: now)
        services.metrics.isShortOfMemory.store(held > budget.near, ordering: .relaxed)
        // Where all of them together are not what is too much, giving them up would not help.
        guard held > budget.limit, ledgers > held - budget.limit else { return }
        let fullest = services.metrics.shardWithLargestLedger
        guard fullest == services.index else { return budget.wake(shard: fullest) }
        while held > budget.limit, let freed = giveUpLargest() { held -= freed }
    }

    // MARK: Giving up

    /// - Returns: bytes that will be charged no more; nil: nobody holds enough to matter.
    private func giveUpLargest() -> Int? {
        var largest: (token: EventToken, bytes: UInt32)?
        connections.forEach { connection in
            // Whoever was given up already holds no more than what he is still sent.
            guard connection.charged > largest?.bytes ?? 0, connection.state != .closed,
                connection.state != .lingering
            else { return }
            largest = (connection.token, connection.charged)
        }
        for turn in textTurns.all where turn.charged > largest?.bytes ?? 0 && !turn.isOver {
            largest = (turn.token, turn.charged)
        }
        guard let largest, largest.bytes >= Self.leastOffence else { return nil }
        giveUp(largest.token, .shortOfMemory)
        return Int(largest.bytes)
    }

    private func giveUpOversized() {
        for token in oversized { giveUp(token, .tooLarge) }
        oversized.removeAll()
    }

    private func giveUp(_ token: EventToken, _ reason: MemoryOffence) {
        metrics.add(reason.metric)
        if let turn = textTurns[token], token.kind == .textTurn {
            note(reason, bytes: turn.charged, session: turn.live.session.id)
            return giveUp(turn, reason)
        }
        guard token.kind == .connection, let connection = connections[token] else { return }
        note(
            reason, bytes: connection.charged, session: connection.live?.session.id ?? "none")
        switch connection.state {
        case .webSocket where !connection.interest.contains(.writes):
            closeWebSocket(connection, reason.closeCode, reason: reason.closeReason)
            // Neither the rest of its message nor its Close is worth waiting for.
            linger(connection)
            connection.webSocket = nil
        case .http where connection.output.isEmpty && connection.http?.answer == nil:
            refuse(routes.shortOfMemory.response, on: connection)
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
