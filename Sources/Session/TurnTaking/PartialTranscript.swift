// The words of the speech in progress: when its audio is recognised before it is complete, and the
// results. SpeechInput asks for them; VoiceSession shows them to the client.
//
// A hypothesis is made of a snapshot: all of the speech up to now. There are two reasons for one:
//
//   growing  during speech, so that the words can be shown, or decide about a reply. The next one
//            waits until the speech has grown so much that all the work stays within `workFactor`
//            of the audio.
//   pausing  once silence has lasted a moment, when the turn is probably over: its words may then
//            be known before the silence is long enough to end the turn.
//
// Invariant: at most one hypothesis is in flight. The recognised audio is at most `workFactor`
// times the speech, plus the speech once more for pauses.

import Codec

/// The known words of one utterance that has not ended.
struct PartialTranscript {
    /// The beginning of the speech up to a moment, as positions on the audio timeline.
    struct Snapshot: Equatable {
        /// Where speech had last ended.
        let speechEnd: Int
        /// Just past its last sample.
        let end: Int
        /// Whether silence had followed: unless the user goes on, these are all the words.
        let isPause: Bool
    }

    /// Audio that is recognised during speech, as a multiple of the speech. With 3, the interval
    /// between two hypotheses grows by half each time.
    static let workFactor = 3
    /// The shortest interval between two hypotheses: 500 ms, one or two words.
    static let minInterval = 8_000
    /// When words over a reply are heard first, in samples at 16 kHz from the onset: at 400, 500, 650
    /// and 1,000 ms, where InterruptionJudge asks for them. At 300 ms Moonshine invents words for
    /// 45% of nods.
    private static let decisiveMoments = [6_400, 8_000, 10_400, 16_000]
    /// Silence after which speech has probably ended: 200 ms. The detector calls the last soft
    /// consonant silence; less would cut it off.
    static let pauseSilence = 3_200
    /// How long after a failure no hypothesis is asked for: 320 ms.
    static let retryInterval = 5_120

    /// The snapshot that is being recognised.
    private(set) var inFlight: Snapshot?
    /// The words of a snapshot.
    struct Hypothesis {
        let snapshot: Snapshot
        let text: String
    }

    /// The newest hypothesis.
    private(set) var newest: Hypothesis?
    /// The words that the client has been shown.
    var agreement = TranscriptAgreement()

    /// Bytes of the words that are known.
    var heldBytes: Int {
        (newest?.text.heapBytes ?? 0) + agreement.heldBytes + earlier.heldBytes
    }

    /// What the recogniser has found in the speech so far.
    let earlier = EarlierRecognition()

    private let start: Int
    private var samplesRecognised = 0
    private var lastSnapshot: Snapshot?
    /// Whether the hypothesis in flight is not needed if no worker has begun with it.
    private var isWithdrawn = false

    /// - Parameter start: where the speech begins on the timeline, padding included.
    init(start: Int) {
        self.start = start
    }

    /// The snapshot to recognise now, or nil.
    /// - Parameters:
    ///   - end: how far the audio has come.
    ///   - speechEnd: where speech last ended; `end` during speech.
    ///   - showsWords: whether words are wanted during speech.
    ///   - decisiveFrom: the onset of speech over a reply, about which its words decide.
    func nextSnapshot(
        end: Int, speechEnd: Int, showsWords: Bool, decisiveFrom onset: Int? = nil
    ) -> Snapshot? {
        let silence = end - speechEnd
        let length = end - start
        if silence >= Self.pauseSilence {
            guard samplesRecognised + length <= (Self.workFactor + 1) * length else { return nil }
            if let last = lastSnapshot, last.isPause, last.speechEnd == speechEnd {
                // It was asked for already, and is asked for again only after a failure.
                guard inFlight == nil, newest?.snapshot != last,
                    end - last.end >= Self.retryInterval
                else { return nil }
            }
            return Snapshot(speechEnd: speechEnd, end: end, isPause: true)
        }
        guard showsWords, silence == 0, inFlight == nil,
            end >= nextMoment(decisiveFrom: onset),
            samplesRecognised + length <= Self.workFactor * length
        else { return nil }
        return Snapshot(speechEnd: speechEnd, end: end, isPause: false)
    }

    private func nextMoment(decisiveFrom onset: Int?) -> Int {
        let last = lastSnapshot?.end ?? start
        let moment = onset.flatMap { onset in
            Self.decisiveMoments.lazy.map { onset + $0 }.first { $0 > last }
        }
        return moment ?? last + Self.minInterval
    }

    /// Notes that a snapshot is being recognised. The result of an earlier one is not wanted any
    /// more.
    mutating func handleAsked(_ snapshot: Snapshot) {
        samplesRecognised += snapshot.end - start
        lastSnapshot = snapshot
        inFlight = snapshot
        isWithdrawn = false
    }

    /// Takes the words of the hypothesis that was in flight.
    mutating func handleHypothesis(_ text: String) {
        guard let snapshot = inFlight.take() else { return }
        newest = Hypothesis(snapshot: snapshot, text: text)
    }

    /// The hypothesis in flight has failed. It does not count as recognised audio.
    mutating func handleFailure() {
        guard let failed = inFlight.take() else { return }
        samplesRecognised -= failed.end - start
    }

    /// Withdraws the hypothesis in flight where more has been said since its pause: its words are not
    /// the turn's. They come nevertheless where a worker has begun with them, to be shown.
    mutating func withdrawIfOutrun(
        bySpeechTo speechEnd: Int, of itemID: String, _ context: SessionContext
    ) {
        guard let inFlight, inFlight.isPause, inFlight.speechEnd != speechEnd, !isWithdrawn else {
            return
        }
        isWithdrawn = true
        context.outputs.append(.command(.withdrawHypothesis(itemID: itemID)))
    }

    /// The hypothesis in flight is not needed any more.
    func cancelHypothesis(of itemID: String, _ context: SessionContext) {
        if inFlight != nil {
            context.outputs.append(.command(.cancelTranscription(itemID: itemID)))
        }
    }

    /// The words of a turn whose speech ended at a position, if they are known.
    func words(upTo speechEnd: Int) -> String? {
        guard let newest, newest.snapshot.isPause, newest.snapshot.speechEnd == speechEnd else {
            return nil
        }
        return newest.text
    }

    /// Whether the hypothesis in flight will have all words of a turn whose speech ended at a
    /// position.
    func isRecognizing(upTo speechEnd: Int) -> Bool {
        inFlight.map { $0.isPause && $0.speechEnd == speechEnd } ?? false
    }
}
