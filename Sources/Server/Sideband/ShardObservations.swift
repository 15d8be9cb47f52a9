// The session's side of sidebands: they join a session, and their events become its inputs. The
// session's events go to its sidebands and to its client, each as it may see them.
//
// Invariants: the session's client never waits for a sideband, and learns nothing of it but the
// events that a sideband causes. A call that a sideband has left unanswered is answered with an
// error, so that the user is not left waiting.

import Codec
import Session

extension Shard {
    // MARK: Joining and leaving

    /// A sideband joins a session: it is sent the session as it is, then every event.
    /// - Parameter answer: told first whether it may; the mailbox keeps the order.
    func join(
        _ link: SidebandLink, to live: LiveSession, answer: (CallAnswer) -> Void
    ) {
        let observation = sidebands.observations[live.token] ?? SessionObservation()
        switch observation.objection(to: link, atMost: configuration.sidebands.maxPerSession) {
        case .tooMany: return answer(.refused(.tooManySidebands))
        case .toolsTaken: return answer(.refused(.sidebandToolsTaken))
        case nil: break
        }
        observation.join(link)
        sidebands.observations[live.token] = observation
        live.isObserved = true
        metrics.add(.sidebandsJoined)
        let session = live.session
        let place = SessionPlace(
            sessionID: session.id, token: live.token, post: postToThisShard)
        answer(.joined(place, link))
        send(.sessionCreated(id: session.id, session.parameters), to: link, of: live, observation)
        live.eventNumber += 1
        if link.isOperator { showPast(of: live, to: link, observation) }
        review(live)
    }

    /// A session from another process has private functions, whose sidebands are gone.
    func restore(_ calls: PrivateCalls, of live: LiveSession) {
        let observation = SessionObservation(calls)
        sidebands.observations[live.token] = observation
        live.isObserved = true
        scheduleSettling(of: observation, at: live.token)
    }

    /// A sideband is gone.
    func handleLeaving(_ link: SidebandLink, of token: EventToken) {
        guard let observation = sidebands.observations[token], observation.remove(link)
        else { return }
        scheduleSettling(of: observation, at: token)
    }

    /// A session ends: the link of each of its sidebands ends.
    func endObservation(of live: LiveSession) {
        guard let observation = sidebands.observations.removeValue(forKey: live.token)
        else { return }
        for link in observation.observers { link.end(.sessionEnded) }
    }

    // MARK: Out

    /// Shows an event of an observed session to its sidebands.
    /// - Returns: the event as the client sees it, or nil where the client does not see it.
    @inline(never)
    func observe(_ event: ServerEvent, of live: LiveSession) -> ServerEvent? {
        guard let observation = sidebands.observations[live.token] else { return event }
        if observation.note(event) { scheduleSettling(of: observation, at: live.token) }
        for link in observation.observers { send(event, to: link, of: live, observation) }
        dismissSlowSidebands(of: observation, at: live.token)
        let shown = observation.view(of: event, for: nil)
        guard let shown, live.dialect.has(shown) else {
            // The event's number is used up, although the client gets no event with it.
            live.eventNumber += 1
            return nil
        }
        return shown
    }

    /// Shows audio of an observed session to its sidebands.
    /// - Returns: the audio with its place as the client sees it.
    @inline(never)
    func observe(_ packet: OutputAudioPacket, of live: LiveSession) -> OutputAudioPacket {
        guard let observation = sidebands.observations[live.token] else { return packet }
        let event = packet.event
        for link in observation.observers { send(event, to: link, of: live, observation) }
        dismissSlowSidebands(of: observation, at: live.token)
        var shown = packet
        shown.part = observation.place(of: packet.part)
        return shown
    }

    private func send(
        _ event: ServerEvent, to link: SidebandLink, of live: LiveSession,
        _ observation: SessionObservation
    ) {
        if link.isOperator, !event.isShownToOperators { return }
        guard let shown = observation.view(of: event, for: link) else { return }
        scratch.removeAll()
        live.writer.write(
            shown, number: live.eventNumber, expiresAt: expiry(of: live, in: shown),
            into: &scratch)
        var isError = false
        // An error that the sideband itself has caused is charged to it, as it would be to a
        // client.
        if case .error = event, case .sideband = observation.origin { isError = true }
        metrics.add(.sidebandEventsOut)
        link.send(scratch.copiedBytes, isError: isError)
        scratch.removeAll()
    }

    /// Sends an operator the conversation before it came: the newest items, oldest first.
    private func showPast(
        of live: LiveSession, to link: SidebandLink, _ observation: SessionObservation
    ) {
        for item in OperatorView.past(of: live.session.items) {
            send(
                .conversationItemAdded(item, previousItemID: nil), to: link, of: live, observation)
        }
    }

    /// The words of an item are known. Its client gets no event of them, so operators get the item
    /// again, now with its words.
    @inline(never)
    func showWords(ofItem id: String, in live: LiveSession) {
        guard let observation = sidebands.observations[live.token],
            let item = live.session.item(id)
        else { return }
        for link in observation.observers where link.isOperator {
            send(
                .conversationItemAdded(item, previousItemID: nil), to: link, of: live, observation)
        }
        dismissSlowSidebands(of: observation, at: live.token)
    }

    /// Cuts off the sidebands for which too much waits on the way to their shard.
    private func dismissSlowSidebands(of observation: SessionObservation, at token: EventToken) {
        for link in observation.observers
        where link.eventBytes > configuration.maxBytesForSideband {
            link.end(.tooSlow)
            guard observation.remove(link) else { continue }
            scheduleSettling(of: observation, at: token)
        }
    }

    // MARK: In

    /// An event of an observed session's client, as the session takes it.
    func admit(_ event: ClientEvent, of live: LiveSession) -> ClientEvent {
        guard let observation = sidebands.observations[live.token] else { return event }
        return observation.admit(event, from: nil, to: live.session.parameters)
    }

    /// Handles events of sidebands, at most a connection's share of them in one tick, by their price.
    /// Those for a session that has yet to hear the rest of a long message wait.
    func handleSidebandInputs() {
        var share = configuration.loop.maxMessagesPerTick
        while share > 0, let input = takeSidebandInput() {
            // First, so that the sideband's ledger is right once the events that follow have come.
            input.link.noteHandled(input.text)
            share -= handle(input)
        }
    }

    private func takeSidebandInput() -> SidebandInput? {
        guard !sidebands.inputs.isEmpty else { return nil }
        return sidebands.inputs.take(atMost: 1) {
            sessions[$0]?.session.hasUnheardAudio == true
        }.first
    }

    /// - Returns: the messages that it counts as in the tick's share.
    private func handle(_ input: SidebandInput) -> Int {
        var price = WorkPrice.text(bytes: input.text.count)
        guard let live = sessions[input.token],
            let observation = sidebands.observations[input.token],
            observation.contains(input.link)
        else { return price }
        metrics.add(.sidebandEventsIn)
        observation.begin(.sideband(input.link), live.session.parameters)
        defer { observation.end() }
        do throws(ClientEventError) {
            let (event, eventID) = try parse(
                input.text, audioWithin: live.session.audioLimit)
            price += event.workPrice
            if case .ping = event {
                send(.pong, to: input.link, of: live, observation)
                live.eventNumber += 1
                return price
            }
            if event.isOfTheUsersDevice {
                var refusal = ClientEventError.notFromSideband
                refusal.eventID = eventID
                throw refusal
            }
            try take(event, eventID: eventID, of: live)
            let admitted = observation.admit(
                front(of: live)?.0.admit(event) ?? event, from: input.link,
                to: live.session.parameters)
            countingAudio(of: live) {
                step(live) {
                    $0.handle(
                        admitted, eventID: eventID,
                        audio: UnsafeRawBufferPointer(start: nil, count: 0).bytes, at: now)
                }
            }
            observation.noteTaken(event, from: input.link, live.session.parameters)
            settle(live)
        } catch {
            step(live) { $0.handle(error, at: now) }
        }
        return price
    }

    private func parse(
        _ text: [UInt8], audioWithin limit: AudioLimit
    ) throws(ClientEventError) -> (event: ClientEvent, eventID: String?) {
        let outcome = text.withUnsafeBytes { bytes in
            Result { () throws(ClientEventError) in
                try workspace.parser.parse(bytes, audioWithin: limit)
            }
        }
        return try outcome.get()
    }

    // MARK: What a sideband leaves behind

    private func scheduleSettling(of observation: SessionObservation, at token: EventToken) {
        guard !observation.isUnsettled else { return }
        observation.isUnsettled = true
        sidebands.unsettled.append(token)
    }

    /// Settles the sessions that a sideband has left.
    func settleObservations() {
        guard !sidebands.unsettled.isEmpty else { return }
        var tokens: [EventToken] = []
        swap(&tokens, &sidebands.unsettled)
        for token in tokens {
            guard let live = sessions[token], let observation = sidebands.observations[token]
            else { continue }
            guard !live.session.hasUnheardAudio else {
                sidebands.unsettled.append(token)
                continue
            }
            observation.isUnsettled = false
            withdrawTools(observation.takeAbandonedOffers(), from: live, observation)
            answerOrphans(of: observation, in: live)
            guard !live.hasEnded else { continue }
            if live.session.isIdle { observation.forgetAbandonedNames() }
            if observation.isOver {
                sidebands.observations[token] = nil
                live.isObserved = false
            }
            review(live)
        }
    }

    /// Removes tools from the session whose calls no sideband would answer.
    private func withdrawTools(
        _ names: [String], from live: LiveSession, _ observation: SessionObservation
    ) {
        let parameters = live.session.parameters
        guard parameters.tools.contains(where: { names.contains($0.name) }) else { return }
        var update = SessionUpdate()
        update.tools = .value(parameters.tools.filter { !names.contains($0.name) })
        if case .function(let name) = parameters.toolChoice, names.contains(name) {
            update.toolChoice = .value(.auto)
        }
        handle(.sessionUpdate(update), of: live, observation)
    }

    /// Answers the calls that no sideband will, and has the model go on.
    private func answerOrphans(of observation: SessionObservation, in live: LiveSession) {
        let orphans = observation.takeOrphans()
        for callID in orphans {
            let output = ConversationItem(
                id: "",
                kind: .functionCallOutput(
                    callID: callID, output: #"{"error":"The function is not available now."}"#))
            handle(
                .conversationItemCreate(item: output, previousItemID: nil), of: live, observation)
        }
        guard !orphans.isEmpty else { return }
        handle(.responseCreate(ResponseParameters()), of: live, observation)
    }

    /// An event of the server's own.
    private func handle(
        _ event: ClientEvent, of live: LiveSession, _ observation: SessionObservation
    ) {
        guard !live.hasEnded else { return }
        observation.begin(.server, live.session.parameters)
        defer { observation.end() }
        step(live) {
            $0.handle(
                event, eventID: nil, audio: UnsafeRawBufferPointer(start: nil, count: 0).bytes,
                at: now)
        }
    }
}

extension ClientEvent {
    /// Whether only the user's device can send the event: it is about the device's sound.
    fileprivate var isOfTheUsersDevice: Bool {
        switch self {
        case .inputAudioBufferAppend, .outputAudioBufferPlayed: true
        case .sessionUpdate, .inputAudioBufferCommit, .inputAudioBufferClear,
            .conversationItemCreate, .conversationItemDelete, .conversationItemRetrieve,
            .conversationItemTruncate, .responseCreate, .responseCancel, .outputAudioBufferClear,
            .ping:
            false
        }
    }
}
