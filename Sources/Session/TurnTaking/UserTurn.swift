// The user's turn from the commit on: utterances that are being recognised, words that wait for an
// answer, and the quiet after a reply. VoiceSession reports facts to it and acts on its answers.
// SpeechInput has the speech in progress, until it is committed.
//
//   speaking ── commit ──▶ recognising ── words ──▶ unanswered ── response ──▶ (the agent's turn)
//                               └── none, or not to be answered ──▶ nothing          │
//   idle timeout ◀── the user is silent so long ─── quiet ◀── end of the playing ────┘
//
// Several utterances may be recognised at once. One response answers all words that are there when
// it begins.
//
// Invariant: an utterance is awaited until its transcript comes or fails; a response in the
// conversation leaves no words unanswered.

import Codec

/// An utterance whose words are being recognised.
struct AwaitedTranscript {
    let itemID: String
    /// When the user stopped speaking.
    let speechEnd: Instant
    /// Samples at 16 kHz.
    let samples: Int
    /// Bytes of the audio that recognition keeps for it.
    let audioBytes: Int
    /// Whether its words are to be answered.
    var responds: Bool
    /// How long the user spoke, in milliseconds. Nil where the client ends turns: then it is not
    /// known.
    var speechMilliseconds: Int?
    /// Whether it came over a reply: it is then answered only if its words interrupt the reply.
    var isOverReply = false
    /// The words of it that the client has been shown.
    var agreement = TranscriptAgreement()
    /// Its audio, while a hypothesis that was in flight at the commit may become its transcript.
    var unaskedUtterance: Utterance?

    init(
        itemID: String, speechEnd: Instant, audio: HeardAudio, responds: Bool,
        isOverReply: Bool = false
    ) {
        self.itemID = itemID
        self.speechEnd = speechEnd
        samples = audio.sampleCount
        audioBytes = audio.heldBytes
        self.responds = responds
        self.isOverReply = isOverReply
    }
}

/// The user's unanswered words, and since when the user has been quiet.
struct UserTurn {
    /// Utterances that are being recognised, oldest first.
    private(set) var awaited: [AwaitedTranscript] = []
    /// Where on the audio timeline the quiet began.
    private var quietPosition = 0
    /// Since when nothing has been said after a response: the end of its playing, which may be in
    /// the future. Nil before the first response and while one is in flight.
    private(set) var quietSince: Instant?
    /// When the words ended that no response answers yet.
    private var unansweredSince: Instant?
    /// Turns without words in a row that got the phrase.
    private var phrases: UInt8 = 0
    /// Whether the newest turn has no words and is to get the phrase.
    private(set) var isOwedPhrase = false

    /// Whether an utterance is being recognised.
    var isRecognising: Bool { !awaited.isEmpty }
    /// Whether words are known that no response answers yet.
    var hasUnansweredWords: Bool { unansweredSince != nil }
    /// Whether words wait for an answer, or will once they are recognised.
    var isOwedAnswer: Bool { hasUnansweredWords || isAwaitingWordsToAnswer }
    /// When the words ended that a response may answer now; nil while more of them are being
    /// recognised.
    var answerableSince: Instant? {
        guard let unansweredSince, !isAwaitingWordsToAnswer else { return nil }
        return unansweredSince
    }

    private var isAwaitingWordsToAnswer: Bool { awaited.contains(where: \.responds) }

    // MARK: Recognition

    /// An utterance has been committed; its transcript is to come.
    mutating func handleCommitted(_ utterance: AwaitedTranscript) { awaited.append(utterance) }

    /// Whether the transcript of an item is to come.
    func isAwaiting(_ itemID: String) -> Bool { index(of: itemID) != nil }

    /// Takes an utterance whose transcript has come or failed, or returns nil where it is not
    /// awaited.
    mutating func takeAwaited(_ itemID: String) -> AwaitedTranscript? {
        index(of: itemID).map { awaited.remove(at: $0) }
    }

    /// Takes the audio of an item whose hypothesis did not become its transcript: it is to be
    /// recognised now. The result is nil where its recognition was not put off.
    mutating func takeUnaskedUtterance(_ itemID: String) -> Utterance? {
        index(of: itemID).flatMap { awaited[$0].unaskedUtterance.take() }
    }

    /// A service has sent part of a transcript.
    /// - Returns: the part of it that is new for the client, or nil.
    mutating func extendTranscript(of itemID: String, by text: String) -> String? {
        index(of: itemID).flatMap { awaited[$0].agreement.extend(by: text) }
    }

    private func index(of itemID: String) -> Int? {
        awaited.firstIndex { $0.itemID == itemID }
    }

    // MARK: Answers

    /// Words are there that are to be answered.
    /// - Parameter end: when the user had finished them.
    mutating func handleWords(endingAt end: Instant) { unansweredSince = end }

    /// Forgets the words so far: they are not answered after all.
    mutating func forgetWords() { unansweredSince = nil }

    /// Takes note that the client has asked for a response. That response also answers utterances
    /// that are still being recognised, so they must not be answered a second time.
    /// - Returns: the end of the newest of these utterances, or nil where none is being recognised.
    mutating func handleResponseRequested() -> Instant? {
        for index in awaited.indices { awaited[index].responds = false }
        return awaited.last?.speechEnd
    }

    /// A response begins: it ends the quiet and, in the conversation, answers all words.
    mutating func handleResponseBegun(isInConversation: Bool) {
        quietSince = nil
        guard isInConversation else { return }
        unansweredSince = nil
        isOwedPhrase = false
    }

    // MARK: Turns without words

    /// The shortest speech without words that is a turn, in milliseconds. 500: coughs are shorter.
    static let minSpeechMilliseconds = 500
    /// Turns in a row that get the phrase. 2: what makes sound on and on is no user.
    private static let maxPhrases: UInt8 = 2

    /// A turn has no words.
    mutating func handleNoWords(of turn: AwaitedTranscript) {
        let speech = turn.speechMilliseconds ?? Self.minSpeechMilliseconds
        isOwedPhrase =
            turn.responds && speech >= Self.minSpeechMilliseconds && phrases < Self.maxPhrases
    }

    /// Handles a turn that has words, whether they are answered or not.
    mutating func handleUnderstood() {
        phrases = 0
        isOwedPhrase = false
    }

    /// The phrase is spoken.
    mutating func handlePhrase() {
        phrases += 1
        isOwedPhrase = false
    }

    /// The phrase is not said after all.
    mutating func forgetPhrase() { isOwedPhrase = false }

    // MARK: Quiet

    /// The user is quiet from an instant on, which may still come.
    /// - Parameter position: where on the audio timeline the newest audio ends.
    mutating func beginQuiet(at beginning: Instant, now: Instant, position: Int) {
        quietSince = beginning
        let ahead = (beginning - now).wholeMilliseconds
        quietPosition = position + SampleRate.hz16000.samples(inMilliseconds: ahead)
    }

    /// An utterance has been recognised, so the time without one starts anew.
    mutating func restartQuiet(at now: Instant, position: Int) {
        guard let quietSince else { return }
        beginQuiet(at: max(quietSince, now), now: now, position: position)
    }

    /// When the quiet will have lasted too long, or nil where the session is not quiet.
    func idleDeadline(timeoutMilliseconds: Int) -> Instant? {
        guard awaited.isEmpty else { return nil }
        return quietSince.map { $0 + .milliseconds(timeoutMilliseconds) }
    }

    /// Ends a quiet that has lasted too long.
    /// - Returns: where on the audio timeline it began.
    mutating func endQuiet() -> Int {
        quietSince = nil
        return quietPosition
    }
}
