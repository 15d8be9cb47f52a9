// Sessions whose state is in a store, so that they outlive this process: what has changed is written,
// and a session that another server has claimed ends here. StoredSession decides what is written and
// when; the store decides who owns a session. ShardClaims has the other side.
//
// Invariant: nothing here waits for the store. A session whose store is away goes on as if there were
// none, and its whole state is written when the store is back.

import Codec
import Session

extension Shard {
    /// How long the record of a session is kept that is not written any more. Three windows: a
    /// session at rest is written once a window, with its new handle.
    var recordLifetime: Duration { configuration.resume.window * 3 }
    /// How long the last state of a session is kept for a client that comes too late. 10 windows: the
    /// conversation is all that is left of it.
    private var afterlife: Duration { configuration.resume.window * 10 }

    // MARK: Writing

    /// Begins to write a session to the store, where the store outlives this process.
    /// - Parameter fence: 1 for a new session, otherwise the fence of its claim.
    func beginStoring(
        _ live: LiveSession, _ resume: ResumeState, fence: UInt64 = 1, principal: String?
    ) {
        guard returning.store.sessions.isShared else { return }
        resume.stored = StoredSession(fence: fence, principal: principal, at: now)
        returning.stored[live.session.id] = live.token
    }

    /// Writes the changes of a session, if they are due.
    func reviewStored(_ live: LiveSession, _ resume: ResumeState) {
        guard let stored = resume.stored, let due = stored.deadline, due <= now else { return }
        guard returning.store.sessions.isReachable else { return stored.postpone() }
        // Without an input the session does not know what of its audio has left.
        step(live) { $0.handleDeadline(at: now) }
        guard !live.hasEnded, resume.stored === stored else { return }
        let step = stored.takeStep()
        let token = live.token
        let saved = live.session.saved(items: step.items, at: now)
        // No event tells of a client that plays the rest of a reply.
        if saved.hasUnheardSpeech, !live.session.isClientAway {
            stored.noteProgress(nil, at: now)
        }
        let change = change(of: live, saved, resume, stored, step)
        guard change.byteCount <= StoredSession.maxBytes else {
            logger.warning(
                "a session is too large to be stored",
                metadata: ["session": "\(live.session.id)", "bytes": "\(change.byteCount)"])
            forgetStored(live, resume)
            return settle(live)
        }
        returning.store.sessions.write(change) { [self] outcome in
            guard let live = sessions[token], live.resume?.stored === stored else { return }
            if stored.handle(outcome, at: now) {
                review(live)
            } else {
                loseOwnership(of: live)
            }
        }
    }

    /// Handles a store that answers again. It may have lost its data. So each session soon writes a
    /// change, even without an event, and a record that is missing is then written completely.
    func reviewRecords() {
        let time = max(
            StoredSession.shortestReview, StoredSession.reviewPause * returning.stored.count)
        for token in returning.stored.values {
            guard let live = sessions[token], let stored = live.resume?.stored else { continue }
            stored.noteStoreIsBack(at: now + services.drawDelay(time))
            review(live)
        }
    }

    private func change(
        of live: LiveSession, _ saved: SavedSession, _ resume: ResumeState,
        _ stored: StoredSession, _ step: StoredSession.Step, log: ResumeLog? = nil
    ) -> SessionChange {
        var fields = saved.fields(step.parts)
        var own = SavedResume(
            epoch: resume.epoch, first: log?.first ?? resume.log.next,
            principal: stored.principal, dialect: live.dialect,
            end: live.grant?.end.map(wallSeconds(at:)))
        own.isRecorded = isRecordedByConsent(live)
        own.use.turns = live.turns
        if let quotas = live.grant?.quotas {
            // The times are rounded up, so that no move to another server gives units back.
            own.use.quotasFullAt = quotas.ownFullTimes(at: now).mapValues {
                wallSeconds(at: $0 + .seconds(1))
            }
            own.use.estimates = quotas.openEstimates
        }
        fields.append((SavedResume.name, own.bytes))
        if let log { fields.append((SavedResume.logName, log.lines)) }
        var removed = step.removed
        if let calls = sidebands.observations[live.token]?.privateCalls, !calls.isEmpty {
            fields.append((PrivateCalls.fieldName, calls.field))
            stored.isPrivate = true
        } else if stored.isPrivate {
            removed.append(PrivateCalls.fieldName)
            stored.isPrivate = false
        }
        if step.hasHandle {
            let proofs = resume.secrets.map { $0.proof(for: stored.principal) }
            fields.append((SavedResume.proofName, proofs[0].bytes))
            if proofs.count > 1 { fields.append((SavedResume.oldProofName, proofs[1].bytes)) }
        }
        return SessionChange(
            sessionID: live.session.id, fence: stored.fence, isWhole: step.isWhole, set: fields,
            removed: removed, lifetime: recordLifetime)
    }

    /// When an instant comes, in seconds since 1970.
    private func wallSeconds(at instant: Instant) -> Int {
        returning.calendar.seconds(at: instant, now: now, wallSeconds: services.wallSeconds())
    }

    // MARK: The end

    /// This process ends: the session goes on in another.
    func handOver(_ live: LiveSession) {
        guard let resume = live.resume, let stored = resume.stored else { return }
        noteEnd(SessionEnd(.continuedElsewhere), of: live)
        step(live) { $0.handOver(at: now) }
        guard !live.hasEnded else { return }
        writeLast(of: live, resume, stored, lifetime: configuration.resume.window)
        metrics.add(.sessionsHandedOver)
    }

    /// Writes all of a session, with the events that its client may have missed, and gives it up.
    private func writeLast(
        of live: LiveSession, _ resume: ResumeState, _ stored: StoredSession, lifetime: Duration
    ) {
        let step = stored.takeStep(whole: true)
        resume.stored = nil
        let saved = live.session.saved(items: nil, at: now)
        let change = change(of: live, saved, resume, stored, step, log: resume.log)
        returning.store.sessions.write(change) { _ in }
        returning.store.sessions.release(live.session.id, fence: stored.fence, lifetime: lifetime)
    }

    /// The client has not come back in time: the last state is kept for a while.
    func keepLastState(of live: LiveSession, _ resume: ResumeState) {
        let stored = resume.stored ?? StoredSession(fence: 1, principal: resume.principal, at: now)
        writeLast(of: live, resume, stored, lifetime: afterlife)
    }

    /// Removes the record of a session that has ended for good.
    func forgetStored(_ live: LiveSession, _ resume: ResumeState) {
        guard let stored = resume.stored else { return }
        resume.stored = nil
        returning.store.sessions.remove(live.session.id, fence: stored.fence)
    }

    /// Another server has claimed a session.
    /// - Parameter fence: the fence of the claim.
    func handleFenced(_ sessionID: String, fence: UInt64) {
        guard let live = returning.stored[sessionID].flatMap({ sessions[$0] }),
            let stored = live.resume?.stored, stored.fence < fence
        else { return }
        loseOwnership(of: live)
    }

    /// Forgets the place of a session that is no longer where its id leads.
    func forgetPlace(of live: LiveSession) {
        if returning.stored[live.session.id] == live.token {
            returning.stored[live.session.id] = nil
        }
    }

    private func loseOwnership(of live: LiveSession) {
        guard let resume = live.resume else { return }
        metrics.add(.resumesTakenOver)
        resume.stored = nil
        close(live, .takenOver, reason: "The session goes on at another connection.")
    }
}
