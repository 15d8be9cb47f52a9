// Whether speech over a reply interrupts it. The reply is held at the speech's onset. Then it is
// either interrupted, and cut at what was heard, or resumed.
//
//   playing ── onset ──▶ held ── lasted long enough (and has words, where asked) ──▶ interrupted
//      ▲                  └── over too soon, or without words ──▶ false interruption ──┐
//      └───────────────────────────────────────────────────────────────────────────────┘
//
// Speech that was over too soon may still turn out to have words: then it interrupts the reply that
// was resumed, at what was heard by then.
//
// The judge decides; ReplyPlayback carries the decisions out. InterruptionWords knows
// which words interrupt.
//
// Invariant: speech is weighed exactly while the reply is held.

import Codec

/// Decides about speech over a reply.
struct InterruptionJudge {
    /// Speech that holds the reply.
    struct Speech: Equatable {
        /// The item that it will become.
        let itemID: String
        /// Where it began on the audio timeline, padding not included.
        let onset: Int
    }

    /// The requirements of speech that interrupts, from the session's settings or the limits.
    struct Rules: Equatable {
        /// How long it must last, in samples at 16 kHz.
        var minSamples: Int
        /// Whether it must have words, too.
        var needsWords: Bool
    }

    /// The next step with the reply.
    enum Decision: Equatable {
        /// Nothing yet.
        case wait
        /// Nothing more is sent until another decision.
        case hold
        /// The reply ends where it was heard.
        case interrupt
        /// The reply goes on from where it was heard.
        case resume
        /// The speech has ended at this position of the audio timeline.
        case endSpeech(at: Int)
    }

    /// Silence after which short speech over a reply is over, whatever a turn's end would wait for:
    /// 500 ms at 16 kHz, the protocol's own silence. The reply is held no longer than that.
    static let longestPause = 8_000
    /// The longest that speech holds a reply before words are found in it, where words are needed:
    /// 5 s at 16 kHz. Music and other voices last longer; a person says a word by then.
    static let longestHold = 80_000

    /// The speech that holds the reply, or nil where the reply is not held.
    private(set) var speech: Speech?
    /// Whether a reply's own words have come back as the user's.
    private(set) var hasHeardEcho = false

    /// Whether the speech of an item holds the reply.
    func isWeighing(_ itemID: String?) -> Bool { itemID != nil && speech?.itemID == itemID }

    /// Speech has begun over a reply.
    /// - Returns: `interrupt` where any speech is enough, or `hold`.
    mutating func handleOnset(
        of itemID: String, at position: Int, _ rules: Rules
    ) -> Decision {
        guard rules.minSamples > 0 || rules.needsWords else { return .interrupt }
        speech = Speech(itemID: itemID, onset: position)
        return .hold
    }

    /// Judges the speech again, after more of it, or of its words, is known.
    /// - Parameters:
    ///   - end: where speech was last found.
    ///   - analysedEnd: how far the audio has been searched for it.
    ///   - words: judges the words that are known, or returns nil where none are.
    func weigh(
        speechEnd end: Int, analysedEnd: Int, _ rules: Rules,
        words: () -> InterruptionWords.Judgement?
    ) -> Decision {
        guard let speech else { return .wait }
        guard end - speech.onset >= rules.minSamples else {
            return analysedEnd - end >= Self.longestPause ? .endSpeech(at: end) : .wait
        }
        guard rules.needsWords, words() != .words else { return .interrupt }
        return analysedEnd - speech.onset >= Self.longestHold ? .resume : .wait
    }

    /// Speech has ended without a decision.
    /// - Returns: `resume`, or `wait` where its words decide.
    func handleSpeechEnd(of itemID: String, _ rules: Rules) -> Decision {
        isWeighing(itemID) && !rules.needsWords ? .resume : .wait
    }

    /// Judges the words of speech over a reply: `none` where they will never be known.
    /// - Parameter isReplyInFlight: whether more of the reply may come.
    /// - Returns: `interrupt` where they are to be answered, otherwise `resume`, or `wait` where
    ///   the reply was resumed before.
    mutating func handleWords(
        _ judgement: InterruptionWords.Judgement, of itemID: String, isReplyInFlight: Bool
    ) -> Decision {
        if judgement == .echo { hasHeardEcho = true }
        // Once the reply is over, "yes" is an answer to it.
        if judgement == .words || (judgement == .backchannel && !isReplyInFlight) {
            return .interrupt
        }
        return isWeighing(itemID) ? .resume : .wait
    }

    /// The reply is not held any more.
    mutating func endHold() { speech = nil }

    /// When a held reply is resumed although no more audio comes, or nil where it is not held.
    /// - Parameters:
    ///   - lastAudio: when audio last came.
    ///   - gap: how long no audio may come.
    func deadline(lastAudio: Instant?, gap: Duration) -> Instant? {
        guard speech != nil else { return nil }
        return lastAudio.map { $0 + gap }
    }

    /// Judges words over a reply.
    /// - Parameters:
    ///   - reply: the reply's words at about that time.
    ///   - isEchoKnown: whether the delay of the reply's echo in the user's audio is known.
    func judge(
        _ words: String, over reply: String, in language: LanguageRules, isEchoKnown: Bool
    ) -> InterruptionWords.Judgement {
        // Where a microphone has picked up a reply before its echo is known, it will again.
        let run = hasHeardEcho && !isEchoKnown ? 1 : InterruptionWords.minEchoRun
        return InterruptionWords.judge(words, over: reply, in: language, run: run)
    }
}
