// A session whose clients and agents an input drives: it takes events, lets time pass, and checks every
// event that the session sends. ClientEventTarget and SavedSessionTarget use it.
//
// Invariant: the same input makes the same session.

import Codec
import Session
import Simulation

/// A session with agents whose answers the input chooses.
final class FuzzedSession {
    /// Maximum deadlines served per wait: one every 20 ms of the longest wait.
    private static let maxDeadlines = 2_000

    private let session: VoiceSession
    private let writer: ServerEventWriter
    private let dialect: RealtimeDialect
    private var text = ByteWriter(capacity: 1024)
    private var generator: SeededGenerator
    private var now = Instant(nanoseconds: 0)
    /// Commands to agents that are not answered yet.
    private var commands: [AgentCommand] = []
    /// Commands that follow, in the same batch, the one that is being answered.
    private var later: [AgentCommand] = []
    private var eventNumber: UInt64 = 0
    /// Both sides of the recording.
    private var recorded = [
        RecordedTrack(start: Instant(nanoseconds: 0), jitter: RecordedTrack.jitter),
        RecordedTrack(start: Instant(nanoseconds: 0), jitter: .zero),
    ]

    init(choices: UInt8, dialect: RealtimeDialect) {
        self.dialect = dialect
        generator = SeededGenerator(seed: UInt64(choices))
        var limits = SessionLimits()
        if choices & 0x80 != 0 {
            limits.maxConversationItems = 4
            limits.maxConversationBytes = 1_024
            limits.maxResponseBytes = 64
            limits.maxBufferedAudioSeconds = 1
        }
        let context = SessionContext(
            limits: limits, voiceActivityModel: nil, hasRecognizer: true, hasSynthesizer: true,
            apology: Phrase("Sorry.") ?? .none)
        session = VoiceSession(
            parameters: SessionParameters(model: "fuzz"),
            agent: choices & 0x10 != 0 ? Self.agent : nil, context: context, seed: 1)
        writer = ServerEventWriter(sessionID: session.id)
        session.start(at: now)
        if choices & 0x20 != 0 { session.beginRecording(beepEvery: .seconds(1), at: now) }
        drain()
    }

    /// An agent that says something whenever it may.
    private static var agent: SessionAgent {
        var settings = SessionAgent.Settings()
        settings.greeting = Phrase("Hello.") ?? .none
        settings.isGreetingInterruptible = false
        var silence = SessionAgent.Silence()
        silence.after = .seconds(1)
        silence.prompt = Phrase("Hello?") ?? .none
        silence.farewell = Phrase("Goodbye.") ?? .none
        settings.silence = silence
        var filler = SessionAgent.Filler()
        filler.after = .milliseconds(100)
        filler.phrase = Phrase("Well.") ?? .none
        settings.filler = filler
        settings.clientFields = [.voice]
        return SessionAgent(name: "fuzz", settings)
    }

    /// A session that goes on from a state that it does not trust.
    init(restoring saved: SavedSession, choices: UInt8) throws(SavedSessionError) {
        dialect = .ga
        generator = SeededGenerator(seed: UInt64(choices))
        let context = SessionContext(
            voiceActivityModel: nil, hasRecognizer: true, hasSynthesizer: true)
        session = try VoiceSession(restoring: saved, context: context, seed: 2)
        writer = ServerEventWriter(sessionID: session.id)
        let played = saved.itemIDs.last.map {
            PlayedAudio(itemID: $0, milliseconds: Int(choices) * 50)
        }
        session.startRestored(
            saved, played: choices & 1 == 0 ? played : nil, announcesItems: choices & 2 == 0,
            at: now)
        drain()
        answerCommands()
    }

    /// The state for another process.
    func save() -> SavedSession { session.saved(items: nil, at: now) }

    func take(_ message: ParsedMessage) {
        switch message {
        case .event(let event, let eventID, let audio):
            session.handle(event, eventID: eventID, audio: audio.span.bytes, at: now)
        case .refused(let error): session.handle(error, at: now)
        }
        drain()
        answerCommands()
    }

    func hear(_ packet: [UInt8]) {
        session.handleBinary(packet, at: now)
        drain()
        answerCommands()
    }

    /// Lets time pass and serves the deadlines in it.
    func wait(milliseconds: Int) {
        let end = now + .milliseconds(milliseconds)
        var served = 0
        while let deadline = session.nextDeadline(after: now), deadline <= end {
            require(deadline > now, "a deadline that is not after now")
            served += 1
            require(served <= Self.maxDeadlines, "a busy session")
            now = deadline
            session.handleDeadline(at: now)
            drain()
        }
        now = end
    }

    /// Answers what is left and lets the remaining deadlines pass.
    func finish() {
        answerCommands()
        wait(milliseconds: 20_000)
        answerCommands()
        require(session.heldBytes >= 0, "holds \(session.heldBytes) bytes")
    }

    // MARK: Output

    private func drain() {
        while let output = session.nextOutput() {
            switch output {
            case .event(let event): check(event)
            case .audio(let packet): check(packet.event)
            case .dropAudio, .dropItemAudio, .playback, .measured, .answered,
                .transcribed, .hangUp, .failed:
                break
            case .command(let command): commands.append(command)
            case .recorded(let chunk): check(chunk)
            }
        }
    }

    /// Places what was recorded as a keeper does.
    private func check(_ chunk: RecordingChunk) {
        for (audio, side) in [(chunk.user, 0), (chunk.agent, 1)] {
            recorded[side].append(audio)
            var end = recorded[side].position
            while let piece = recorded[side].next(at: chunk.takenAt) {
                switch piece {
                case .silence(let samples), .loss(let samples), .audio(_, _, let samples):
                    require(samples > 0, "\(samples) samples")
                    end += samples
                }
            }
            require(recorded[side].position == end, "a gap in the recording")
        }
    }

    private func check(_ event: ServerEvent) {
        guard dialect.has(event) else { return }
        text.removeAll()
        eventNumber += 1
        writer.write(event, number: eventNumber, in: dialect, into: &text)
        let bytes = text.copiedBytes
        guard let words = String(validating: bytes, as: UTF8.self) else {
            fatalError("an event that is no UTF-8: \(String(decoding: bytes, as: UTF8.self))")
        }
        guard dialect == .ga else {
            // Images and Opus, which the beta's tables do not have, may come back.
            return require((try? JSONParser().parse(words)) != nil, "no JSON: \(words)")
        }
        let violations = RealtimeSchema.shared.violations(inServerEvent: words)
        require(violations.isEmpty, "\(violations) in \(words)")
    }

    // MARK: Agents

    /// Answers commands, or leaves them unanswered. Cancelled commands are not answered.
    private func answerCommands() {
        for _ in 0..<8 where !commands.isEmpty {
            let asked = commands
            commands = []
            for (index, command) in asked.enumerated() {
                // A cancellation in the rest of the batch stops this command before it starts.
                later = Array(asked[(index + 1)...])
                answer(command)
            }
            later = []
            wait(milliseconds: Int.random(in: 0...200, using: &generator))
        }
        commands = []
    }

    private func answer(_ command: AgentCommand) {
        guard !isCancelled(command), generator.happens(percent: 85) else { return }
        switch command {
        case .transcribe(let itemID, _): handle(.transcript(itemID: itemID, text: "héllo"))
        case .hypothesize(let itemID, _, _): handle(.hypothesis(itemID: itemID, text: "héllo"))
        case .encodeAudio(let itemID, _, _): handle(.audioEncoded(itemID: itemID, [1, 2]))
        case .respond(let id, _): respond(id)
        case .speak(let id, _):
            let samples = [Int16](repeating: 500, count: 800)
            handle(.speech(responseID: id, SpeechChunk(samples: samples, rate: .hz16000)))
            if isStopped(id) { return }
            handle(.speechFinished(responseID: id))
        case .prepareRecognition, .judgeTurnEnd, .withdrawHypothesis, .cancelResponse,
            .cancelSpeech,
            .cancelTranscription:
            break
        case .tools(let command): answer(command)
        }
    }

    private func answer(_ command: ToolCommand) {
        switch command {
        case .list(let itemID, _):
            let tool = MCPToolDescription(name: "t", inputSchema: RawJSON("{}"))
            handle(
                .tools(
                    .listed(
                        itemID: itemID,
                        generator.happens(percent: 80)
                            ? .success([tool]) : .failure(.http(code: 500, message: "no")))))
        case .call(let itemID, _, _, _):
            handle(
                .tools(
                    .called(
                        itemID: itemID,
                        generator.happens(percent: 70)
                            ? .success("ok") : .failure(.execution(message: "no")))))
        case .cancel, .close: break
        }
    }

    private func respond(_ id: String) {
        let deltas: [ModelDelta] = [
            .text("Yes. \"Of course\"\u{1F600}\n"), .functionCallStarted(callID: "c", name: "f"),
            .functionCallArguments(#"{"a":"#), .functionCallArguments("1}"),
            .usage(inputTokens: 3, cachedTokens: 1, outputTokens: 4), .text(" More, and more."),
            .incomplete(reason: "max_output_tokens"),
        ]
        for delta in deltas where generator.happens(percent: 40) {
            if isStopped(id) { return }
            handle(.modelDelta(responseID: id, delta))
        }
        if isStopped(id) { return }
        handle(
            generator.happens(percent: 80)
                ? .modelFinished(responseID: id) : .modelFailed(responseID: id, .overloaded))
    }

    private func handle(_ event: AgentEvent) {
        session.handle(event, at: now)
        drain()
    }

    /// Whether work for a response has been cancelled since it was requested.
    private func isStopped(_ id: String) -> Bool {
        (later + commands).contains {
            switch $0 {
            case .cancelResponse(let other), .cancelSpeech(let other): other == id
            default: false
            }
        }
    }

    private func isCancelled(_ command: AgentCommand) -> Bool {
        switch command {
        case .respond(let id, _), .speak(let id, _): isStopped(id)
        case .transcribe(let itemID, _):
            (later + commands).contains {
                if case .cancelTranscription(let other) = $0 { other == itemID } else { false }
            }
        default: false
        }
    }
}

extension VoiceSession {
    /// A binary message, as the front of a Realtime client takes it.
    func handleBinary(_ message: [UInt8], at now: Instant) {
        message.withUnsafeBytes { bytes in
            do throws(ClientEventError) {
                let packet = try InputAudioMessage(bytes, isNumbered: parameters.inputIsNumbered)
                handleAudioPacket(packet.payload.bytes, number: packet.number, at: now)
            } catch {
                handle(error, at: now)
            }
        }
    }
}
