// Whether speech over a reply interrupts it. The reply is held at the speech's onset. Then it is
// either interrupted, and cut at what was heard, or resumed.
//
//   playing ── onset ──▶ held ── lasted long enough, for what it says ──▶ interrupted
//      ▲                  └── over too soon, a nod, no words ──▶ false interruption ──┐
//      └──────────────────────────────────────────────────────────────────────────────┘
//
// The less certain its words are, the longer speech must last. Times from the onset, where
// `min_interruption_ms` is 500, for which PartialTranscript asks for words at these moments (the table of
// `make nod-table` is in LoadTests/results/turns.md):
//
//              a command   two words   one word   three words
//     any         500         500         500         500      and without words
//     words       400         500         650         500
//     strict      650          –           –         1,000
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
        /// What it must say.
        var rule: TurnDetectionParameters.Interruption

        /// Whether it must have words.
        var needsWords: Bool { rule != .any }

        /// How long speech must last that says this, in samples at 16 kHz. Nil: it does not
        /// interrupt.
        func samples(for words: InterruptionWords.Judgement) -> Int? {
            let step = InterruptionJudge.step
            switch (rule, words) {
            case (.any, _): return minSamples
            case (.words, .command): return max(0, minSamples - step)
            case (.words, .words(1)), (.strict, .command): return minSamples + step * 3 / 2
            case (.words, .words): return minSamples
            case (.strict, .words(3...)): return minSamples + 5 * step
            default: return nil
            }
        }

        /// Whether speech interrupts that is over, and lasted this long in samples at 16 kHz. One or
        /// two short words that mean nothing may be a nod that was misheard: "mhm" becomes "Hannah?".
        func interrupts(_ words: InterruptionWords.Judgement, lasting samples: Int) -> Bool {
            switch (rule, words) {
            case (_, .command), (.any, .words), (_, .words(3...)): true
            case (.words, .words): samples > InterruptionJudge.longestNod
            default: false
            }
        }
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
    /// The step of the table above: 100 ms at 16 kHz.
    private static let step = 1_600
    /// The longest nod whose words are misheard: 650 ms at 16 kHz.
    private static let longestNod = 10_400
    /// How much shorter the speech may be than what is asked of it, because its last sound is soft:
    /// 50 ms at 16 kHz.
    private static let softEnd = 800
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

    /// The words of the speech so far.
    struct Heard {
        let words: InterruptionWords.Judgement
        /// Up to where on the audio timeline they were heard.
        let end: Int
        /// Whether silence had followed: these are all words.
        let isWhole: Bool
    }

    /// Judges the speech again, after more of it, or of its words, is known.
    /// - Parameters:
    ///   - end: where speech was last found.
    ///   - analysedEnd: how far the audio has been searched for it.
    ///   - heard: the words that are known, or nil where none are.
    func weigh(
        speechEnd end: Int, analysedEnd: Int, _ rules: Rules, heard: () -> Heard?
    ) -> Decision {
        guard let speech else { return .wait }
        let length = end - speech.onset
        let isOver = analysedEnd - end >= Self.longestPause
        guard rules.needsWords else {
            if length >= rules.minSamples { return .interrupt }
            return isOver ? .endSpeech(at: end) : .wait
        }
        let heard = heard()
        if let heard {
            if let least = rules.samples(for: heard.words), heard.end - speech.onset >= least,
                length >= least - Self.softEnd
            {
                return .interrupt
            }
            if heard.isWhole {
                return rules.interrupts(heard.words, lasting: length)
                    ? .interrupt : .endSpeech(at: end)
            }
        }
        if isOver, heard != nil || length < rules.minSamples { return .endSpeech(at: end) }
        return analysedEnd - speech.onset >= Self.longestHold ? .resume : .wait
    }

    /// Speech has ended without a decision.
    /// - Returns: `resume`, or `wait` where its words decide.
    func handleSpeechEnd(of itemID: String, _ rules: Rules) -> Decision {
        isWeighing(itemID) && !rules.needsWords ? .resume : .wait
    }

    /// Judges all words of speech over a reply: `none` where they will never be known.
    /// - Parameters:
    ///   - samples: how long the speech lasted, at 16 kHz.
    ///   - isAnswer: whether they may answer the reply: it is over, or a question at its end.
    /// - Returns: `interrupt` where they are to be answered, otherwise `resume`, or `wait` where
    ///   the reply was resumed before.
    mutating func handleWords(
        _ words: InterruptionWords.Judgement, of itemID: String, lasting samples: Int,
        isAnswer: Bool, _ rules: Rules
    ) -> Decision {
        if words == .echo { hasHeardEcho = true }
        let mayAnswer = words != .echo && words != .none
        if rules.interrupts(words, lasting: samples) || (isAnswer && mayAnswer) {
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
    ///   - isWhole: whether no more words come.
    ///   - isEchoKnown: whether the delay of the reply's echo in the user's audio is known.
    func judge(
        _ words: String, over reply: String, in language: LanguageRules, isWhole: Bool = true,
        isEchoKnown: Bool
    ) -> InterruptionWords.Judgement {
        // Where a microphone has picked up a reply before its echo is known, it will again.
        let run = hasHeardEcho && !isEchoKnown ? 1 : InterruptionWords.minEchoRun
        return InterruptionWords.judge(
            words, over: reply, in: language, run: run, isWhole: isWhole)
    }
}
