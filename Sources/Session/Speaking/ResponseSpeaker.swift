// Speaks one response: gives its clauses to the synthesiser one after another, encodes the speech,
// and sends it as fast as PlayoutTimeline allows. Response decides what is written and when an item
// is done.
//
// Invariant: at most one clause is being spoken; audio that has to be sent again goes before all
// that was never sent; nothing is sent while the reply is held.

import Codec

/// Speaks one response.
struct ResponseSpeaker {
    /// Paces it and knows what was heard. Responses of one conversation share it.
    let playout: PlayoutTimeline
    private let responseID: String
    private let voice: SpeechRequest
    private let format: AudioFormat
    private let context: SessionContext
    /// The speech of the response's output items, by their index.
    private var items: [ItemSpeech] = []
    /// Clauses that wait for the synthesiser, each with its item's index.
    private var clauses: [(item: Int, text: String, isSilent: Bool)] = []
    private var clauseHead = 0
    /// Bytes of the texts that wait.
    private var clauseBytes = 0
    /// The item whose clause the synthesiser is speaking.
    private var spokenItem: Int?
    private let opus: ResolvedOpusSettings
    private var encoder: OutputAudioEncoder?
    /// The clause in progress, if it is to be kept.
    private var phrase: PhraseInProgress?
    /// When the user stopped speaking, until the first audio has been measured from it.
    private var speechEnd: Instant?
    /// Whether no more is spoken, whatever is still written.
    private(set) var isMuted = false

    /// - Parameters:
    ///   - voice: voice and speed; its text is not used.
    ///   - opus: how it is encoded, where the format is Opus.
    ///   - speechEnd: when the user stopped speaking, for the turn's measurements.
    init(
        of description: ResponseDescription, voice: SpeechRequest,
        opus: OpusSettings = OpusSettings(), playout: PlayoutTimeline, speechEnd: Instant?,
        context: SessionContext
    ) {
        responseID = description.id
        format = description.outputFormat
        self.voice = voice
        self.opus = context.codecSettings.resolved(opus)
        self.playout = playout
        self.speechEnd = speechEnd
        self.context = context
    }

    /// Bytes of clauses and speech that wait.
    var heldBytes: Int {
        items.reduce(clauses.heapBytes + clauseBytes + items.heapBytes) { $0 + $1.heldBytes }
    }
    /// Bytes of the encoder and its state.
    var encoderBytes: Int { encoder?.heldBytes ?? 0 }
    /// Whether the synthesiser is speaking a clause.
    var isSpeaking: Bool { spokenItem != nil }
    /// Whether more text is needed for anything to be heard: what is left is less than a frame, which
    /// waits for more.
    var awaitsText: Bool {
        spokenItem == nil && clauseHead == clauses.count
            && !items.contains(where: \.hasSendableSpeech)
    }
    /// Whether audio that was sent may have to be sent again, so that its item is not done.
    var mayBeSentAgain: Bool { playout.isHeld || playout.hasRunsAgain }

    /// When audio may next be sent, or nil: not before something else happens.
    func nextDeadline(after now: Instant) -> Instant? {
        guard playout.hasRunsAgain || items.contains(where: \.hasSendableSpeech) else {
            return nil
        }
        return playout.nextSend(after: now)
    }

    // MARK: Items

    /// An output item has been added to the response; one that is not spoken stays empty.
    mutating func begin(_ itemID: String) {
        let language = LanguageRules.rules(for: voice.language)
        items.append(
            ItemSpeech(itemID: itemID, millisecondsPerByte: language.millisecondsPerByte))
    }

    /// No more clauses of an item come.
    mutating func close(_ index: Int) { items[index].close() }

    /// An item is done: what has not been sent of it is forgotten.
    mutating func drop(_ index: Int) { items[index].drop() }

    /// Whether something of an item has still to be synthesised or sent.
    func awaitsSpeech(_ index: Int) -> Bool { items[index].awaitsSpeech }

    /// Milliseconds of an item's audio that were sent.
    func sentMilliseconds(_ index: Int) -> Int { items[index].sentMilliseconds }

    /// How much of an item's text was spoken, and when.
    /// - Parameter isCutOff: whether the clause in progress counts as cut off.
    func said(_ index: Int, isCutOff: Bool = false) -> Conversation.Speech {
        items[index].said(isCutOff: isCutOff)
    }

    // MARK: Clauses

    /// A clause of an item is to be spoken.
    mutating func enqueue(_ clause: String, for index: Int) {
        guard !isMuted, !items[index].isMuted else { return }
        // Judged now, while a piece of the text is handled: many clauses may wait for one.
        clauses.append((index, clause, clause.isSilent))
        clauseBytes += clause.heapBytes
        items[index].addClause()
    }

    /// Gives the synthesiser its next clause, if it is free and not far ahead. A clause of nothing but
    /// marks and pictures makes no sound, and needs no synthesiser.
    mutating func speakNextClause() {
        while spokenItem == nil, clauseHead < clauses.count, !hasEnough {
            let clause = clauses[clauseHead]
            clauseHead += 1
            clauseBytes -= clause.text.heapBytes
            if clauseHead == clauses.count {
                clauses.removeAll(keepingCapacity: true)
                clauseHead = 0
            }
            spokenItem = clause.item
            items[clause.item].beginClause(bytes: clause.text.utf8.count)
            guard !clause.isSilent else {
                handleClauseSpoken()
                continue
            }
            var request = voice
            request.text = clause.text
            if !speakFromCache(request) {
                context.outputs.append(.command(.speak(responseID: responseID, request)))
            }
        }
    }

    /// Speaks a clause that has been spoken before; false: it must be synthesised.
    private mutating func speakFromCache(_ request: SpeechRequest) -> Bool {
        guard context.phrases.isEnabled, let index = spokenItem else { return false }
        let key = PhraseKey(request, opus: format == .opus ? opus : nil)
        guard let speech = context.phrases.find(key) else {
            if context.phrases.admits(key) { phrase = PhraseInProgress(key) }
            return false
        }
        for chunk in speech { items[index].enqueue(chunk) }
        handleClauseSpoken()
        return true
    }

    /// Whether so much speech waits to be sent that more should not be made yet: neither of the
    /// next clause nor of the one in progress, which the shell delays.
    var hasEnough: Bool {
        let queued = items.reduce(0) { $0 + $1.queue.count }
        return queued / ItemSpeechQueue.rate.hertz >= context.limits.maxQueuedSpeechSeconds
    }

    /// A run of speech of the clause in progress.
    mutating func handle(_ chunk: SpeechChunk) throws(AgentError) {
        guard let index = spokenItem else { return }
        try OutputAudioEncoder.check(chunk)
        items[index].enqueue(chunk)
        if chunk.isSubstitute { phrase = nil }
        phrase?.append(chunk, to: context.phrases)
    }

    /// The clause in progress is spoken. As Opus it is kept once it has been encoded.
    mutating func handleClauseSpoken() {
        guard let index = spokenItem.take() else { return }
        let phrase = phrase.take()
        if format == .opus {
            items[index].endPhrase(key: phrase?.key)
            // All of a short phrase may have left already.
            encoder?.endPhrases(of: &items[index].queue, context)
        } else {
            phrase?.finish(in: &context.phrases)
        }
        items[index].handleClauseSpoken()
    }

    /// Drops what was not sent, and speaks no more of this response.
    mutating func mute() {
        isMuted = true
        clauses.removeAll()
        (clauseHead, clauseBytes) = (0, 0)
        for index in items.indices { items[index].drop() }
        stopSynthesis()
    }

    /// Drops what was not sent of one item, and speaks no more of it.
    mutating func mute(_ index: Int) {
        clauses.removeFirst(clauseHead)
        clauseHead = 0
        clauses.removeAll { $0.item == index }
        clauseBytes = clauses.reduce(0) { $0 + $1.text.heapBytes }
        items[index].mute()
        if spokenItem == index { stopSynthesis() }
    }

    private mutating func stopSynthesis() {
        guard spokenItem.take() != nil else { return }
        phrase = nil
        context.outputs.append(.command(.cancelSpeech(responseID: responseID)))
    }

    // MARK: Sending

    /// The response ends before its audio: audio that has not left is dropped, because it is
    /// unknown whether it would be heard.
    /// - Returns: the items that this cuts.
    func dropUnsent() -> [PlayoutTimeline.HeardItem] {
        let unsent = playout.dropUnsent(of: responseID)
        if !unsent.isEmpty { context.outputs.append(.dropAudio(responseID: responseID)) }
        return unsent
    }

    /// Gives the encoder back; nothing more is encoded.
    mutating func releaseEncoder() {
        guard let encoder = encoder.take() else { return }
        context.codecs.give(encoder)
    }

    /// Sends the audio that may leave now: Opus frame by frame, other formats in one run.
    mutating func send(at now: Instant) throws(AgentError) {
        sendAgain(at: now)
        guard !playout.hasRunsAgain, items.contains(where: \.hasSpeech) else { return }
        let encoder = encoder ?? context.codecs.takeEncoder(for: format, settings: opus)
        self.encoder = encoder
        let beep = playout.played?.beep
        beep?.review(at: now)
        var allowance = playout.allowance(at: now)
        for index in items.indices where items[index].hasSpeech {
            while allowance >= OutputAudioEncoder.frameMilliseconds,
                items[index].hasSendableSpeech
            {
                let whole = items[index].queue.count / ItemSpeechQueue.frameLength
                let due = allowance / OutputAudioEncoder.frameMilliseconds
                let (payload, length) = try encoder.encodeNext(
                    of: &items[index].queue, maxFrames: max(1, min(whole, due)),
                    context: context, mixing: beep)
                let run = SentRun(
                    part: PartAddress(
                        responseID: responseID, itemID: items[index].itemID,
                        outputIndex: index),
                    format: format, position: items[index].sentSamples, length: length,
                    payload: payload)
                items[index].sentSamples += length
                if let (count, rate) = encoder.source {
                    playout.handleSamples(
                        UnsafeBufferPointer(rebasing: context.scratch.decoded[..<count]),
                        rate: rate, at: now)
                }
                send(run, at: now)
                allowance -= run.milliseconds
            }
        }
    }

    /// Sends audio again after a false interruption.
    private mutating func sendAgain(at now: Instant) {
        while let run = playout.takeRunAgain(within: playout.allowance(at: now)) {
            send(run, at: now, isAgain: true)
        }
    }

    private mutating func send(_ run: SentRun, at now: Instant, isAgain: Bool = false) {
        guard !playout.isHeld else { return context.handle(.sentWhileHeld) }
        context.outputs.append(
            .audio(
                OutputAudioPacket(
                    part: run.part, format: run.format, start: run.position,
                    isOutOfOrder: isAgain && playout.tellsPositions, payload: run.payload)))
        playout.handleSent(run, at: now)
        context.counters.millisecondsOut += run.milliseconds
        if let end = speechEnd.take() {
            context.outputs.append(.measured(.firstAudio, now - end))
        }
    }
}
