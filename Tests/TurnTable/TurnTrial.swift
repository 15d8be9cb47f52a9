// Runs one utterance with one pause through a real session on a virtual clock, and measures when
// its turn ended.

import Codec
import Session

/// A configuration of turn detection.
struct TurnMode: Sendable {
    let name: String
    /// Nil: the client commits exactly when the speech ends.
    let detection: TurnDetectionParameters.Mode?
    /// Whether partial transcripts are available before the turn ends.
    var hasWords = true
    /// Whether prosody is used.
    var hasProsody = true
}

/// The outcome of one trial; times in milliseconds.
struct TurnOutcome {
    /// Whether the turn ended in the pause.
    var isCutOff = false
    /// Whether the speech was never detected, or its turn never ended.
    var isLost = false
    /// Whether its recording is used for evaluation only, not to choose parameters.
    var isJudge = false
    /// From the end of the speech to the commit of its turn.
    var wait = 0
    /// From the commit to its transcript.
    var transcriptAfterTurn = 0
    /// From the end of the speech to its transcript.
    var transcript: Int { wait + transcriptAfterTurn }
    /// From the start of the audio to the first words shown; nil: none before the turn's end.
    var firstWords: Int?
    /// Words of the transcript, and how many of them were shown before the turn's end.
    var words = 0
    var wordsShownEarly = 0
    /// Whether the transcript contradicts words that were shown before.
    var isRevised = false
    /// Audio recognised, as a multiple of the turn's audio.
    var work = 0.0
}

/// Sends speech to a session like a client, 20 ms at a time, and answers like its agents.
struct TurnTrial {
    /// Simulated time of recognition: 40 ms and 4% of the audio, about what one idle core needs.
    private static func recognitionMilliseconds(_ samples: Int) -> Int { 40 + samples / 400 }

    /// Whether recognition takes the time measured on this machine.
    var isTimed = false
    private let session: VoiceSession
    private let recognizer: CachedRecognizer
    private var now = 0
    private var pending: [(at: Int, itemID: String, event: AgentEvent)] = []
    /// Samples recognised so far.
    private var recognized = 0
    /// Time of the latest transcript.
    private var transcribed: Int?
    private var events: [(at: Int, event: ServerEvent)] = []

    private let mode: TurnMode

    /// - Parameter showsWords: whether the client requests transcripts.
    init(
        _ mode: TurnMode, model: VoiceActivityModel, recognizer: CachedRecognizer,
        showsWords: Bool = false
    ) {
        var parameters = SessionParameters(model: "none")
        parameters.transcription = showsWords ? TranscriptionParameters() : nil
        parameters.turnDetection = mode.detection.map {
            TurnDetectionParameters(mode: $0, createResponse: false)
        }
        let context = SessionContext(
            voiceActivityModel: model, hasRecognizer: true, makesHypotheses: mode.hasWords,
            hasSynthesizer: false, judgesProsody: mode.hasProsody)
        session = VoiceSession(parameters: parameters, context: context, seed: 1)
        self.mode = mode
        self.recognizer = recognizer
    }

    /// Runs until the turn with the last words has its transcript.
    mutating func run(
        _ speech: PausedSpeech, pauseMilliseconds: Int, _ mix: SpeechMix = .clean
    ) async throws -> TurnOutcome {
        session.start(at: .milliseconds(0))
        try await drain()
        let resumption = speech.resumption(pauseMilliseconds: pauseMilliseconds)
        let end = speech.end(pauseMilliseconds: pauseMilliseconds)
        var samples = speech.samples(pauseMilliseconds: pauseMilliseconds)
        mix.apply(to: &samples, level: speech.level, voice: PausedSpeech.secondVoice)
        for (index, packet) in try Self.packets(samples).enumerated() {
            // A packet is sent when its last sample has been spoken.
            try await advance(to: 20 * (index + 1))
            session.handleAudioPacket(packet.span.bytes, at: .milliseconds(now))
            try await drain()
            if mode.detection == nil, (end..<end + 20).contains(now) {
                session.handle(
                    .inputAudioBufferCommit, eventID: nil, audio: RawSpan(), at: .milliseconds(now))
                try await drain()
            }
            if var outcome = outcome(resumption: resumption, end: end) {
                outcome.isJudge = speech.recording % 2 == 1
                return outcome
            }
        }
        // This happens in noise.
        var lost = TurnOutcome()
        lost.isLost = true
        lost.isCutOff = events.contains { _, event in
            guard case .inputAudioBufferSpeechStopped(_, let position) = event else { return false }
            return position < resumption
        }
        return lost
    }

    private mutating func advance(to time: Int) async throws {
        while let next = pending.indices.min(by: { pending[$0].at < pending[$1].at }),
            pending[next].at <= time
        {
            let due = pending.remove(at: next)
            now = due.at
            session.handle(due.event, at: .milliseconds(now))
            try await drain()
        }
        now = time
    }

    private mutating func drain() async throws {
        while let output = session.nextOutput() {
            switch output {
            case .event(let event): events.append((now, event))
            case .measured(.transcript, _): transcribed = now
            case .command(.hypothesize(let itemID, let utterance, _)):
                let heard = try await hear(utterance)
                answer(.hypothesis(itemID: itemID, text: heard.text), heard.delay, itemID)
            case .command(.transcribe(let itemID, let utterance)):
                let heard = try await hear(utterance)
                answer(.transcript(itemID: itemID, text: heard.text), heard.delay, itemID)
            case .command(.cancelTranscription(let itemID)):
                pending.removeAll { $0.itemID == itemID }
            default: break
            }
        }
    }

    private mutating func hear(
        _ utterance: Utterance
    ) async throws -> (text: String, delay: Int) {
        recognized += utterance.sampleCount
        let result = try await recognizer.transcribe(utterance, again: isTimed)
        let assumed = Self.recognitionMilliseconds(utterance.sampleCount)
        return (result.text, isTimed ? result.milliseconds : assumed)
    }

    private mutating func answer(_ event: AgentEvent, _ delay: Int, _ itemID: String) {
        pending.append((now + delay, itemID, event))
    }

    /// The outcome, once the turn after the pause has its transcript.
    private func outcome(resumption: Int, end: Int) -> TurnOutcome? {
        guard let transcribed else { return nil }
        var outcome = TurnOutcome()
        var shownEarly = ""
        var shown = ""
        var turnEnd: Int?
        for (at, event) in events {
            switch event {
            case .inputAudioBufferSpeechStopped(_, let position):
                if position < resumption {
                    outcome.isCutOff = true
                } else {
                    turnEnd = at
                }
            case .inputAudioBufferCommitted where mode.detection == nil: turnEnd = at
            case .transcriptionDelta(_, _, let delta):
                shown += delta
                guard turnEnd == nil else { continue }
                if outcome.firstWords == nil { outcome.firstWords = at }
                shownEarly += delta
            case .transcriptionCompleted(_, _, let transcript, let seconds):
                outcome.isRevised = shown != transcript
                outcome.words = transcript.split(separator: " ").count
                outcome.wordsShownEarly = shownEarly.split(separator: " ").count
                outcome.work = Double(recognized) / 16_000 / seconds
            default: break
            }
        }
        guard let turnEnd, transcribed >= turnEnd else { return nil }
        outcome.wait = turnEnd - end
        outcome.transcriptAfterTurn = transcribed - turnEnd
        return outcome
    }

    /// 20 ms packets of `audio/pcm` (24 kHz).
    static func packets(_ samples: [Int16]) throws -> [[UInt8]] {
        var resampler = try Resampler(from: .hz16000, to: .hz24000)
        var output = [Int16](repeating: 0, count: resampler.maxOutputSamples(for: samples.count))
        let count = samples.withUnsafeBufferPointer { input in
            output.withUnsafeMutableBufferPointer { resampler.process(input, into: $0) }
        }
        return stride(from: 0, to: count - 480, by: 480).map { start in
            output[start..<start + 480].flatMap {
                [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)]
            }
        }
    }
}
