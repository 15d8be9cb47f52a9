// The time limits of a WebSocket. One table says when each is over; the deadline of the connection and
// the answer to which limit is over both come from it. Not here: what a limit that is over leads to
// (ShardWebSocket).

import Session

/// The time limits of a WebSocket, in the order in which they are checked.
enum WebSocketTimer {
    /// More than the soft limit of output has waited for too long.
    case slowReader
    /// A carrier has connected and has not begun the call.
    case noCall
    /// A message takes too long.
    case slowMessage
    /// Neither side has sent a message for too long.
    case idleMessages
    /// The client has not answered a ping, or is never pinged.
    case silence
    /// The client is silent: it gets a ping.
    case ping
    /// Any of these but the first, while the server does not read: the client may have sent all that is
    /// missing.
    case excused
}

extension Connection {
    /// When the first time limit of a WebSocket is over; by the peers' clock.
    func webSocketDeadline(_ settings: ConnectionSettings) -> Instant {
        var first = Self.noMessageDue
        forEachTimer(settings) { _, due in first = min(first, due) }
        return first
    }

    /// The first time limit that is over, if one is.
    func overdue(at peerTime: Instant, _ settings: ConnectionSettings) -> WebSocketTimer? {
        var overdue: WebSocketTimer?
        forEachTimer(settings) { timer, due in
            if overdue == nil, due <= peerTime { overdue = timer }
        }
        guard let overdue, overdue != .slowReader else { return overdue }
        return isPaused ? .excused : overdue
    }

    /// The limits that run, and when each is over.
    @inline(__always)
    private func forEachTimer(
        _ settings: ConnectionSettings, _ body: (WebSocketTimer, Instant) -> Void
    ) {
        if let since = backlog?.overSoftLimitSince {
            body(.slowReader, since + settings.slowReaderTimeout)
        }
        if awaitsCall { body(.noCall, phaseStart + settings.http.headerTimeout) }
        body(.slowMessage, messageDue)
        if settings.webSocket.messageIdleTimeout > .zero {
            body(.idleMessages, lastMessage + settings.webSocket.messageIdleTimeout)
        }
        body(.silence, lastReceived + settings.webSocket.idleTimeout)
        if !isPinged { body(.ping, lastReceived + settings.webSocket.pingInterval) }
    }
}
