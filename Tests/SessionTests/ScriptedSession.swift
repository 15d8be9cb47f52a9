// A conversation as data: what the client sends and when, what the agents answer and how late. It
// drives one real VoiceSession on a virtual clock and records what the client would see.

import Codec
import Foundation
import TestMaterial
import Testing

@testable import Session

/// What the scripted model does in answer to one request.
struct ScriptedReply {
    /// Pieces of the reply, each with its delay after the one before.
    var pieces: [(after: Duration, delta: ModelDelta)]
    /// How the reply ends after the last piece; nil: it never does.
    var end: AgentError?? = .some(nil)

    /// Text, word by word, 20 ms a word, the first after 100 ms.
    static func text(_ text: String) -> ScriptedReply {
        var pieces: [(after: Duration, delta: ModelDelta)] = []
        for word in text.split(separator: " ", omittingEmptySubsequences: false) {
            let first = pieces.isEmpty
            pieces.append(
                (.milliseconds(first ? 100 : 20), .text(first ? "\(word)" : " \(word)")))
        }
        return ScriptedReply(pieces: pieces)
    }
}

/// What MCP servers answer in a script.
struct ScriptedToolServer {
    /// By label; none: no tools.
    var lists: [String: Result<[MCPToolDescription], MCPCallError>] = [:]
    var listDelay = Duration.milliseconds(20)
    /// By the tool's name; none: it never answers.
    var answers: [String: (after: Duration, result: Result<String, MCPCallError>)] = [:]
}

final class ScriptedSession {
    let session: VoiceSession
    let context: SessionContext
    /// What will be recognised, in order; each after `recognitionDelay`.
    var transcripts: [Result<String, AgentError>] = []
    var recognitionDelay = Duration.milliseconds(120)
    /// The language in which the recogniser hears everything; nil: it does not tell.
    var heardLanguage: String?
    /// The languages in which utterances were to be recognised, and clauses to be spoken.
    private(set) var askedLanguages: [String?] = []
    private(set) var spokenLanguages: [String?] = []
    /// What comes of each transcript ahead of it, half of the delay after it was asked.
    var transcriptParts: [String] = []
    /// The words in the first so many milliseconds of the speech in progress, padding included;
    /// nil: no worker is free. Each comes after `hypothesisDelay`.
    var hypothesis: (_ milliseconds: Int) -> String? = { _ in nil }
    var hypothesisDelay = Duration.milliseconds(100)
    /// Hypotheses that were asked for: when, of how much audio, and what for.
    private(set) var hypotheses: [(at: Int, milliseconds: Int, use: HypothesisUse)] = []
    /// What the recogniser was given of earlier recognitions, at each request.
    private(set) var earlierRecognitions: [EarlierRecognition?] = []
    /// What the model will answer, in order.
    var replies: [ScriptedReply] = []
    /// Requests that the model got.
    private(set) var requests: [ModelRequest] = []
    /// Clauses that were spoken: 50 ms of sound a character, all of it 15 ms after it was asked.
    private(set) var spoken: [String] = []
    var speechFails = false
    var speechRate = SampleRate.hz16000
    /// What a clause sounds like, where it is not that.
    var speech: ((_ text: String) -> [SpeechChunk])?
    /// What a turn model says of each silence that it is asked about; nil where it cannot.
    var turnEnd: (_ number: Int) -> Float? = { _ in nil }
    /// When it was asked, in milliseconds, and about how much audio, in milliseconds, too.
    private(set) var turnEndsAsked: [(at: Int, milliseconds: Int)] = []
    /// Lengths of the utterances that were to be transcribed, in samples at 16 kHz.
    private(set) var samplesTranscribed: [Int] = []
    /// One line per event, in the order in which the client sees them.
    private(set) var transcript: [String] = []
    /// Every event as parsed JSON.
    private(set) var events: [[String: Any]] = []
    /// What the protocol's table has against those events.
    private(set) var violations: [String] = []
    private(set) var audioPackets: [OutputAudioPacket] = []
    /// When each of them was sent, in milliseconds.
    private(set) var audioTimes: [Int] = []
    /// The session's recording, as it comes.
    private(set) var chunks: [RecordingChunk] = []
    /// Where in its item the audio begins that waits for the socket, in samples at 48 kHz; nil:
    /// none waits.
    var unsentFrom: Int?
    private(set) var measured: [TurnHop] = []
    /// First tokens of responses that were asked for without speech, after the request.
    private(set) var answered: [Duration] = []
    /// Items whose words are known without an event that says so.
    private(set) var transcribed: [String] = []
    /// When the session was ended by its agent, in milliseconds; nil: it was not.
    private(set) var hungUp: Int?
    /// Broken invariants that the session has reported.
    private(set) var faults: [SessionFault] = []
    /// How often recognition was told to load.
    private(set) var preparations = 0
    /// Hypotheses that are not needed unless a worker has begun with them.
    private(set) var withdrawals = 0

    /// What MCP servers answer.
    var toolServer = ScriptedToolServer()
    /// Calls that reached them: name and arguments.
    private(set) var toolCalls: [String] = []
    /// Everything that was asked of them.
    private(set) var toolCommands: [String] = []

    private(set) var now = Instant(nanoseconds: 0)
    private var queue: [(at: Instant, order: Int, what: (ScriptedSession) -> Void)] = []
    private var order = 0
    private var cancelled: Set<String> = []
    /// Names of the recognitions in flight, by their item.
    private var recognitions: [String: [String]] = [:]
    private var speechGeneration = 0
    /// Names of the model's replies in flight, by their response: an id may be asked for again.
    private var replyNames: [String: String] = [:]
    /// How often a response's work was stopped.
    private(set) var responsesStopped = 0
    private var aliases: [String: String] = [:]
    private var writer: ServerEventWriter
    private var eventNumber: UInt64 = 0

    init(
        _ configure: (inout SessionParameters) -> Void = { _ in }, limits: SessionLimits = .init(),
        voiceActivity: VoiceActivityModel? = nil, makesHypotheses: Bool = false,
        hasTurnModel: Bool = false, modelHearsAudio: Bool = false, modelSeesImages: Bool = false,
        hasSynthesizer: Bool = true, notUnderstood: Phrase = .none,
        apology: Phrase = .none,
        toolServers: ToolServerPolicy? = nil, agent: SessionAgent? = nil, isSettled: Bool = false,
        codecs: CodecSettings = CodecSettings(), isResumable: Bool = false,
        answerer: Answerer = .cascade(Cascade()), expectedLanguage: String? = nil,
        voiceLanguages: [String]? = nil
    ) {
        var parameters = SessionParameters(model: "scripted")
        configure(&parameters)
        context = SessionContext(
            limits: limits, voiceActivityModel: voiceActivity, hasRecognizer: true,
            makesHypotheses: makesHypotheses, hasTurnModel: hasTurnModel,
            abilities: { _ in
                ModelAbilities(hearsAudio: modelHearsAudio, seesImages: modelSeesImages)
            },
            hasSynthesizer: hasSynthesizer, expectedLanguage: expectedLanguage,
            voiceLanguages: voiceLanguages,
            notUnderstood: notUnderstood, apology: apology,
            toolServers: toolServers, codecs: codecs)
        session = VoiceSession(
            parameters: parameters, agent: agent, context: context, seed: 7, answerer: answerer)
        writer = ServerEventWriter(sessionID: session.id)
        session.isResumable = isResumable
        session.start(isSettled: isSettled, at: now)
        takeOutputs()
    }

    /// A session that another process has left. Its agents know nothing of the first one's.
    init(
        restoring saved: SavedSession, limits: SessionLimits = .init(),
        voiceActivity: VoiceActivityModel? = .installed, toolServers: ToolServerPolicy? = nil,
        seed: UInt64 = 8
    ) throws(SavedSessionError) {
        context = SessionContext(
            limits: limits, voiceActivityModel: voiceActivity, hasRecognizer: true,
            hasSynthesizer: true, toolServers: toolServers)
        session = try VoiceSession(restoring: saved, context: context, seed: seed)
        writer = ServerEventWriter(sessionID: session.id)
        session.isResumable = true
    }

    /// The client reaches the process that restores.
    func startRestored(
        _ saved: SavedSession, played: PlayedAudio? = nil, announcesItems: Bool = true
    ) {
        session.startRestored(
            saved, played: played, announcesItems: announcesItems, at: now)
        takeOutputs()
    }

    /// The state as a store gives it back.
    func save(items: Set<String>? = nil) throws -> SavedSession {
        let saved = session.saved(items: items, at: now)
        let fields = Dictionary(uniqueKeysWithValues: saved.fields().map { ($0.name, $0.value) })
        let read = try SavedSession(fields: fields)
        if items == nil { #expect(read == saved) }
        return read
    }

    /// The process ends as planned, now.
    func handOver() {
        noteUnsent()
        session.handOver(at: now)
        takeOutputs()
    }

    // MARK: The script

    /// Sends a client event at a time.
    func send(_ event: ClientEvent, at milliseconds: Int, eventID: String? = nil) {
        schedule(at: .milliseconds(milliseconds)) { script in
            script.note("C→S", script.name(of: event))
            script.session.handle(event, eventID: eventID, audio: RawSpan(), at: script.now)
        }
    }

    /// Sends a client's text message at a time; the session gets the error of one that the parser
    /// refuses.
    func send(_ text: String, at milliseconds: Int) {
        schedule(at: .milliseconds(milliseconds)) { script in
            var parser = ClientEventParser()
            do throws(ClientEventError) {
                let (event, eventID) = try parser.parse(text)
                script.note("C→S", script.name(of: event))
                script.session.handle(
                    event, eventID: eventID, audio: parser.audio.bytes, at: script.now)
            } catch {
                script.session.handle(error, at: script.now)
            }
        }
    }

    /// Sends audio from a time on, one binary message of 20 ms at a time, as it would be spoken.
    func speak(_ packets: [[UInt8]], from milliseconds: Int) {
        speak(packets, from: milliseconds) { [unowned self] packet in
            session.handleBinary(packet, at: now)
        }
    }

    /// The same, where `hear` gives the packets to the session.
    func speak(_ packets: [[UInt8]], from milliseconds: Int, hear: @escaping ([UInt8]) -> Void) {
        for (index, packet) in packets.enumerated() {
            schedule(at: .milliseconds(milliseconds + 20 * index)) { _ in hear(packet) }
        }
    }

    /// Appends audio as `input_audio_buffer.append` does, all at once.
    func append(_ audio: [UInt8], sequence: UInt16? = nil, at milliseconds: Int) {
        schedule(at: .milliseconds(milliseconds)) { script in
            script.session.handle(
                .inputAudioBufferAppend(sequence: sequence), eventID: nil, audio: audio.span.bytes,
                at: script.now)
        }
    }

    /// An agent's event comes, so long from now.
    func deliver(_ event: AgentEvent, after milliseconds: Int) {
        answer(after: .milliseconds(milliseconds)) { event }
    }

    /// The client loses its connection at a time.
    func leave(at milliseconds: Int) {
        schedule(at: .milliseconds(milliseconds)) { script in
            script.note("client", "leaves")
            script.session.handleClientAway(at: script.now)
        }
    }

    /// The client is back at a time, and says then what it has played.
    func comeBack(at milliseconds: Int, _ played: @escaping () -> PlayedAudio? = { nil }) {
        schedule(at: .milliseconds(milliseconds)) { script in
            script.note("client", "is back")
            script.session.handleClientBack(played: played(), at: script.now)
        }
    }

    /// Lets the hypothesis in flight of an item fail.
    func fail(hypothesisOf itemID: String) {
        cancelled.formUnion(recognitions.removeValue(forKey: itemID) ?? [])
        session.handle(.hypothesisFailed(itemID: itemID), at: now)
        takeOutputs()
    }

    /// Runs everything that happens until a time, jumping from one deadline to the next.
    func run(until milliseconds: Int) {
        let end = Instant.milliseconds(milliseconds)
        var steps = 0
        while true {
            steps += 1
            precondition(steps < 1_000_000, "the session never becomes idle")
            let deadline = session.nextDeadline(after: now)
            let next = queue.min { ($0.at, $0.order) < ($1.at, $1.order) }
            switch (next, deadline) {
            case (let next?, _) where next.at <= end && next.at <= deadline ?? next.at:
                queue.removeAll { $0.order == next.order }
                now = max(now, next.at)
                noteUnsent()
                next.what(self)
            case (_, let deadline?) where deadline <= end:
                precondition(deadline > now, "a deadline must be after now")
                now = deadline
                noteUnsent()
                session.handleDeadline(at: now)
            default:
                now = end
                return
            }
            takeOutputs()
        }
    }

    private func noteUnsent() {
        guard let unsentFrom, let item = audioPackets.last?.itemID else { return }
        _ = session.noteUnsent(itemID: item, position: unsentFrom)
    }

    private func schedule(at: Instant, _ what: @escaping (ScriptedSession) -> Void) {
        order += 1
        queue.append((at, order, what))
    }

    // MARK: What comes out

    /// Takes what the session has to say; every input that the script makes is followed by it.
    func takeOutputs() {
        while let output = session.nextOutput() {
            switch output {
            case .event(let event):
                see(event)
                // The shell adds the balances of the caller's quotas.
                if case .responseDone = event { see(.rateLimitsUpdated([])) }
            case .audio(let packet) where session.parameters.outputTransport == .json:
                see(packet.event)
            case .audio(let packet):
                audioPackets.append(packet)
                audioTimes.append(Int(now.nanoseconds / 1_000_000))
            case .measured(let hop, _): measured.append(hop)
            case .answered(let delay): answered.append(delay)
            case .transcribed(let itemID): transcribed.append(itemID)
            case .dropAudio(let responseID):
                note("server", "drops queued audio of \(alias(responseID))")
            case .dropItemAudio(let itemID):
                note("server", "drops queued audio of \(alias(itemID))")
            case .playback(let command): note("server", "tells the client: \(command)")
            case .command(let command): perform(command)
            case .hangUp: hungUp = hungUp ?? Int(now.nanoseconds / 1_000_000)
            case .failed(let fault): faults.append(fault)
            case .recorded(let chunk): chunks.append(chunk)
            }
        }
    }

    /// Ends the session's recording, now.
    func endRecording(discards: Bool = false) {
        if let chunk = session.endRecording(discards: discards, at: now) { chunks.append(chunk) }
    }

    private func transcribe(_ itemID: String, _ utterance: Utterance) {
        samplesTranscribed.append(utterance.sampleCount)
        earlierRecognitions.append(utterance.earlier)
        askedLanguages.append(utterance.language)
        let language = heardLanguage
        let result = transcripts.isEmpty ? .success("") : transcripts.removeFirst()
        let name = nameRecognition(of: itemID)
        for part in transcriptParts {
            answer(after: recognitionDelay / 2, unless: name) {
                .transcriptPart(itemID: itemID, text: part)
            }
        }
        answer(after: recognitionDelay, unless: name) {
            switch result {
            case .success(let text):
                .transcript(itemID: itemID, text: text, language: language)
            case .failure(let error): .transcriptionFailed(itemID: itemID, error)
            }
        }
    }

    private func perform(_ command: AgentCommand) {
        switch command {
        case .prepareRecognition: preparations += 1
        case .withdrawHypothesis: withdrawals += 1
        case .transcribe(let itemID, let utterance): transcribe(itemID, utterance)
        case .hypothesize(let itemID, let utterance, let use):
            let milliseconds = utterance.sampleCount / 16
            hypotheses.append((Int(now.nanoseconds / 1_000_000), milliseconds, use))
            earlierRecognitions.append(utterance.earlier)
            let text = hypothesis(milliseconds)
            let language = heardLanguage
            answer(
                after: text == nil ? .zero : hypothesisDelay, unless: nameRecognition(of: itemID)
            ) {
                text.map { .hypothesis(itemID: itemID, text: $0, language: language) }
                    ?? .hypothesisFailed(itemID: itemID)
            }
        case .judgeTurnEnd(let itemID, let audio):
            let probability = turnEnd(turnEndsAsked.count)
            turnEndsAsked.append((Int(now.nanoseconds / 1_000_000), audio.sampleCount / 16))
            answer(after: .milliseconds(40)) {
                .turnEnd(itemID: itemID, probability: probability)
            }
        case .encodeAudio(let itemID, let audio, let format):
            answer(after: .milliseconds(5)) {
                .audioEncoded(itemID: itemID, (try? audio.encoded(as: format)) ?? [])
            }
        case .respond(let id, let request):
            requests.append(request)
            play(replies.isEmpty ? .text("Yes.") : replies.removeFirst(), for: id)
        case .speak(let id, let request):
            spoken.append(request.text)
            spokenLanguages.append(request.language)
            let rate = speechRate
            let samples = [Int16](
                repeating: 1_000, count: rate.samples(inMilliseconds: 50 * request.text.count))
            speechGeneration += 1
            let generation = "speech\(speechGeneration)"
            cancelled.remove(id)
            if speechFails {
                answer(after: .milliseconds(15), unless: id) {
                    .speechFailed(responseID: id, .overloaded)
                }
                return
            }
            let chunks =
                speech.map { $0(request.text) } ?? [SpeechChunk(samples: samples, rate: rate)]
            for chunk in chunks {
                answer(after: .milliseconds(15), unless: id, generation) {
                    .speech(responseID: id, chunk)
                }
            }
            answer(after: .milliseconds(15), unless: id, generation) {
                .speechFinished(responseID: id)
            }
        case .cancelResponse(let id):
            responsesStopped += 1
            cancelled.insert(id)
            if let reply = replyNames.removeValue(forKey: id) { cancelled.insert(reply) }
        case .cancelSpeech: cancelled.insert("speech\(speechGeneration)")
        case .cancelTranscription(let itemID):
            cancelled.formUnion(recognitions.removeValue(forKey: itemID) ?? [])
        case .tools(let command): perform(command)
        }
    }

    private func perform(_ command: ToolCommand) {
        toolCommands.append("\(command)")
        switch command {
        case .list(let itemID, let server):
            let result = toolServer.lists[server.serverLabel] ?? .success([])
            answer(after: toolServer.listDelay, unless: itemID) {
                .tools(.listed(itemID: itemID, result))
            }
        case .call(let itemID, _, let name, let arguments):
            toolCalls.append("\(name) \(arguments)")
            guard let answered = toolServer.answers[name] else { return }
            answer(after: answered.after, unless: itemID) {
                .tools(.called(itemID: itemID, answered.result))
            }
        case .cancel(let itemID): cancelled.insert(itemID)
        case .close(let connection): cancelled.insert(connection)
        }
    }

    private func nameRecognition(of itemID: String) -> String {
        order += 1
        let name = "recognition\(order)"
        recognitions[itemID, default: []].append(name)
        return name
    }

    private func play(_ reply: ScriptedReply, for id: String) {
        var delay = Duration.zero
        order += 1
        let name = "reply\(order)"
        replyNames[id] = name
        for piece in reply.pieces {
            delay += piece.after
            answer(after: delay, unless: name) { .modelDelta(responseID: id, piece.delta) }
        }
        switch reply.end {
        case nil: break
        case .some(nil): answer(after: delay, unless: name) { .modelFinished(responseID: id) }
        case .some(let error?):
            answer(after: delay, unless: name) { .modelFailed(responseID: id, error) }
        }
    }

    private func answer(
        after delay: Duration, unless names: String..., event: @escaping () -> AgentEvent
    ) {
        schedule(at: now + delay) { script in
            guard script.cancelled.isDisjoint(with: names) else { return }
            script.session.handle(event(), at: script.now)
        }
    }

    private func see(_ event: ServerEvent) {
        var bytes = ByteWriter(capacity: 1_024)
        eventNumber += 1
        writer.write(event, number: eventNumber, into: &bytes)
        let data = Data(bytes.copiedBytes)
        let text = String(decoding: data, as: UTF8.self)
        let found = RealtimeSchema.shared.violations(inServerEvent: text)
        violations += found
        // Every event of every script is checked, whether its test asks or not.
        if !found.isEmpty { Issue.record("\(found)\n\(text)") }
        // swift-format-ignore: NeverUseForceTry
        let parsed = try! JSONSerialization.jsonObject(with: data) as! [String: Any]
        events.append(parsed)
        note("S→C", TranscriptLine(parsed, alias: alias).text)
    }

    private func note(_ direction: String, _ text: String) {
        let milliseconds = now.nanoseconds / 1_000_000
        let padding = String(repeating: "0", count: max(0, 5 - "\(milliseconds)".count))
        transcript.append("+\(padding)\(milliseconds)ms \(direction) \(text)")
    }

    /// A short stable name for an id: `item_…` becomes i1, i2 … in order of appearance.
    private func alias(_ id: String) -> String {
        if let known = aliases[id] { return known }
        guard let prefix = id.first, id.contains("_") else { return id }
        let count = aliases.keys.count { $0.first == prefix } + 1
        aliases[id] = "\(prefix)\(count)"
        return "\(prefix)\(count)"
    }

    private func name(of event: ClientEvent) -> String {
        switch event {
        case .sessionUpdate: "session.update"
        case .inputAudioBufferAppend: "input_audio_buffer.append"
        case .inputAudioBufferCommit: "input_audio_buffer.commit"
        case .inputAudioBufferClear: "input_audio_buffer.clear"
        case .conversationItemCreate: "conversation.item.create"
        case .conversationItemDelete: "conversation.item.delete"
        case .conversationItemRetrieve: "conversation.item.retrieve"
        case .conversationItemTruncate: "conversation.item.truncate"
        case .responseCreate: "response.create"
        case .responseCancel: "response.cancel"
        case .outputAudioBufferClear: "output_audio_buffer.clear"
        case .outputAudioBufferPlayed: "output_audio_buffer.played"
        case .ping: "parley.ping"
        }
    }
}

/// One server event as a line that a person can compare: its type and the fields that matter,
/// ids as aliases, audio as its duration.
struct TranscriptLine {
    let text: String

    init(_ event: [String: Any], alias: (String) -> String) {
        var words = [event["type"] as? String ?? "?"]
        func add(_ label: String, _ value: Any?) {
            switch value {
            case let text as String: words.append("\(label)=\"\(text)\"")
            case let number as NSNumber: words.append("\(label)=\(number)")
            default: break
            }
        }
        func addID(_ label: String, _ value: Any?) {
            if let id = value as? String { words.append("\(label)=\(alias(id))") }
        }
        let item = event["item"] as? [String: Any]
        let response = event["response"] as? [String: Any]
        let details = response?["status_details"] as? [String: Any]
        addID("response", event["response_id"] ?? response?["id"])
        addID("item", event["item_id"] ?? item?["id"])
        addID("after", event["previous_item_id"])
        add("role", item?["role"])
        add("status", item?["status"] ?? response?["status"])
        add("reason", details?["reason"])
        add(
            "code",
            (event["error"] as? [String: Any] ?? details?["error"] as? [String: Any])?["code"])
        for field in ["audio_start_ms", "audio_end_ms", "name", "arguments", "transcript", "text"] {
            add(field, event[field])
        }
        if let delta = event["delta"] as? String {
            if words[0] == "response.output_audio.delta" {
                let bytes = Data(base64Encoded: delta)?.count ?? -1
                words.append("audio=\(bytes / 48)ms")
            } else {
                add("delta", delta)
            }
        }
        text = words.joined(separator: " ")
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
