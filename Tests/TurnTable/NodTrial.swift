// One reply with speech over it, through a real session on a virtual clock: whether the speech stops
// the reply, and when. The embedded recogniser answers each hypothesis at the moment at which the
// session asks for it, after 40 ms and 4% of the audio.

import Codec
import Session

/// What became of a reply.
struct NodOutcome {
    /// How many replies were interrupted.
    var interruptions = 0
    var isStopped: Bool { interruptions > 0 }
    /// From the onset of the speech that the session heard first to the interruption, in ms.
    var stoppedAfter: Int?
    /// How often speech was noticed, and how long it held the reply in all, in ms.
    var onsets = 0
    var held = 0
    /// What was heard.
    var heard: [String] = []
}

/// A client that listens to a long reply.
struct NodTrial {
    /// A reply without a question. Each sentence lasts 10 s.
    private static let reply =
        "The museum is open from ten to six, and on Thursdays until nine in the evening. Tickets "
        + "are eleven euros at the door. Children below twelve do not pay, and the garden behind the "
        + "house is free for all visitors."
    /// When the user speaks, in ms.
    static let start = 2_000

    private let session: VoiceSession
    private let recognizer: CachedRecognizer
    private var now = 0
    private var pending: [(at: Int, itemID: String?, event: AgentEvent)] = []
    private var outcome = NodOutcome()
    private var onset: Int?
    private var heldSince: Int?
    private let isRepeated: Bool

    /// - Parameters:
    ///   - threshold: of `server_vad`.
    ///   - isRepeated: whether another reply follows each.
    init(
        _ rule: TurnDetectionParameters.Interruption, threshold: Double = 0.5,
        model: VoiceActivityModel, recognizer: CachedRecognizer, isRepeated: Bool = false
    ) {
        var parameters = SessionParameters(model: "none")
        parameters.outputTransport = .binary
        parameters.turnDetection = TurnDetectionParameters(
            mode: .serverVAD(threshold: threshold, silenceMilliseconds: 500),
            createResponse: false)
        parameters.turnDetection?.interruption = rule
        let context = SessionContext(
            voiceActivityModel: model, hasRecognizer: true, makesHypotheses: true,
            hasSynthesizer: true)
        session = VoiceSession(parameters: parameters, context: context, seed: 1)
        self.recognizer = recognizer
        self.isRepeated = isRepeated
    }

    /// Plays the reply, and sends the microphone's samples from the same moment on.
    mutating func run(_ microphone: [Int16]) async throws -> NodOutcome {
        session.start(at: .milliseconds(0))
        try await drain()
        for (index, packet) in try TurnTrial.packets(microphone).enumerated() {
            if session.isIdle, isRepeated || index == 0 { try await speak() }
            try await advance(to: 20 * (index + 1))
            session.handleAudioPacket(packet.span.bytes, at: .milliseconds(now))
            try await drain()
            if outcome.isStopped, !isRepeated { break }
        }
        return outcome
    }

    private mutating func speak() async throws {
        session.handle(
            .responseCreate(ResponseParameters()), eventID: nil, audio: RawSpan(),
            at: .milliseconds(now))
        try await drain()
    }

    private mutating func advance(to time: Int) async throws {
        while true {
            let next = pending.indices.min { pending[$0].at < pending[$1].at }
            let answered = next.map { pending[$0].at } ?? .max
            let deadline =
                session.nextDeadline(after: .milliseconds(now)).map {
                    Int(($0.nanoseconds + 999_999) / 1_000_000)
                } ?? .max
            guard min(answered, deadline) <= time else { break }
            if let next, answered <= deadline {
                let due = pending.remove(at: next)
                now = max(now, due.at)
                session.handle(due.event, at: .milliseconds(now))
            } else {
                now = max(now, deadline)
                session.handleDeadline(at: .milliseconds(now))
            }
            try await drain()
        }
        now = time
    }

    private mutating func drain() async throws {
        while let output = session.nextOutput() {
            switch output {
            case .event(let event): take(event)
            case .command(let command): try await answer(command)
            case .audio where heldSince != nil:
                outcome.held += now - (heldSince ?? now)
                heldSince = nil
            default: break
            }
        }
    }

    private mutating func answer(_ command: AgentCommand) async throws {
        switch command {
        case .respond(let id, _):
            pending.append((now, nil, .modelDelta(responseID: id, .text(Self.reply))))
            pending.append((now, nil, .modelFinished(responseID: id)))
        case .speak(let id, _):
            let samples = [Int16](repeating: 1, count: 16_000 * 10)
            pending.append(
                (now, nil, .speech(responseID: id, SpeechChunk(samples: samples, rate: .hz16000))))
            pending.append((now, nil, .speechFinished(responseID: id)))
        case .hypothesize(let itemID, let utterance, _):
            let text = try await recognizer.transcribe(utterance).text
            outcome.heard.append("\(now - (onset ?? now)) ms \(text)")
            pending.append(
                (
                    now + Self.delay(utterance), itemID,
                    .hypothesis(itemID: itemID, text: text)
                ))
        case .transcribe(let itemID, let utterance):
            let text = try await recognizer.transcribe(utterance).text
            outcome.heard.append("all \(text)")
            pending.append(
                (
                    now + Self.delay(utterance), itemID,
                    .transcript(itemID: itemID, text: text)
                ))
        case .cancelTranscription(let itemID): pending.removeAll { $0.itemID == itemID }
        default: break
        }
    }

    private static func delay(_ utterance: Utterance) -> Int { 40 + utterance.sampleCount / 400 }

    private mutating func take(_ event: ServerEvent) {
        switch event {
        case .inputAudioBufferSpeechStarted(_, let position):
            outcome.onsets += 1
            // The padding before the onset is not speech.
            if onset == nil { onset = position + min(position, 300) }
            heldSince = heldSince ?? now
        case .responseDone(let response):
            guard case .cancelled = response.status else { return }
            outcome.interruptions += 1
            outcome.stoppedAfter = now - (onset ?? now)
        default: break
        }
    }
}
