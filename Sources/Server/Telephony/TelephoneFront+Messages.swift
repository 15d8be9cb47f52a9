// The messages from and to a carrier. A line is heard and spoken to in its own coding (LineCoding).
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

extension TelephoneFront: Front {
    var subprotocol: String { WebSocketHandshake.mediaSubprotocol }

    // MARK: In

    func receive(
        _ opcode: WebSocketOpcode, _ message: UnsafeRawBufferPointer, on connection: Connection,
        _ host: any FrontHost
    ) -> Int {
        guard opcode == .text else {
            if writer?.sendsBinaryMedia == true, let live = connection.live {
                hear(message, chunk: nil, of: live, connection, host)
            }
            return 1
        }
        var price = 0
        var byteCount: Int? = message.count
        do throws(TelephoneError) {
            let parsed = try switchboard.parser.parse(message, from: carrier)
            // Its bytes are bounded by the tick's share of audio.
            if case .media = parsed { byteCount = nil }
            price = parsed.workPrice
            handle(parsed, on: connection, host)
        } catch {
            handle(error, on: connection, host)
        }
        return host.spendWork(price, byteCount: byteCount, of: connection)
    }

    private func handle(
        _ error: TelephoneError, on connection: Connection, _ host: any FrontHost
    ) {
        host.metrics.add(.callMessagesRefused)
        host.logger.debug(
            "bad message of a carrier",
            metadata: ["carrier": "\(carrier.rawValue)", "rule": "\(error)"])
        switch error {
        case .coding:
            host.closeWebSocket(
                connection, .unsupportedData, reason: "The line's codec is not supported.")
        case .name(let name):
            refuseCall(code: "invalid_value", param: "\(name)", host)
            host.closeWebSocket(
                connection, .policyViolation, reason: "An id of the call is not valid.")
        case .notJSON, .notAnObject, .missing, .payload, .tooLong:
            host.spendFloodBudget(1, of: connection)
        }
    }

    private func handle(
        _ message: TelephoneMessage, on connection: Connection, _ host: any FrontHost
    ) {
        switch message {
        case .started(let start): return begin(start, on: connection, host)
        case .stopped:
            return host.closeWebSocket(
                connection, .normalClosure, reason: "The call has ended.")
        case .failed(let text):
            host.logger.warning(
                "refused by a carrier",
                metadata: ["carrier": "\(carrier.rawValue)", "error": "\(text.visible())"])
            host.spendFloodBudget(1, of: connection)
            return
        // Carriers send few messages that no service needs.
        case .other:
            host.spendFloodBudget(1, of: connection)
            return
        case .media, .digit, .played, .queue, .prompt, .interrupted: break
        }
        guard let live = connection.live else { return }
        switch message {
        case .media(let chunk):
            hear(switchboard.parser.audio, chunk: chunk, of: live, connection, host)
        case .digit(let digit):
            guard host.admitsEvent(of: live) else { return }
            press(digit, of: live, host)
        case .played(let mark): notePlayed(mark, of: live, host)
        case .queue(let hasRoom):
            guard note(hasRoom: hasRoom) else { return }
            host.step(live) { $0.handleClientRoom(hasRoom, at: host.now) }
        case .prompt(let words, let isLast):
            // A prompt that is not the last will come again with more words.
            guard isLast, TranscriptWords.has(in: words), host.admitsEvent(of: live) else { return }
            host.step(live) { $0.handleTypedTurn(words, at: host.now) }
        case .interrupted(let words):
            // A reply is compared with each: callers interrupt a few times a minute.
            guard host.spendFloodBudget(1, of: connection), host.admitsEvent(of: live) else {
                return
            }
            host.step(live) { $0.handleInterruption(heard: words, at: host.now) }
        case .started, .stopped, .failed, .other: break
        }
    }

    /// Takes audio of the caller: the session hears the part whose turn it is.
    private func hear(
        _ audio: UnsafeRawBufferPointer, chunk: Int?, of live: LiveSession,
        _ connection: Connection, _ host: any FrontHost
    ) {
        guard let coding = writer?.coding else { return }
        let number = carrier.mediaStream?.isReordered == true ? chunk : nil
        guard coding != .opus else {
            // Packets are decoded one by one.
            return order.take(number, audio) {
                host.handleAudio($0, number: nil, of: live, on: connection)
            }
        }
        switchboard.clearHeard()
        order.take(number, audio) { coding.appendHeard($0, to: &switchboard.heard) }
        let heard = switchboard.heardBytes
        if heard.count > 0 { host.handleAudio(heard, number: nil, of: live, on: connection) }
    }

    /// A mark has come back.
    private func notePlayed(_ mark: PlayoutMark, of live: LiveSession, _ host: any FrontHost) {
        guard isCurrent(mark) else { return host.metrics.add(.callMarksCleared) }
        host.metrics.add(.callMarksPlayed)
        host.take(
            .outputAudioBufferPlayed(
                itemID: mark.itemID, contentIndex: 0, audioEndMilliseconds: mark.milliseconds),
            of: live)
    }

    private func press(_ digit: Character, of live: LiveSession, _ host: any FrontHost) {
        host.metrics.add(.callDigits)
        host.show(.dtmfReceived(digit: String(digit)), of: live)
        guard !live.hasEnded else { return }
        if let keys = press(digit, at: host.now) { take(keys: keys, of: live, host) }
        host.review(live)
    }

    private func take(keys: String, of live: LiveSession, _ host: any FrontHost) {
        host.step(live) { $0.handleTypedTurn("Keys pressed: \(keys)", at: host.now) }
    }

    func handleDeadline(of live: LiveSession, _ host: any FrontHost) {
        if let keys = takeKeys(at: host.now) { take(keys: keys, of: live, host) }
    }

    func admit(_ event: ClientEvent) -> ClientEvent {
        event.withoutLineFormats(isSpoken: !speaksItself)
    }

    // MARK: Out

    /// Plays audio of the reply, with a mark after it. The two are one unit of the backlog: where
    /// the audio is dropped, its mark is.
    func play(_ packet: OutputAudioPacket, on connection: Connection, _ host: any FrontHost) {
        guard let writer else { return }
        // The opening of the queue is no part of the unit, so that it stays when the unit is dropped.
        if takeOpening() {
            host.queue(as: .text, on: connection) { _ = writer.open(into: &$0) }
        }
        let mark = mark(after: packet)
        let start = connection.output.count
        host.queue(as: writer.sendsBinaryMedia ? .binary : .text, on: connection) { target in
            packet.payload.withUnsafeBytes { writer.media($0, into: &target) }
        }
        if writer.hasQueue {
            host.queue(as: .text, on: connection) { writer.mark(mark, into: &$0) }
        }
        host.admitAudio(from: start, packet, on: connection)
    }

    func tell(_ command: PlaybackCommand, on connection: Connection, _ host: any FrontHost) {
        guard let writer else { return }
        switch command {
        case .pause:
            if takePause() { host.send(as: .text, on: connection, writer.pause) }
        case .goOn:
            if takeContinuation() { host.send(as: .text, on: connection, writer.goOn) }
        case .drop:
            if takeClear() {
                host.metrics.add(.callsCleared)
                host.send(as: .text, on: connection, writer.clear)
            }
            // Dropping the queue does not end a pause.
            if takeContinuation() { host.send(as: .text, on: connection, writer.goOn) }
        }
    }

    /// A carrier that speaks itself gets the words of the conversation's replies, without Markdown and
    /// pictures; the others get nothing but audio.
    func show(_ event: ServerEvent, on connection: Connection, _ host: any FrontHost) {
        if case .error = event { host.spendFloodBudget(1, of: connection) }
        guard speaksItself else { return }
        switch event {
        case .sessionCreated(_, let parameters), .sessionUpdated(_, let parameters):
            let language = parameters.transcription?.languageHint
            guard takeChange(of: language), let language else { return }
            host.send(as: .text, on: connection) {
                ConversationRelayWriter.language(language, into: &$0)
            }
        case .responseCreated(let response) where response.conversationID == nil:
            begin(unspoken: response.id)
        case .responseDone(let response): end(unspoken: response.id)
        case .responseOutputTextDelta(let part, let delta) where speaks(part.responseID):
            let token = speak(delta)
            guard !token.isEmpty else { return }
            say(token, isLast: false, on: connection, host)
        case .responseOutputItemDone(let responseID, _, let item)
        where item.isTextReply && speaks(responseID):
            let rest = endSpeaking()
            // The rest of an interrupted reply is not sent.
            say(item.status == .completed ? rest : "", isLast: true, on: connection, host)
        default: break
        }
    }

    private func say(
        _ words: String, isLast: Bool, on connection: Connection, _ host: any FrontHost
    ) {
        host.send(as: .text, on: connection) {
            ConversationRelayWriter.text(words, isLast: isLast, into: &$0)
        }
    }

    /// The server ends the call: sends the carrier its protocol's command to hang up, if it has one.
    func hangUp(_ connection: Connection, _ host: any FrontHost) {
        if carrier == .conversationRelay {
            host.send(as: .text, on: connection, ConversationRelayWriter.end)
        } else if let writer {
            host.send(as: .text, on: connection) { _ = writer.hangUp(into: &$0) }
        }
    }

    func end(on connection: Connection, _ host: any FrontHost) {
        switchboard.noteBegun(at: connection.token, of: tag)
        host.metrics.add(.callsOpen, -1)
    }
}

extension ConversationItem {
    /// Whether it is a message of the assistant in text.
    fileprivate var isTextReply: Bool {
        guard case .message(role: .assistant, let content) = kind else { return false }
        return content.contains { if case .outputText = $0 { true } else { false } }
    }
}
