// Finds where speech starts and stops, from the voice activity of consecutive windows, and with
// `semantic_vad` also from its words and its sound, which TurnEndEstimator judges. It has no
// samples, items or responses: VoiceSession acts on its results.
//
//   silent ── onset windows in a row ≥ threshold ──▶ speaking
//   speaking ── silence for `silenceSamples` ──▶ silent

import Codec

/// Turns the probabilities of 32 ms windows into speech started / speech stopped.
package struct TurnDetector {
    /// The change by a window; positions are on the audio timeline (16 kHz).
    package enum Change: Equatable {
        /// Speech began with the window that starts at this position.
        case started(at: Int)
        /// Speech ended at this position, and enough silence has followed.
        case stopped(at: Int)
    }

    /// Windows of speech in a row that start speech. One alone is a click or the edge of a cough.
    /// 2 (64 ms): the onset stays inside the default 300 ms of prefix padding.
    static let onsetWindows = 2
    /// Distance below the threshold at which the probability counts as silence. The VAD's own
    /// authors use 0.15, which bridges soft consonants.
    static let hysteresis: Float = 0.15

    /// Silence itself reaches about 0.005; a threshold below this would never be left.
    static let lowestThreshold: Float = 0.01

    private var threshold: Float
    /// Judges the speech before a silence. Where nil, silence alone counts.
    private var estimator: TurnEndEstimator?
    /// What is known of the speech.
    private var evidence = TurnEndEstimator.Evidence()
    /// How long the speech's end is waited for, and whether its words may prolong that.
    private var patience = Patience.usual
    private var followsWords = false
    /// Whether its words so far are dictated.
    private var isDictating = false
    /// The silence that ends the speech, as far as that is known.
    private var silenceSamples: Int
    private var windowsAboveThreshold = 0
    private var onset = 0
    /// Where speech was last heard.
    private(set) var lastSpeechEnd = 0
    /// Whether speech has started and not stopped.
    private(set) var isSpeaking = false

    package init(_ parameters: TurnDetectionParameters) {
        switch parameters.mode {
        case .serverVAD(let threshold, let silenceMilliseconds):
            self.threshold = max(Float(threshold), Self.lowestThreshold)
            silenceSamples = SampleRate.hz16000.samples(inMilliseconds: silenceMilliseconds)
        case .semanticVAD(let eagerness):
            let estimator = TurnEndEstimator(eagerness: eagerness)
            self.estimator = estimator
            threshold = 0.5
            silenceSamples = SampleRate.hz16000.samples(
                inMilliseconds: estimator.wait(after: evidence))
        }
    }

    /// Whether it ever matters how speech sounds.
    var judgesSound: Bool { estimator != nil }

    /// Sets how long the end of the speech that has begun is waited for.
    /// - Parameter followsWords: whether the wait becomes `long` while the user dictates.
    mutating func expect(_ patience: Patience, followsWords: Bool) {
        self.patience = patience
        self.followsWords = followsWords
        if let estimator { judge(with: estimator) }
    }

    /// Whether the sound of the speech before a silence, which has lasted up to a position, is to
    /// be judged now. Only `semantic_vad` needs that.
    func wantsProsody(at position: Int) -> Bool {
        estimator != nil && isSpeaking && evidence.finality == nil
            && position - lastSpeechEnd >= Prosody.silenceSamples
    }

    /// Takes the words of the speech up to `lastSpeechEnd`, or nil where they are not known.
    mutating func handleWords(_ transcript: String?, in language: LanguageRules) {
        guard let estimator else { return }
        evidence.ending = transcript.flatMap { TurnEndEstimator.ending(of: $0, in: language) }
        if followsWords, let transcript {
            isDictating = PatienceJudge.isDictating(transcript, in: language)
        }
        judge(with: estimator)
    }

    /// Takes the sound of the speech up to `lastSpeechEnd`, or nil where it could not be measured.
    mutating func handleProsody(_ prosody: Prosody?) {
        guard let estimator else { return }
        evidence.finality = prosody?.finality ?? 0
        judge(with: estimator)
    }

    /// Takes a turn model's probability that the speech up to `lastSpeechEnd` ended the turn.
    /// - Parameter speechMilliseconds: how long the user has spoken.
    mutating func handleTurnEnd(probability: Float, speechMilliseconds: Int) {
        guard let estimator else { return }
        evidence.model = TurnEndEstimator.modelOdds(
            probability, speechMilliseconds: speechMilliseconds)
        judge(with: estimator)
    }

    private mutating func judge(with estimator: TurnEndEstimator) {
        silenceSamples = SampleRate.hz16000.samples(
            inMilliseconds: estimator.wait(
                after: evidence, patience: isDictating ? .long : patience))
    }

    /// Takes the probability (0…1) that the window `window` of the timeline holds speech.
    package mutating func handle(probability: Float, window: Range<Int>) -> Change? {
        if probability >= threshold {
            if windowsAboveThreshold == 0 { onset = window.lowerBound }
            windowsAboveThreshold += 1
            handleSpeech(until: window.upperBound)
            guard !isSpeaking, windowsAboveThreshold >= Self.onsetWindows else { return nil }
            isSpeaking = true
            return .started(at: onset)
        }
        if isSpeaking, probability >= max(threshold - Self.hysteresis, Self.lowestThreshold) {
            handleSpeech(until: window.upperBound)
            return nil
        }
        windowsAboveThreshold = 0
        guard isSpeaking, window.upperBound - lastSpeechEnd >= silenceSamples else { return nil }
        isSpeaking = false
        return .stopped(at: lastSpeechEnd)
    }

    private mutating func handleSpeech(until position: Int) {
        lastSpeechEnd = position
        // The speech goes on: the known words are not all of them.
        guard let estimator, evidence != TurnEndEstimator.Evidence() else { return }
        evidence = TurnEndEstimator.Evidence()
        judge(with: estimator)
    }

    /// How much more silence ends the speech, in samples at 16 kHz, once the audio ends at a position.
    func silenceLeft(at position: Int) -> Int {
        max(0, silenceSamples - max(0, position - lastSpeechEnd))
    }

    /// Changes the parameters; speech in progress stays speech.
    mutating func update(_ parameters: TurnDetectionParameters) {
        let fresh = TurnDetector(parameters)
        threshold = fresh.threshold
        estimator = fresh.estimator
        silenceSamples = fresh.silenceSamples
        // The known words and sound of the speech are still valid.
        if let estimator { judge(with: estimator) }
    }

    /// Resumes speech that started before: silence from here on ends it.
    mutating func resume(at position: Int) {
        isSpeaking = true
        lastSpeechEnd = position
    }

    /// Forgets speech in progress: its audio was committed or cleared by the client.
    mutating func reset() {
        windowsAboveThreshold = 0
        isSpeaking = false
        evidence = TurnEndEstimator.Evidence()
        isDictating = false
        expect(.usual, followsWords: false)
    }
}
