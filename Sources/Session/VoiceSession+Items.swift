// The conversation's items, which the client creates, retrieves, truncates and deletes.

import Codec

extension VoiceSession {
    /// The conversation's items, oldest first, without the audio that is kept beside them.
    public var items: [ConversationItem] { conversation.items }

    /// An item of the conversation, or nil where none has this id.
    public func item(_ id: String) -> ConversationItem? { conversation.item(id) }

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
                    try speech.append(
                        decoding: bytes, format: parameters.inputFormat, context)
                }
                content[index] = .inputAudio(bytes: [], transcript: transcript)
            }
            item.kind = .message(role: role, content: content)
        }
        context.counters.samplesIn += speech.sampleCount
        let isTranscribed = speech.sampleCount > 0 && !hasWords
        if isTranscribed { try checkTranscriptionLimit() }
        try checkApproval(item)
        try checkOutput(item)
        try makeRoom(forBytes: item.textBytes)
        try add(item, after: previousItemID)
        if case .mcp(.approvalResponse(let requestID, let isApproved, _)) = item.kind {
            tools?.handleApproval(of: requestID, isApproved: isApproved)
        }
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

    /// Refuses an approval response that answers no open question.
    private func checkApproval(_ item: ConversationItem) throws(ClientEventError) {
        guard case .mcp(.approvalResponse(let requestID, _, _)) = item.kind,
            tools?.awaitsApproval(requestID) != true
        else { return }
        throw .approvalNotAwaited(requestID)
    }

    /// Refuses the output of a call that the conversation does not have: no model would be shown it.
    private func checkOutput(_ item: ConversationItem) throws(ClientEventError) {
        guard case .functionCallOutput(let callID, _) = item.kind, !conversation.hasCall(callID)
        else { return }
        throw .callMissing(callID)
    }

    /// `conversation.item.delete`
    func delete(_ itemID: String, at now: Instant) throws(ClientEventError) {
        do {
            try conversation.remove(itemID)
        } catch {
            throw error.clientEventError(itemID: itemID, action: "delete")
        }
        answerer.delete(itemID)
        if userTurn.takeAwaited(itemID) != nil {
            command(.cancelTranscription(itemID: itemID))
            if playback?.isWeighing(itemID) == true { playback?.forgetSpeech(at: now) }
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
            let isOpen = try playback?.truncateOpenItem(
                itemID, contentIndex, milliseconds, at: now)
            if isOpen != true {
                try conversation.truncate(
                    itemID, contentIndex: contentIndex, audioMilliseconds: milliseconds)
                answerer.truncate(itemID, milliseconds: milliseconds)
                playback?.handleTruncated(itemID, at: now)
            }
        } catch {
            throw error.clientEventError(itemID: itemID, action: "truncate")
        }
        emit(
            .conversationItemTruncated(
                itemID: itemID, contentIndex: contentIndex, audioEndMilliseconds: milliseconds))
    }

    /// `output_audio_buffer.played`
    func handlePlayed(
        _ itemID: String, _ contentIndex: Int, milliseconds: Int, at now: Instant
    ) throws(ClientEventError) {
        guard contentIndex == 0 else { throw .notTheSpokenPart }
        try playback?.handlePlayed(itemID, milliseconds: milliseconds, at: now)
        let isKnown =
            conversation.item(itemID) != nil
            || responses.contains { $0.words(of: itemID) != nil }
        guard isKnown else { throw .playedItemMissing(itemID) }
    }
}

extension HeardAudio {
    /// Appends audio that a client put into an item.
    fileprivate mutating func append(
        decoding bytes: [UInt8], format: AudioFormat, _ context: SessionContext
    ) throws(ClientEventError) {
        guard format != .opus else { throw .opusInItem }
        let seconds = context.limits.maxBufferedAudioSeconds
        let room = SampleRate.hz16000.samples(inMilliseconds: seconds * 1_000) - sampleCount
        let tooLong = ClientEventError.itemAudioTooLong(maxSeconds: seconds)
        // Checked before any of it is decoded: no format has fewer than one byte for two samples
        // at 16 kHz.
        guard bytes.count <= 3 * room else { throw tooLong }
        var decoded = self
        do {
            let decoder = try InputAudioDecoder(format: format)
            try decoder.begin(bytes.span.bytes, missing: nil)
            while let run = try decoder.next(of: bytes.span.bytes, context.codecs.scratch) {
                decoded.append(run)
            }
        } catch {
            context.counters.decodeErrors += 1
            throw error.clientEventError(format: format)
        }
        guard decoded.sampleCount - sampleCount <= room else { throw tooLong }
        self = decoded
    }
}
