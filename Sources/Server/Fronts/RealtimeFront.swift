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
            let (event, eventID) = try workspace.parser.parse(
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
            if case .sessionUpdate = event { handle(workspace.parser.wishes, of: live) }
            let admitted = live.isObserved ? admit(event, of: live) : event
            countingAudio(of: live) {
                step(live) {
                    $0.handle(
                        admitted, eventID: eventID, audio: workspace.parser.audio.bytes, at: now)
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

    private func handle(_ wishes: ClientWishes, of live: LiveSession) {
        if let wish = wishes.resume { handleResumeWish(wish, of: live) }
        if let consent = wishes.recordingConsent { handleRecordingConsent(consent, of: live) }
    }

    /// Handles a binary message, which is a packet of audio.
    func handleBinary(
        _ message: UnsafeRawBufferPointer, of live: LiveSession, on connection: Connection
    ) {
        do throws(ClientEventError) {
            let packet = try InputAudioMessage(
                message, isNumbered: live.session.parameters.inputIsNumbered)
            handleAudio(packet.payload, number: packet.number, of: live, on: connection)
        } catch {
            metrics.add(.eventsInRefused)
            step(live) { $0.handle(error, at: now) }
        }
    }

    /// Handles a packet of audio in the session's input format.
    /// - Parameter number: the packet's number, where the client numbers them.
    func handleAudio(
        _ packet: UnsafeRawBufferPointer, number: UInt16?, of live: LiveSession,
        on connection: Connection
    ) {
        metrics.add(.eventsInAudioPacket)
        guard admitsAudio(to: live) else { return }
        batchReads(of: connection)
        countingAudio(of: live) {
            step(live) { $0.handleAudioPacket(packet.bytes, number: number, at: now) }
        }
    }

    // MARK: Out

    /// Sends an event, which is kept for a client that may come back.
    func sendToClient(_ event: ServerEvent, of live: LiveSession) {
        write(event, of: live)
        live.eventNumber += 1
        if live.resume != nil { keep(event, of: live) }
        guard let connection = live.connection else { return scratch.removeAll() }
        sendEventInScratch(on: connection)
        if case .error = event { spendFloodBudget(1, of: connection) }
    }

    /// Writes an event into `scratch`.
    private func write(_ event: ServerEvent, of live: LiveSession) {
        metrics.add(event.metric)
        scratch.removeAll()
        live.writer.write(
            event, number: live.eventNumber, in: live.dialect,
            expiresAt: expiry(of: live, in: event),
            resume: resumeNote(for: event, of: live), into: &scratch)
    }

    /// Sends audio, which may be dropped before it leaves, in the form that the client has asked for.
    func sendToClient(
        _ packet: OutputAudioPacket, of live: LiveSession, on connection: Connection
    ) {
        let opcode: WebSocketOpcode
        switch live.session.parameters.outputTransport {
        case .json:
            write(packet.event, of: live)
            opcode = .text
        case .binary:
            metrics.add(.eventsOutAudioPacket)
            scratch.removeAll()
            OutputAudioMessage(
                itemID: packet.itemID, contentIndex: packet.part.contentIndex,
                position: packet.position, format: packet.format, payload: packet.payload[...]
            ).write(into: &scratch)
            opcode = .binary
        }
        let start = connection.output.count
        scratch.withUnsafeBytes { queue(opcode, $0, on: connection) }
        scratch.removeAll()
        admitAudio(from: start, packet, on: connection)
    }

    /// Sends what was written into `scratch` as text, compressed if it pays.
    private func sendEventInScratch(on connection: Connection) {
        scratch.withUnsafeBytes {
            if connection.isCompressed, fixtures.compression.isWorthIt($0.count, for: connection) {
                sendDeflated(.text, $0, on: connection)
            } else {
                send(.text, $0, on: connection)
            }
        }
        scratch.removeAll()
        connection.lastMessage = peerClock
    }
}
