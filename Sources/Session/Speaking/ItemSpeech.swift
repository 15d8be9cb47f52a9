// The speech of one output item: clauses that are to be spoken, synthesised speech that waits, and
// how much was sent. ClauseSpeaker decides when a clause is spoken, and SpeechSender when speech is sent.
//
// Invariant: sent ≤ synthesised; each clause that was synthesised whole has a mark at its end.

import Codec

/// The speech of one item.
struct ItemSpeech {
    let itemID: String
    /// Speech that was not sent yet.
    var queue = ItemSpeechQueue()
    /// Samples sent, on the timeline of `ItemSpeechQueue`: at 48 kHz.
    var sentSamples = 0
    /// Clauses that are not spoken yet, the one in progress included.
    private(set) var unspokenClauses = 0
    /// UTF-8 bytes of the clause in progress.
    private var clauseBytes = 0
    /// Whether no more clauses come.
    private(set) var isClosed = false
    /// Whether no more of it is spoken, whatever is still written.
    private(set) var isMuted = false
    /// Whether the item ended before its last clause was synthesised.
    private var isCutOff = false
    /// Ends of the spoken clauses.
    private var marks: [Conversation.SpokenMark] = []
    private var enqueuedSamples = 0

    /// The pace of a clause that is cut off in the middle of its synthesis.
    private let millisecondsPerByte: Int

    init(itemID: String, millisecondsPerByte: Int) {
        self.itemID = itemID
        self.millisecondsPerByte = millisecondsPerByte
    }

    /// Whether speech waits to be sent.
    var hasSpeech: Bool { queue.count > 0 }
    /// Whether a frame of it can be sent. A partial frame leaves only at the item's end, so that no
    /// gap is coded into it.
    var hasSendableSpeech: Bool {
        hasSpeech
            && (queue.count >= ItemSpeechQueue.frameLength || queue.hasCompletePhrase
                || (isClosed && unspokenClauses == 0))
    }
    /// Whether something of it has still to be synthesised or sent.
    var awaitsSpeech: Bool { unspokenClauses > 0 || hasSpeech }
    /// Milliseconds of its audio that were sent.
    var sentMilliseconds: Int { ItemSpeechQueue.rate.milliseconds(ofSamples: sentSamples) }
    /// Bytes on the heap.
    var heldBytes: Int { queue.heldBytes + marks.heapBytes }

    /// A clause is to be spoken.
    mutating func addClause() { unspokenClauses += 1 }

    /// Begins to speak a clause of this many UTF-8 bytes.
    mutating func beginClause(bytes: Int) { clauseBytes = bytes }

    /// More of the words of the clause in progress are known.
    mutating func extendClause(bytes: Int) { clauseBytes += bytes }

    /// Takes speech of the clause in progress.
    mutating func enqueue(_ chunk: SpeechChunk) { enqueuedSamples += queue.append(chunk) }

    /// The clause in progress, which is sent as Opus, is complete.
    /// - Parameter key: what to keep it under, or nil.
    mutating func endPhrase(key: PhraseKey?) { enqueuedSamples += queue.endPhrase(key: key) }

    /// The clause in progress is synthesised.
    mutating func handleClauseSpoken() {
        unspokenClauses -= 1
        let said = (marks.last?.transcriptBytes ?? 0) + clauseBytes
        marks.append(
            Conversation.SpokenMark(
                transcriptBytes: said,
                audioMilliseconds: ItemSpeechQueue.rate.milliseconds(ofSamples: enqueuedSamples)))
    }

    /// No more clauses come.
    mutating func close() { isClosed = true }

    /// Forgets the speech that was not sent.
    mutating func drop() {
        isCutOff = isCutOff || unspokenClauses > 0
        queue = ItemSpeechQueue()
        unspokenClauses = 0
    }

    /// Forgets the speech that was not sent, and speaks no more.
    mutating func mute() {
        isMuted = true
        drop()
    }

    /// How much of the text was spoken, and when. A clause that was cut off in the middle of its
    /// synthesis has no mark of its own; its words are assumed to come at the usual pace.
    /// - Parameter isCutOff: whether the clause in progress counts as cut off, too.
    func said(isCutOff: Bool = false) -> Conversation.Speech {
        guard enqueuedSamples > 0 else { return Conversation.Speech() }
        let rate = ItemSpeechQueue.rate
        var marks = marks
        let before = marks.last ?? Conversation.SpokenMark(transcriptBytes: 0, audioMilliseconds: 0)
        let synthesised = rate.milliseconds(ofSamples: enqueuedSamples)
        if synthesised > before.audioMilliseconds, isCutOff || self.isCutOff {
            let bytes = (synthesised - before.audioMilliseconds) / millisecondsPerByte
            marks.append(
                Conversation.SpokenMark(
                    transcriptBytes: before.transcriptBytes + min(bytes, clauseBytes),
                    audioMilliseconds: synthesised))
        }
        return Conversation.Speech(
            marks: marks, sentMilliseconds: rate.milliseconds(ofSamples: sentSamples))
    }
}
