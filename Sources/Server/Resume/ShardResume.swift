// Sessions that can be resumed, while their client is there: the handle and its renewal, the numbers
// of events, and what the client has acknowledged. ResumeState has the rules.
//
// Invariant: the log has every event that was numbered, from the oldest that the client may have
// missed on, whether it was sent or not.

import Codec
import Session

extension Shard {
    // MARK: Asking

    /// Makes a session resumable. It does nothing where the session is that already, or the server
    /// has it switched off. The next event that shows the session has the handle.
    /// - Parameter principal: the principal of the session, if it is known.
    func makeResumable(
        _ live: LiveSession, of principal: SHA256Digest? = nil
    ) {
        guard configuration.resume.window > .zero, live.resume == nil else { return }
        let resume = ResumeState(
            random: services.makeRandomBytes(ResumeState.randomByteCount),
            window: configuration.resume.window, at: now)
        resume.principal = principal?.hexadecimal()
        live.resume = resume
        beginStoring(live, resume, principal: resume.principal)
        live.session.isResumable = true
        metrics.add(.sessionsResumable)
        review(live)
    }

    /// The client does not want to come back, or the session has ended.
    func forgetResume(of live: LiveSession) {
        guard let resume = live.resume else { return }
        forgetStored(live, resume)
        forgetPlace(of: live)
        live.resume = nil
        metrics.add(.sessionsResumable, -1)
        stopWaiting(live)
        review(live)
    }

    /// `resume` of a `session.update`.
    func handleResumeWish(_ wish: Bool, of live: LiveSession) {
        if wish {
            makeResumable(live)
        } else {
            forgetResume(of: live)
            live.session.isResumable = false
        }
    }

    // MARK: Events

    /// The members of an event of a session that can be resumed; nil of any other.
    @inline(__always)
    func resumeNote(for event: ServerEvent, of live: LiveSession) -> ResumeNote? {
        guard let resume = live.resume else { return nil }
        return note(for: event, of: live, resume)
    }

    @inline(never)
    private func note(
        for event: ServerEvent, of live: LiveSession, _ resume: ResumeState
    ) -> ResumeNote {
        let offset = event.isNumbered ? resume.log.next : nil
        guard event.showsHandle else { return ResumeNote(offset: offset) }
        let handle = ResumeHandle(
            sessionID: live.session.id, secret: resume.secret, shard: services.index,
            token: live.token)
        let expiry = returning.calendar.seconds(
            at: resume.expiry, now: now, wallSeconds: services.wallSeconds())
        return ResumeNote(
            offset: offset,
            grant: .init(handle: handle.text, expiresAt: expiry, epoch: resume.epoch))
    }

    /// Keeps the event that was written into `scratch`, if it is numbered.
    @inline(never)
    func keep(_ event: ServerEvent, of live: LiveSession) {
        guard let resume = live.resume, event.isNumbered else { return }
        if case .sessionCreated = event, resume.log.isEmpty {
            resume.noteFirst()
        } else {
            scratch.withUnsafeBytes {
                resume.note($0, limit: configuration.resume.maxBytes, at: now)
            }
        }
        review(live)
    }

    // MARK: Deadlines

    /// Tells a session once that its client is away. It comes before any other input of the
    /// session: that would count audio as heard which had not left when the connection was lost.
    func tellWhetherAway(_ live: LiveSession) {
        guard live.resume?.takeClientAwayNotice() == true else { return }
        step(live) { $0.handleClientAway(at: now) }
    }

    /// A deadline of a session that can be resumed may have come.
    func reviewResume(of live: LiveSession) {
        guard let resume = live.resume else { return }
        reviewStored(live, resume)
        if let end = resume.awayUntil {
            guard end <= now, !live.hasEnded else { return }
            return endWaiting(of: live)
        }
        guard let connection = live.connection, connection.state == .webSocket else { return }
        if resume.isPingDue(at: now) {
            resume.takePing().withUnsafeBytes { _ = send(.ping, $0, on: connection) }
        }
        if resume.isRenewalDue(at: now) {
            resume.renew(services.makeRandomBytes(ResumeSecret.byteCount), at: now)
            send(.resumeUpdated, of: live)
        }
        guard !resume.isWarned, let end = live.grant?.end,
            now >= end + (.zero - ResumeState.warningTime)
        else { return }
        warn(live, .sessionLimit, endingAt: end)
    }

    /// Tells the client of a session that can be resumed when that ends.
    func warn(
        _ live: LiveSession, _ reason: GoingAwayReason, endingAt end: Instant
    ) {
        guard let resume = live.resume, !resume.isWarned,
            live.connection?.state == .webSocket
        else { return }
        resume.isWarned = true
        let left = max(0, (end - now).wholeMilliseconds)
        send(.goingAway(reason, millisecondsLeft: left), of: live)
    }
}

extension ServerEvent {
    /// Whether the event has an offset and is kept. Audio is not: it is sent again from what was
    /// heard. The answer to a return comes before the missed events, and a sign of life is useless
    /// later.
    fileprivate var isNumbered: Bool {
        switch self {
        case .responseOutputAudioDelta, .resumed, .pong: false
        default: true
        }
    }

    /// Whether the event has the handle.
    fileprivate var showsHandle: Bool {
        switch self {
        case .sessionCreated, .sessionUpdated, .resumed, .resumeUpdated: true
        default: false
        }
    }
}
