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
        if let one = detachedSessions.beyondShare(of: live.work.caller) { endWaiting(at: one) }
        guard reserve() || makeRoom(for: live.work.caller) && reserve() else {
            metrics.add(.detachmentsRefused)
            return false
        }
        detachedSessions.insert(token, of: live.work.caller)
        metrics.add(.sessionsDetached)
        return true
    }

    /// Ends a session that waits for its client, so that another one of a caller may wait.
    /// - Returns: whether there was one too many.
    private func makeRoom(for caller: CallerTag) -> Bool {
        detachedSessions.surplus(for: caller).map(endWaiting) ?? false
    }

    /// More sessions are open than there are places, because waiting ones do not keep others out: one
    /// of them ends, here or on the shard where the most wait.
    func endWaitingForPlace() {
        guard services.metrics.sessions.load(ordering: .relaxed) > configuration.maxSessions else {
            return
        }
        if let first = detachedSessions.first {
            endWaiting(at: first)
        } else {
            let waiting = services.metrics.shards.map { $0.value(of: .sessionsDetached) }
            let fullest = waiting.indices.reduce(0) { waiting[$1] > waiting[$0] ? $1 : $0 }
            guard waiting[fullest] > 0 else { return }
            services.directory.post(to: fullest)?(.endWaiting)
        }
    }

    /// Ends sessions that wait here, where they take memory that is needed.
    func endWaiting(bytes: Int) {
        for token in detachedSessions.first(taking: bytes, size: charge) { endWaiting(at: token) }
    }

    /// Bytes of the sessions that wait here.
    var waitingBytes: Int { detachedSessions.bytes(size: charge) }

    private func charge(of token: EventToken) -> Int {
        Int(connections[token]?.charged ?? 0)
    }

    @discardableResult
    private func endWaiting(at token: EventToken) -> Bool {
        guard let connection = connections[token] else { return false }
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

extension ServerConfiguration {
    /// Sessions of one caller that may wait in any case, on one shard. 16: the share is meant for
    /// callers that leave hundreds behind.
    private static let leastDetachedShare = 16

    /// Sessions of one caller that may wait on one shard: half of those that may wait at all, over all
    /// shards.
    func detachedShare(of metrics: ServerMetrics) -> Int {
        let most = min(maxDetachedSessions, maxSessions) / 2
        return max(Self.leastDetachedShare, most / max(1, metrics.shards.count))
    }
}
