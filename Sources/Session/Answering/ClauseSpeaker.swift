// Makes speech of the text of one response: cuts it into clauses and gives them to the synthesiser one
// after another. Clauses that were spoken before come from the phrase cache. SpeechSender has the
// speech.
//
// Invariant: at most one clause is being spoken.

import Codec

/// Has the clauses of one response spoken.
struct ClauseSpeaker {
    private let responseID: String
    private let voice: SpeechRequest
    private let context: SessionContext
    private var splitter: ClauseSplitter
    /// When the mark at which the text so far ends is taken for the end of a clause.
    private var pauseEnd: Instant?
    /// Clauses that wait for the synthesiser, each with its item's index.
    private var clauses: [(item: Int, text: String, isSilent: Bool)] = []
    private var clauseHead = 0
    /// Bytes of the texts that wait.
    private var clauseBytes = 0
    /// The item whose clause the synthesiser is speaking.
    private var spokenItem: Int?
    /// The clause in progress, if it is to be kept.
    private var phrase: PhraseInProgress?

    /// - Parameters:
    ///   - voice: voice, speed and language; its text is not used.
    ///   - language: of the text.
    init(
        of responseID: String, voice: SpeechRequest, language: LanguageRules,
        context: SessionContext
    ) {
        self.responseID = responseID
        self.voice = voice
        splitter = ClauseSplitter(language)
        self.context = context
    }

    /// Bytes of clauses that wait.
    var heldBytes: Int { clauses.heapBytes + clauseBytes }
    /// Whether the synthesiser is speaking a clause.
    var isSpeaking: Bool { spokenItem != nil }

    /// When the text so far is spoken although no text follows its mark. Nil means that it does not
    /// end with one, or that other speech comes first.
    func pauseEnd(_ sender: SpeechSender) -> Instant? { awaitsText(sender) ? pauseEnd : nil }

    /// Whether more text is needed for anything to be heard.
    private func awaitsText(_ sender: SpeechSender) -> Bool {
        spokenItem == nil && clauseHead == clauses.count && !sender.hasSendableSpeech
    }

    // MARK: Text

    /// Takes a piece of an item's text.
    mutating func append(
        _ text: String, of index: Int, to sender: inout SpeechSender, at now: Instant
    ) {
        for clause in splitter.append(text) { enqueue(clause, of: index, to: &sender) }
        pauseEnd = splitter.endingPause.map { now + .milliseconds($0) }
    }

    /// The text of an item is complete.
    mutating func finish(_ index: Int, in sender: inout SpeechSender) {
        pauseEnd = nil
        if let rest = splitter.finish() { enqueue(rest, of: index, to: &sender) }
    }

    /// Speaks a clause behind whose mark the model pauses, if nothing else is being spoken: with a
    /// slow model the user would otherwise wait for one more token.
    /// - Parameter index: the item that is being written, or nil where none is.
    mutating func speakPausedSentence(
        of index: @autoclosure () -> Int?, in sender: inout SpeechSender, at now: Instant
    ) {
        guard let pauseEnd, now >= pauseEnd, awaitsText(sender), let index = index() else { return }
        self.pauseEnd = nil
        if let clause = splitter.takeAtMark() { enqueue(clause, of: index, to: &sender) }
    }

    private mutating func enqueue(_ clause: String, of index: Int, to sender: inout SpeechSender) {
        guard sender.addClause(of: index) else { return }
        // Judged now, while a piece of the text is handled: many clauses may wait for one.
        clauses.append((index, clause, clause.isSilent))
        clauseBytes += clause.heapBytes
    }

    // MARK: Clauses

    /// Gives the synthesiser its next clause, if it is free and not far ahead. A clause of nothing but
    /// marks and pictures makes no sound, and needs no synthesiser.
    mutating func speakNextClause(_ sender: inout SpeechSender) {
        while spokenItem == nil, clauseHead < clauses.count, !sender.hasEnough {
            let clause = clauses[clauseHead]
            clauseHead += 1
            clauseBytes -= clause.text.heapBytes
            if clauseHead == clauses.count {
                clauses.removeAll(keepingCapacity: true)
                clauseHead = 0
            }
            spokenItem = clause.item
            sender.beginClause(of: clause.item, bytes: clause.text.utf8.count)
            guard !clause.isSilent else {
                handleClauseSpoken(&sender)
                continue
            }
            var request = voice
            request.text = clause.text
            if !speakFromCache(request, &sender) {
                context.outputs.append(.command(.speak(responseID: responseID, request)))
            }
        }
    }

    /// Speaks a clause that has been spoken before; false: it must be synthesised.
    private mutating func speakFromCache(
        _ request: SpeechRequest, _ sender: inout SpeechSender
    ) -> Bool {
        guard context.codecs.phrases.isEnabled, let index = spokenItem else { return false }
        let key = PhraseKey(request, opus: sender.phraseEncoding)
        guard let speech = context.codecs.phrases.find(key) else {
            if context.codecs.phrases.admits(key) { phrase = PhraseInProgress(key) }
            return false
        }
        for chunk in speech { sender.enqueue(chunk, of: index) }
        handleClauseSpoken(&sender)
        return true
    }

    /// Takes a run of speech of the clause in progress.
    mutating func handle(
        _ chunk: SpeechChunk, _ sender: inout SpeechSender
    ) throws(AgentError) {
        guard let index = spokenItem else { return }
        try OutputAudioEncoder.check(chunk)
        sender.enqueue(chunk, of: index)
        if chunk.isSubstitute { phrase = nil }
        phrase?.append(chunk, to: context.codecs.phrases)
    }

    /// The clause in progress is spoken.
    mutating func handleClauseSpoken(_ sender: inout SpeechSender) {
        guard let index = spokenItem.take() else { return }
        sender.endClause(of: index, phrase.take())
    }

    // MARK: Silence

    /// Speaks no more of this response.
    mutating func mute() {
        clauses.removeAll()
        (clauseHead, clauseBytes) = (0, 0)
        stopSynthesis()
    }

    /// Speaks no more of one item.
    mutating func mute(_ index: Int) {
        clauses.removeFirst(clauseHead)
        clauseHead = 0
        clauses.removeAll { $0.item == index }
        clauseBytes = clauses.reduce(0) { $0 + $1.text.heapBytes }
        if spokenItem == index { stopSynthesis() }
    }

    private mutating func stopSynthesis() {
        guard spokenItem.take() != nil else { return }
        phrase = nil
        context.outputs.append(.command(.cancelSpeech(responseID: responseID)))
    }
}
