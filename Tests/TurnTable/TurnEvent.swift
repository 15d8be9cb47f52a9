// The silences of which `turn-table --pauses` asks whether a turn is over: ends of turns, and pauses
// in them. An event has what the server would know of it, and when it would know it.

import Agents
import Codec
import Session

/// A silence after speech.
struct TurnEvent: Sendable {
    /// Whose speech it is: events of one source are judged by weights fitted to the others.
    let source: String
    /// Whether the turn is over. Otherwise the speaker goes on.
    let isEnd: Bool
    /// How long the pause lasts, in milliseconds at 16 kHz. Nil for one that was cut into a recording,
    /// which counts as each of `TurnEvents.cutPauses`, and for an end.
    let pause: Int?
    /// What is known of the speech in the end, the turn model's judgement aside.
    let evidence: TurnEndEstimator.Evidence
    /// When the words are known, in milliseconds of silence; nil where they never are.
    let wordsKnown: Int?
    /// The turn model's log odds by the silence, as far as the silence lasts.
    let judgements: [(silence: Int, odds: Float)]
    /// What was heard, for a look at the events (`--events`).
    let words: String

    /// What is known after so much silence, in milliseconds.
    func evidence(after silence: Int, usesModel: Bool) -> TurnEndEstimator.Evidence {
        var known = evidence
        if wordsKnown.map({ $0 > silence }) ?? true { known.ending = nil }
        known.model =
            usesModel
            ? judgements.last { $0.silence + TurnEvents.judgingMilliseconds <= silence }?.odds : nil
        return known
    }

    /// The silences at which something more becomes known, in milliseconds.
    func moments(usesModel: Bool) -> [Int] {
        let judged = usesModel ? judgements.map { $0.silence + TurnEvents.judgingMilliseconds } : []
        return (judged + [wordsKnown].compactMap(\.self)).sorted()
    }

    /// Whether a turn that ends after so much silence is cut off: 0, 1, or a share of the pauses.
    func cutOff(after silence: Int) -> Float {
        guard !isEnd else { return 0 }
        if let pause { return silence < pause ? 1 : 0 }
        let cut = TurnEvents.cutPauses.count { silence < $0 }
        return Float(cut) / Float(TurnEvents.cutPauses.count)
    }
}

/// Finds the events of recordings.
struct TurnEvents {
    /// Pauses that were cut into a recording, in milliseconds.
    static let cutPauses = Array(stride(from: 200, through: 900, by: 100))
    /// The shortest and the longest pause of a person that counts, in milliseconds.
    private static let pauses = 200...5_000
    /// Silences after which the turn model is asked, in milliseconds.
    static let checks = [200, 400, 700]
    /// Assumed time of a judgement: 60 ms on one idle core.
    static let judgingMilliseconds = 60
    /// The speech before a silence that is recognised: 15 s at 16 kHz.
    private static let maxHeard = 15 * 16_000

    let voiceActivity: VoiceActivityModel
    let recognizer: CachedRecognizer
    /// Nil: its judgements are left out.
    let turnModel: SmartTurn?

    /// Every pause of a recording and its end. The recording is one turn.
    /// - Parameter hasWords: whether the recogniser understands its language.
    func all(
        in recording: [Int16], source: String, hasWords: Bool
    ) async throws -> [TurnEvent] {
        let samples = Self.room(400) + recording + Self.room(2_200)
        let stretches = speech(in: samples)
        var events: [TurnEvent] = []
        for (index, stretch) in stretches.enumerated() {
            let isEnd = index == stretches.count - 1
            let pause =
                isEnd ? nil : (stretches[index + 1].lowerBound - stretch.upperBound) / 16
            if let pause, !Self.pauses.contains(pause) { continue }
            events.append(
                try await event(
                    samples, stretches[0].lowerBound..<stretch.upperBound,
                    since: stretch.lowerBound,
                    source: source, isEnd: isEnd, pause: pause, hasWords: hasWords))
        }
        return events
    }

    /// The silence after the last speech of a recording.
    func last(
        of recording: [Int16], source: String, isEnd: Bool, hasWords: Bool
    ) async throws -> TurnEvent? {
        let samples = Self.room(400) + recording + Self.room(2_200)
        let stretches = speech(in: samples)
        guard let first = stretches.first, let last = stretches.last else { return nil }
        return try await event(
            samples, first.lowerBound..<last.upperBound, since: last.lowerBound, source: source,
            isEnd: isEnd, pause: nil, hasWords: hasWords)
    }

    /// Judges the silence after the speech of a turn.
    /// - Parameters:
    ///   - turn: from its first onset to the end of its last speech.
    ///   - start: where its last stretch of speech began.
    private func event(
        _ samples: [Int16], _ turn: Range<Int>, since start: Int, source: String, isEnd: Bool,
        pause: Int?, hasWords: Bool
    ) async throws -> TurnEvent {
        // 300 ms of padding, as sessions keep.
        let first = max(0, turn.lowerBound - 4_800)
        let end = turn.upperBound
        var evidence = TurnEndEstimator.Evidence()
        let sounding = max(start, end - Prosody.maxSamples)..<end + Prosody.silenceSamples
        evidence.finality = samples[sounding].withUnsafeBufferPointer {
            Prosody.measure($0, silence: Prosody.silenceSamples)?.finality
        }
        var words = ""
        if hasWords {
            let heard = max(first, end - Self.maxHeard)..<end + 3_200
            words = try await recognizer.transcribe(Utterance(samples: Array(samples[heard]))).text
            evidence.ending = TurnEndEstimator.ending(of: words, in: .rules(for: "en"))
        }
        var judgements: [(silence: Int, odds: Float)] = []
        for silence in Self.checks where silence <= pause ?? .max {
            guard let turnModel else { break }
            let probability = try turnModel.probability(
                ofEndAfter: samples[first..<end + 16 * silence])
            judgements.append(
                (
                    silence,
                    TurnEndEstimator.modelOdds(
                        probability, speechMilliseconds: (end - turn.lowerBound) / 16)
                ))
        }
        return TurnEvent(
            source: source, isEnd: isEnd, pause: pause, evidence: evidence,
            wordsKnown: hasWords ? 240 + (end - first) / 400 : nil, judgements: judgements,
            words: words)
    }

    /// Where there is speech, as a session finds it.
    private func speech(in samples: [Int16]) -> [Range<Int>] {
        var activity = VoiceActivityDetector(model: voiceActivity)
        var detector = TurnDetector(
            TurnDetectionParameters(mode: .serverVAD(threshold: 0.5, silenceMilliseconds: 0)))
        let size = VoiceActivityDetector.windowSamples
        var found: [Range<Int>] = []
        var onset = 0
        samples.withUnsafeBufferPointer { samples in
            for start in stride(from: 0, through: samples.count - size, by: size) {
                let window = UnsafeBufferPointer(rebasing: samples[start..<start + size])
                let probability = activity.process(window)
                switch detector.handle(probability: probability, window: start..<start + size) {
                case .started(let position): onset = position
                case .stopped(let position): found.append(onset..<position)
                case nil: break
                }
            }
        }
        return found
    }

    /// About -70 dB of noise, because recordings are never digital silence.
    static func room(_ milliseconds: Int) -> [Int16] {
        var noise = SeededNoise()
        return (0..<16 * milliseconds).map { _ in Int16(8 * noise.next()) }
    }
}
