// The sessions of a shard: how they begin and end, and what an input of one entails. SessionAudience has who
// hears of what they say.
// A session that waits for its client is the same session without a connection: its audio is then
// discarded, and its numbered events are kept (ShardResume).
//
// Invariant: all outputs of a session are taken after every input, before another one; `step` sees to
// that. After its end neither a message nor an agent reaches the session.

import Codec
import Session

extension Shard {
    // MARK: Coming and going

    /// Gives a connection a new session, which is to be started. The place for it is already
    /// reserved.
    func openSession(
        _ parameters: SessionParameters, in dialect: RealtimeDialect, at place: SessionPlaceHeld,
        on connection: Connection
    ) -> LiveSession {
        let session = VoiceSession(
            parameters: parameters, agent: place.seeker.profile?.agent, context: sessionContext,
            seed: services.makeSessionSeed())
        let live = open(session, in: dialect, of: place.tag, grant: place.grant)
        connection.give(live)
        live.work.explainsFailures = place.seeker.isLocalOperator
        beginRecording(live, hasConsent: false)
        return live
    }

    /// Gives a connection the session that it has claimed, and lets it go on.
    /// - Returns: false where this server cannot meet its settings.
    func restore(
        _ claimed: ClaimedSession, of tag: CallerTag, owner: SessionOwner, grant: SessionGrant?,
        on connection: Connection
    ) -> Bool {
        let session: VoiceSession
        do throws(SavedSessionError) {
            session = try VoiceSession(
                restoring: claimed.saved,
                agent: claimed.saved.agent.flatMap { services.profiles.current[$0]?.agent },
                context: sessionContext,
                seed: services.makeSessionSeed())
        } catch {
            logger.warning(
                "a saved session cannot go on here",
                metadata: ["session": "\(claimed.saved.id)", "reason": "\(error)"])
            release(claimed.saved.id, fence: claimed.fence)
            metrics.add(.resumesUnknown)
            return false
        }
        beginRecord(of: session, fence: claimed.fence, owner: owner)
        let live = open(session, in: claimed.resume.dialect, of: tag, grant: grant)
        connection.give(live)
        goOn(with: claimed, live)
        return true
    }

    private func open(
        _ session: VoiceSession, in dialect: RealtimeDialect, of caller: CallerTag,
        grant: SessionGrant?
    ) -> LiveSession {
        let live = register(session, in: dialect, of: caller, grant: grant)
        metrics.add(.sessionsStarted)
        metrics.add(.sessionsOpen)
        journal.sessionLog.noteStart(of: session.id, session.parameters)
        return live
    }

    /// Gives a session its place on the shard.
    func register(
        _ session: VoiceSession, in dialect: RealtimeDialect = .ga, of caller: CallerTag,
        grant: SessionGrant?
    ) -> LiveSession {
        guard let token = sessions.reserveToken() else {
            preconditionFailure(
                "`max-sessions` and `max-text-requests` bound the sessions of a shard")
        }
        let live = LiveSession(token: token, session: session, caller: caller, dialect: dialect)
        live.grant = grant
        sessions.insert(live)
        return live
    }

    /// Ends the session of a connection that ends, or whose service ends.
    func endSession(of connection: Connection) {
        switch connection.role {
        case .http, .echo, .client: break
        case .sideband: leaveSession(of: connection)
        case .operator: endWatching(on: connection)
        case .front: endFront(of: connection)
        }
        if let live = connection.live { end(live) }
    }

    /// Ends a session, and stops its agents.
    func end(_ live: LiveSession) {
        // Its record and its recording end with what was heard.
        live.session.noteAllSent()
        tellUnsentAudio(to: live)
        if let recorder = live.session.recorder { endRecord(recorder, of: live) }
        live.hasEnded = true
        if live.session.isRecorded { endRecording(of: live) }
        live.chargeUnfinishedReplies(at: now)
        if live.isObserved { endObservation(of: live) }
        if live.resume != nil { forgetResume(of: live) }
        agents.link.stopAll(&live.work)
        if let connection = live.connection {
            releaseAgents(of: connection)
            connection.part()
        }
        clients.work.remove(live.token)
        sessions.remove(live)
        journal.sessionLog.noteEnd(of: live.session.id)
        metrics.add(.sessionsOpen, -1)
        services.metrics.sessions.subtract(1, ordering: .relaxed)
    }

    // MARK: Inputs and outputs

    /// Gives a session an input, and does all that belongs to one. Every input goes through here:
    ///
    /// 1. `tellUnsentAudio` passes the session where its unsent audio begins. The user cannot have
    ///    heard that, which may decide what the input means. For a client that reads this is one
    ///    comparison.
    /// 2. The input.
    /// 3. The outputs are taken, because all sessions of a shard share one output queue.
    /// 4. The ledger and the deadline follow, as either may have changed.
    @inline(__always)
    func step(_ live: LiveSession, _ input: (VoiceSession) -> Void) {
        tellUnsentAudio(to: live)
        input(live.session)
        takeOutputs(of: live)
        finishStep(of: live)
    }

    /// Passes a session where the audio begins that its client's connection has not sent.
    @inline(__always)
    func tellUnsentAudio(to live: LiveSession) {
        if let backlog = live.connection?.backlog { noteUnsentAudio(backlog, to: live.session) }
    }

    /// Takes the session's outputs and carries them out.
    private func takeOutputs(of live: LiveSession) {
        while let output = live.session.nextOutput() {
            // Output of a session that has ended meanwhile goes nowhere.
            guard !live.hasEnded else { continue }
            switch output {
            case .event(let event):
                show(event, of: live)
                if case .responseDone = event, !live.hasEnded {
                    show(.rateLimitsUpdated(rateLimits(of: live)), of: live)
                }
            case .audio(let packet): play(packet, of: live)
            case .dropAudio(let responseID): dropAudio(of: responseID, in: live)
            case .dropItemAudio(let itemID): dropAudio(ofItem: itemID, in: live)
            case .playback(let command): tell(command, to: live)
            case .command(let command): perform(command, of: live)
            case .measured(let hop, let duration):
                metrics.observe(hop.histogram, duration)
                live.lastTurn.note(hop, duration)
            case .answered(let delay): live.lastTurn.note(.firstToken, delay)
            case .transcribed(let itemID):
                if live.isObserved { showWords(ofItem: itemID, in: live) }
            case .recorded(let chunk): services.recordings?.keep(chunk)
            case .hangUp:
                close(live, .normalClosure, reason: "The user has said nothing for too long.")
            case .failed(let fault):
                note(fault, of: live.session)
                close(live, .internalError, reason: "The session has failed.")
            }
        }
    }

    private func finishStep(of live: LiveSession) {
        guard !live.hasEnded else { return }
        if !live.work.running.isEmpty {
            agents.link.paceSpeech(of: live.session, work: &live.work)
        }
        if live.session.awaitsActivity { tickWork.awaitingActivity.append(live.token) }
        live.noteDeadline(at: now)
        review(live)
    }

    /// A session's ledger, or what it waits for, may have changed. A client's connection is charged
    /// for its session, and its deadline serves both. A session without a connection has a charge
    /// and a deadline of its own.
    @inline(__always)
    func review(_ live: LiveSession) {
        if let connection = live.connection {
            perform([.settle, .rearm], on: connection)
        } else {
            reviewWithoutConnection(live)
        }
    }

    @inline(never)
    private func reviewWithoutConnection(_ live: LiveSession) {
        if let request = textRequests[live.token] {
            finishStep(of: request)
        } else {
            reviewWaiting(live)
        }
    }

    /// Ends a session, and tells its client why.
    func close(_ live: LiveSession, _ code: WebSocketCloseCode, reason: StaticString) {
        if let request = textRequests[live.token] { return request.take(.error(.sessionFailed)) }
        if let connection = live.connection {
            return closeWebSocket(connection, code, reason: reason)
        }
        noteEnd(SessionEnd(closing: code, reason), of: live)
        end(live)
    }

    /// A session has found its own state broken: a defect of this server. Only this session ends.
    func note(_ fault: SessionFault, of session: VoiceSession) {
        metrics.add(.sessionsFailed)
        logger.error(
            "session failed", metadata: ["session": "\(session.id)", "rule": "\(fault.rawValue)"])
    }

    /// The session hears the next part of a long message.
    @inline(never)
    func hearRest(_ live: LiveSession) {
        countingAudio(of: live) { step(live) { $0.handleUnheardAudio(at: now) } }
    }
}
