// What peers do that costs them next to nothing: floods of control frames, tiny fragments, empty
// messages and refused events; messages that never end; connections that never say anything.
// Limits in bytes do not stop any of it. Whole messages with content have no limit per second:
// each costs its sender as much as its server, and no tick is longer for them.

import Codec
import Session

extension Shard {
    /// Charges a connection's flood budget.
    /// - Returns: whether it had as much; if not, the connection is being closed.
    @discardableResult
    func charge(_ count: Int, to connection: Connection) -> Bool {
        guard connection.state == .webSocket else { return false }
        // By the clock on the wall: what waited while the shard was away was not sent at once.
        if connection.floodBudget.spend(count, floodRate, at: now) { return true }
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
        // Nothing more of it is worth reading, not even up to its Close.
        linger(connection)
        return false
    }

    /// A whole message came, of text or binary.
    func noteMessage(ofBytes count: Int, on connection: Connection) {
        connection.messageDue = Connection.noMessageDue
        connection.lastMessage = peerClock
        if count == 0 { charge(1, to: connection) }
    }

    /// So many bytes were taken in: if they end within a message, it must go on at its pace.
    func trackMessage(_ count: Int, on connection: Connection) {
        guard connection.state == .webSocket,
            let progress = connection.webSocket?.takeProgress()
        else { return }
        if progress.tinyFragments > 0 {
            guard charge(progress.tinyFragments, to: connection) else { return }
        }
        guard progress.isMidMessage else {
            connection.messageDue = Connection.noMessageDue
            return
        }
        let isNew = connection.messageDue == Connection.noMessageDue
        let start = isNew ? peerClock + messagePace.grace : connection.messageDue
        // Control frames within it count as well, and must not buy it time for ever.
        let most = messagePace.grace + messagePace.credit(forBytes: configuration.maxMessageBytes)
        connection.messageDue = min(
            start + messagePace.credit(forBytes: count), peerClock + most)
        if isNew { armDeadline(of: connection) }
    }

    /// Whether neither side has had anything to say for too long.
    func isMessageIdle(_ connection: Connection) -> Bool {
        configuration.messageIdleTimeout > .zero
            && peerClock >= connection.lastMessage + configuration.messageIdleTimeout
    }
}
