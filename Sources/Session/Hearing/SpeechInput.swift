// The hearing of one session: decoder, buffer, voice activity and turn detection. It finds speech
// in the audio; VoiceSession acts on that.

import Codec

/// The audio side of one session; exists from the first audio on.
final class SpeechInput {
    /// The result of analysing a window of audio.
    enum Analysis {
        case unchanged
        case changed(TurnDetector.Change)
        /// The window waits in a batch.
        case awaited
    }

    /// Uncommitted audio that is kept, in samples at 16 kHz.
    let maxSamples: Int
    private(set) var buffer: InputAudioBuffer
    private var decoder: InputAudioDecoder?
    private var order = PacketOrder()
    private var gaps = GapAllowance()
    /// When audio last came, until the decoder has been given back.
    private(set) var lastAudio: Instant?
    /// When `releaseIfIdle` is next called for that.
    private(set) var releaseCheck: Instant?
    /// Removes noise from the decoded audio; nil unless the session asks for it.
    private var reducer: NoiseReducer?
    private var noiseReduction: NoiseReduction?
    /// The samples without noise, in the shard's work space, that `hearNextRun` has not returned
    /// yet.
    private var reduced = 0..<0
    /// The part of a run that found no room in the buffer.
    private var unbuffered: [Int16] = []
    private var activity: GatedVoiceActivity?
    private(set) var turnDetector: TurnDetector?
    /// Measurements of the sound of speech, where `semantic_vad` needs them.
    private var prosody = ProsodyTrack()
    private let judgesProsody: Bool
    /// Timeline position up to which voice activity is known.
    private var analysed = 0
    /// The place of the next window in the shard's batch, if it is in it.
    private var batchPlace: Int?
    /// The end of the audio that had been heard when that window was put into the batch.
    private var batchEnd = 0
    /// Whether a window waits in the shard's batch.
    var awaitsActivity: Bool { batchPlace != nil }
    /// Whether the packet that is being decoded is marked as silence by its sender.
    private var isSilentPacket = false
    /// Timeline position behind the last packet that was not.
    private var voicedEnd = 0
    /// Timeline position up to which the audio was searched for speech.
    var analysedEnd: Int { analysed }
    /// The item that the speech in progress will become. Without turn detection the client ends
    /// that speech, with a commit.
    var speechItemID: String?
    /// Where that item's audio starts on the timeline, padding included.
    private(set) var speechStart = 0
    /// Where its speech was noticed; without turn detection, where its audio starts.
    private(set) var onset = 0
    /// The words of that speech as far as they are known, or nil where there is no speech.
    private(set) var partial: PartialTranscript?
    /// What a turn model was asked about the silences of that speech.
    private var endChecks = TurnEndChecks()
    /// The rest of a long message, or nil where all audio was heard.
    private(set) var unheard: UnheardAudio?
    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(SpeechInput.self)
    /// Bytes of the audio that no turn has taken.
    var audioBytes: Int {
        buffer.heldBytes + (unheard?.heldBytes ?? 0) + unbuffered.heapBytes
    }
    /// Bytes of the decoder.
    var decoderBytes: Int { decoder?.heldBytes ?? 0 }
    /// Bytes of what listens, the object included.
    var listeningBytes: Int {
        Self.objectBytes + prosody.heldBytes + (activity?.heldBytes ?? 0)
            + (reducer == nil ? 0 : NoiseReducer.stateBytes) + (partial?.heldBytes ?? 0)
    }

    init(parameters: SessionParameters, context: SessionContext) {
        maxSamples = SampleRate.hz16000.samples(
            inMilliseconds: context.limits.maxBufferedAudioSeconds * 1_000)
        buffer = InputAudioBuffer(maxSamples: maxSamples)
        judgesProsody = context.judgesProsody
        turnDetector = parameters.turnDetection.map { TurnDetector($0) }
        noiseReduction = parameters.noiseReduction
    }

    // MARK: Messages
    //
    // A message is heard in this order: `share`, `begin`, then `hearNextRun` until it returns nil. After each
    // run the session acts on its windows (`analyseNextWindow`). Where a run found no room, the session makes
    // room and calls `appendUnbuffered`. A message that is longer than its share waits (`wait`) for the next
    // one, until `endWaiting`.

    /// A run of samples that was heard.
    struct HeardRun {
        /// Those that were buffered, at 16 kHz. They stand until something else is decoded or encoded.
        let samples: UnsafeBufferPointer<Int16>
        /// Whether all of the run found room in the buffer.
        let isWhole: Bool
    }

    /// How many bytes of a message are heard in this tick. The rest waits in `unheard`.
    func share(
        of payload: RawSpan, format: AudioFormat, _ context: SessionContext
    ) throws(ClientEventError) -> Int {
        let length = format.milliseconds(inBytes: payload.byteCount)
        let maxSeconds = context.limits.maxBufferedAudioSeconds
        guard length <= maxSeconds * 1_000 else {
            throw .inputBufferFull(maxSeconds: maxSeconds)
        }
        let share = context.audioShares.millisecondsLeft(received: context.samplesIn)
        // A message that is no whole number of samples is refused at once, as a whole.
        guard length > share, payload.byteCount % format.bytesPerSample == 0 else {
            return payload.byteCount
        }
        return format.bytes(inMilliseconds: share)
    }

    /// Begins with a message, or a share of one: `hearNextRun` has its samples.
    /// - Parameters:
    ///   - number: the packet's, where the client numbers them; nil from its second share on.
    ///   - recording: notes the audio that is heard. Nil means that the session is not recorded.
    /// - Returns: false for a packet that comes twice or too late; it is dropped.
    func begin(
        _ payload: RawSpan, number: UInt16?, format: AudioFormat, _ context: SessionContext,
        recording: SessionRecording?, at now: Instant
    ) throws(ClientEventError) -> Bool {
        lastAudio = now
        reduced = 0..<0
        let decoder = try takenDecoder(for: format, context, at: now)
        var missing: Int?
        if let number {
            guard case .next(let gap) = order.handle(number) else {
                context.counters.packetsLate += 1
                return false
            }
            let filled = gaps.take(gap, packetSamples: decoder.packetSamples, at: now)
            context.counters.packetsConcealed += gap - filled
            missing = filled
        }
        recording?.noteUser(payload, format: format, missing: missing, at: now)
        isSilentPacket = format == .opus && OpusActivity.saysSilence(payload)
        if let noiseReduction {
            // Without memory for it, noise is better than no audio.
            if reducer == nil { reducer = NoiseReducer(decibels: noiseReduction.decibels) }
        } else if format == .opus {
            buffer.beginPacket(payload, missing: missing)
        }
        do {
            try decoder.begin(payload, missing: missing)
        } catch {
            throw refusal(error, of: format, context)
        }
        return true
    }

    /// Decodes and buffers the next run of samples of the message that was begun, or returns nil
    /// where there are no more. Where a run is not whole, `appendUnbuffered` takes its end once
    /// there is room.
    func hearNextRun(
        of payload: RawSpan, _ context: SessionContext
    ) throws(ClientEventError) -> HeardRun? {
        let run: UnsafeBufferPointer<Int16>?
        do {
            run = try nextRun(of: payload, context)
        } catch {
            endMessage(context)
            // Opus alone is refused so late, and `endMessage` has counted it.
            throw error.clientEventError(format: .opus)
        }
        guard let run else {
            endMessage(context)
            return nil
        }
        context.counters.samplesIn += run.count
        let count = append(run)
        // A copy, because something may be encoded before it is taken.
        unbuffered = count == run.count ? [] : Array(run[count...])
        return HeardRun(
            samples: UnsafeBufferPointer(rebasing: run[..<count]), isWhole: unbuffered.isEmpty)
    }

    private func endMessage(_ context: SessionContext) {
        buffer.endPacket()
        unbuffered = []
        guard let repairs = decoder?.repairs else { return }
        context.counters.packetsRecovered += repairs.recovered
        context.counters.packetsConcealed += repairs.concealed
        context.counters.decodeErrors += repairs.corrupt
    }

    /// Buffers the end of a run that had found no room.
    /// - Returns: the samples that were buffered, and whether these are all.
    func appendUnbuffered() -> (samples: ArraySlice<Int16>, isWhole: Bool) {
        let samples = unbuffered
        unbuffered = []
        let count = samples.withUnsafeBufferPointer { append($0) }
        return (samples[..<count], count == samples.count)
    }

    private func nextRun(
        of payload: RawSpan, _ context: SessionContext
    ) throws(InputAudioDecoder.Failure) -> UnsafeBufferPointer<Int16>? {
        while reduced.isEmpty {
            guard let run = try decoder?.next(of: payload, context.codecs.scratch) else {
                return nil
            }
            guard reducer != nil else { return run }
            reduced = 0..<reducer!.process(run, into: context.codecs.scratch.reduced)
        }
        let end = reduced.lowerBound + NoiseReducer.frameSamples
        defer { reduced = end..<reduced.upperBound }
        return UnsafeBufferPointer(
            rebasing: context.codecs.scratch.reduced[reduced.lowerBound..<end])
    }

    private func takenDecoder(
        for format: AudioFormat, _ context: SessionContext, at now: Instant
    ) throws(ClientEventError) -> InputAudioDecoder {
        if let decoder { return decoder }
        do {
            let taken = try context.codecs.pool.takeDecoder(for: format)
            decoder = taken
            releaseCheck = now + .seconds(context.codecs.settings.codecIdleSeconds)
            return taken
        } catch {
            throw refusal(error, of: format, context)
        }
    }

    private func refusal(
        _ error: InputAudioDecoder.Failure, of format: AudioFormat, _ context: SessionContext
    ) -> ClientEventError {
        context.counters.decodeErrors += 1
        return error.clientEventError(format: format)
    }

    /// The rest of a message waits for its share of another tick.
    /// - Parameter hasOverflowed: whether the buffer had no room for a part of the message already.
    func wait(
        with rest: RawSpan, format: AudioFormat, eventID: String?, hasOverflowed: Bool
    ) {
        unheard = UnheardAudio(rest, format: format, eventID: eventID)
        unheard?.hasOverflowed = hasOverflowed
    }

    /// Drops the rest of the message, which waits no more.
    func endWaiting() { unheard = nil }

    /// Gives the decoder back if no audio has come for a while. Packets kept for decoding the next
    /// ones are dropped, too: the next audio does not continue them.
    func releaseIfIdle(_ context: SessionContext, at now: Instant) {
        guard let due = releaseCheck, due <= now, let lastAudio else { return }
        let idle = lastAudio + .seconds(context.codecs.settings.codecIdleSeconds)
        guard idle <= now else {
            releaseCheck = idle
            return
        }
        releaseDecoder(context)
        reducer = nil
        guard speechItemID == nil, let turnDetector, !turnDetector.isSpeaking else { return }
        clear()
        buffer.forgetLead()
        activity = nil
        prosody.removeAll()
    }

    /// When the speech in progress is over if no more audio comes, which counts as the silence that
    /// its turn detection waits for. Nil where there is no speech, or the client ends it.
    var silenceDeadline: Instant? {
        guard speechItemID != nil, let turnDetector, let lastAudio else { return nil }
        let left = SampleRate.hz16000.milliseconds(
            ofSamples: turnDetector.silenceLeft(at: buffer.end))
        return lastAudio + .milliseconds(left)
    }

    /// Another connection brings the audio: it numbers its packets anew.
    func forgetOrder() { order = PacketOrder() }

    /// Gives the decoder back.
    func releaseDecoder(_ context: SessionContext) {
        releaseCheck = nil
        buffer.forgetLead()
        guard let decoder = decoder.take() else { return }
        context.codecs.pool.give(decoder)
    }

    /// Appends what fits of a run of samples; returns how many did.
    private func append(_ samples: UnsafeBufferPointer<Int16>) -> Int {
        let count = min(samples.count, buffer.room)
        buffer.append(
            UnsafeBufferPointer(rebasing: samples[..<count]), isHeard: turnDetector != nil)
        if !isSilentPacket { voicedEnd = buffer.end }
        return count
    }

    /// Analyses the next whole window; nil when none is complete or turns are the client's to end.
    /// - Parameters:
    ///   - mayWait: whether the window may be put into the shard's batch, where that is open. Otherwise a
    ///     window that waits there is taken out.
    ///   - echo: recognises the reply in the user's audio. A window with nothing but the reply counts as
    ///     silence.
    func analyseNextWindow(
        _ context: SessionContext, mayWait: Bool, echo: EchoCheck?, at now: Instant
    ) -> Analysis? {
        guard turnDetector != nil, let model = context.voiceActivityModel else { return nil }
        let start = max(analysed, buffer.start)
        let window = start..<start + VoiceActivityDetector.windowSamples
        guard window.upperBound <= buffer.end else {
            forgetAnalysed()
            return nil
        }
        if activity == nil { activity = GatedVoiceActivity(model: model) }
        let end = batchPlace == nil ? buffer.end : batchEnd
        guard let probability = judge(window, context.activityBatch, mayWait: mayWait) else {
            return .awaited
        }
        analysed = window.upperBound
        let isEcho = echo.map { isOnlyEcho(window, of: $0, whenHeardTo: end, at: now) } ?? false
        let change = turnDetector?.handle(probability: isEcho ? 0 : probability, window: window)
        if judgesProsody, turnDetector?.judgesSound == true {
            buffer.withSamples(in: window) { prosody.append($0, at: window.lowerBound) }
            if turnDetector?.wantsProsody(at: analysed) == true { measureProsody() }
        }
        return change.map(Analysis.changed) ?? .unchanged
    }

    /// The probability that the next window holds speech, or nil while it waits in the batch.
    private func judge(
        _ window: Range<Int>, _ batch: VoiceActivityBatch?, mayWait: Bool
    ) -> Float? {
        if let batch, let place = batchPlace.take() { return activity!.take(place, from: batch) }
        let isMarkedSilent = window.lowerBound >= voicedEnd
        let history = max(buffer.recentStart, window.lowerBound - activity!.wantedSamples)
        return buffer.withSamples(in: history..<window.upperBound) { samples in
            guard mayWait, let batch, batch.isOpen, !batch.isFull else {
                return activity!.process(samples, senderHeardNothing: isMarkedSilent)
            }
            batchPlace = activity!.put(samples, senderHeardNothing: isMarkedSilent, into: batch)
            batchEnd = buffer.end
            return batchPlace == nil ? 0 : nil
        }
    }

    private func isOnlyEcho(
        _ window: Range<Int>, of echo: EchoCheck, whenHeardTo end: Int, at now: Instant
    ) -> Bool {
        // The newest sample has just come.
        let behind = SampleRate.hz16000.milliseconds(ofSamples: end - window.upperBound)
        return buffer.withSamples(in: window) {
            echo.explains($0, endingAt: now + .milliseconds(-behind))
        }
    }

    /// Frees the samples that voice activity will not need again.
    private func forgetAnalysed() {
        let wanted = activity?.wantedSamples ?? 0
        // Pauses within speech are short: keep the memory.
        buffer.discardRecent(
            before: max(analysed, buffer.start) - wanted,
            isLasting: wanted == 0 && turnDetector?.isSpeaking == true)
    }

    /// Judges how the speech sounded before the silence that has just come.
    private func measureProsody() {
        guard let end = turnDetector?.lastSpeechEnd else { return }
        let start = max(speechStart, prosody.start, end - Prosody.maxSamples)
        guard start < end else { return }
        turnDetector?.handleProsody(prosody.measure(from: start, speechEnd: end))
    }

    /// Sets how long the end of the speech that begins is waited for.
    func expect(_ patience: Patience, followsWords: Bool) {
        turnDetector?.expect(patience, followsWords: followsWords)
    }

    /// Speech that will become an item begins.
    /// - Parameters:
    ///   - onset: where on the audio timeline it was noticed.
    ///   - padding: samples before that which belong to the item.
    func beginSpeech(itemID: String, at onset: Int, padding: Int) {
        speechItemID = itemID
        self.onset = onset
        speechStart = max(buffer.start, onset - padding)
        partial = PartialTranscript(start: speechStart)
    }

    /// Everything that is kept will become the item that the client commits.
    func takeEverythingAsSpeech() {
        speechStart = buffer.start
        onset = speechStart
    }

    // MARK: The words of the speech in progress

    /// Asks for the words so far, where that is due.
    /// - Parameters:
    ///   - wordsUse: the purpose of words while they are spoken, or nil where they are not wanted.
    ///   - hints: the client's hints for recognising them.
    func hypothesize(
        wordsUse: HypothesisUse?, hints: @autoclosure () -> TranscriptionParameters?,
        _ context: SessionContext
    ) {
        guard let speechItemID, let turnDetector, turnDetector.isSpeaking else { return }
        partial?.withdrawIfOutrun(
            bySpeechTo: turnDetector.lastSpeechEnd, of: speechItemID, context)
        guard let partial, analysed <= buffer.end,
            let next = partial.nextSnapshot(
                end: analysed, speechEnd: turnDetector.lastSpeechEnd,
                showsWords: wordsUse != nil, decisiveFrom: wordsUse == .interruption ? onset : nil)
        else { return }
        partial.cancelHypothesis(of: speechItemID, context)
        self.partial?.handleAsked(next)
        let audio = buffer.audio(in: speechStart..<next.end)
        context.outputs.append(
            .command(
                .hypothesize(
                    itemID: speechItemID,
                    Utterance(audio: audio, hints: hints(), after: partial.earlier),
                    next.isPause ? .probableTranscript : wordsUse ?? .display)))
    }

    /// A hypothesis has come.
    /// - Returns: the words that it confirms, to be shown.
    func handleHypothesis(
        _ text: String, in language: LanguageRules, showsWords: Bool
    ) -> String? {
        partial?.handleHypothesis(text)
        // Outside the call: it reads `turnDetector`, which the call changes.
        let words = wordsBeforeSilence
        turnDetector?.handleWords(words, in: language)
        return showsWords ? partial?.agreement.confirm(text) : nil
    }

    /// Has a turn model hear the speech before the silence, where that is due.
    func judgeTurnEnd(_ context: SessionContext) {
        guard let speechItemID, let turnDetector, turnDetector.isSpeaking,
            turnDetector.judgesSound, analysed <= buffer.end,
            endChecks.isDue(speechEnd: turnDetector.lastSpeechEnd, end: analysed)
        else { return }
        endChecks.handleAsked(speechEnd: turnDetector.lastSpeechEnd, end: analysed)
        let start = max(speechStart, analysed - TurnEndEstimator.judgedSamples)
        context.outputs.append(
            .command(
                .judgeTurnEnd(itemID: speechItemID, buffer.audio(in: start..<analysed))))
    }

    /// A turn model has answered, or nil where it could not.
    func handleTurnEnd(probability: Float?) {
        let isNewest = endChecks.handleAnswer(speechEnd: turnDetector?.lastSpeechEnd)
        guard isNewest, let turnDetector, let probability else { return }
        self.turnDetector?.handleTurnEnd(
            probability: probability,
            speechMilliseconds: SampleRate.hz16000.milliseconds(
                ofSamples: turnDetector.lastSpeechEnd - onset))
    }

    /// All words of the speech in progress, or nil where they are not known, or the user has spoken
    /// on since.
    var wordsBeforeSilence: String? {
        turnDetector.flatMap { partial?.words(upTo: $0.lastSpeechEnd) }
    }

    /// Handles a hypothesis that has failed.
    func handleHypothesisFailed() { partial?.handleFailure() }

    /// Without speech, only the padding before a possible onset is kept, and the audio that voice
    /// activity looks back at.
    func discardSilence(paddingMilliseconds: Int) {
        guard let turnDetector, !turnDetector.isSpeaking, speechItemID == nil else { return }
        let padding = max(
            SampleRate.hz16000.samples(inMilliseconds: paddingMilliseconds),
            GatedVoiceActivity.historySamples)
        // The windows of an onset that is not confirmed yet belong to the speech, not the padding.
        let onset = TurnDetector.onsetWindows * VoiceActivityDetector.windowSamples
        buffer.discard(before: min(analysed, buffer.end) - padding - onset)
    }

    /// Takes the audio from a timeline position on; the turn is over.
    func take(from position: Int) -> HeardAudio {
        let taken = buffer.take(from: position)
        forgetSpeech()
        return taken
    }

    /// Forgets all audio and the speech in it, whose words are not needed any more.
    func cancelSpeech(_ context: SessionContext) {
        if let speechItemID { partial?.cancelHypothesis(of: speechItemID, context) }
        clear()
    }

    /// Forgets all audio and the speech in it.
    func clear() {
        buffer.clear()
        forgetSpeech()
    }

    /// The session's parameters have changed: drops the state that depends on the old ones.
    func handleUpdate(
        from before: SessionParameters, to after: SessionParameters, _ context: SessionContext
    ) {
        if before.inputFormat != after.inputFormat
            || before.inputIsNumbered != after.inputIsNumbered
        {
            releaseDecoder(context)
            order = PacketOrder()
        }
        if before.noiseReduction != after.noiseReduction {
            noiseReduction = after.noiseReduction
            reducer = nil
        }
        guard before.turnDetection != after.turnDetection else { return }
        if let parameters = after.turnDetection, turnDetector != nil {
            turnDetector?.update(parameters)
        } else {
            turnDetector = after.turnDetection.map { TurnDetector($0) }
            activity = nil
            prosody.removeAll()
            // Earlier audio stays in the buffer. Only new audio is analysed.
            analysed = buffer.end
            if speechItemID != nil { turnDetector?.resume(at: buffer.end) }
        }
    }

    private func forgetSpeech() {
        speechItemID = nil
        partial = nil
        endChecks = TurnEndChecks()
        turnDetector?.reset()
        analysed = max(analysed, buffer.start)
    }
}

extension NoiseReduction {
    /// The suppression of noise: 10 dB, near or far, or the share of it that the client asks for.
    /// Measured on recordings in pink noise at 15 and 5 dB (LoadTests/RESULTS.md): a suppression of
    /// 10 dB halves the words misheard at 15 dB, and none of clean speech are lost. A suppression
    /// of 15 dB loses some of both, and does not improve voice activity.
    fileprivate var decibels: Int { max(1, Int(10 * (strength ?? 1))) }
}
