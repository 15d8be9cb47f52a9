// The sound of one response: its clauses are given to the synthesiser one after another, and what
// comes of them is encoded and sent as fast as it may leave. What is written, and when an item or
// the response is done, is Response's; pacing and what was heard are PlayoutTimeline's.
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
    private let transport: AudioTransport
    private let context: SessionContext
    /// Clauses that wait for the synthesiser, each with its output's index.
    private var clauses: [(output: Int, text: String)] = []
    private var clauseHead = 0
    /// The output whose clause the synthesiser is speaking.
    private var spokenOutput: Int?
    private let opus: ResolvedOpusSettings
    private var encoder: OutputAudioEncoder?
    /// The clause in progress, if it is to be kept.
    private var phrase: PhraseInProgress?
    /// When the user stopped speaking, until the first audio has been measured from it.
    private var speechEnd: Instant?
    /// Whether no more is spoken, whatever is still written.
    private var isMuted = false

    /// - Parameters:
    ///   - voice: voice and speed; its text is not used.
    ///   - opus: how it is encoded, where the format is Opus.
    ///   - speechEnd: when the user stopped speaking, for the turn's measurements.
    init(
        of description: ResponseDescription, voice: SpeechRequest,
        opus: OpusSettings = OpusSettings(), transport: AudioTransport,
        playout: PlayoutTimeline, speechEnd: Instant?, context: SessionContext
    ) {
        responseID = description.id
        format = description.outputFormat
        self.voice = voice
        self.opus = context.codecSettings.resolved(opus)
        self.transport = transport
        self.playout = playout
        self.speechEnd = speechEnd
        self.context = context
    }

    /// Bytes of clauses that wait.
    var heldBytes: Int {
        clauses[clauseHead...].reduce(clauses.heapBytes) { $0 + $1.text.heapBytes }
    }
    /// Bytes of the encoder and its state.
    var encoderBytes: Int { encoder?.heldBytes ?? 0 }
    /// Whether the synthesiser is speaking a clause.
    var isSpeaking: Bool { spokenOutput != nil }
    /// Whether nothing is there to be spoken or sent.
    func isIdle(_ outputs: [OutputItem]) -> Bool {
        spokenOutput == nil && clauseHead == clauses.count && !outputs.contains(where: \.hasSpeech)
    }
    /// Whether audio that was sent is kept back, so that none of it can be called done.
    var mayBeSentAgain: Bool { playout.isHeld || playout.hasRunsAgain }

    /// When audio may next be sent, or nil: not before something else happens.
    func nextDeadline(of outputs: [OutputItem], after now: Instant) -> Instant? {
        guard playout.hasRunsAgain || outputs.contains(where: \.hasSendableSpeech) else {
            return nil
        }
        return playout.nextSend(after: now)
    }

    // MARK: Clauses

    /// A clause of an output is to be spoken.
    mutating func enqueue(_ clause: String, for index: Int, of outputs: inout [OutputItem]) {
        guard !isMuted, outputs[index].cut == nil else { return }
        clauses.append((index, clause))
        outputs[index].unspokenClauses += 1
    }

    /// Gives the synthesiser its next clause, if it is free and not far ahead.
    mutating func speakNextClause(of outputs: inout [OutputItem]) {
        while spokenOutput == nil, clauseHead < clauses.count,
            !hasEnough(in: outputs)
        {
            let clause = clauses[clauseHead]
            clauseHead += 1
            if clauseHead == clauses.count {
                clauses.removeAll(keepingCapacity: true)
                clauseHead = 0
            }
            spokenOutput = clause.output
            outputs[clause.output].clauseBytes = clause.text.utf8.count
            var request = voice
            request.text = clause.text
            if !speakFromCache(request, &outputs) {
                context.outputs.append(.command(.speak(responseID: responseID, request)))
            }
        }
    }

    /// Speaks a clause that has been spoken before; false: it must be synthesised.
    private mutating func speakFromCache(
        _ request: SpeechRequest, _ outputs: inout [OutputItem]
    ) -> Bool {
        guard context.phrases.isEnabled, let index = spokenOutput else { return false }
        let key = PhraseKey(request, opus: format == .opus ? opus : nil)
        guard let speech = context.phrases.find(key) else {
            if context.phrases.admits(key) { phrase = PhraseInProgress(key) }
            return false
        }
        for chunk in speech { outputs[index].enqueue(chunk) }
        handleClauseSpoken(of: &outputs)
        return true
    }

    /// Whether so much speech waits to be sent that more should not be made yet: neither of the
    /// next clause nor of the one in progress, which the shell delays.
    func hasEnough(in outputs: [OutputItem]) -> Bool {
        let queued = outputs.reduce(0) { $0 + $1.speech.count }
        return queued / ItemSpeechQueue.rate.hertz >= context.limits.maxQueuedSpeechSeconds
    }

    /// A run of speech of the clause in progress.
    mutating func handle(
        _ chunk: SpeechChunk, of outputs: inout [OutputItem]
    ) throws(AgentError) {
        guard let index = spokenOutput else { return }
        try OutputAudioEncoder.check(chunk)
        outputs[index].enqueue(chunk)
        phrase?.append(chunk, to: context.phrases)
    }

    /// The clause in progress is spoken. As Opus it is kept once it has been encoded.
    mutating func handleClauseSpoken(of outputs: inout [OutputItem]) {
        guard let index = spokenOutput.take() else { return }
        let phrase = phrase.take()
        if format == .opus {
            outputs[index].endPhrase(key: phrase?.key)
        } else {
            phrase?.finish(in: &context.phrases)
        }
        outputs[index].handleClauseSpoken()
    }

    /// Drops what was not sent, and speaks no more of this response.
    mutating func mute(_ outputs: inout [OutputItem]) {
        isMuted = true
        clauses.removeAll()
        clauseHead = 0
        for index in outputs.indices { outputs[index].dropSpeech() }
        stopSynthesis()
    }

    /// Drops what was not sent of one output, and speaks no more of it.
    mutating func mute(_ index: Int, of outputs: inout [OutputItem]) {
        clauses.removeFirst(clauseHead)
        clauseHead = 0
        clauses.removeAll { $0.output == index }
        outputs[index].dropSpeech()
        if spokenOutput == index { stopSynthesis() }
    }

    private mutating func stopSynthesis() {
        guard spokenOutput.take() != nil else { return }
        phrase = nil
        context.outputs.append(.command(.cancelSpeech(responseID: responseID)))
    }

    // MARK: Sending

    /// The response ends before its audio does: what has not left is dropped, as nobody could say
    /// what of it will be heard.
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

    /// Sends what may leave now: Opus by the frame, the other formats in one run.
    mutating func send(_ outputs: inout [OutputItem], at now: Instant) throws(AgentError) {
        sendAgain(at: now)
        guard !playout.hasRunsAgain, outputs.contains(where: \.hasSpeech) else { return }
        let encoder = encoder ?? context.codecs.takeEncoder(for: format, settings: opus)
        self.encoder = encoder
        var allowance = playout.allowance(at: now)
        for index in outputs.indices where outputs[index].hasSpeech {
            while allowance >= OutputAudioEncoder.frameMilliseconds,
                outputs[index].hasSendableSpeech
            {
                let whole = outputs[index].speech.count / ItemSpeechQueue.frameLength
                let due = allowance / OutputAudioEncoder.frameMilliseconds
                let (payload, length) = try encoder.encodeNext(
                    of: &outputs[index].speech, maxFrames: max(1, min(whole, due)),
                    context: context)
                let run = SentRun(
                    part: PartAddress(
                        responseID: responseID, itemID: outputs[index].item.id,
                        outputIndex: index),
                    format: format, position: outputs[index].sentSamples, length: length,
                    payload: payload)
                outputs[index].sentSamples += length
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

    /// Sends again what a false interruption took back.
    private mutating func sendAgain(at now: Instant) {
        while let run = playout.takeRunAgain(within: playout.allowance(at: now)) {
            send(run, at: now, isAgain: true)
        }
    }

    private mutating func send(_ run: SentRun, at now: Instant, isAgain: Bool = false) {
        guard !playout.isHeld else { return context.handle(.sentWhileHeld) }
        switch transport {
        case .json:
            let start =
                isAgain && playout.tellsPositions
                ? SampleRate.hz48000.milliseconds(ofSamples: run.position) : nil
            context.outputs.append(
                .event(
                    .responseOutputAudioDelta(
                        run.part, audio: run.payload, startMilliseconds: start,
                        position: run.position)))
        case .binary:
            context.outputs.append(
                .audio(
                    OutputAudioPacket(
                        responseID: responseID, itemID: run.part.itemID,
                        contentIndex: run.part.contentIndex, format: format,
                        position: run.position * format.sampleRate.hertz
                            / SampleRate.hz48000.hertz,
                        payload: run.payload)))
        }
        playout.handleSent(run, at: now)
        context.counters.millisecondsOut += run.milliseconds
        if let end = speechEnd.take() {
            context.outputs.append(.measured(.firstAudio, now - end))
        }
    }
}
