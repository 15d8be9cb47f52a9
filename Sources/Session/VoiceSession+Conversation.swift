// The conversation's items, which the client creates, retrieves, truncates and deletes, and the
// transcripts of the user's audio.

import Codec

extension VoiceSession {
    /// `conversation.item.create`
    func create(
        _ item: ConversationItem, after previousItemID: String?, at now: Instant
    ) throws(ClientEventError) {
        try checkImages(in: item, path: "item")
        var item = item
        if item.id.isEmpty { item.id = ids.make("item_") }
        guard item.id != speechInput?.speechItemID else {
            // Promised to the speech in progress.
            throw Conversation.Failure.duplicateID
                .clientEventError(itemID: item.id, action: "create")
        }
        var speech = HeardAudio()
        var hasWords = true
        if case .message(let role, var content) = item.kind {
            for (index, part) in content.enumerated() {
                guard case .inputAudio(let bytes, let transcript) = part else { continue }
                if transcript == nil { hasWords = false }
                // An item cannot have audio of every format: then its transcript is enough.
                if transcript == nil || parameters.inputFormat != .opus {
                    try append(bytes, to: &speech)
                }
                content[index] = .inputAudio(bytes: [], transcript: transcript)
            }
            item.kind = .message(role: role, content: content)
        }
        let isTranscribed = speech.sampleCount > 0 && !hasWords
        if isTranscribed { try checkTranscriptionLimit() }
        try checkApproval(item)
        try makeRoom(forBytes: item.textBytes)
        try add(item, after: previousItemID)
        handleApproval(item)
        if speech.sampleCount > 0 { keep(speech, of: item.id, isForModel: isTranscribed) }
        guard isTranscribed, !modelHearsAudio || wantsTranscripts else { return }
        transcribe(
            speech,
            AwaitedTranscript(
                itemID: item.id, speechEnd: now, audio: speech, responds: false))
    }

    /// Refuses an item with an image that the session's model would not see.
    func checkImages(in item: ConversationItem, path: String) throws(ClientEventError) {
        guard !abilities.seesImages, case .message(_, let content) = item.kind else { return }
        for (index, part) in content.enumerated() {
            guard case .inputImage = part else { continue }
            throw .imagesUnsupported(model: parameters.model, path: "\(path).content[\(index)]")
        }
    }

    /// Makes room for an item of so many bytes: unless `truncation` is `"disabled"`, the oldest
    /// items are deleted, with an event for each.
    func makeRoom(forBytes bytes: Int = 0) throws(ClientEventError) {
        while !conversation.hasRoom(forBytes: bytes) {
            guard parameters.truncation != .disabled,
                let oldest = conversation.removeOldest()
            else {
                throw Conversation.Failure.full.clientEventError(itemID: "", action: "create")
            }
            emit(.conversationItemDeleted(itemID: oldest))
        }
    }

    /// Puts an item into the conversation and emits its events.
    func add(
        _ item: ConversationItem, after previousItemID: String?
    ) throws(ClientEventError) {
        let previous: String?
        do {
            previous = try conversation.insert(item, after: previousItemID)
        } catch {
            throw error.clientEventError(itemID: item.id, action: "create")
        }
        emit(.conversationItemAdded(item, previousItemID: previous))
        emit(.conversationItemDone(item, previousItemID: previous))
    }

    /// `conversation.item.delete`
    func delete(_ itemID: String, at now: Instant) throws(ClientEventError) {
        do {
            try conversation.remove(itemID)
        } catch {
            throw error.clientEventError(itemID: itemID, action: "delete")
        }
        if userTurn.takeAwaited(itemID) != nil {
            command(.cancelTranscription(itemID: itemID))
            if interruption.isWeighing(itemID) { forgetInterruption(at: now) }
        }
        emit(.conversationItemDeleted(itemID: itemID))
    }

    /// `conversation.item.retrieve`
    func retrieve(_ itemID: String) throws(ClientEventError) {
        guard let item = conversation.item(itemID) else {
            throw Conversation.Failure.itemMissing
                .clientEventError(itemID: itemID, action: "retrieve")
        }
        // Where too many items are being encoded, the client gets this one without its audio.
        guard let audio = conversation.audio(of: itemID), retrievals.count < Self.maxRetrievals,
            audio.encodedBytes(as: parameters.inputFormat) <= Self.maxRetrievedAudioBytes
        else { return emit(.conversationItemRetrieved(item)) }
        retrievals.append(itemID)
        command(.encodeAudio(itemID: itemID, audio, parameters.inputFormat))
    }

    /// Items whose audio is made ready at once.
    static let maxRetrievals = 4
    /// Audio of a retrieved item, in bytes: its event, in base64, keeps below the 1 MiB that client
    /// libraries take. 16 s as PCM, 94 s as G.711.
    private static let maxRetrievedAudioBytes = 750_000

    /// An item's audio is encoded for the client that asked for it.
    func handleEncodedAudio(_ bytes: [UInt8], of itemID: String) {
        guard let index = retrievals.firstIndex(of: itemID) else { return }
        retrievals.remove(at: index)
        guard var item = conversation.item(itemID) else {
            return emit(
                .error(
                    Conversation.Failure.itemMissing
                        .clientEventError(itemID: itemID, action: "retrieve")))
        }
        if case .message(let role, var content) = item.kind {
            // All of an item's audio was kept as one.
            let first = content.firstIndex { if case .inputAudio = $0 { true } else { false } }
            if let first, case .inputAudio(_, let transcript) = content[first] {
                content[first] = .inputAudio(bytes: bytes, transcript: transcript)
            }
            item.kind = .message(role: role, content: content)
        }
        emit(.conversationItemRetrieved(item))
    }

    /// `conversation.item.truncate`
    func truncate(
        _ itemID: String, _ contentIndex: Int, _ milliseconds: Int, at now: Instant
    ) throws(ClientEventError) {
        do throws(Conversation.Failure) {
            // Audio that waits for the socket has not been heard.
            if let most = playout?.leftMilliseconds(of: itemID), milliseconds > most {
                throw Conversation.Failure.notTruncatable(audioMilliseconds: most)
            }
            if try !truncateOpenItem(itemID, contentIndex, milliseconds, at: now) {
                try conversation.truncate(
                    itemID, contentIndex: contentIndex, audioMilliseconds: milliseconds)
                // The item's audio that has not left is not wanted any more.
                if playout?.isPlaying(at: now) == true {
                    context.outputs.append(.dropItemAudio(itemID: itemID))
                }
                if activeResponse == nil { _ = silencePlayout(at: now) }
            }
        } catch {
            throw error.clientEventError(itemID: itemID, action: "truncate")
        }
        emit(
            .conversationItemTruncated(
                itemID: itemID, contentIndex: contentIndex, audioEndMilliseconds: milliseconds))
    }

    /// Appends audio that a client put into an item.
    private func append(
        _ bytes: [UInt8], to audio: inout HeardAudio
    ) throws(ClientEventError) {
        let format = parameters.inputFormat
        guard format != .opus else { throw .opusInItem }
        let seconds = context.limits.maxBufferedAudioSeconds
        let room = SampleRate.hz16000.samples(inMilliseconds: seconds * 1_000) - audio.sampleCount
        let tooLong = ClientEventError.itemAudioTooLong(maxSeconds: seconds)
        // Checked before any of it is decoded: no format has fewer than one byte for two samples
        // at 16 kHz.
        guard bytes.count <= 3 * room else { throw tooLong }
        let before = audio.sampleCount
        do {
            try InputAudioDecoder(format: format).decode(
                bytes.span.bytes, missing: nil, context: context
            ) { audio.append($0) }
        } catch {
            context.counters.decodeErrors += 1
            throw error.clientEventError(format: format)
        }
        guard audio.sampleCount - before <= room else { throw tooLong }
    }

    // MARK: Transcripts

    /// Whether the model is given the user's audio itself.
    var modelHearsAudio: Bool { abilities.hearsAudio && parameters.kind == .realtime }

    /// Whether transcripts are made for the client, although the model hears audio.
    var wantsTranscripts: Bool { parameters.transcription != nil && context.hasRecognizer }

    /// Keeps an item's audio, for a model that hears audio and for a client that retrieves the
    /// item.
    /// - Parameter isForModel: false where the model has the words.
    func keep(_ audio: HeardAudio, of itemID: String, isForModel: Bool = true) {
        let seconds = context.limits.maxHeardAudioSeconds
        let maxSamples = SampleRate.hz16000.samples(inMilliseconds: seconds * 1_000)
        conversation.keep(
            audio, of: itemID, forModel: isForModel && modelHearsAudio ? maxSamples : nil)
    }

    /// Refuses another utterance while too many are being recognised.
    func checkTranscriptionLimit() throws(ClientEventError) {
        guard userTurn.awaited.count < context.limits.maxAwaitedTranscripts else {
            throw .tooManyTranscriptions(most: context.limits.maxAwaitedTranscripts)
        }
    }

    /// Asks for the transcript of an item.
    func transcribe(_ audio: HeardAudio, _ awaited: AwaitedTranscript) {
        userTurn.handleCommitted(awaited)
        command(.transcribe(itemID: awaited.itemID, utterance(audio)))
    }

    /// Audio with the hints that the client gave.
    func utterance(_ audio: HeardAudio) -> Utterance {
        Utterance(
            audio: audio, language: parameters.transcription?.languageHint,
            prompt: parameters.transcription?.vocabularyHint)
    }

    func handleTranscript(_ text: String, of itemID: String, at now: Instant) {
        guard var awaited = userTurn.takeAwaited(itemID) else { return }
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
        }
        // A turn without words (a cough, a slammed door) is not answered.
        let isAnswered =
            !awaited.isOverReply || settleInterruption(by: text, of: itemID, at: now)
        if awaited.responds, isAnswered, !text.isEmpty {
            userTurn.handleWords(endingAt: awaited.speechEnd)
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
            !awaited.isOverReply || settleInterruption(by: nil, of: itemID, at: now)
        if awaited.responds, isAnswered, canRespond {
            begin(ResponseParameters(), speechEnd: awaited.speechEnd)
        }
        // A reply to words that are unknown would be a guess. Responses with an input of their own
        // do not depend on these words.
        for response in responses
        where response.stage == .waiting && response.parameters.input == nil {
            response.fail(error)
        }
    }
}
