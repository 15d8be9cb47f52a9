// The words of the speech in progress: when its audio is to be recognised before it is complete,
// and what came of it. Who asks, and what the client is shown, is VoiceSession's
// (VoiceSession+Hypotheses).
//
// A hypothesis is made of a snapshot: all of the speech up to now. Two things call for one:
//   growing  while somebody speaks, so that the words can be shown; each next one waits until the
//            speech has grown so much that the whole work stays within `workFactor` of the audio
//   pausing  once silence has lasted a moment, when the turn is probably over: its words may then
//            be known before the silence is long enough to end the turn
// Invariant: at most one hypothesis is in flight; the audio recognised never exceeds
// `workFactor` × the speech, plus one more of it for pauses.

import Codec

/// What is known of the words of one utterance that has not ended.
struct PartialTranscript {
    /// Some of the speech, positions on the audio timeline.
    struct Snapshot: Equatable {
        /// Where speech had last ended.
        let speechEnd: Int
        /// Just past its last sample.
        let end: Int
        /// Whether silence had followed: if nothing more is said, these are all the words.
        let isPause: Bool
    }

    /// Audio recognised while somebody speaks, as a multiple of the speech. 3 lets the interval
    /// between two hypotheses grow by half each time.
    static let workFactor = 3
    /// The shortest interval between two hypotheses: 500 ms, one or two words.
    static let minInterval = 8_000
    /// Silence after which speech has probably ended: 200 ms. The detector calls the last soft
    /// consonant silence; less would cut it off.
    static let pauseSilence = 3_200
    /// How long a hypothesis that could not be had is not asked for again: 320 ms.
    static let retryInterval = 5_120

    /// What is being recognised.
    private(set) var inFlight: Snapshot?
    /// What was recognised of a snapshot.
    struct Hypothesis {
        let snapshot: Snapshot
        let text: String

        /// The words that are whole: of speech that goes on, the last may be the half of one.
        var wholeWords: String {
            snapshot.isPause ? text : text.split(separator: " ").dropLast().joined(separator: " ")
        }
    }

    /// The newest hypothesis.
    private(set) var newest: Hypothesis?
    /// What the client has been shown.
    var agreement = TranscriptAgreement()

    /// Bytes of the words that are known.
    var heldBytes: Int { (newest?.text.heapBytes ?? 0) + agreement.heldBytes }

    private let start: Int
    private var samplesRecognised = 0
    private var lastSnapshot: Snapshot?

    /// - Parameter start: where the speech begins on the timeline, padding included.
    init(start: Int) {
        self.start = start
    }

    /// The snapshot to recognise now, or nil.
    /// - Parameters:
    ///   - end: how far the audio has come.
    ///   - speechEnd: where speech last ended; `end` while somebody speaks.
    ///   - showsWords: whether the words are wanted while they are spoken.
    func nextSnapshot(end: Int, speechEnd: Int, showsWords: Bool) -> Snapshot? {
        let silence = end - speechEnd
        let length = end - start
        if silence >= Self.pauseSilence {
            guard samplesRecognised + length <= (Self.workFactor + 1) * length else { return nil }
            if let last = lastSnapshot, last.isPause, last.speechEnd == speechEnd {
                // Asked for already; and asked again only if there was no answer.
                guard inFlight == nil, newest?.snapshot != last,
                    end - last.end >= Self.retryInterval
                else { return nil }
            }
            return Snapshot(speechEnd: speechEnd, end: end, isPause: true)
        }
        guard showsWords, silence == 0, inFlight == nil,
            end - (lastSnapshot?.end ?? start) >= Self.minInterval,
            samplesRecognised + length <= Self.workFactor * length
        else { return nil }
        return Snapshot(speechEnd: speechEnd, end: end, isPause: false)
    }

    /// A snapshot is being recognised; one before it is not waited for any more.
    mutating func handleAsked(_ snapshot: Snapshot) {
        samplesRecognised += snapshot.end - start
        lastSnapshot = snapshot
        inFlight = snapshot
    }

    /// The words of what was in flight have come.
    mutating func handleHypothesis(_ text: String) {
        guard let snapshot = inFlight.take() else { return }
        newest = Hypothesis(snapshot: snapshot, text: text)
    }

    /// What was in flight could not be recognised. It cost nothing, or nothing that can be helped.
    mutating func handleFailure() {
        inFlight = nil
    }

    /// The words of a turn whose speech ended at a position, if they are known.
    func words(upTo speechEnd: Int) -> String? {
        guard let newest, newest.snapshot.isPause, newest.snapshot.speechEnd == speechEnd else {
            return nil
        }
        return newest.text
    }

    /// Whether what is in flight will be the words of a turn whose speech ended at a position.
    func isRecognizing(upTo speechEnd: Int) -> Bool {
        inFlight.map { $0.isPause && $0.speechEnd == speechEnd } ?? false
    }
}
