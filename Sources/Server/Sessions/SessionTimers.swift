// The timers of a session, in the order in which they are served. One table (`forEachTimer`) has
// their times: the deadline and what is served then both come from there. A session whose client
// has a connection is handled at the connection's deadline. A session that waits for its client has
// an entry of its own.

import Codec
import Session

/// The timers of a session.
enum SessionTimer {
    /// It wants to be called again.
    case session
    /// It has lasted as long as its credential allows.
    case grant
    /// A step of one that can be resumed.
    case resume
    /// A change of its record is to be kept.
    case record
}

extension Shard {
    /// The timers of a session that run, and when each is due. One that is served may stop those
    /// behind it.
    @inline(__always)
    func forEachTimer(of live: LiveSession, _ body: (SessionTimer, Instant) -> Void) {
        if let due = live.deadline { body(.session, due) }
        if let due = live.grant?.end { body(.grant, due) }
        if let resume = live.resume {
            body(.resume, resume.deadline(sessionEnd: live.grant?.end))
        }
        if let due = live.session.recorder?.deadline { body(.record, due) }
    }

    /// When a session must next be handled, or nil where only an event concerns it.
    func nextDeadline(of live: LiveSession) -> Instant? {
        var first: Instant?
        forEachTimer(of: live) { _, due in first = min(first ?? due, due) }
        return first
    }

    /// The entry of a session without a connection has expired.
    func handleSessionDeadline(_ token: EventToken) {
        if let request = textRequests[token] {
            handleTextDeadline(of: request)
        } else if let live = sessions[token] {
            handleWaitingDeadline(of: live)
        }
    }

    /// Serves the timers of a session that are due.
    func serveTimers(of live: LiveSession) {
        tellWhetherAway(live)
        forEachTimer(of: live) { timer, due in
            if due <= now, !live.hasEnded { serve(timer, of: live) }
        }
    }

    private func serve(_ timer: SessionTimer, of live: LiveSession) {
        switch timer {
        case .session:
            live.deadline = nil
            step(live) { $0.handleDeadline(at: now) }
        case .grant: expire(live)
        case .resume: reviewResume(of: live)
        case .record: reviewRecord(of: live)
        }
    }
}
