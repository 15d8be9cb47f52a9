// The sessions of a shard: how they begin and end, what an input of one entails, and who hears of its
// outputs: its client, by the front of its connection, those who observe it, its record, the agents.
//
// Invariant: all outputs of a session are taken after every input, before another one; `step` sees to
// that. After the end of its connection neither a message nor an agent reaches the session.

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
        let live = open(
            session, in: dialect, of: place.tag, grant: place.grant, on: connection)
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
        let live = open(
            session, in: claimed.resume.dialect, of: tag, grant: grant, on: connection)
        goOn(with: claimed, live, on: connection)
        return true
    }

    private func open(
        _ session: VoiceSession, in dialect: RealtimeDialect, of caller: CallerTag,
        grant: SessionGrant?, on connection: Connection
    ) -> LiveSession {
        let live = LiveSession(session: session, caller: caller, dialect: dialect)
        live.grant = grant
        connection.live = live
        metrics.add(.sessionsStarted)
        metrics.add(.sessionsOpen)
        sessionLog.noteStart(of: session.id, session.parameters)
        return live
    }

    /// Takes a connection's session away, if it has one, and stops its agents.
    func endSession(of connection: Connection) {
        switch connection.role {
        case .http, .echo, .client: break
        case .sideband: leaveSession(of: connection)
        case .operator: endWatching(on: connection)
        case .line: endLine(of: connection)
        }
        guard let live = connection.live else { return }
        // Its record and its recording end with what was heard.
        live.session.noteAllSent()
        if let backlog = connection.backlog { noteUnsentAudio(backlog, to: live.session) }
        if let recorder = live.session.recorder { endRecord(recorder, of: live) }
        connection.live = nil
        if live.session.isRecorded { endRecording(of: live) }
        live.chargeUnfinishedReplies(at: now)
        if connection.isObserved { endObservation(of: connection) }
        if live.resume != nil { forgetResume(of: live, on: connection) }
        agentLink.stopAll(&live.work)
        releaseAgents(of: connection)
        sessionLog.noteEnd(of: live.session.id)
        metrics.add(.sessionsOpen, -1)
        services.metrics.sessions.subtract(1, ordering: .relaxed)
    }

    // MARK: Inputs and outputs

    /// Gives a session an input, and does all that belongs to one. Every input of a connection's
    /// session goes through here:
    ///
    /// 1. `noteUnsentAudio` passes the session where its unsent audio begins. The user cannot have
    ///    heard that, which may decide what the input means. For a client that reads this is one
    ///    comparison.
    /// 2. The input.
    /// 3. The outputs are taken, because all sessions of a shard share one output queue.
    /// 4. The ledger and the deadline follow, as either may have changed.
    @inline(__always)
    func step(
        _ live: LiveSession, of connection: Connection, _ input: (VoiceSession) -> Void
    ) {
        if let backlog = connection.backlog { noteUnsentAudio(backlog, to: live.session) }
        input(live.session)
        takeOutputs(of: live, on: connection)
        finishStep(of: live, on: connection)
    }

    /// Takes the session's outputs and carries them out.
    private func takeOutputs(of live: LiveSession, on connection: Connection) {
        while let output = live.session.nextOutput() {
            // Output of a session whose connection broke meanwhile goes nowhere.
            guard connection.live === live else { continue }
            switch output {
            case .event(.rateLimitsUpdated):
                show(.rateLimitsUpdated(rateLimits(of: live)), of: live, on: connection)
            case .event(let event): show(event, of: live, on: connection)
            case .audio(let packet):
                if connection.isObserved { observe(packet, of: live, on: connection) }
                send(packet, of: live, on: connection)
            case .dropAudio(let responseID): dropAudio(of: responseID, on: connection)
            case .dropItemAudio(let itemID): dropAudio(ofItem: itemID, on: connection)
            case .playback(let command): tell(command, on: connection)
            case .command(let command):
                perform(command, for: connection.token, of: live)
            case .measured(let hop, let duration):
                metrics.observe(hop.histogram, duration)
                live.lastTurn.note(hop, duration)
            case .answered(let delay): live.lastTurn.note(.firstToken, delay)
            case .transcribed(let itemID):
                if connection.isObserved { showWords(ofItem: itemID, in: live, on: connection) }
            case .recorded(let chunk): services.recordings?.keep(chunk)
            case .hangUp:
                closeWebSocket(
                    connection, .normalClosure, reason: "The user has said nothing for too long.")
            case .failed(let fault):
                note(fault, of: live.session)
                closeWebSocket(connection, .internalError, reason: "The session has failed.")
            }
        }
    }

    private func finishStep(of live: LiveSession, on connection: Connection) {
        guard connection.live === live else { return }
        if !live.work.running.isEmpty {
            agentLink.paceSpeech(of: live.session, work: &live.work)
        }
        if live.session.awaitsActivity { awaitingActivity.append(connection.token.index) }
        live.noteDeadline(at: now)
        perform([.settle, .rearm], on: connection)
    }

    /// A session has found its own state broken: a defect of this server. Only this session ends.
    func note(_ fault: SessionFault, of session: VoiceSession) {
        metrics.add(.sessionsFailed)
        logger.error(
            "session failed", metadata: ["session": "\(session.id)", "rule": "\(fault.rawValue)"])
    }

    /// The session hears the next part of a long message.
    @inline(never)
    func hearRest(on connection: Connection) {
        guard let live = connection.live else { return }
        countingAudio(of: live) { step(live, of: connection) { $0.handleUnheardAudio(at: now) } }
    }

    /// Shows an event to the sidebands of the session, and to its client.
    func show(_ event: ServerEvent, of live: LiveSession, on connection: Connection) {
        live.noteTurn(event, at: now)
        live.resume?.stored?.note(event, at: now)
        live.session.recorder?.note(event, hops: { live.lastTurn[$0] }, at: now)
        guard connection.isObserved else { return send(event, of: live, on: connection) }
        if let shown = observe(event, of: live, on: connection) {
            send(shown, of: live, on: connection)
        }
    }
}
