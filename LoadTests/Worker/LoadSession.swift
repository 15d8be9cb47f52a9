// One session of a crowd: its role, its phase and its schedule. Crowd changes the phase. Speaker
// and ChatTurns have the further state of sessions that speak or chat.

/// A session of the generator.
final class LoadSession {
    /// The session's part in the scenario.
    enum Role: Equatable {
        case idle, echo, chat, voice, slow
    }

    /// The phase of its life cycle.
    enum Phase: Equatable {
        /// Before its time to connect. Next: `opening`.
        case waiting
        /// Next: `ready`, `gone`.
        case opening
        /// Next: `gone`, or `waiting` where sessions are opened again.
        case ready
        /// Lost or closed. Next: none, or `waiting` (`churn`).
        case gone
    }

    /// Its index in the crowd, which is also its timer.
    let index: Int
    let role: Role
    /// The index of its server.
    let server: Int
    var phase = Phase.waiting
    var connection: LoadConnection?
    /// The time at which connecting was due.
    var begun: Int64
    /// The time at which its next action is due.
    var nextDue: Int64 = 0
    /// Whether the epoll watches for EPOLLOUT.
    var watchesWritability = false
    var chat: ChatTurns?
    var speaker: Speaker?
    /// Its way back; nil: there is none.
    var place: LoadPlace?

    init(index: Int, role: Role, server: Int, begun: Int64) {
        self.index = index
        self.role = role
        self.server = server
        self.begun = begun
    }
}

/// The turns of a session that chats, on a schedule that does not wait for the server.
struct ChatTurns {
    /// The scheduled beginning of the turn in flight; nil when there is none.
    var intended: Int64?
    var hasFirstDelta = false
    /// The due times of turns that wait for the turn in flight, the oldest first. Their latency
    /// counts from these times. Those left at the end are counted as never begun.
    var overdue: [Int64] = []
}
