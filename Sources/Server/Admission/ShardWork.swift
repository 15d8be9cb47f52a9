// Spends the budget of work that each connection has (WorkPrice). A connection whose budget is used up is
// read no faster than the budget fills: its input waits in its socket. One that goes on like that is
// closed.
//
//   within ── the budget is spent ──▶ waits ── it has filled ──▶ within
//                                       └── for `patience`, without a pause of a second ──▶ closed
//
// A budget is kept only while it is not full, so that an idle session has none. A client that waits for
// its replies never comes near its budget: it costs such a client one look into a table for each event,
// and nothing for audio.

import Codec
import Session

/// The budgets of a shard's connections.
struct WorkBudgets {
    /// How long a connection may ask for more than it may. 10 s.
    static let patience = Duration.seconds(10)
    /// A connection that has not had to wait for so long is within its budget again. 1 s.
    private static let pause = Duration.seconds(1)
    /// Budgets that are looked through for full ones at the earliest. 64: rarely reached by people.
    private static let leastSwept = 64

    private struct Budget {
        var bucket = TokenBucket()
        /// Since when the connection has had to wait again and again, and when it last had to.
        var waits: (since: Instant, last: Instant)?
    }

    private let rate: TokenRate
    private var budgets: [EventToken: Budget] = [:]
    /// How many budgets there are when the full ones are forgotten next.
    private var sweepsAt = leastSwept

    /// - Parameter rate: of units of work.
    init(rate: TokenRate) { self.rate = rate }

    /// Whether there is a limit at all.
    var isLimited: Bool { rate.interval > 0 }

    /// Whether a connection goes on, waits for its budget, or is closed.
    enum Verdict { case goesOn, waits, isClosed }

    /// Spends units of a connection's budget.
    mutating func spend(_ units: Int, of token: EventToken, at now: Instant) -> Verdict {
        var budget = budgets[token] ?? Budget()
        let isWithin = budget.bucket.spend(units, rate, at: now)
        defer {
            budgets[token] = budget
            if budgets.count >= sweepsAt { forgetFull(at: now) }
        }
        if isWithin { return .goesOn }
        let before = budget.waits
        let isNew = before.map { now > $0.last + Self.pause } ?? true
        let since = isNew ? now : before?.since ?? now
        budget.waits = (since, now)
        return now >= since + Self.patience ? .isClosed : .waits
    }

    /// The time until a connection may begin a turn again.
    func wait(of token: EventToken, at now: Instant) -> Duration {
        budgets[token]?.bucket.wait(for: WorkPrice.turn, rate, at: now) ?? .zero
    }

    /// Removes a connection or a session that is gone.
    mutating func remove(_ token: EventToken) {
        if !budgets.isEmpty { budgets[token] = nil }
    }

    private mutating func forgetFull(at now: Instant) {
        budgets = budgets.filter { $0.value.bucket.full > now }
        sweepsAt = max(Self.leastSwept, 2 * budgets.count)
    }
}

extension Shard {
    /// Spends units of a connection's budget of work. Where it has no more, the connection waits.
    /// - Parameters:
    ///   - units: the price of the work that the message causes.
    ///   - byteCount: its length, or nil where its bytes have no price.
    /// - Returns: the messages that this one counts as in the tick's share, half of the units: two
    ///   turns are a connection's share of a tick. Bytes are no part of it: the bytes that are read
    ///   in a tick have a limit of their own.
    func spendWork(_ units: Int, byteCount: Int?, of connection: Connection) -> Int {
        let share = max(WorkPrice.least, units / 2)
        guard let byteCount, clients.work.isLimited else { return share }
        let price = units + WorkPrice.text(bytes: byteCount)
        switch clients.work.spend(price, of: budgetOwner(of: connection), at: now) {
        case .goesOn: break
        case .waits:
            metrics.add(.workPauses)
            perform(connection.stopTakingMessages(for: .work), on: connection)
            perform(.rearm, on: connection)
        case .isClosed:
            metrics.add(.workCloses)
            logger.info(
                "client closed for the work it asks for",
                metadata: [
                    "session": "\(connection.live?.session.id ?? "none")",
                    "reason": "max-turns-per-second",
                ])
            closeWebSocket(
                connection, .policyViolation, reason: "More turns and events than the server takes."
            )
            linger(connection)
        }
        return share
    }

    /// The owner of a connection's budget: the session of its client, so that a client which comes
    /// back has the same budget. Without a session it is the connection.
    private func budgetOwner(of connection: Connection) -> EventToken {
        connection.live?.token ?? connection.token
    }

    /// When the budget of a connection that waits for it will have filled, or nil where it does not
    /// wait.
    func workDeadline(of connection: Connection) -> Instant? {
        guard connection.pauses.contains(.work) else { return nil }
        return now + clients.work.wait(of: budgetOwner(of: connection), at: now)
    }
}
