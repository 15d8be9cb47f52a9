// The user's audio: packets in, speech noticed, turns committed. VoiceSession+Conversation handles
// the transcripts.

import Codec

extension VoiceSession {
    /// The shortest audio that can be committed, as the protocol has it: 100 ms.
    static let minCommittedMilliseconds = 100

    /// A binary message: its number, where the client numbers its messages, and the audio.
    func appendMessage(_ message: RawSpan, at now: Instant) throws(ClientEventError) {
        guard parameters.inputIsNumbered else {
            return try append(message, sequence: nil, eventID: nil, at: now)
        }
        guard message.byteCount >= 2 else {
            context.counters.decodeErrors += 1
            throw .messageWithoutNumber
        }
        let number = UInt16(
            bigEndian: message.unsafeLoadUnaligned(fromByteOffset: 0, as: UInt16.self))
        try append(
            message.extracting(2..<message.byteCount), sequence: number, eventID: nil, at: now)
    }

    /// Audio of the client: `input_audio_buffer.append` or a binary message. A message may be
    /// longer than its share of the tick; the rest of it waits.
    func append(
        _ payload: RawSpan, sequence: UInt16?, eventID: String?, at now: Instant
    ) throws(ClientEventError) {
        guard !hasUnheardAudio else { return context.handle(.messageOutOfOrder) }
        let format = parameters.inputFormat
        let speechInput = speechInput ?? startListening()
        let length = format.milliseconds(inBytes: payload.byteCount)
        guard length <= maxBufferedMilliseconds else { throw bufferFull }
        let share = context.audioShares.millisecondsLeft(received: context.samplesIn)
        // A message that is no whole number of samples is refused at once, as a whole.
        guard length > share, payload.byteCount % format.sampleBytes == 0 else {
            let outcome = try hear(payload, sequence, format, speechInput, at: now)
            guard outcome != .overflowed else { throw bufferFull }
            return
        }
        let first = format.bytes(inMilliseconds: share)
        let outcome = try hear(
            payload.extracting(0..<first), sequence, format, speechInput, at: now)
        guard outcome != .dropped else { return }
        let rest = payload.extracting(first..<payload.byteCount)
        speechInput.unheard = UnheardAudio(rest, format: format, eventID: eventID)
        speechInput.unheard?.hasOverflowed = outcome == .overflowed
    }

    /// Hears the next share of the rest of a message. An error names the event of the message.
    func hearRest(at now: Instant) throws(ClientEventError) {
        guard let speechInput, let unheard = speechInput.unheard else { return }
        do throws(ClientEventError) {
            let share = context.audioShares.millisecondsLeft(received: context.samplesIn)
            try unheard.withShare(ofMilliseconds: share) { (bytes) throws(ClientEventError) in
                let outcome = try hear(bytes, nil, unheard.format, speechInput, at: now)
                if outcome == .overflowed { unheard.hasOverflowed = true }
            }
            guard unheard.isOver else { return }
            speechInput.unheard = nil
            if unheard.hasOverflowed { throw bufferFull }
        } catch {
            speechInput.unheard = nil
            var refused = error
            refused.eventID = unheard.eventID
            throw refused
        }
    }

    /// The result for a message, or for a share of it.
    private enum Hearing {
        case whole
        /// Some of it found no room in the buffer.
        case overflowed
        /// It came twice or too late.
        case dropped
    }

    private func hear(
        _ payload: RawSpan, _ sequence: UInt16?, _ format: AudioFormat, _ speechInput: SpeechInput,
        at now: Instant
    ) throws(ClientEventError) -> Hearing {
        var hearing = Hearing.whole
        do {
            let isTaken = try speechInput.decode(
                payload, number: sequence, format: format, context: context, at: now
            ) {
                if !hear($0, speechInput, at: now) { hearing = .overflowed }
            }
            return isTaken ? hearing : .dropped
        } catch {
            context.counters.decodeErrors += 1
            throw error.clientEventError(format: format)
        }
    }

    private func startListening() -> SpeechInput {
        let speechInput = SpeechInput(parameters: parameters, context: context)
        self.speechInput = speechInput
        listenForEcho()
        if context.hasRecognizer { command(.prepareRecognition) }
        return speechInput
    }

    private var maxBufferedMilliseconds: Int { context.limits.maxBufferedAudioSeconds * 1_000 }

    private var bufferFull: ClientEventError {
        .inputBufferFull(maxSeconds: context.limits.maxBufferedAudioSeconds)
    }

    /// A run of samples; returns false when some of them found no room.
    private func hear(
        _ samples: UnsafeBufferPointer<Int16>, _ speechInput: SpeechInput, at now: Instant
    ) -> Bool {
        context.counters.samplesIn += samples.count
        let appended = speechInput.append(samples)
        while let analysis = speechInput.analyseNextWindow(
            context.voiceActivityModel, echo: echo, at: now)
        {
            switch analysis {
            case .changed(.started(let position)):
                handleSpeechStarted(at: position, speechInput, at: now)
            case .changed(.stopped(let position)):
                handleSpeechStopped(at: position, speechInput, at: now)
            case .unchanged:
                weighInterruption(speechInput, at: now)
                hypothesize(speechInput)
            }
        }
        if let turnDetection = parameters.turnDetection {
            speechInput.discardSilence(
                paddingMilliseconds: turnDetection.prefixPaddingMilliseconds)
        }
        guard appended < samples.count else { return true }
        guard speechInput.speechItemID != nil else { return false }
        // Speech that is longer than the buffer is committed in pieces; nothing of it is lost.
        handleSpeechStopped(at: speechInput.buffer.end, speechInput, at: now)
        let rest = UnsafeBufferPointer(rebasing: samples[appended...])
        return speechInput.append(rest) == rest.count
    }

    private func handleSpeechStarted(at position: Int, _ speechInput: SpeechInput, at now: Instant)
    {
        let padding = parameters.turnDetection?.prefixPaddingMilliseconds ?? 0
        let itemID = ids.make("item_")
        speechInput.beginSpeech(
            itemID: itemID, at: position - SampleRate.hz16000.samples(inMilliseconds: padding))
        emit(
            .inputAudioBufferSpeechStarted(
                itemID: itemID,
                audioStartMilliseconds: SampleRate.hz16000.milliseconds(
                    ofSamples: speechInput.speechStart)))
        handleOnset(of: itemID, at: position, now: now)
    }

    /// Turn detection was switched off while the user spoke: the speech so far stays in the buffer,
    /// under the announced id, until the client commits it.
    func announceSpeechStopped() {
        guard let speechInput, let itemID = speechInput.speechItemID else { return }
        emit(
            .inputAudioBufferSpeechStopped(
                itemID: itemID,
                audioEndMilliseconds: SampleRate.hz16000.milliseconds(
                    ofSamples: speechInput.buffer.end)))
    }

    /// Turn detection was switched on again while such audio is buffered: the user may still be
    /// speaking, and silence ends it now.
    func announceSpeechResumed() {
        guard let speechInput, let itemID = speechInput.speechItemID else { return }
        emit(
            .inputAudioBufferSpeechStarted(
                itemID: itemID,
                audioStartMilliseconds: SampleRate.hz16000.milliseconds(
                    ofSamples: speechInput.speechStart)))
    }

    func handleSpeechStopped(at position: Int, _ speechInput: SpeechInput, at now: Instant) {
        guard let itemID = speechInput.speechItemID else { return }
        emit(
            .inputAudioBufferSpeechStopped(
                itemID: itemID,
                audioEndMilliseconds: SampleRate.hz16000.milliseconds(ofSamples: position)))
        let silence = SampleRate.hz16000.milliseconds(ofSamples: speechInput.buffer.end - position)
        do {
            try commit(
                speechInput, itemID: itemID, speechEnd: now + .milliseconds(-silence),
                position: position,
                responds: parameters.turnDetection?.createResponse == true, at: now)
        } catch {
            // The speech is over, whether or not it could become an item.
            forgetInput(speechInput)
            emit(.error(error))
            return forgetInterruption(at: now)
        }
        handleUndecidedSpeech(itemID, at: now)
    }

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
        forgetInterruption(at: now)
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
        let audio = speechInput.take(from: speechInput.speechStart)
        let item = ConversationItem(
            id: itemID,
            kind: .message(role: .user, content: [.inputAudio(bytes: [], transcript: nil)]))
        emit(
            .inputAudioBufferCommitted(itemID: itemID, previousItemID: conversation.lastItemID))
        try add(item, after: nil)
        context.counters.turns += 1
        // Only a recogniser can tell what that was.
        let isOverReply = context.hasRecognizer && interruption.isWeighing(itemID)
        keep(audio, of: itemID)
        if modelHearsAudio {
            if responds, !isOverReply { userTurn.handleWords(endingAt: speechEnd) }
            guard wantsTranscripts || isOverReply else {
                stopHypothesis(partial, of: itemID)
                return
            }
        }
        let awaited = AwaitedTranscript(
            itemID: itemID, speechEnd: speechEnd, audio: audio,
            responds: responds && (isOverReply || !modelHearsAudio),
            isOverReply: isOverReply)
        if let partial {
            transcribe(audio, awaited, after: partial, speechEndingAt: position, at: now)
        } else {
            transcribe(audio, awaited)
        }
    }

    /// `input_audio_buffer.clear`
    func clearInput(at now: Instant) {
        if let speechInput {
            let isSpeech = interruption.isWeighing(speechInput.speechItemID)
            forgetInput(speechInput)
            if isSpeech { forgetInterruption(at: now) }
        }
        emit(.inputAudioBufferCleared)
    }

    // MARK: The idle timeout

    /// When the session prompts because the user has not spoken since the last response.
    var idleDeadline: Instant? {
        guard userTurn.quietSince != nil, responses.isEmpty, speechInput?.speechItemID == nil,
            !hasUnheardAudio, let timeout = parameters.turnDetection?.idleTimeoutMilliseconds
        else { return nil }
        return userTurn.idleDeadline(timeoutMilliseconds: timeout)
    }

    /// The user has not spoken: an empty turn is committed, and the model is asked to go on.
    func handleIdleTimeout(at now: Instant) {
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
            try createResponse(ResponseParameters(), at: now)
        } catch {
            emit(.error(error))
        }
    }
}
