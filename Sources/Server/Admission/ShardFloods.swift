// Acts on input that costs a client next to nothing, and on messages that never end. MessageRules has
// the limits, and the reasons for them.

import Codec
import Session

extension Shard {
    /// Spends a connection's flood budget.
    /// - Returns: whether the budget was enough; if not, the connection is being closed.
    @discardableResult
    func spendFloodBudget(_ count: Int, of connection: Connection) -> Bool {
        guard connection.state == .webSocket else { return false }
        // By the real clock, not the peers': input that waited while the shard was away was not
        // sent at once.
        if connection.floodBudget.spend(count, fixtures.rules.floodRate, at: now) { return true }
        metrics.add(.floodCloses)
        logger.info(
            "flood ended",
            metadata: [
                "session": "\(connection.live?.session.id ?? "none")",
                "reason": "max-nuisances-per-second",
            ])
        closeWebSocket(
            connection, .policyViolation,
            reason: "Too many control frames, tiny fragments, empty messages or bad events.")
        // No more of its input is read, not even up to its Close.
        linger(connection)
        return false
    }

    /// A whole message came, of text or binary.
    /// - Returns: when the message before it came or went.
    @discardableResult
    func noteMessage(ofBytes count: Int, on connection: Connection) -> Instant {
        let before = connection.lastMessage
        connection.messageDue = Connection.noMessageDue
        connection.lastMessage = peerClock
        if count == 0 { spendFloodBudget(1, of: connection) }
        return before
    }

    /// Handles bytes that were read: if they end within a message, the rest of it must come at the
    /// required pace.
    func trackMessage(_ count: Int, on connection: Connection) {
        guard connection.state == .webSocket,
            let progress = connection.webSocket?.takeProgress()
        else { return }
        if progress.tinyFragments > 0 {
            guard spendFloodBudget(progress.tinyFragments, of: connection) else { return }
        }
        guard progress.isMidMessage else {
            connection.messageDue = Connection.noMessageDue
            return
        }
        let isNew = connection.messageDue == Connection.noMessageDue
        connection.messageDue = fixtures.rules.messageDue(
            connection.messageDue, after: count, at: peerClock)
        if isNew { perform(.rearm, on: connection) }
    }
}
