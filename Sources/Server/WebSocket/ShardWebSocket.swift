// WebSocket messages on a shard's connections, and the sessions behind them: messages become inputs
// of the session, its events and audio become messages, its commands go to the agents.
//
// Invariant: all outputs of a session are taken after every input, before another one; `step` sees
// to that. After the end of its connection neither a message nor an agent reaches the session. A
// connection with pending messages, or with the rest of a long one, is queued for the next tick,
// and not read from until then.

import Codec
import Session

extension Shard {
    // MARK: In

    /// Takes bytes of a WebSocket.
    @inline(__always)
    func receiveMessages(_ bytes: UnsafeMutableRawBufferPointer, on connection: Connection) {
        let unused = handleMessages(in: bytes, on: connection)
        trackMessage(bytes.count - unused, on: connection)
        guard unused > 0 || connection.hasUnheardAudio else { return }
        keepPending(UnsafeRawBufferPointer(rebasing: bytes.suffix(unused)), on: connection)
    }

    /// Keeps bytes for the next tick. A function of its own, so that `receiveMessages` is small enough
    /// to be inlined: else an echo takes 30 instructions more.
    @inline(never)
    private func keepPending(_ bytes: UnsafeRawBufferPointer, on connection: Connection) {
        perform(connection.keepPending(Array(bytes)), on: connection)
    }

    /// Handles messages that the tick before left: each connection has its share again, in the
    /// order in which they were queued. Once the tick's time for them is over, the others wait for
    /// another tick, in which they come first. So do connections with the rest of a long message once
    /// the tick's share of audio is used up.
    func continueMessages() {
        let count = unfinished.beginRound()
        guard count > 0 else { return }
        var postponed: [Int] = []
        for position in 0..<count {
            let slot = unfinished.slot(at: position)
            guard let connection = connections[slot: slot], connection.isUnfinished
            else { continue }
            connection.isUnfinished = false
            guard connection.isReceivingMessages, connection.pauses.isEmpty else { continue }
            let mustWait =
                connection.hasUnheardAudio && sessionContext.isTickSpent
                || position > 0 && messageTime.isSpent(at: io.now)
            if mustWait {
                connection.isUnfinished = true
                postponed.append(slot)
                continue
            }
            messageTime.beginShare(position, of: count)
            perform(.settle, on: connection)
            var pending: [UInt8] = []
            swap(&pending, &connection.pending)
            let unused = pending.withUnsafeMutableBytes { handleMessages(in: $0, on: connection) }
            trackMessage(pending.count - unused, on: connection)
            if unused > 0 || connection.hasUnheardAudio {
                pending.removeFirst(pending.count - unused)
                perform(connection.keepPending(pending), on: connection)
            } else {
                perform(.watch, on: connection)
            }
        }
        unfinished.endRound()
        messageTime.endShares()
        if !postponed.isEmpty { unfinished.postpone(postponed) }
    }

    /// Handles messages until the bytes or the connection's share of the tick are used up, or the
    /// connection takes no more. Audio counts by its duration: eight bytes of Opus may stand for
    /// 120 ms. Of a message that lasts longer than the share, the session keeps the rest.
    /// - Returns: how many bytes at the end wait for the next tick.
    private func handleMessages(
        in bytes: UnsafeMutableRawBufferPointer, on connection: Connection
    ) -> Int {
        var rest = bytes
        var messages = 0
        var looked = (messages: 0, rest: bytes.count)
        sessionContext.beginShare()
        if connection.hasUnheardAudio { hearRest(on: connection) }
        do throws(WebSocketError) {
            while connection.isReceivingMessages {
                // With nothing left, `next` is called once more: it frees the last message.
                if !rest.isEmpty,
                    messages >= configuration.maxMessagesPerTick || !connection.pauses.isEmpty
                        || sessionContext.isShareSpent || connection.hasUnheardAudio
                        || isOutOfTime(messages, rest.count, since: &looked)
                {
                    return rest.count
                }
                guard let event = try connection.webSocket?.next(&rest) else { return 0 }
                messages += try handle(event, on: connection)
            }
        } catch {
            metrics.add(.protocolErrors)
            logger.debug("bad message", metadata: ["rule": "\(error)"])
            closeWebSocket(connection, error.closeCode, reason: error.closeReason)
        }
        return 0
    }

    /// Whether the connection has to leave its other messages to the next tick.
    /// - Parameters:
    ///   - messages: those that were handled.
    ///   - rest: bytes that were not used.
    ///   - looked: both, as of the last look at the clock.
    @inline(__always)
    private func isOutOfTime(
        _ messages: Int, _ rest: Int, since looked: inout (messages: Int, rest: Int)
    ) -> Bool {
        guard
            messageTime.needsLook(after: messages - looked.messages, bytes: looked.rest - rest)
        else { return false }
        looked = (messages, rest)
        return messageTime.isShareSpent(at: io.now)
    }

    /// The session hears the next part of a long message.
    @inline(never)
    private func hearRest(on connection: Connection) {
        guard let live = connection.live else { return }
        countingAudio(of: live) { step(live, of: connection) { $0.handleUnheardAudio(at: now) } }
    }

    /// - Returns: the messages that the event counts as in the tick's share of its connection.
    @inline(__always)
    private func handle(
        _ event: WebSocketEvent, on connection: Connection
    ) throws(WebSocketError) -> Int {
        switch event {
        case .text(let message):
            let before = noteMessage(ofBytes: message.count, on: connection)
            guard let live = connection.live else { return answer(.text, message, on: connection) }
            return handleText(message, of: live, on: connection, after: before)
        case .binary(let packet):
            noteMessage(ofBytes: packet.count, on: connection)
            guard let live = connection.live else { return answer(.binary, packet, on: connection) }
            if connection.role == .line, let line = telephony[connection.token] {
                if line.writer?.sendsBinaryMedia == true {
                    hear(packet, chunk: nil, on: line, live, connection)
                }
            } else {
                handleAudio(packet, of: live, on: connection)
            }
        case .compressed(let message):
            return try handleCompressed(message, on: connection)
        case .ping(let payload):
            if spendFloodBudget(1, of: connection) { answerPing(payload, on: connection) }
        case .pong(let payload):
            spendFloodBudget(1, of: connection)
            connection.live?.resume?.handlePong(payload, at: now)
        case .close(let code, _): handleClose(code, on: connection)
        }
        return 1
    }

    @inline(never)
    private func handleClose(_ code: WebSocketCloseCode?, on connection: Connection) {
        // The same code goes back (RFC 6455 §5.5.1); then neither side sends any more.
        connection.webSocket?.close(code, into: &scratch)
        if scratch.count > 0 { enqueueScratch(on: connection) }
        noteEnd(SessionEnd(.clientClosed, closeCode: code), of: connection)
        linger(connection)
        // Nothing may follow a Close, so there is no end of the stream to wait for either: the
        // server closes first (RFC 6455 §7.1.1).
        connection.hasEnded = true
    }

    /// A message on a WebSocket without a session of its own.
    /// - Returns: the messages that it counts as in the tick's share of its connection.
    @inline(__always)
    private func answer(
        _ opcode: WebSocketOpcode, _ message: UnsafeRawBufferPointer, on connection: Connection
    ) -> Int {
        switch connection.role {
        case .echo:
            if connection.state == .webSocket { send(opcode, message, on: connection) }
            return 1
        case .sideband:
            receive(opcode, message, ofSideband: connection)
            return spendWork(0, byteCount: message.count, of: connection)
        case .operator:
            receiveCommand(opcode, message, on: connection)
            return spendWork(0, byteCount: message.count, of: connection)
        case .line: return opcode == .text ? receiveLine(message, on: connection) : 1
        // The session has ended.
        case .http, .client: return 1
        }
    }

    /// - Parameter before: when the message before it came or went.
    /// - Returns: the messages that it counts as in the tick's share of its connection.
    func handleText(
        _ message: UnsafeRawBufferPointer, of live: LiveSession, on connection: Connection,
        after before: Instant
    ) -> Int {
        if connection.role == .line { return receiveLine(message, on: connection) }
        var price = 0
        // The bytes of audio have no price: the tick's share of audio bounds them.
        var byteCount: Int? = message.count
        do throws(ClientEventError) {
            let (event, eventID) = try eventParser.parse(
                message, in: live.dialect, audioWithin: live.session.audioLimit)
            metrics.add(event.metric)
            price = event.workPrice
            if case .ping = event {
                answerPing(of: live, on: connection, after: before)
                return spendWork(price, byteCount: byteCount, of: connection)
            }
            if case .inputAudioBufferAppend = event { byteCount = nil }
            guard admits(event, eventID: eventID, to: live, on: connection) else {
                return spendWork(price, byteCount: byteCount, of: connection)
            }
            if case .inputAudioBufferAppend = event { batchReads(of: connection) }
            if case .sessionUpdate(let update) = event {
                handleWishes(of: update, for: live, on: connection)
            }
            let admitted = connection.isObserved ? admit(event, of: live, on: connection) : event
            countingAudio(of: live) {
                step(live, of: connection) {
                    $0.handle(admitted, eventID: eventID, audio: eventParser.audio.bytes, at: now)
                }
            }
        } catch {
            metrics.add(.eventsInRefused)
            step(live, of: connection) { $0.handle(error, at: now) }
        }
        return spendWork(price, byteCount: byteCount, of: connection)
    }

    /// Answers `parley.ping`. It uses up no quota, as a ping of WebSocket does not, and is no message
    /// for `message-idle-timeout-ms`: a page that is left open asks for signs of life for ever.
    private func answerPing(
        of live: LiveSession, on connection: Connection, after before: Instant
    ) {
        guard spendFloodBudget(1, of: connection) else { return }
        send(.pong, of: live, on: connection)
        connection.lastMessage = before
    }

    /// What a client asks for in `session.update` that is no parameter of its session.
    private func handleWishes(
        of update: SessionUpdate, for live: LiveSession, on connection: Connection
    ) {
        if let wish = update.resume { handleResumeWish(wish, of: live, on: connection) }
        if let consent = update.recordingConsent {
            handleRecordingConsent(consent, of: live, on: connection)
        }
    }

    func handleAudio(
        _ packet: UnsafeRawBufferPointer, of live: LiveSession, on connection: Connection
    ) {
        metrics.add(.eventsInAudioPacket)
        guard admitsAudio(to: live, on: connection) else { return }
        batchReads(of: connection)
        countingAudio(of: live) {
            step(live, of: connection) { $0.handleAudioPacket(packet.bytes, at: now) }
        }
    }

    // MARK: Sessions

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
                if connection.role == .line {
                    play(packet, on: connection)
                } else {
                    send(packet, on: connection)
                }
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

    // MARK: Out

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

    func send(_ event: ServerEvent, of live: LiveSession, on connection: Connection) {
        if live.dialect != .ga, !live.dialect.has(event) { return }
        sessionLog.note(event, of: live.session.id)
        // A carrier has events of its own.
        if connection.role == .line { return sendToCarrier(event, on: connection) }
        metrics.add(event.metric)
        scratch.removeAll()
        live.writer.write(
            event, number: live.eventNumber, in: live.dialect,
            expiresAt: expiry(of: live, in: event),
            resume: resumeNote(for: event, of: live, on: connection), into: &scratch)
        live.eventNumber += 1
        if live.resume != nil, !keep(event, of: live, on: connection) {
            return scratch.removeAll()
        }
        switch event {
        case .responseOutputAudioDelta(let part, _, _, let position):
            sendAudio(
                as: .text, of: part.responseID, item: part.itemID, position: position,
                on: connection)
        case .error:
            sendEventInScratch(on: connection)
            spendFloodBudget(1, of: connection)
        default: sendEventInScratch(on: connection)
        }
    }

    private func send(_ packet: OutputAudioPacket, on connection: Connection) {
        connection.live?.resume?.stored?.noteProgress(packet.itemID, at: now)
        connection.live?.session.recorder?.note(packet.itemID, at: now)
        metrics.add(.eventsOutAudioPacket)
        scratch.removeAll()
        OutputAudioMessage.write(packet, into: &scratch)
        let ratio = SampleRate.hz48000.hertz / packet.format.sampleRate.hertz
        sendAudio(
            as: .binary, of: packet.responseID, item: packet.itemID,
            position: packet.position * ratio, on: connection)
    }

    /// Sends what was written into `scratch`, as audio that may be dropped before it leaves.
    /// - Parameter position: where in its item it starts, in samples at 48 kHz.
    private func sendAudio(
        as opcode: WebSocketOpcode, of responseID: String, item itemID: String, position: Int,
        on connection: Connection
    ) {
        // A session that has just lost its connection does not know that yet.
        guard connection.state != .detached else { return scratch.removeAll() }
        let start = connection.output.count
        scratch.withUnsafeBytes { queue(opcode, $0, on: connection) }
        scratch.removeAll()
        noteAudio(
            from: start, of: responseID, item: itemID, position: position, on: connection)
        connection.lastMessage = peerClock
        admitOutput(of: connection)
    }

    /// Sends a message or control frame.
    @discardableResult
    func send(
        _ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer, isCompressed: Bool = false,
        on connection: Connection
    ) -> SendOutcome {
        queue(opcode, payload, isCompressed: isCompressed, on: connection)
        return admitOutput(of: connection)
    }

    /// Puts a frame into the send buffer; `admitOutput` applies its limits.
    func queue(
        _ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer, isCompressed: Bool = false,
        on connection: Connection
    ) {
        frames.append(
            opcode, payload, isCompressed: isCompressed, to: &connection.output, pool: chunks)
    }

    /// Sends what was written into `scratch` as text, compressed if it pays.
    private func sendEventInScratch(on connection: Connection) {
        scratch.withUnsafeBytes {
            if connection.isCompressed, compression.isWorthIt($0.count, for: connection) {
                sendDeflated(.text, $0, on: connection)
            } else {
                send(.text, $0, on: connection)
            }
        }
        scratch.removeAll()
        connection.lastMessage = peerClock
    }

    // MARK: Liveness and the end

    /// The deadline of a WebSocket has passed. Any bytes count as a sign of life, and time in which
    /// the shard was away does not count. A client that was silent or idle broke no rule: with 1001
    /// it may come back, with 1008 it may not.
    func handleWebSocketSilence(of connection: Connection) {
        let overdue = connection.overdue(at: peerClock, configuration)
        if connection.isPaused, overdue != .slowReader {
            // The client may have sent all that is missing.
            connection.lastReceived = peerClock
            connection.lastMessage = peerClock
            connection.messageDue = Connection.noMessageDue
            return trackMessage(0, on: connection)
        }
        switch overdue {
        case .slowReader:
            cutOff(connection, by: .slowReaderCloses, reason: "slow-reader-timeout-ms")
        case .slowMessage:
            metrics.add(.slowMessageCloses)
            closeWebSocket(connection, .policyViolation, reason: "The message takes too long.")
        case .noCall:
            metrics.add(.callsRefused)
            closeWebSocket(connection, .policyViolation, reason: "The call does not begin.")
        case .idleMessages:
            metrics.add(.messageIdleCloses)
            closeWebSocket(connection, .goingAway, reason: "No message for too long.")
        case .silence:
            metrics.add(.silenceCloses)
            if detach(connection) { return }
            keepLastState(of: connection)
            closeWebSocket(connection, .goingAway, reason: "No sign of life.")
        case .ping:
            connection.isPinged = true
            send(.ping, UnsafeRawBufferPointer(start: nil, count: 0), on: connection)
        case nil: break
        }
    }

    /// Sends our Close. The session ends now; the connection when the peer has answered, or after
    /// `closeTimeout`.
    func closeWebSocket(
        _ connection: Connection, _ code: WebSocketCloseCode, reason: StaticString
    ) {
        noteEnd(SessionEnd(closing: code, reason), of: connection)
        if connection.role == .line { hangUp(connection) }
        endSession(of: connection)
        guard connection.state != .detached else { return close(connection) }
        scratch.removeAll()
        connection.webSocket?.close(code, reason: "\(reason)", into: &scratch)
        enqueueScratch(on: connection)
        guard connection.state == .webSocket else {
            // Our Close went out before, and now the peer broke a rule instead of answering it.
            return linger(connection)
        }
        guard connection.webSocket?.isClosed == false else { return linger(connection) }
        perform(connection.beginClosing(at: peerClock), on: connection)
    }
}

extension WebSocketError {
    /// The reason in the Close frame, for those who debug the peer.
    fileprivate var closeReason: StaticString {
        switch self {
        case .messageTooBig: "The message is too big."
        case .inflationRatioTooHigh: "The message is too big for what was sent."
        case .invalidDeflate: "The message is not deflate data."
        case .tooManyBlocks: "The message has too many deflate blocks."
        case .tooManyFrames: "The message has too many frames."
        case .invalidUTF8, .invalidCloseReason: "The text is not UTF-8."
        case .reservedBitSet, .reservedOpcode, .unmaskedClientFrame, .maskedServerFrame,
            .fragmentedControlFrame, .controlFrameTooLong, .nonMinimalLength, .lengthTopBitSet,
            .unexpectedContinuation, .interruptedMessage, .truncatedCloseCode, .invalidCloseCode:
            "The frame breaks a rule of RFC 6455."
        }
    }
}
