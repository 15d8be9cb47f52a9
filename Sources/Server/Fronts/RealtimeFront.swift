// The front of a client that speaks the Realtime protocol. The client's events and packets become inputs
// of its session. The session's events become messages in the client's dialect, its audio events in
// base64 or binary messages.

import Codec
import Session

extension Shard {
    // MARK: In

    /// A text message: an event of the client.
    /// - Parameter before: when the message before it came or went.
    /// - Returns: the messages that it counts as in the tick's share of its connection.
    func handleText(
        _ message: UnsafeRawBufferPointer, of live: LiveSession, on connection: Connection,
        after before: Instant
    ) -> Int {
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
            guard admits(event, eventID: eventID, to: live) else {
                return spendWork(price, byteCount: byteCount, of: connection)
            }
            if case .inputAudioBufferAppend = event { batchReads(of: connection) }
            if case .sessionUpdate(let update) = event {
                handleWishes(of: update, for: live)
            }
            let admitted = live.isObserved ? admit(event, of: live) : event
            countingAudio(of: live) {
                step(live) {
                    $0.handle(admitted, eventID: eventID, audio: eventParser.audio.bytes, at: now)
                }
            }
        } catch {
            metrics.add(.eventsInRefused)
            step(live) { $0.handle(error, at: now) }
        }
        return spendWork(price, byteCount: byteCount, of: connection)
    }

    /// Answers `parley.ping`. It uses up no quota, as a ping of WebSocket does not, and is no message
    /// for `message-idle-timeout-ms`: a page that is left open asks for signs of life for ever.
    private func answerPing(
        of live: LiveSession, on connection: Connection, after before: Instant
    ) {
        guard spendFloodBudget(1, of: connection) else { return }
        send(.pong, of: live)
        connection.lastMessage = before
    }

    /// Handles the fields of `session.update` that are no parameters of the session.
    private func handleWishes(of update: SessionUpdate, for live: LiveSession) {
        if let wish = update.resume { handleResumeWish(wish, of: live) }
        if let consent = update.recordingConsent { handleRecordingConsent(consent, of: live) }
    }

    /// A binary message: audio in the session's input format.
    func handleAudio(
        _ packet: UnsafeRawBufferPointer, of live: LiveSession, on connection: Connection
    ) {
        metrics.add(.eventsInAudioPacket)
        guard admitsAudio(to: live) else { return }
        batchReads(of: connection)
        countingAudio(of: live) { step(live) { $0.handleAudioPacket(packet.bytes, at: now) } }
    }

    // MARK: Out

    /// Sends an event, which is kept for a client that may come back.
    func sendToClient(_ event: ServerEvent, of live: LiveSession) {
        metrics.add(event.metric)
        scratch.removeAll()
        live.writer.write(
            event, number: live.eventNumber, in: live.dialect,
            expiresAt: expiry(of: live, in: event),
            resume: resumeNote(for: event, of: live), into: &scratch)
        live.eventNumber += 1
        if live.resume != nil { keep(event, of: live) }
        guard let connection = live.connection else { return scratch.removeAll() }
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

    /// Sends audio as a binary message.
    func sendToClient(
        _ packet: OutputAudioPacket, of live: LiveSession, on connection: Connection
    ) {
        live.resume?.stored?.noteProgress(packet.itemID, at: now)
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
        let start = connection.output.count
        scratch.withUnsafeBytes { queue(opcode, $0, on: connection) }
        scratch.removeAll()
        admitAudio(
            from: start, of: responseID, item: itemID, position: position, on: connection)
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
}
