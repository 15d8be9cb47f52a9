// Encodes the speech of one response, and sends it as fast as PlayoutTimeline allows. The
// speech comes from a synthesiser, at the request of ClauseSpeaker, or from a dialogue. Response decides what
// is written and when an item is done.
//
// Invariant: audio that has to be sent again goes before all that was never sent; nothing is sent while
// the reply is held.

import Codec

/// Sends the speech of one response.
struct SpeechSender {
    /// Paces it and knows what was heard. Responses of one conversation share it.
    let playout: PlayoutTimeline
    private let responseID: String
    private let format: AudioFormat
    private let context: SessionContext
    /// The pace of words of which it is not known when they were spoken.
    private let millisecondsPerByte: Int
    /// The speech of the response's output items, by their index.
    private var items: [ItemSpeech] = []
    private let opus: ResolvedOpusSettings
    private var encoder: OutputAudioEncoder?
    /// When the user stopped speaking, until the first audio has been measured from it.
    private var speechEnd: Instant?
    /// Whether no more is spoken, whatever is still written.
    private(set) var isMuted = false

    /// - Parameters:
    ///   - opus: how it is encoded, where the format is Opus.
    ///   - language: the rules of the language that is spoken.
    ///   - speechEnd: when the user stopped speaking, for the turn's measurements.
    init(
        of description: ResponseDescription, opus: OpusSettings = OpusSettings(),
        language: LanguageRules, playout: PlayoutTimeline, speechEnd: Instant?,
        context: SessionContext
    ) {
        responseID = description.id
        format = description.outputFormat
        self.opus = context.codecs.settings.resolved(opus)
        millisecondsPerByte = language.millisecondsPerByte
        self.playout = playout
        self.speechEnd = speechEnd
        self.context = context
    }

    /// Bytes of the speech that waits.
    var heldBytes: Int { items.reduce(items.heapBytes) { $0 + $1.heldBytes } }
    /// Bytes of the encoder and its state.
    var encoderBytes: Int { encoder?.heldBytes ?? 0 }
    /// Whether audio that was sent may have to be sent again, so that its item is not done.
    var mayBeSentAgain: Bool { playout.isHeld || playout.hasRunsAgain }
    /// Whether a frame of speech waits to be sent. Less than a frame waits for more.
    var hasSendableSpeech: Bool { items.contains(where: \.hasSendableSpeech) }
    /// How kept phrases are encoded, or nil where they are kept as samples.
    var phraseEncoding: ResolvedOpusSettings? { format == .opus ? opus : nil }

    /// When audio may next be sent, or nil where that depends on another event.
    func nextDeadline(after now: Instant) -> Instant? {
        guard playout.hasRunsAgain || hasSendableSpeech else { return nil }
        return playout.nextSend(after: now)
    }

    /// Whether enough speech waits to be sent, so that no more should be made yet: neither of the
    /// next clause nor of the one in progress, which the shell delays.
    var hasEnough: Bool {
        let queued = items.reduce(0) { $0 + $1.queue.count }
        return queued / ItemSpeechQueue.rate.hertz >= context.limits.maxQueuedSpeechSeconds
    }

    // MARK: Items

    /// An output item has been added to the response; one that is not spoken stays empty.
    mutating func begin(_ itemID: String) {
        items.append(ItemSpeech(itemID: itemID, millisecondsPerByte: millisecondsPerByte))
    }

    /// No more clauses of an item come.
    mutating func close(_ index: Int) { items[index].close() }

    /// Drops the audio of an item that is done and was not sent.
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

    /// Drops the audio that was not sent, and sends no more of this response.
    mutating func mute() {
        isMuted = true
        for index in items.indices { items[index].drop() }
    }

    /// Drops the audio of one item that was not sent, and sends no more of it.
    mutating func mute(_ index: Int) { items[index].mute() }

    // MARK: Clauses

    /// A clause of an item is to be spoken.
    /// - Returns: false: the client wants no more of it.
    mutating func addClause(of index: Int) -> Bool {
        guard !isMuted, !items[index].isMuted else { return false }
        items[index].addClause()
        return true
    }

    /// Begins to speak a clause of this many UTF-8 bytes.
    mutating func beginClause(of index: Int, bytes: Int) { items[index].beginClause(bytes: bytes) }

    /// Takes a run of speech of the clause in progress.
    mutating func enqueue(_ chunk: SpeechChunk, of index: Int) {
        guard !isMuted, !items[index].isMuted else { return }
        items[index].enqueue(chunk)
    }

    /// Ends the clause in progress, which is spoken. As Opus it is kept once it has been encoded.
    /// - Parameter phrase: the phrase as which the clause is kept, or nil where it is not kept.
    mutating func endClause(of index: Int, _ phrase: PhraseInProgress?) {
        if format == .opus {
            items[index].endPhrase(key: phrase?.key)
            // All of a short phrase may have left already.
            encoder?.endPhrases(of: &items[index].queue, context.codecs)
        } else {
            phrase?.finish(in: &context.codecs.phrases)
        }
        items[index].handleClauseSpoken()
    }

    // MARK: The speech of a dialogue
    //
    // A message of a dialogue is one clause, whose words and speech come side by side.

    /// A message begins.
    mutating func beginSpeech(of index: Int) {
        guard addClause(of: index) else { return }
        items[index].beginClause(bytes: 0)
    }

    /// Notes how many UTF-8 bytes of its words have come.
    mutating func noteWords(of index: Int, bytes: Int) { items[index].extendClause(bytes: bytes) }

    /// All of its words and speech have come.
    mutating func endSpeech(of index: Int) {
        if items[index].unspokenClauses > 0 { endClause(of: index, nil) }
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
        context.codecs.pool.give(encoder)
    }

    /// Sends the audio that may leave now: Opus frame by frame, other formats in one run.
    mutating func send(at now: Instant) throws(AgentError) {
        sendAgain(at: now)
        guard !playout.hasRunsAgain, items.contains(where: \.hasSpeech) else { return }
        let encoder = encoder ?? context.codecs.pool.takeEncoder(for: format, settings: opus)
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
                    in: context.codecs, mixing: beep)
                let run = SentRun(
                    part: PartAddress(
                        responseID: responseID, itemID: items[index].itemID,
                        outputIndex: index),
                    format: format, position: items[index].sentSamples, length: length,
                    payload: payload)
                items[index].sentSamples += length
                if let (count, rate) = encoder.source {
                    playout.handleSamples(
                        UnsafeBufferPointer(rebasing: context.codecs.scratch.decoded[..<count]),
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
