// Telephone lines on a shard's connections: what a carrier says becomes an input of the session, and
// what the session says becomes a message to the carrier. An adapter: it takes no turn, processes no
// audio and has no timer. A line is heard and spoken to in its own coding (LineCoding).
//
//   media          → the user's audio, as a binary message of any client brings it
//   mark           → what was heard (`output_audio_buffer.played`), unless it was cleared since
//   key            → `parley.dtmf.received`, and on request a turn of the user's
//   audio of the reply → media, and a mark after each piece
//   PlaybackCommand    → `clear`: the user interrupts the reply, or it was cancelled
//
// A carrier that recognises and speaks itself (ConversationRelay) brings and gets words:
//
//   prompt         → a turn of the user's in text
//   interrupt      → the reply ends at the words that were heard
//   words of the reply → `text`
//   language of the session → `language`
//
// A reply that is only held, because the user may mean to interrupt it, is cleared as well, and sent
// again from what was heard if it goes on. A carrier that can pause its queue (Asterisk) keeps it.

import Codec
import Session

extension Shard {
    // MARK: The call

    /// A carrier asks for a WebSocket. The session begins with the call, and takes its place then: a
    /// line without a call keeps no session out. A server without a place refuses the request, so that
    /// the carrier calls another.
    func answerCall(
        _ request: HTTPRequest, from carrier: TelephoneCarrier, by caller: Caller,
        on connection: Connection
    ) {
        guard let upgrade = validUpgrade(of: request, on: connection) else { return }
        var seeker = seeker(of: request, by: caller, on: connection)
        do throws(PlaceRefusal) {
            seeker.profile = try profile(askedForBy: request, for: caller)
            // The limits of this agent count for the line only if the call names no other.
            var limited = seeker
            limited.take(seeker.profile)
            release(try reservePlace(for: limited, to: lineParameters))
        } catch {
            return send(answer(to: error, of: seeker), to: request, on: connection)
        }
        accept(upgrade, as: .line, on: connection)
        guard connection.state == .webSocket else { return }
        endOldestUnbegun(of: seeker)
        let line = TelephoneLine(carrier, seeker: seeker)
        telephony.insert(line, at: connection.token)
        metrics.add(.callsOpen)
        perform([.settle, .rearm], on: connection)
    }

    /// The agent that the URL of a line names; nil: it names none, and the call may.
    private func profile(
        askedForBy request: HTTPRequest, for caller: Caller
    ) throws(PlaceRefusal) -> AgentProfile? {
        guard let name = request.queryValue("agent"), !name.isEmpty else { return nil }
        do throws(RefusalReason) { return try profile(named: name, for: caller) } catch {
            throw .credential(error)
        }
    }

    /// What the session of a line begins with.
    private var lineParameters: SessionParameters {
        SessionParameters(model: configuration.defaultModel)
    }

    /// A caller has only so many lines without a call: the oldest ends for the next.
    private func endOldestUnbegun(of seeker: PlaceSeeker) {
        guard let oldest = telephony.unbegun.beyondShare(of: seeker.tag),
            let connection = connections[oldest]
        else { return }
        logger.info(
            "line without a call closed",
            metadata: ["reason": "too many of one caller", "most": "\(LineTable.mostUnbegun)"])
        closeWebSocket(connection, .tryAgainLater, reason: "Too many lines without a call.")
        if let line = telephony[oldest] { telephony.noteBegun(line, at: oldest) }
    }

    /// The place of the session of a call that begins. A line that may have none is closed.
    private func takePlace(
        of seeker: PlaceSeeker, _ line: TelephoneLine, _ connection: Connection
    ) -> SessionPlaceHeld? {
        do throws(PlaceRefusal) {
            let place = try reservePlace(for: seeker, to: lineParameters)
            try countConnection(of: seeker, at: place)
            return place
        } catch {
            let isFull = answer(to: error, of: seeker).status == 503
            refuseCall(of: line, code: isFull ? "server_full" : "limit_reached", param: "none")
            closeWebSocket(
                connection, isFull ? .tryAgainLater : .policyViolation,
                reason: isFull ? "The server is full." : "A limit of the caller is reached.")
            return nil
        }
    }

    private func begin(
        _ start: TelephoneStart, on line: TelephoneLine, _ connection: Connection
    ) {
        // A carrier starts one call on a connection; a second start changes nothing.
        guard var seeker = line.takeSeeker() else { return }
        telephony.noteBegun(line, at: connection.token)
        do throws(RefusalReason) {
            seeker.take(
                try profile(
                    named: start.call.parameter("agent") ?? seeker.profile?.name,
                    orOfNumber: start.call.to, for: seeker.caller))
        } catch {
            refuseCall(of: line, code: "agent_not_found", param: "agent")
            return closeWebSocket(
                connection, .policyViolation, reason: "The call's agent cannot be used.")
        }
        guard let place = takePlace(of: seeker, line, connection) else { return }
        let parameters: SessionParameters
        var consent: Bool?
        do throws(ClientEventError) {
            parameters = try self.parameters(of: start, line, place, recordingConsent: &consent)
        } catch {
            release(place)
            refuseCall(of: line, code: error.code, param: error.param ?? "none")
            return closeWebSocket(
                connection, .policyViolation, reason: "A parameter of the call is not valid.")
        }
        line.begin(start)
        metrics.add(.callsBegun)
        let live = openSession(parameters, in: .ga, at: place, on: connection)
        if let writer = line.writer, writer.hasQueue {
            live.session.playbackControl = writer.canPause ? .pauses : .drops
        }
        beginRecord(of: live.session, owner: place.owner, call: start.call)
        logger.info(
            "call",
            metadata: [
                "session": "\(live.session.id)", "carrier": "\(line.carrier.rawValue)",
                "call": "\(start.call.callID.visible())",
            ])
        let greeting = start.call.parameter("greeting")
        step(live) { $0.start(isSettled: greeting == nil, at: now) }
        if let consent { handleRecordingConsent(consent, of: live) }
        guard !live.hasEnded, let greeting else { return }
        var response = ResponseParameters()
        response.instructions = greeting
        take(.responseCreate(response), of: live)
    }

    /// Counts and logs a call that does not begin.
    private func refuseCall(of line: TelephoneLine, code: String, param: String) {
        metrics.add(.callsRefused)
        logger.warning(
            "call refused",
            metadata: [
                "carrier": "\(line.carrier.rawValue)", "code": "\(code)", "param": "\(param)",
            ])
    }

    /// The session of a call: what its parameters ask for, in the line's format.
    /// - Parameter recordingConsent: what they say of a recording, where they say something.
    private func parameters(
        of start: TelephoneStart, _ line: TelephoneLine, _ place: SessionPlaceHeld,
        recordingConsent: inout Bool?
    ) throws(ClientEventError) -> SessionParameters {
        var parameters = place.parameters
        if let model = start.call.parameter("model") {
            guard line.allowance.allows(model: model) else {
                throw ClientEventError(
                    code: "model_not_found",
                    message: "This credential does not give access to that model.",
                    param: "model")
            }
            parameters.model = model
        }
        for event in try CallSettings.events(of: start.call) {
            let parsed = event.withUnsafeBytes { bytes in
                Result { () throws(ClientEventError) in try eventParser.parse(bytes).event }
            }
            guard case .sessionUpdate(let update) = try parsed.get() else { continue }
            parameters = try sessionContext.parameters(parameters, changedBy: update)
            recordingConsent = update.recordingConsent ?? recordingConsent
        }
        guard parameters.kind == .realtime else {
            throw ClientEventError(
                code: "invalid_value", message: "A call is a session of type 'realtime'.",
                param: "session.type")
        }
        parameters.inputIsNumbered = false
        if let format = start.coding?.format {
            parameters.inputFormat = format
            parameters.outputFormat = format
            parameters.outputTransport = .binary
            parameters.outputModality = .audio
        } else {
            parameters.outputModality = .text
            parameters.turnDetection = nil
        }
        return parameters
    }

    /// The connection of a line ends, or its session.
    func endLine(of connection: Connection) {
        guard telephony.remove(connection.token) != nil else { return }
        metrics.add(.callsOpen, -1)
    }

    /// The server ends the call: the carrier is told as it wants to be.
    func hangUp(_ connection: Connection) {
        guard connection.state == .webSocket, let line = telephony[connection.token] else {
            return
        }
        scratch.removeAll()
        if line.carrier == .conversationRelay {
            ConversationRelayWriter.end(into: &scratch)
        } else if line.writer?.hangUp(into: &scratch) != true {
            return
        }
        sendScratch(as: .text, on: connection)
    }

    // MARK: In

    /// A message of a carrier.
    /// - Returns: the messages that it counts as in the tick's share of its connection.
    func receiveLine(
        _ opcode: WebSocketOpcode, _ message: UnsafeRawBufferPointer, on connection: Connection
    ) -> Int {
        guard connection.state == .webSocket, let line = telephony[connection.token] else {
            return 1
        }
        guard opcode == .text else {
            if line.writer?.sendsBinaryMedia == true, let live = connection.live {
                hear(message, chunk: nil, on: line, live, connection)
            }
            return 1
        }
        var price = 0
        var byteCount: Int? = message.count
        do throws(TelephoneError) {
            let parsed = try telephony.parser.parse(message, from: line.carrier)
            // Its bytes are bounded by the tick's share of audio.
            if case .media = parsed { byteCount = nil }
            price = parsed.workPrice
            handle(parsed, of: line, connection)
        } catch {
            metrics.add(.callMessagesRefused)
            logger.debug(
                "bad message of a carrier",
                metadata: ["carrier": "\(line.carrier.rawValue)", "rule": "\(error)"])
            switch error {
            case .coding:
                closeWebSocket(
                    connection, .unsupportedData, reason: "The line's codec is not supported.")
            case .name(let name):
                refuseCall(of: line, code: "invalid_value", param: "\(name)")
                closeWebSocket(
                    connection, .policyViolation, reason: "An id of the call is not valid.")
            case .notJSON, .notAnObject, .missing, .payload, .tooLong:
                spendFloodBudget(1, of: connection)
            }
        }
        return spendWork(price, byteCount: byteCount, of: connection)
    }

    private func handle(
        _ message: TelephoneMessage, of line: TelephoneLine, _ connection: Connection
    ) {
        switch message {
        case .started(let start): return begin(start, on: line, connection)
        case .stopped:
            return closeWebSocket(connection, .normalClosure, reason: "The call has ended.")
        case .failed(let text):
            logger.warning(
                "refused by a carrier",
                metadata: [
                    "carrier": "\(line.carrier.rawValue)", "error": "\(text.visible())",
                ])
            spendFloodBudget(1, of: connection)
            return
        // Carriers send few messages that no service needs.
        case .other:
            spendFloodBudget(1, of: connection)
            return
        case .media, .digit, .played, .queue, .prompt, .interrupted: break
        }
        guard let live = connection.live else { return }
        switch message {
        case .media(let chunk):
            hear(telephony.parser.audio, chunk: chunk, on: line, live, connection)
        case .digit(let digit):
            guard admitsEvent(of: live) else { return }
            press(digit, on: line, live)
        case .played(let mark): notePlayed(mark, on: line, live)
        case .queue(let hasRoom):
            guard line.note(hasRoom: hasRoom) else { return }
            step(live) { $0.handleClientRoom(hasRoom, at: now) }
        case .prompt(let words, let isLast):
            // A prompt that is not the last will come again with more words.
            guard isLast, TranscriptWords.has(in: words), admitsEvent(of: live) else { return }
            step(live) { $0.handleTypedTurn(words, at: now) }
        case .interrupted(let words):
            // A reply is compared with each: callers interrupt a few times a minute.
            guard spendFloodBudget(1, of: connection), admitsEvent(of: live) else { return }
            step(live) { $0.handleInterruption(heard: words, at: now) }
        case .started, .stopped, .failed, .other: break
        }
    }

    /// Audio of the caller: what is in turn is heard.
    func hear(
        _ audio: UnsafeRawBufferPointer, chunk: Int?, on line: TelephoneLine,
        _ live: LiveSession, _ connection: Connection
    ) {
        guard let coding = line.writer?.coding else { return }
        let number = line.carrier.mediaStream?.isReordered == true ? chunk : nil
        guard coding != .opus else {
            // Packets are decoded one by one.
            return line.order.take(number, audio) { handleAudio($0, of: live, on: connection) }
        }
        telephony.clearHeard()
        line.order.take(number, audio) { coding.appendHeard($0, to: &telephony.heard) }
        let heard = telephony.heardBytes
        if heard.count > 0 { handleAudio(heard, of: live, on: connection) }
    }

    /// A mark has come back.
    private func notePlayed(
        _ mark: PlayoutMark, on line: TelephoneLine, _ live: LiveSession
    ) {
        guard line.isCurrent(mark) else { return metrics.add(.callMarksCleared) }
        metrics.add(.callMarksPlayed)
        take(
            .outputAudioBufferPlayed(
                itemID: mark.itemID, contentIndex: 0, audioEndMilliseconds: mark.milliseconds),
            of: live)
    }

    private func press(_ digit: Character, on line: TelephoneLine, _ live: LiveSession) {
        metrics.add(.callDigits)
        show(.dtmfReceived(digit: String(digit)), of: live)
        guard !live.hasEnded else { return }
        if let keys = line.press(digit, at: now) { takeKeys(keys, of: live) }
        review(live)
    }

    private func takeKeys(_ keys: String, of live: LiveSession) {
        step(live) { $0.handleTypedTurn("Keys pressed: \(keys)", at: now) }
    }

    /// A deadline of the line may have come.
    func reviewLine(of connection: Connection) {
        guard let line = telephony[connection.token], let live = connection.live,
            let keys = line.takeKeys(at: now)
        else { return }
        takeKeys(keys, of: live)
    }

    /// An event that the adapter sends in the client's place.
    private func take(_ event: ClientEvent, of live: LiveSession) {
        step(live) {
            $0.handle(
                event, eventID: nil, audio: UnsafeRawBufferPointer(start: nil, count: 0).bytes,
                at: now)
        }
    }

    /// An event of a sideband, without what the line decides.
    func withoutLineFormats(_ event: ClientEvent, to live: LiveSession) -> ClientEvent {
        guard let connection = live.connection, connection.role == .line,
            let line = telephony[connection.token]
        else { return event }
        return event.withoutLineFormats(isSpoken: !line.speaksItself)
    }

    // MARK: Out

    /// Plays audio of the reply, with a mark after it. The two are one unit of the backlog: where
    /// the audio is dropped, its mark is.
    func play(_ packet: OutputAudioPacket, on connection: Connection) {
        guard let line = telephony[connection.token], let writer = line.writer else { return }
        scratch.removeAll()
        // It is no part of the unit: what is dropped must not take it along.
        if line.takeOpening(), writer.open(into: &scratch) {
            scratch.withUnsafeBytes { queue(.text, $0, on: connection) }
            scratch.removeAll()
        }
        let mark = line.mark(after: packet)
        let start = connection.output.count
        packet.payload.withUnsafeBytes { writer.media($0, into: &scratch) }
        let opcode: WebSocketOpcode = writer.sendsBinaryMedia ? .binary : .text
        scratch.withUnsafeBytes { queue(opcode, $0, on: connection) }
        if writer.hasQueue {
            scratch.removeAll()
            writer.mark(mark, into: &scratch)
            scratch.withUnsafeBytes { queue(.text, $0, on: connection) }
        }
        scratch.removeAll()
        let ratio = SampleRate.hz48000.hertz / packet.format.sampleRate.hertz
        noteAudio(
            from: start, of: packet.responseID, item: packet.itemID,
            position: packet.position * ratio, on: connection)
        connection.lastMessage = peerClock
        admitOutput(of: connection)
    }

    /// Tells the carrier what to do with the audio that it has.
    func tell(_ command: PlaybackCommand, to live: LiveSession) {
        guard let connection = live.connection, connection.state == .webSocket,
            let line = telephony[connection.token],
            let writer = line.writer
        else { return }
        func send(_ write: (inout ByteWriter) -> Void) {
            scratch.removeAll()
            write(&scratch)
            sendScratch(as: .text, on: connection)
        }
        switch command {
        case .pause:
            if line.takePause() { send(writer.pause) }
        case .goOn:
            if line.takeContinuation() { send(writer.goOn) }
        case .drop:
            if line.takeClear() {
                metrics.add(.callsCleared)
                send(writer.clear)
            }
            // Dropping what is queued does not end a pause.
            if line.takeContinuation() { send(writer.goOn) }
        }
    }

    /// Shows an event to a carrier. One that speaks itself gets the words of the conversation's
    /// replies, without Markdown and pictures; the others get nothing but audio.
    func sendToCarrier(_ event: ServerEvent, on connection: Connection) {
        guard connection.state == .webSocket, let line = telephony[connection.token] else {
            return
        }
        if case .error = event { spendFloodBudget(1, of: connection) }
        guard line.speaksItself else { return }
        scratch.removeAll()
        switch event {
        case .sessionCreated(_, let parameters), .sessionUpdated(_, let parameters):
            let language = parameters.transcription?.languageHint
            guard line.takeChange(of: language), let language else { return }
            ConversationRelayWriter.language(language, into: &scratch)
        case .responseCreated(let response) where response.conversationID == nil:
            return line.begin(unspoken: response.id)
        case .responseDone(let response): return line.end(unspoken: response.id)
        case .responseOutputTextDelta(let part, let delta) where line.speaks(part.responseID):
            let token = line.speak(delta)
            guard !token.isEmpty else { return }
            ConversationRelayWriter.text(token, isLast: false, into: &scratch)
        case .responseOutputItemDone(let responseID, _, let item)
        where item.isTextReply && line.speaks(responseID):
            let rest = line.endSpeaking()
            // Of a reply that was interrupted nothing more is said.
            let token = item.status == .completed ? rest : ""
            ConversationRelayWriter.text(token, isLast: true, into: &scratch)
        default: return
        }
        sendScratch(as: .text, on: connection)
    }

    private func sendScratch(as opcode: WebSocketOpcode, on connection: Connection) {
        _ = scratch.withUnsafeBytes { send(opcode, $0, on: connection) }
        scratch.removeAll()
        connection.lastMessage = peerClock
    }
}

extension ConversationItem {
    /// Whether it is a message of the assistant in text.
    fileprivate var isTextReply: Bool {
        guard case .message(role: .assistant, let content) = kind else { return false }
        return content.contains { if case .outputText = $0 { true } else { false } }
    }
}
