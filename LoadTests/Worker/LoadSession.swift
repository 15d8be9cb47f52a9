// One session of a crowd: where it is in its life, and what it does. The steps of a life are taken
// by Crowd; what a session that speaks or chats keeps beyond this is in Speaker and ChatTurns,
// which only those have.

/// A session as the generator sees it.
final class LoadSession {
    /// What it does once it is ready.
    enum Role: Equatable {
        case idle, echo, chat, voice, slow
    }

    /// Where it is in its life.
    enum Phase: Equatable {
        /// Its time to connect has not come. Next: `opening`.
        case waiting
        /// Next: `ready`, `gone`.
        case opening
        /// Next: `gone`, or `waiting` where sessions come and go.
        case ready
        /// Lost, or over. Next: none.
        case gone
    }

    /// Its place in the crowd, and its timer.
    let index: Int
    let role: Role
    /// Which of the servers it is opened to.
    let server: Int
    var phase = Phase.waiting
    var connection: LoadConnection?
    /// When its connecting was due.
    var begun: Int64
    /// When its next deed is due: exactly, and as the timers have it.
    var nextDue: Int64 = 0
    /// Whether the epoll reports room in the socket.
    var isRoomWatched = false
    var chat: ChatTurns?
    var speaker: Speaker?

    init(index: Int, role: Role, server: Int, begun: Int64) {
        self.index = index
        self.role = role
        self.server = server
        self.begun = begun
    }
}

/// The turns of a session that chats, on a schedule that does not wait for the server.
struct ChatTurns {
    /// When the turn in flight was intended; nil: none is.
    var intended: Int64?
    var hasFirstDelta = false
    /// Turns that were due while another was in flight, the oldest first. Their latency counts
    /// from when they were due; those that are left at the end are counted as never begun.
    var overdue: [Int64] = []
}
