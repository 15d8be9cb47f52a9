// The user's turns: audio in, speech noticed, turns committed, transcripts out. SpeechInput hears
// and finds the speech; UserTurn has the words that are not answered yet.

import Codec

extension VoiceSession {
    /// The shortest audio that can be committed, as the protocol has it: 100 ms.
    static let minCommittedMilliseconds = 100

    // MARK: Hearing

    /// How much audio one event may bring. An event of Opus brings one packet.
    public var audioLimit: AudioLimit {
        let seconds = context.limits.maxBufferedAudioSeconds
        let format = parameters.inputFormat
        let maxBytes =
            format == .opus
            ? ClientEventLimits.maxAudioBytes : format.bytes(inMilliseconds: seconds * 1_000 + 1)
        return AudioLimit(maxBytes: maxBytes, maxSeconds: seconds)
    }

    /// Audio of the client: `input_audio_buffer.append` or a binary message.
    func append(
        _ payload: RawSpan, number: UInt16?, eventID: String?, at now: Instant
    ) throws(ClientEventError) {
        guard !hasUnheardAudio else { return context.handle(.messageOutOfOrder) }
        let speechInput = speechInput ?? startListening()
        let format = parameters.inputFormat
        let share = try speechInput.share(of: payload, format: format, context)
        let outcome = try hear(
            payload.extracting(0..<share), number: number, format: format, speechInput, at: now)
        if share < payload.byteCount, outcome != .dropped {
            speechInput.wait(
                with: payload.extracting(share..<payload.byteCount), format: format,
                eventID: eventID, hasOverflowed: outcome == .overflowed)
        } else if outcome == .overflowed {
            throw .inputBufferFull(maxSeconds: context.limits.maxBufferedAudioSeconds)
        }
    }

    /// Hears the next share of the rest of a message. An error names the event of the message.
    func hearRest(at now: Instant) throws(ClientEventError) {
        guard let speechInput, let unheard = speechInput.unheard else { return }
        do throws(ClientEventError) {
            let share = unheard.takeShare(
                ofMilliseconds: context.audioShares.millisecondsLeft(received: context.samplesIn))
            let bytes = unheard.bytes
            let outcome = try hear(
                bytes.span.bytes.extracting(share), number: nil, format: unheard.format,
                speechInput, at: now)
            if outcome == .overflowed { unheard.hasOverflowed = true }
            guard unheard.isOver else { return }
            speechInput.endWaiting()
            if unheard.hasOverflowed {
                throw .inputBufferFull(maxSeconds: context.limits.maxBufferedAudioSeconds)
            }
        } catch {
            speechInput.endWaiting()
            var refused = error
            refused.eventID = unheard.eventID
            throw refused
        }
    }

    /// The outcome of a message, or of a share of one.
    private enum HearingOutcome {
        case whole
        /// Some of it found no room in the buffer.
        case overflowed
        /// It came twice or too late.
        case dropped
    }

    /// Hears a message, or a share of one, run by run, and acts on what its speech means.
    private func hear(
        _ bytes: RawSpan, number: UInt16?, format: AudioFormat, _ speechInput: SpeechInput,
        at now: Instant
    ) throws(ClientEventError) -> HearingOutcome {
        guard
            try speechInput.begin(
                bytes, number: number, format: format, context, recording: recording, at: now)
        else { return .dropped }
        var outcome = HearingOutcome.whole
        while true {
            let isAwaited = speechInput.awaitsActivity
            guard let run = try speechInput.hearNextRun(of: bytes, context) else { return outcome }
            answerer.hear(run.samples, endingAt: speechInput.buffer.end)
            analyse(speechInput, mayWait: !isAwaited && run.isWhole, at: now)
            guard !run.isWhole else { continue }
            // Speech that is longer than the buffer is committed in pieces; no part of it is lost.
            if speechInput.speechItemID != nil {
                handleSpeechStopped(at: speechInput.buffer.end, speechInput, at: now)
                let (samples, isWhole) = speechInput.appendUnbuffered()
                samples.withUnsafeBufferPointer {
                    answerer.hear($0, endingAt: speechInput.buffer.end)
                }
                if isWhole { continue }
            }
            outcome = .overflowed
        }
    }

    private func startListening() -> SpeechInput {
        let speechInput = SpeechInput(parameters: parameters, context: context)
        self.speechInput = speechInput
        if speechInput.turnDetector != nil { playback?.listenForEcho() }
        if context.hasRecognizer { command(.prepareRecognition) }
        return speechInput
    }

    /// Acts on the voice activity of all whole windows.
    /// - Parameter mayWait: whether the rest of it may wait for the shard's batch.
    private func analyse(_ speechInput: SpeechInput, mayWait: Bool, at now: Instant) {
        while let analysis = speechInput.analyseNextWindow(
            context, mayWait: mayWait, echo: playback?.echo, at: now)
        {
            switch analysis {
            case .changed(.started(let position)):
                handleSpeechStarted(at: position, speechInput, at: now)
            case .changed(.stopped(let position)):
                handleSpeechStopped(at: position, speechInput, at: now)
            case .unchanged:
                weighInterruption(speechInput, at: now)
                hypothesize(speechInput)
                if context.hasTurnModel, speechInput.speechItemID != nil,
                    !languageRules.knowsTurnEnds
                {
                    speechInput.judgeTurnEnd(context)
                }
            case .awaited: return
            }
        }
        if let turnDetection = parameters.turnDetection {
            speechInput.discardSilence(
                paddingMilliseconds: turnDetection.prefixPaddingMilliseconds)
        }
    }

    /// Acts on a window that waits in the shard's batch, and on those behind it.
    func settleActivity(at now: Instant) {
        guard let speechInput, speechInput.awaitsActivity else { return }
        analyse(speechInput, mayWait: false, at: now)
        finish(at: now)
    }

    /// More of the speech over a reply, or of its words, is known.
    private func weighInterruption(_ speechInput: SpeechInput, at now: Instant) {
        guard let position = playback?.weigh(speechInput, at: now) else { return }
        handleSpeechStopped(at: position, speechInput, at: now)
    }

    private func handleSpeechStarted(at position: Int, _ speechInput: SpeechInput, at now: Instant)
    {
        let padding = parameters.turnDetection?.prefixPaddingMilliseconds ?? 0
        let itemID = ids.make("item_")
        speechInput.beginSpeech(
            itemID: itemID, at: position,
            padding: SampleRate.hz16000.samples(inMilliseconds: padding))
        choosePatience(for: speechInput)
        announceSpeechStarted()
        conduct?.noteUser()
        if parameters.turnDetection?.interruptResponse == true, mayBeInterrupted {
            playback?.handleOnset(of: itemID, at: position, now: now)
        }
    }

    /// Chooses how long the end of the speech in progress is waited for.
    func choosePatience(for speechInput: SpeechInput) {
        guard speechInput.turnDetector?.judgesSound == true else { return }
        switch parameters.turnDetection?.patience ?? context.limits.patience {
        case .brief: speechInput.expect(.brief, followsWords: false)
        case .usual: speechInput.expect(.usual, followsWords: false)
        case .long: speechInput.expect(.long, followsWords: false)
        case .auto:
            let reply = activeResponse?.newestText ?? conversation.newestReply
            let patience = reply.map {
                PatienceJudge.patience(
                    after: $0, in: languageRules, tools: parameters.tools)
            }
            speechInput.expect(patience ?? .usual, followsWords: true)
        }
    }

    /// Tells the client of the speech in progress: when it begins, and when turn detection is
    /// switched on again while it is buffered. Silence ends it then.
    func announceSpeechStarted() {
        guard let speechInput, let itemID = speechInput.speechItemID else { return }
        emit(
            .inputAudioBufferSpeechStarted(
                itemID: itemID,
                audioStartMilliseconds: SampleRate.hz16000.milliseconds(
                    ofSamples: speechInput.speechStart)))
    }

    /// Tells the client that speech has ended: at a position on the audio timeline, or where turn
    /// detection is switched off while the user speaks. Then the speech so far stays in the buffer,
    /// under the announced id, until the client commits it.
    func announceSpeechStopped(at position: Int? = nil) {
        guard let speechInput, let itemID = speechInput.speechItemID else { return }
        emit(
            .inputAudioBufferSpeechStopped(
                itemID: itemID,
                audioEndMilliseconds: SampleRate.hz16000.milliseconds(
                    ofSamples: position ?? speechInput.buffer.end)))
    }

    func handleSpeechStopped(at position: Int, _ speechInput: SpeechInput, at now: Instant) {
        guard let itemID = speechInput.speechItemID else { return }
        announceSpeechStopped(at: position)
        let silence = SampleRate.hz16000.milliseconds(ofSamples: speechInput.buffer.end - position)
        do {
            try commit(
                speechInput, itemID: itemID, speechEnd: now + .milliseconds(-silence),
                position: position,
                responds: parameters.turnDetection?.createResponse == true, at: now)
        } catch {
            // The speech is over, whether or not it could become an item.
            speechInput.cancelSpeech(context)
            answerer.clear()
            emit(.error(error))
            playback?.forgetSpeech(at: now)
            return
        }
        if playback?.handleUndecidedSpeech(itemID, at: now) == true { userTurn.forgetWords() }
    }

    // MARK: Turns

    /// `input_audio_buffer.commit`
    func commit(at now: Instant) throws(ClientEventError) {
        let buffered = SampleRate.hz16000.milliseconds(ofSamples: speechInput?.buffer.count ?? 0)
        guard let speechInput, buffered >= Self.minCommittedMilliseconds else {
            throw .commitTooShort(buffered: buffered, minimum: Self.minCommittedMilliseconds)
        }
        if speechInput.speechItemID == nil { speechInput.takeEverythingAsSpeech() }
        try commit(
            speechInput, itemID: speechInput.speechItemID ?? ids.make("item_"), speechEnd: now,
            position: speechInput.turnDetector?.lastSpeechEnd, responds: false, at: now)
        // The client ends turns itself, and decides itself whether the reply ends.
        playback?.forgetSpeech(at: now)
    }

    /// Makes an item of the buffered audio and asks for its transcript.
    /// - Parameter position: where on the audio timeline speech was last heard, if that is known.
    private func commit(
        _ speechInput: SpeechInput, itemID: String, speechEnd: Instant, position: Int?,
        responds: Bool,
        at now: Instant
    ) throws(ClientEventError) {
        try checkTranscriptionLimit()
        try makeRoom()
        let partial = speechInput.partial
        let onset = speechInput.onset
        let start = speechInput.speechStart
        let audio = speechInput.take(from: start)
        let item = ConversationItem(
            id: itemID,
            kind: .message(role: .user, content: [.inputAudio(bytes: [], transcript: nil)]))
        emit(
            .inputAudioBufferCommitted(itemID: itemID, previousItemID: conversation.lastItemID))
        try add(item, after: nil, isHeard: true)
        context.counters.turns += 1
        // Only a recogniser can tell what the sound was.
        let isOverReply = context.hasRecognizer && playback?.isWeighing(itemID) == true
        keep(audio, of: itemID)
        answerer.commit(itemID, start..<start + audio.sampleCount)
        if modelHearsAudio {
            if responds, !isOverReply { userTurn.handleWords(endingAt: speechEnd) }
            guard wantsTranscripts || isOverReply || answerer.transcribes else {
                partial?.cancelHypothesis(of: itemID, context)
                return
            }
        }
        var awaited = AwaitedTranscript(
            itemID: itemID, speechEnd: speechEnd, audio: audio,
            responds: responds && (isOverReply || !modelHearsAudio),
            isOverReply: isOverReply)
        awaited.speechMilliseconds = position.map {
            SampleRate.hz16000.milliseconds(ofSamples: $0 - onset)
        }
        guard !answerer.transcribes else {
            partial?.cancelHypothesis(of: itemID, context)
            return userTurn.handleCommitted(awaited)
        }
        if let partial {
            transcribe(audio, awaited, after: partial, speechEndingAt: position, at: now)
        } else {
            transcribe(audio, awaited)
        }
    }

    /// `input_audio_buffer.clear`
    func clearInput(at now: Instant) {
        if let speechInput {
            let isOverReply = playback?.isWeighing(speechInput.speechItemID) == true
            speechInput.cancelSpeech(context)
            if isOverReply { playback?.forgetSpeech(at: now) }
            answerer.clear()
        }
        emit(.inputAudioBufferCleared)
    }

    // MARK: Audio that stops coming

    /// When the speech in progress is over because no more audio comes: the client is muted, or
    /// sends nothing in silence. A client that is away sends no audio, so its silence counts at
    /// once. Nil where there is no speech, or the client ends it.
    var audioGapDeadline: Instant? {
        guard !hasUnheardAudio, let speechInput, let silence = speechInput.silenceDeadline,
            let lastAudio = speechInput.lastAudio
        else { return nil }
        if isClientAway { return silence }
        let gap = lastAudio + .milliseconds(context.limits.audioGapMilliseconds)
        // A reply that this speech holds does not wait longer.
        return playback?.isWeighing(speechInput.speechItemID) == true ? gap : max(silence, gap)
    }

    /// Ends the speech in progress, of which no more comes: it is a turn as after any silence.
    func endSpeech(at now: Instant) {
        guard let speechInput, let turnDetector = speechInput.turnDetector else { return }
        handleSpeechStopped(at: turnDetector.lastSpeechEnd, speechInput, at: now)
    }

    // MARK: The idle timeout

    /// When the session prompts because the user has not spoken since the last response. A client
    /// that is away is not prompted.
    var idleDeadline: Instant? {
        guard userTurn.quietSince != nil, responses.isEmpty, speechInput?.speechItemID == nil,
            !hasUnheardAudio, !isClientAway,
            let timeout = conduct?.silenceMilliseconds
                ?? parameters.turnDetection?.idleTimeoutMilliseconds
        else { return nil }
        return userTurn.idleDeadline(timeoutMilliseconds: timeout)
    }

    /// The user has not spoken: an empty turn is committed, and the model is asked to go on.
    func handleIdleTimeout(at now: Instant) {
        if handleAgentSilence(at: now) { return }
        let quietPosition = userTurn.endQuiet()
        do {
            try makeRoom()
        } catch {
            return emit(.error(error))
        }
        let itemID = ids.make("item_")
        let end = speechInput?.buffer.end ?? 0
        // The timeline of a client that sends no audio ends before that position.
        let start = min(quietPosition, end)
        emit(
            .inputAudioBufferTimeoutTriggered(
                itemID: itemID,
                audioStartMilliseconds: SampleRate.hz16000.milliseconds(ofSamples: start),
                audioEndMilliseconds: SampleRate.hz16000.milliseconds(ofSamples: end)))
        speechInput?.clear()
        emit(
            .inputAudioBufferCommitted(itemID: itemID, previousItemID: conversation.lastItemID))
        let silence = ConversationItem(
            id: itemID,
            kind: .message(role: .user, content: [.inputAudio(bytes: [], transcript: "")]))
        do {
            try add(silence, after: nil)
            try createResponse(ResponseParameters(), isOfClient: false, at: now)
        } catch {
            emit(.error(error))
        }
    }

    // MARK: Words of the speech in progress

    func handleHypothesis(
        _ text: String, in heard: String?, of itemID: String, at now: Instant
    ) {
        heardLanguage.hear(heard)
        if userTurn.isAwaiting(itemID) {
            return handleTranscript(text, in: heard, of: itemID, at: now)
        }
        guard let speechInput, speechInput.speechItemID == itemID else { return }
        if let delta = speechInput.handleHypothesis(
            text, in: languageRules, showsWords: parameters.transcription != nil)
        {
            emit(.transcriptionDelta(itemID: itemID, contentIndex: 0, delta: delta))
        }
        weighInterruption(speechInput, at: now)
        if let words = speechInput.wordsBeforeSilence { speculate(on: words, speechInput) }
    }

    func handleHypothesisFailed(of itemID: String) {
        if userTurn.isAwaiting(itemID) {
            // The turn has ended meanwhile: now the words are needed.
            guard let utterance = userTurn.takeUnaskedUtterance(itemID) else { return }
            return command(.transcribe(itemID: itemID, utterance))
        }
        guard let speechInput, speechInput.speechItemID == itemID else { return }
        speechInput.handleHypothesisFailed()
    }

    // MARK: Transcripts

    /// Whether what answers is given the user's audio itself.
    var modelHearsAudio: Bool {
        (abilities.hearsAudio || answerer.isDialogue) && parameters.kind == .realtime
    }

    /// Whether transcripts are made for the client, although the model hears audio.
    var wantsTranscripts: Bool { parameters.transcription != nil && context.hasRecognizer }

    /// Keeps an item's audio, for a model that hears audio and for a client that retrieves the
    /// item.
    /// - Parameter isForModel: false where the model has the words.
    func keep(_ audio: HeardAudio, of itemID: String, isForModel: Bool = true) {
        let seconds = context.limits.maxHeardAudioSeconds
        let maxSamples = SampleRate.hz16000.samples(inMilliseconds: seconds * 1_000)
        // A dialogue has heard it.
        let isForModel = isForModel && modelHearsAudio && !answerer.isDialogue
        conversation.keep(audio, of: itemID, forModel: isForModel ? maxSamples : nil)
    }

    /// Refuses another utterance while too many are being recognised.
    func checkTranscriptionLimit() throws(ClientEventError) {
        guard userTurn.awaited.count < context.limits.maxAwaitedTranscripts else {
            throw .tooManyTranscriptions(most: context.limits.maxAwaitedTranscripts)
        }
    }

    /// Asks for the transcript of an item.
    /// - Parameter earlier: what was recognised of it before.
    func transcribe(
        _ audio: HeardAudio, _ awaited: AwaitedTranscript, after earlier: EarlierRecognition? = nil
    ) {
        userTurn.handleCommitted(awaited)
        let utterance = Utterance(audio: audio, hints: recognitionHints, after: earlier)
        command(.transcribe(itemID: awaited.itemID, utterance))
    }

    /// Handles the end of a turn, some of whose words may be known. If they are all of its words,
    /// they become the transcript. Otherwise the session asks for it.
    /// - Parameter position: where on the audio timeline speech was last heard. Nil where the
    ///   client ends turns: then it is not known.
    private func transcribe(
        _ audio: HeardAudio, _ awaited: AwaitedTranscript, after partial: PartialTranscript,
        speechEndingAt position: Int?, at now: Instant
    ) {
        var awaited = awaited
        awaited.agreement = partial.agreement
        let itemID = awaited.itemID
        if let position, let words = partial.words(upTo: position) {
            userTurn.handleCommitted(awaited)
            handleTranscript(words, in: nil, of: itemID, at: now)
        } else if let position, partial.isRecognizing(upTo: position) {
            awaited.unaskedUtterance = Utterance(
                audio: audio, hints: recognitionHints, after: partial.earlier)
            userTurn.handleCommitted(awaited)
        } else {
            // The hypothesis in flight covers only a part of the speech.
            partial.cancelHypothesis(of: itemID, context)
            transcribe(audio, awaited, after: partial.earlier)
        }
    }

    /// Handles the words of a whole utterance.
    /// - Parameter heard: the language in which they were heard, where the recogniser tells it.
    func handleTranscript(
        _ text: String, in heard: String?, of itemID: String, at now: Instant
    ) {
        guard var awaited = userTurn.takeAwaited(itemID) else { return }
        noteLanguage(heard, of: text, awaited)
        let hasWords = TranscriptWords.has(in: text)
        conversation.setTranscript(text, of: itemID)
        context.outputs.append(.measured(.transcript, now - awaited.speechEnd))
        if parameters.transcription != nil {
            if let delta = awaited.agreement.finish(text) {
                emit(.transcriptionDelta(itemID: itemID, contentIndex: 0, delta: delta))
            }
            emit(
                .transcriptionCompleted(
                    itemID: itemID, contentIndex: 0, transcript: text,
                    seconds: Double(awaited.samples) / Double(SampleRate.hz16000.hertz)))
        } else if !text.isEmpty {
            context.outputs.append(.transcribed(itemID: itemID))
        }
        let isAnswered =
            !awaited.isOverReply
            || playback?.handleWords(
                text, of: itemID, lasting: awaited.speechMilliseconds ?? 0, at: now) != false
        if hasWords {
            userTurn.handleUnderstood()
            if awaited.responds, isAnswered { userTurn.handleWords(endingAt: awaited.speechEnd) }
        } else {
            context.counters.turnsWithoutWords += 1
            if !awaited.isOverReply { userTurn.handleNoWords(of: awaited) }
        }
        userTurn.restartQuiet(at: now, position: speechInput?.buffer.end ?? 0)
    }

    /// The service has sent a part of a transcript ahead.
    func handleTranscriptPart(_ text: String, of itemID: String) {
        guard parameters.transcription != nil,
            let delta = userTurn.extendTranscript(of: itemID, by: text)
        else { return }
        emit(.transcriptionDelta(itemID: itemID, contentIndex: 0, delta: delta))
    }

    func handleTranscriptionFailed(_ error: AgentError, of itemID: String, at now: Instant) {
        guard let awaited = userTurn.takeAwaited(itemID) else { return }
        if parameters.transcription != nil {
            emit(
                .transcriptionFailed(
                    itemID: itemID, contentIndex: 0, code: error.code, message: error.message))
        }
        let isAnswered =
            !awaited.isOverReply
            || playback?.handleWords(
                nil, of: itemID, lasting: awaited.speechMilliseconds ?? 0, at: now) != false
        if awaited.responds, isAnswered, canRespond {
            begin(ResponseParameters(), speechEnd: awaited.speechEnd)
        }
        // A reply to words that are unknown would be a guess. Responses with an input of their own
        // do not depend on these words.
        for response in responses
        where response.stage == .waiting && response.parameters.input == nil {
            response.failAudibly(.failed(error), at: now)
        }
    }
}
