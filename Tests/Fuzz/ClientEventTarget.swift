// Feeds a client's text messages and audio packets through the parser into a real session. Each
// message must give an event or a typed error, and a used parser must give the same as a new one.
// Every event that the session sends, with a model that answers at random, must fit the protocol's
// tables.
//
// An input: a byte of choices (one bit of which chooses the beta's dialect), then messages, each ended by a zero byte. A message that begins with
// a byte of 1 is an audio packet; one that begins with 2 lets time pass.

import Codec
import Session
import Simulation

/// `client_event`: ClientEventParser, VoiceSession, ServerEventWriter.
enum ClientEventTarget: FuzzTarget {
    static let name = "client_event"

    /// Maximum messages of one input. Each input has its own session, which must stay cheap.
    private static let maxMessages = 24

    static var seeds: [(name: String, bytes: [UInt8])] {
        let single = EventSamples.all.map { sample in
            (sample.name, [UInt8(ascii: "0")] + Array(sample.text.utf8))
        }
        let turn = EventSamples.conversation.map { Array($0.utf8) }.joined(separator: [0, 2, 50, 0])
        let silence = [UInt8](repeating: 0x55, count: 160)
        return single + [
            ("conversation", [UInt8(ascii: "1")] + Array(turn)),
            ("beta", [UInt8(ascii: "p")] + Array(EventSamples.beta.utf8)),
            (
                "audio",
                Array("0".utf8) + Array(EventSamples.muLaw.utf8) + [0, 1] + silence + [0]
                    + Array(#"{"type":"input_audio_buffer.commit"}"#.utf8)
            ),
        ]
    }

    static func run(_ input: FuzzInput) {
        var input = input
        let choices = input.byte()
        let messages = input.rest().split(separator: 0, maxSplits: maxMessages)
        var parser = ClientEventParser()
        let dialect: RealtimeDialect = choices & 0x40 == 0 ? .ga : .beta
        let client = FuzzedSession(choices: choices, dialect: dialect)
        for message in messages.prefix(maxMessages) {
            switch message.first {
            case 1: client.hear(Array(message.dropFirst()))
            case 2: client.wait(milliseconds: Int(message.dropFirst().first ?? 20) * 10)
            default:
                // A copy of its own, so that a read beyond its end is a read beyond an allocation.
                let bytes = Array(message)
                var fresh = ClientEventParser()
                let parsed = parse(bytes, &parser, in: dialect)
                require(
                    parsed == parse(bytes, &fresh, in: dialect), "a used parser differs: \(parsed)")
                client.take(parsed)
            }
        }
        client.finish()
    }

    private static func parse(
        _ bytes: [UInt8], _ parser: inout ClientEventParser, in dialect: RealtimeDialect
    ) -> ParsedMessage {
        bytes.withUnsafeBytes { buffer in
            do throws(ClientEventError) {
                let (event, eventID) = try parser.parse(buffer, in: dialect)
                return .event(event, eventID, audio: Array(parser.audio))
            } catch {
                require(!error.code.isEmpty && !error.message.isEmpty, "an error without words")
                return .refused(error)
            }
        }
    }
}

/// The result of parsing a message.
enum ParsedMessage: Equatable {
    case event(ClientEvent, String?, audio: [UInt8])
    case refused(ClientEventError)
}

/// A session with agents whose answers the input chooses.
private final class FuzzedSession {
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
            limits: limits, voiceActivityModel: nil, hasRecognizer: true, hasSynthesizer: true)
        session = VoiceSession(
            parameters: SessionParameters(model: "fuzz"), context: context, seed: 1)
        writer = ServerEventWriter(sessionID: session.id)
        session.start(at: now)
        drain()
    }

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
        session.handleAudioPacket(packet.span.bytes, at: now)
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
            case .audio, .dropAudio, .dropItemAudio, .measured, .answered, .failed: break
            case .command(let command): commands.append(command)
            }
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
        case .prepareRecognition, .cancelResponse, .cancelSpeech, .cancelTranscription: break
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
