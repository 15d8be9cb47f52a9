// The actions of a crowd's sessions while they are open, and how they handle the server's messages.

import CLinux
import Codec

extension Crowd {
    /// Bytes of a slow reader's messages, and their interval in nanoseconds: the echoes fill all
    /// buffers on their way within seconds.
    private static let slowMessageBytes = 16 << 10
    private static let slowInterval: Int64 = 25_000_000

    private static let chatUpdate = """
        {"type":"session.update","session":{"type":"realtime","output_modalities":["text"]}}
        """
    private static let voiceUpdate = """
        {"type":"session.update","session":{"type":"realtime","audio":{"input":{"format":\
        {"type":"audio/opus"},"transcription":{"model":"default"},"turn_detection":\
        {"type":"server_vad"}},"output":{"format":{"type":"audio/opus"},"transport":"binary"}}}}
        """
    /// Speech without replies: the server only decodes it and runs the voice activity model.
    private static let listeningUpdate = """
        {"type":"session.update","session":{"type":"realtime","audio":{"input":{"format":\
        {"type":"audio/opus"},"turn_detection":{"type":"server_vad","create_response":false,\
        "interrupt_response":false}}}}}
        """

    // MARK: Scheduled actions

    /// Schedules a session's first action in the measured part, at a random time within its period,
    /// so that not all sessions act at once.
    func schedule(_ session: LoadSession) {
        guard let window else { return }
        let begin = max(window.lowerBound, monotonicNanoseconds())
        switch scenario.kind {
        case .churn: session.nextDue = begin + spread(lifetime())
        // All at once, after a second in which the timeline shows them open.
        case .reconnect: session.nextDue = begin + 1_000_000_000
        default:
            switch session.role {
            case .idle: return
            case .echo, .slow: session.nextDue = begin + spread(messageInterval)
            case .chat:
                session.chat = ChatTurns()
                let first = scenario.ramp > 0 ? scenario.ramp : scenario.turnEvery
                session.nextDue = begin + spread(Int64(first * 1e9))
            case .voice: scheduleSpeech(session, from: begin)
            }
        }
        wheel.set(session.index, at: session.nextDue)
    }

    private func scheduleSpeech(_ session: LoadSession, from begin: Int64) {
        guard let speech else { return }
        let interrupts = scenario.kind == .bargeIn
        session.speaker = Speaker(
            speech, interruptsAfter: interrupts ? Int64(scenario.interruptAfter * 1e9) : nil,
            awaitsReplies: scenario.replies)
        let round = Int64(speech.packets.count) * SpokenLoop.packetNanoseconds
        session.nextDue = begin + spread(interrupts ? 2_000_000_000 : round)
    }

    private func spread(_ length: Int64) -> Int64 {
        Int64(random.next(upperBound: UInt64(max(1, length))))
    }

    private var messageInterval: Int64 { Int64(1e9 / scenario.messageRate) }

    /// Carries out the actions of a session that are due.
    func act(_ session: LoadSession, at now: Int64) {
        guard let window else { return }
        if scenario.kind == .churn {
            guard session.nextDue < window.upperBound else { return }
            return leave(session, at: session.nextDue)
        }
        if scenario.kind == .reconnect {
            return dropOut(session, backAt: session.nextDue + spread(Int64(scenario.jitter * 1e9)))
        }
        // A session that is behind carries out everything that was due.
        while session.phase == .ready, session.nextDue <= now, session.nextDue < window.upperBound {
            let due = TimerWheel.rounded(session.nextDue)
            latencies.record(.generatorLateness, max(0, now - due))
            switch session.role {
            case .idle: return
            case .echo: sendMessage(of: session, due)
            case .slow: sendUnread(of: session)
            case .chat: beginTurn(of: session, due)
            case .voice: speak(session, due)
            }
        }
        watchForWritability(session)
        if session.nextDue < window.upperBound { wheel.set(session.index, at: session.nextDue) }
    }

    private func sendMessage(of session: LoadSession, _ due: Int64) {
        message.withUnsafeMutableBytes {
            $0.storeBytes(of: due, as: Int64.self)
            session.connection?.send(.binary, UnsafeRawBufferPointer($0))
        }
        counts.messagesSent += 1
        session.nextDue += messageInterval
    }

    private func sendUnread(of session: LoadSession) {
        // Send only while the server still reads.
        if session.connection?.wantsWrite == false {
            session.connection?.send(binary: [UInt8](repeating: 7, count: Self.slowMessageBytes))
            counts.messagesSent += 1
        }
        session.connection?.flush()
        session.nextDue += Self.slowInterval
    }

    private func beginTurn(of session: LoadSession, _ due: Int64) {
        session.nextDue += Int64(scenario.turnEvery * 1e9)
        guard session.chat?.intended == nil else {
            session.chat?.overdue.append(due)
            return
        }
        startTurn(of: session, intended: due)
    }

    private func startTurn(of session: LoadSession, intended: Int64) {
        session.chat?.intended = intended
        session.chat?.hasFirstDelta = false
        turnsInFlight += 1
        counts.turnsBegun += 1
        session.connection?.send(
            text: """
                {"type":"conversation.item.create","item":{"type":"message","role":"user",\
                "content":[{"type":"input_text","text":"\(scenario.chatPrompt)"}]}}
                """)
        session.connection?.send(text: #"{"type":"response.create"}"#)
    }

    private func speak(_ session: LoadSession, _ due: Int64) {
        guard let speech,
            let packet = session.speaker?.nextPacket(
                due: due, into: &latencies, &counts)
        else { return }
        session.connection?.send(binary: speech.packets[packet])
        counts.messagesSent += 1
        session.nextDue += SpokenLoop.packetNanoseconds
    }

    // MARK: Messages from the server

    /// Handles a message from the server.
    func handle(_ message: LoadMessage, of session: LoadSession) {
        let now = monotonicNanoseconds()
        counts.messagesReceived += 1
        switch message {
        case .text(let event):
            counts.bytesReceived += event.count
            handle(event, of: session, at: now)
        case .binary(let bytes):
            counts.bytesReceived += bytes.count
            if session.role == .echo, bytes.count >= 8 {
                let due = bytes.loadUnaligned(as: Int64.self)
                latencies.record(.echo, now - due)
            } else {
                session.speaker?.handleAudio(bytes, at: now, into: &latencies, &counts)
            }
        }
    }

    private func handle(
        _ event: UnsafeRawBufferPointer, of session: LoadSession, at now: Int64
    ) {
        if session.place != nil, let offset = ServerEventHead.offset(of: event) {
            session.place?.offset = offset
        }
        switch ServerEventHead(event, parser) {
        case .sessionCreated:
            if scenario.resume { session.place = LoadPlace(try? parser.parse(event)) }
            configure(session)
        case .resumed: handleReturn(event, of: session)
        case .resumeUpdated: session.place?.renew(try? parser.parse(event))
        case .sessionUpdated: becomeReady(session)
        case .textDelta(let start): handleDelta(event, start, of: session, at: now)
        case .responseCreated: session.speaker?.handleResponse()
        case .responseCompleted:
            counts.turnsCompleted += 1
            endTurn(of: session, at: now)
        case .responseCancelled:
            counts.turnsCancelled += 1
            endTurn(of: session, at: now)
        case .responseFailed:
            counts.turnsFailed += 1
            countError("failed response: \(String(decoding: event.prefix(300), as: UTF8.self))")
            endTurn(of: session, at: now)
        case .transcript:
            counts.transcripts += 1
            session.speaker?.handleTranscript(at: now, into: &latencies)
        case .speechStarted: session.speaker?.handleSpeechStarted(at: now, into: &latencies)
        case .error:
            countError("error event: \(String(decoding: event.prefix(200), as: UTF8.self))")
        case .other: break
        }
    }

    private func handleReturn(_ event: UnsafeRawBufferPointer, of session: LoadSession) {
        switch session.place?.handleReturn(try? parser.parse(event)) {
        case .recovered?: counts.recovered += 1
        case .restored?: counts.restored += 1
        case .anew?, nil: counts.begunAnew += 1
        }
        becomeReady(session)
    }

    private func configure(_ session: LoadSession) {
        switch session.role {
        case .idle, .echo, .slow: becomeReady(session)
        case .chat: session.connection?.send(text: Self.chatUpdate)
        case .voice:
            session.connection?.send(
                text: scenario.replies ? Self.voiceUpdate : Self.listeningUpdate)
        }
    }

    private func handleDelta(
        _ event: UnsafeRawBufferPointer, _ start: Int, of session: LoadSession, at now: Int64
    ) {
        counts.deltas += 1
        if let intended = session.chat?.intended, session.chat?.hasFirstDelta == false {
            session.chat?.hasFirstDelta = true
            latencies.record(.firstDelta, now - intended)
        }
        ServerEventHead.sendTimes(in: event, from: start) { sent in
            // Decided by the time of sending, so that a delta that arrives late is not left out.
            if steady?.contains(sent) ?? true { latencies.record(.delta, now - sent) }
        }
    }

    private func endTurn(of session: LoadSession, at now: Int64) {
        guard let intended = session.chat?.intended else { return }
        latencies.record(.turn, now - intended)
        session.chat?.intended = nil
        turnsInFlight -= 1
        guard session.chat?.overdue.isEmpty == false,
            let next = session.chat?.overdue.removeFirst(),
            let window, now < window.upperBound
        else { return }
        startTurn(of: session, intended: next)
    }
}
