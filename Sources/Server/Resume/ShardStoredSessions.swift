// Sessions whose state is in a store, so that they outlive this process: what has changed is written,
// a session that a client asks for is claimed, and one that another server has claimed ends here.
// StoredSession decides what is written and when; the store decides who owns a session.
//
// Invariant: nothing here waits for the store. A session whose store is away goes on as if there were
// none, and its whole state is written when the store is back.

import Codec
import Session

/// A session that this server has claimed, before it goes on here.
struct ClaimedSession {
    let saved: SavedSession
    let resume: SavedResume
    let log: ResumeLog
    let fence: UInt64
    let claim: ResumeClaim
}

extension Shard {
    /// How long the record of a session is kept that is not written any more. Three windows: a
    /// session at rest is written once a window, with its new handle.
    private var recordLifetime: Duration { configuration.resumeWindow * 3 }
    /// How long the last state of a session is kept for a client that comes too late. 10 windows: the
    /// conversation is all that is left of it.
    private var afterlife: Duration { configuration.resumeWindow * 10 }

    // MARK: Writing

    /// A session is written from now on, where the store outlives this process.
    /// - Parameter fence: 1 for a new session, else that of its claim.
    func beginStoring(
        _ live: LiveSession, _ resume: ResumeState, fence: UInt64 = 1, principal: String?,
        on connection: Connection
    ) {
        guard store.sessions.isShared else { return }
        resume.stored = StoredSession(fence: fence, principal: principal, at: now)
        storedSessions[live.session.id] = connection.token
    }

    /// Writes what has changed of a session, if that is due.
    func reviewStored(_ live: LiveSession, _ resume: ResumeState, on connection: Connection) {
        guard let stored = resume.stored, let due = stored.deadline, due <= now else { return }
        let step = stored.takeStep()
        let token = connection.token
        store.sessions.write(change(of: live, resume, stored, step)) { [self] outcome in
            guard let connection = connections[token], let live = connection.live,
                live.resume?.stored === stored
            else { return }
            if stored.handle(outcome, at: now) {
                perform(.rearm, on: connection)
            } else {
                loseOwnership(of: connection)
            }
        }
    }

    /// The store answers again. It may have lost its data, so that each session's next change comes
    /// soon, also where nothing happens: a record that is missing is then written whole.
    func reviewRecords() {
        for token in storedSessions.values {
            guard let connection = connections[token], let stored = connection.live?.resume?.stored
            else { continue }
            stored.noteStoreIsBack(at: now + services.drawDelay(StoredSession.reviewTime))
            perform(.rearm, on: connection)
        }
    }

    private func change(
        of live: LiveSession, _ resume: ResumeState, _ stored: StoredSession,
        _ step: StoredSession.Step, log: ResumeLog? = nil
    ) -> SessionChange {
        let saved = live.session.saved(items: step.items, at: now)
        var fields = saved.fields(step.parts)
        let own = SavedResume(
            epoch: resume.epoch, first: log?.first ?? resume.log.next,
            principal: stored.principal, dialect: live.dialect)
        fields.append((SavedResume.name, own.bytes))
        if let log { fields.append((SavedResume.logName, log.lines)) }
        if step.hasHandle {
            let proofs = resume.secrets.map { $0.proof(for: stored.principal) }
            fields.append((SavedResume.proofName, proofs[0].bytes))
            if proofs.count > 1 { fields.append((SavedResume.oldProofName, proofs[1].bytes)) }
        }
        return SessionChange(
            sessionID: live.session.id, fence: stored.fence, isWhole: step.isWhole, set: fields,
            removed: step.removed, lifetime: recordLifetime)
    }

    // MARK: The end

    /// This process ends: the session goes on in another.
    func handOver(_ live: LiveSession, on connection: Connection) {
        guard let resume = live.resume, let stored = resume.stored else { return }
        step(live, of: connection) { $0.handOver(at: now) }
        guard connection.live === live else { return }
        writeLast(of: live, resume, stored, lifetime: configuration.resumeWindow)
        metrics.add(.sessionsHandedOver)
    }

    /// Writes all of a session, with the events that its client may have missed, and gives it up.
    private func writeLast(
        of live: LiveSession, _ resume: ResumeState, _ stored: StoredSession, lifetime: Duration
    ) {
        let step = stored.takeStep(whole: true)
        resume.stored = nil
        storedSessions[live.session.id] = nil
        store.sessions.write(change(of: live, resume, stored, step, log: resume.log)) { _ in }
        store.sessions.release(live.session.id, fence: stored.fence, lifetime: lifetime)
    }

    /// The client has not come back in time: the last state is kept for a while.
    func keepLastState(of live: LiveSession, _ resume: ResumeState, at now: Instant) {
        let stored = resume.stored ?? StoredSession(fence: 1, principal: resume.principal, at: now)
        writeLast(of: live, resume, stored, lifetime: afterlife)
    }

    /// A session has ended for good.
    func forgetStored(_ live: LiveSession, _ resume: ResumeState) {
        guard let stored = resume.stored else { return }
        resume.stored = nil
        storedSessions[live.session.id] = nil
        store.sessions.remove(live.session.id, fence: stored.fence)
    }

    /// Another server has claimed a session.
    /// - Parameter fence: the claimant's.
    func handleFenced(_ sessionID: String, fence: UInt64) {
        guard let token = storedSessions[sessionID], let connection = connections[token],
            let stored = connection.live?.resume?.stored, stored.fence < fence
        else { return }
        loseOwnership(of: connection)
    }

    private func loseOwnership(of connection: Connection) {
        guard let live = connection.live, let resume = live.resume else { return }
        metrics.add(.resumesTakenOver)
        resume.stored = nil
        storedSessions[live.session.id] = nil
        closeWebSocket(connection, .takenOver, reason: "The session goes on at another connection.")
    }

    // MARK: Claiming

    /// A client asks for a session that is not here: it may be in the store.
    func beginClaim(
        _ claim: ResumeClaim, _ request: HTTPRequest, by caller: Caller, on connection: Connection
    ) {
        connection.http?.beginAnswer(.claim)
        let principal = caller.principal?.hexadecimal()
        let proof = claim.handle.secret.proof(for: principal)
        let (id, token) = (claim.handle.sessionID, connection.token)
        take(id, with: proof) { [self] outcome in
            guard outcome == .missing, principal != nil else {
                return endClaim(outcome, claim, request, by: caller, at: token)
            }
            // A session that was made resumable by an update knows no owner.
            take(id, with: claim.handle.secret.proof(for: nil)) { [self] in
                endClaim($0, claim, request, by: caller, at: token)
            }
        }
    }

    /// Claims a session, also from a server that is alive: its client has left that one.
    private func take(
        _ sessionID: String, with proof: SHA256Digest, then: @escaping (ClaimOutcome) -> Void
    ) {
        store.sessions.claim(
            SessionClaim(
                sessionID: sessionID, proof: proof.bytes, force: true, lifetime: recordLifetime),
            then: then)
    }

    /// The store has answered.
    private func endClaim(
        _ outcome: ClaimOutcome, _ claim: ResumeClaim, _ request: HTTPRequest, by caller: Caller,
        at token: EventToken
    ) {
        guard let connection = connections[token], connection.state == .http,
            connection.http?.isClaiming == true
        else {
            // The client has left. It may come back with the same handle.
            if case .claimed(_, let fence) = outcome {
                store.sessions.release(
                    claim.handle.sessionID, fence: fence, lifetime: configuration.resumeWindow)
            }
            return
        }
        let peer = connection.http?.client
        var rest = connection.http?.pending ?? []
        let claimed = claimedSession(outcome, claim)
        if claimed == nil { metrics.add(.resumesUnknown) }
        startSession(
            for: request, by: caller, resume: .comeBack(claim), claimed: claimed, on: connection)
        if connection.state == .webSocket { noteAnswer(101, to: request, sentBy: peer) }
        releaseProxiedPlace(of: connection)
        guard connection.state == .webSocket else {
            if let claimed {
                store.sessions.release(
                    claimed.saved.id, fence: claimed.fence, lifetime: configuration.resumeWindow)
            }
            if connection.state == .http { answerWaiting(on: connection) }
            return
        }
        perform([.settle, .rearm, .watch], on: connection)
        guard !rest.isEmpty else { return }
        rest.withUnsafeMutableBytes { receiveMessages($0, on: connection) }
    }

    private func claimedSession(_ outcome: ClaimOutcome, _ claim: ResumeClaim) -> ClaimedSession? {
        guard case .claimed(let fields, let fence) = outcome else { return nil }
        do throws(SavedSessionError) {
            let saved = try SavedSession(fields: fields)
            guard let resume = SavedResume(fields[SavedResume.name]) else {
                throw .missing(SavedResume.name)
            }
            let log = ResumeLog(
                lines: fields[SavedResume.logName] ?? [], first: resume.first,
                limit: configuration.maxResumeBytes)
            return ClaimedSession(
                saved: saved, resume: resume, log: log, fence: fence, claim: claim)
        } catch {
            logger.warning(
                "a saved session cannot be read",
                metadata: ["session": "\(claim.handle.sessionID)", "reason": "\(error)"])
            return nil
        }
    }

    /// The session that was claimed goes on.
    func goOn(with claimed: ClaimedSession, _ live: LiveSession, on connection: Connection) {
        let resume = ResumeState(
            random: services.makeRandomBytes(ResumeSecret.byteCount), epoch: claimed.resume.epoch,
            log: claimed.log, window: configuration.resumeWindow, at: now)
        resume.principal = claimed.resume.principal
        live.resume = resume
        // No number of an event id is used twice in the session, whoever has it.
        live.eventNumber = claimed.fence << 32 | 1
        live.session.isResumable = true
        metrics.add(.sessionsResumable)
        let isRecovered = resume.attach(from: claimed.claim.position, at: now)
        metrics.add(isRecovered ? .resumesRecovered : .resumesRestored)
        if !isRecovered {
            resume.beginEpoch(services.makeRandomBytes(ResumeState.epochByteCount))
        }
        beginStoring(
            live, resume, fence: claimed.fence, principal: claimed.resume.principal,
            on: connection)
        sendResumed(live, resume, recovered: isRecovered, from: claimed.claim, on: connection)
        step(live, of: connection) {
            $0.startRestored(
                claimed.saved, played: claimed.claim.played, announcesItems: !isRecovered, at: now)
        }
    }
}

extension ResumeSecret {
    /// What proves the right to claim a session, without revealing the secret.
    /// - Parameter principal: whose session it is, as hexadecimal digits; nil: nobody's.
    func proof(for principal: String?) -> SHA256Digest {
        (bytes + Array((principal ?? "").utf8)).withUnsafeBytes { SHA256Digest(of: $0) }
    }
}
