// A connection that is lost without a Close. A session that can be resumed goes on without it, with its
// tasks, deadlines and sidebands, and waits for its client. Any other session ends.
//
// Invariant: a session that waits has no connection. It counts among the detached sessions of the
// server, and has an entry of its own in the deadline queue.

import Codec
import Session

extension WaitingSessions {
    /// Bytes that the shard keeps of one: its place here and by caller, its entry in the queue.
    static let placeBytes =
        MemoryLayout<WaitingSession>.stride + 2 * MemoryLayout<EventToken>.stride
        + MemoryLayout<UInt64>.stride + DeadlineQueue<DeadlineOwner>.entryBytes
}

extension Shard {
    /// A connection is lost: neither side has ended it. The session of its client waits, or ends.
    func lose(_ connection: Connection) {
        if let live = connection.live {
            let waits = connection.state == .webSocket && beginWaiting(live)
            if !waits { keepLastState(of: live) }
        }
        close(connection)
    }

    /// Keeps the last state of a session that ends here: its client may still come back to that.
    func keepLastState(of live: LiveSession) {
        guard let resume = live.resume else { return }
        tellUnsentAudio(to: live)
        keepLastState(of: live, resume)
    }

    /// Lets a session go on without its client's connection, which is to be closed.
    /// - Returns: false where it cannot: it still has its connection.
    ///
    /// It makes no input of the session, because it may be called while its outputs are taken. The
    /// session learns of it when its entry in the deadline queue expires, which is due at once.
    func beginWaiting(_ live: LiveSession) -> Bool {
        guard let connection = live.connection, let resume = live.resume,
            !isToGoOnElsewhere(resume), reservePlace(toWait: live)
        else { return false }
        metrics.add(.sessionsDetachedTotal)
        releaseAgents(of: connection)
        tellUnsentAudio(to: live)
        connection.part()
        resume.detach(at: now)
        returning.waiting.insert(
            WaitingSession(
                timer: deadlines.schedule(.session(live.token), at: now),
                began: connection.activityStart, lastActive: connection.lastReceived),
            at: live.token, of: live.work.caller)
        metrics.add(.sessionsDetached)
        perform(.settle, on: connection)
        reviewWaiting(live)
        return true
    }

    /// Updates the charge and the entry of a session that waits, after an input.
    func reviewWaiting(_ live: LiveSession) {
        guard let timer = returning.waiting[live.token]?.timer else { return }
        settle(live)
        guard let wanted = nextDeadline(of: live), wanted < deadlines.deadline(of: timer) else {
            return
        }
        deadlines.reschedule(timer, at: wanted)
    }

    /// Whether a session does not wait here any more, because this server ends.
    private func isToGoOnElsewhere(_ resume: ResumeState) -> Bool {
        shutdown.isStopping || shutdown.hasClosedListeners && resume.stored != nil
    }

    /// Handles the expired entry of a session that waits. It gets a new one in any case.
    func handleWaitingDeadline(of live: LiveSession) {
        returning.waiting[live.token]?.timer = deadlines.schedule(
            .session(live.token), at: now + configuration.connection.closeTimeout)
        serveTimers(of: live)
        if live.session.hasUnheardAudio, !sessionContext.isTickSpent {
            sessionContext.beginShare()
            hearRest(live)
        }
        guard let timer = returning.waiting[live.token]?.timer else { return }
        settle(live)
        let soonest = Instant(nanoseconds: now.nanoseconds + 1)
        let next =
            live.session.hasUnheardAudio
            ? soonest : nextDeadline(of: live) ?? now + configuration.connection.closeTimeout
        deadlines.reschedule(timer, at: max(next, soonest))
    }

    /// Moves the sessions that wait for their clients to the store, because the server does not
    /// listen any more.
    /// - Parameter all: whether sessions that are in no store end, because the server stops.
    func handOverWaiting(all: Bool = false) {
        for token in returning.waiting.tokens {
            guard let live = sessions[token], all || live.resume?.stored != nil else { continue }
            handOver(live)
            if !live.hasEnded { end(live) }
        }
    }

    private func reservePlace(toWait live: LiveSession) -> Bool {
        let reserve = { [services, limit = configuration.resume.maxDetachedSessions] in
            services.metrics.reserve(services.metrics.detached, limit: limit)
        }
        if let one = returning.waiting.beyondShare(of: live.work.caller) { endWaiting(at: one) }
        guard reserve() || makeRoom(for: live.work.caller) && reserve() else {
            metrics.add(.detachmentsRefused)
            return false
        }
        return true
    }

    /// Ends a session that waits for its client, so that another one of a caller may wait.
    /// - Returns: whether there was one too many.
    private func makeRoom(for caller: CallerTag) -> Bool {
        returning.waiting.surplus(for: caller).map(endWaiting) ?? false
    }

    /// Ends a session that waits, here or on the shard where the most wait. More sessions are open
    /// than there are places, because waiting ones do not keep others out.
    func endWaitingForPlace() {
        guard
            services.metrics.sessions.load(ordering: .relaxed) > configuration.admission.maxSessions
        else {
            return
        }
        if let first = returning.waiting.first {
            endWaiting(at: first)
        } else {
            let counts = services.metrics.shards.map { $0.value(of: .sessionsDetached) }
            let fullest = counts.indices.reduce(0) { counts[$1] > counts[$0] ? $1 : $0 }
            guard counts[fullest] > 0 else { return }
            services.directory.post(to: fullest)?(.endWaiting)
        }
    }

    /// Ends sessions that wait here, where they take memory that is needed.
    func endWaiting(bytes: Int) {
        for token in returning.waiting.first(taking: bytes) { endWaiting(at: token) }
    }

    @discardableResult
    private func endWaiting(at token: EventToken) -> Bool {
        guard let live = sessions[token] else { return false }
        endWaiting(of: live)
        return true
    }

    /// A session waits no longer, because its client has stayed away. Its last state is kept.
    func endWaiting(of live: LiveSession) {
        metrics.add(.resumesMissed)
        noteEnd(SessionEnd(.notResumed), of: live)
        keepLastState(of: live)
        end(live)
    }

    /// A session that waited has its client again, or has ended.
    func stopWaiting(_ live: LiveSession) {
        guard let place = returning.waiting.remove(live.token, of: live.work.caller) else { return }
        deadlines.cancel(place.timer)
        memory.ledgers.refund(place.charge)
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
        let most = min(resume.maxDetachedSessions, admission.maxSessions) / 2
        return max(Self.leastDetachedShare, most / max(1, metrics.shards.count))
    }
}
