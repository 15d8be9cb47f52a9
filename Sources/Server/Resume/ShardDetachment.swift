// A connection that is lost without a Close. A session that can be resumed goes on without it: its
// place on the shard stays, in the state `detached`, with its tasks, deadlines and sidebands. Any other
// session ends.
//
// Invariant: a detached connection has no socket, no output and nothing to read; it counts among the
// detached sessions of the server, and not among the connections.

import Codec
import Session

extension Shard {
    /// A connection is lost: neither side has ended it.
    func lose(_ connection: Connection) {
        guard !detach(connection) else { return }
        keepLastState(of: connection)
        close(connection)
    }

    /// The session of a connection ends here, and its client may still come back: to what is kept of it.
    func keepLastState(of connection: Connection) {
        guard let live = connection.live, let resume = live.resume else { return }
        if let backlog = connection.backlog { noteUnsentAudio(backlog, to: live.session) }
        keepLastState(of: live, resume, on: connection)
    }

    /// Lets a session go on without its connection.
    /// - Returns: false where it cannot: the connection is as it was.
    ///
    /// It makes no input of the session, because it may be called while its outputs are taken. The
    /// session is told in the next tick.
    func detach(_ connection: Connection) -> Bool {
        guard connection.state == .webSocket, let live = connection.live,
            let resume = live.resume, !isToGoOnElsewhere(resume),
            reservePlaceOfDetached(live, connection.token)
        else { return false }
        metrics.add(.sessionsDetachedTotal)
        releaseAgents(of: connection)
        if let backlog = connection.backlog { noteUnsentAudio(backlog, to: live.session) }
        releaseSocket(of: connection)
        connection.state = .detached
        connection.interest = []
        connection.webSocket = nil
        connection.tls = nil
        connection.pending = []
        connection.deflateWindowBits = 0
        connection.isBehind = false
        connection.hasEnded = true
        connection.messageDue = Connection.noMessageDue
        resume.detach(at: now)
        perform([.settle, .rearm], on: connection)
        return true
    }

    /// Whether a session does not wait here any more, because this server ends.
    private func isToGoOnElsewhere(_ resume: ResumeState) -> Bool {
        shutdown.isStopping || shutdown.hasClosedListeners && resume.stored != nil
    }

    /// The server does not listen any more: sessions that wait for their client wait in the store.
    func handOverDetached() {
        connections.forEach { connection in
            guard connection.state == .detached, let live = connection.live,
                live.resume?.stored != nil
            else { return }
            handOver(live, on: connection)
            if connection.state == .detached { close(connection) }
        }
    }

    private func reservePlaceOfDetached(_ live: LiveSession, _ token: EventToken) -> Bool {
        let reserve = { [services, limit = configuration.maxDetachedSessions] in
            services.metrics.reserve(services.metrics.detached, limit: limit)
        }
        guard reserve() || makeRoom(for: live.work.caller) && reserve() else {
            metrics.add(.detachmentsRefused)
            return false
        }
        detachedSessions.insert(token, of: live.work.caller)
        metrics.add(.sessionsDetached)
        return true
    }

    /// Gives up a session that waits for its client, for another one of a caller.
    /// - Returns: whether there was one too many.
    func makeRoom(for caller: CallerTag) -> Bool {
        guard let token = detachedSessions.surplus(for: caller), let connection = connections[token]
        else { return false }
        endWaiting(of: connection)
        return true
    }

    /// A detached session waits no longer. Its last state is kept.
    func endWaiting(of connection: Connection) {
        metrics.add(.resumesMissed)
        noteEnd(SessionEnd(.notResumed), of: connection)
        keepLastState(of: connection)
        close(connection)
    }

    /// A detached session has its client again, or has ended.
    func releasePlaceOfDetached(_ live: LiveSession, _ token: EventToken) {
        detachedSessions.remove(token, of: live.work.caller)
        services.metrics.detached.subtract(1, ordering: .relaxed)
        metrics.add(.sessionsDetached, -1)
    }
}
