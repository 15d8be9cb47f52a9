// One session: the state machine at the centre of the server. Read this first.
//
// Its parts own their state and are tested alone. They are SpeechInput (hears and finds speech),
// UserTurn (words not answered yet), Answerer (who answers them), Conversation (items), Response (one
// reply), ReplyPlayback (hearing and interruption of replies) and SessionTools (MCP servers). SessionCore
// is what the parts see of the session.
//
// The session itself conducts them. This file has its state, its inputs and its outputs. The
// effects of an input on several parts are in VoiceSession+Turns (the user), VoiceSession+Items
// (the conversation) and VoiceSession+Responses (responses).

import Codec

/// One conversation with one client. Sans-IO: inputs with the time, outputs taken, one deadline.
///
/// Call order: `noteUnsent` where reply audio waits, one `handle…` (or `start`), then
/// `nextOutput()` until it returns nil, then read `nextDeadline(after:)`; when that instant comes,
/// `handleDeadline(at:)`. `noteLost` may be called at any time.
/// - Getters: `id`, `parameters`, `hasUnheardAudio`, `awaitsActivity`, `isIdle`, `activity`, `hasTurnInFlight`,
///   `playedOut`, `hasEnoughSpeech(of:)`, `nextDeadline(after:)`, `ledger` (VoiceSession+Ledger),
///   `items`, `item(_:)`, `canBeHandedOver`, `saved(items:at:)`.
/// - Inputs: `start(at:)`, `handle(_:eventID:audio:at:)`, `handle(_: ClientEventError, at:)`,
///   `handleAudioPacket(_:number:at:)`, `handleActivity(at:)`, `handleUnheardAudio(at:)`,
///   `handle(_: AgentEvent, at:)`,
///   `handleTypedTurn(_:at:)`, `handleInterruption(heard:at:)`, `handleClientRoom(_:at:)`,
///   `handleDeadline(at:)`, `handleClientAway(at:)`, `handleClientBack(played:at:)`, `handOver(at:)`;
///   `startRestored(_:played:announcesItems:at:)` instead of `start(at:)`;
///   `noteUnsent(itemID:position:)` and `noteLost(itemID:position:)`.
/// - Outputs: `nextOutput()`.
///
/// It does not close the connection, answer pings or know of sockets; `Connection` does.
public final class VoiceSession: SessionCore {
    /// `sess_…`
    public let id: String
    /// The effective session.
    ///
    /// Read in place: a copy would count a reference for each of a dozen fields.
    public var parameters: SessionParameters { _read { yield settledParameters.value } }
    /// Shared with sessions that have the same parameters.
    private var settledParameters: SettledParameters

    let context: SessionContext
    var ids: IdentifierSource
    let conversationID: String
    var conversation: Conversation
    /// Bytes of the parameters; 0 where they are shared with another session.
    private(set) var parameterBytes: UInt32
    /// Hears the user; nil until the first audio comes, so that a text session has none.
    var speechInput: SpeechInput?
    /// The user's words that are not answered yet.
    var userTurn = UserTurn()
    // The next four, of five bytes together, lie in the padding behind it.
    /// The abilities of the session's model. Where it hears audio, its replies wait for no
    /// transcript, and without `audio.input.transcription` none is made.
    let abilities: ModelAbilities
    /// Whether it has an agent that is more than its parameters (`conduct`). That is in the context:
    /// most have none.
    let hasAgent: Bool
    /// Whether any speech of a reply has come.
    private(set) var hasSpoken = false
    /// Whether the session's kind is settled: by the connection, or by the client's first event.
    private var isKindSettled: Bool
    /// Items whose audio is being encoded for the client, which has asked for them.
    var retrievals: [String] = []
    /// Responses in flight: at most one in the conversation.
    var responses: [Response] = []
    /// The answerer of the user's turns.
    var answerer: Answerer
    /// MCP servers; nil until one is named.
    var tools: SessionTools?
    /// Notes what the session's record is made of. Nil where no record is kept.
    public var recorder: SessionRecorder?
    /// How the conversation's replies are heard; nil before the first, and where nothing is left to
    /// be heard or remembered.
    var playback: ReplyPlayback?
    /// Whether a client that loses its connection may come back to the session: then reply audio is
    /// kept until it was heard. Set before `start(at:)`; false by default, because that costs memory.
    public var isResumable = false
    /// Whether the client has lost its connection and is not back.
    public internal(set) var isClientAway = false
    /// How the client learns what to do with audio that it has. Set before `start(at:)`.
    public var playbackControl = PlaybackControl.events
    /// Whether the client takes no more audio for now.
    var isClientFull = false
    /// Whether the session goes on in another process: nothing begins here any more.
    var isHandedOver = false
    /// Whether the session is recorded. The recording itself is in the context: most have none.
    public internal(set) var isRecorded = false
    /// The language that a recogniser has heard.
    var heardLanguage = HeardLanguage()

    /// Creates a session in its initial state; emits nothing before `start(at:)`.
    /// - Parameters:
    ///   - parameters: the effective session to begin with, those of its agent included. Turn
    ///     detection is switched off where the context has no voice activity model.
    ///   - agent: the other settings of the agent's operator, if there are any.
    ///   - seed: the seed of the session's own random numbers (ids).
    public convenience init(
        parameters: SessionParameters, agent: SessionAgent? = nil, context: SessionContext,
        seed: UInt64
    ) {
        self.init(
            parameters: parameters, agent: agent, context: context, seed: seed,
            answerer: .cascade(Cascade()))
    }

    /// A session whose turns this answers.
    convenience init(
        parameters: SessionParameters, agent: SessionAgent? = nil, context: SessionContext,
        seed: UInt64, answerer: Answerer
    ) {
        var ids = IdentifierSource(seed: seed)
        let names = (session: ids.make("sess_"), conversation: ids.make("conv_"))
        self.init(
            names, parameters: parameters, agent: agent, ids: ids, context: context,
            answerer: answerer)
    }

    /// A session in the state that it had when it was saved, as another process goes on with it;
    /// emits nothing before `startRestored`.
    /// - Parameters:
    ///   - agent: the agent that `saved` names, as this server knows it.
    ///   - seed: the seed of the random numbers of new ids.
    /// - Throws: `settings` where this server cannot meet the session's settings.
    public convenience init(
        restoring saved: SavedSession, agent: SessionAgent? = nil, context: SessionContext,
        seed: UInt64
    ) throws(SavedSessionError) {
        let parameters = try context.parameters(restoring: saved)
        self.init(
            (session: saved.id, conversation: saved.conversationID), parameters: parameters,
            agent: agent, ids: IdentifierSource(seed: seed), context: context,
            answerer: .cascade(Cascade()))
        conversation.restore(
            saved.itemIDs.compactMap { saved.items[$0] }.map { ($0.item, $0.speech) },
            hiddenItems: saved.hiddenItems,
            memory: saved.memory)
        hasSpoken = saved.hasSpoken
        heardLanguage.hear(saved.language)
        heardLanguage.settle()
        isKindSettled = true
    }

    private init(
        _ names: (session: String, conversation: String), parameters: SessionParameters,
        agent: SessionAgent?, ids: IdentifierSource, context: SessionContext, answerer: Answerer
    ) {
        self.answerer = answerer
        hasAgent = agent != nil
        id = names.session
        conversationID = names.conversation
        self.ids = ids
        self.context = context
        var starting = parameters
        if context.voiceActivityModel == nil { starting.turnDetection = nil }
        let (settled, ownBytes) = context.startingParameters.settle(starting)
        settledParameters = settled
        parameterBytes = UInt32(clamping: ownBytes)
        abilities = context.abilities(parameters.model)
        isKindSettled = parameters.kind != .realtime
        conversation = Conversation(
            maxItems: context.limits.maxConversationItems,
            maxBytes: context.limits.maxConversationBytes
                + (abilities.seesImages ? context.limits.maxConversationImageBytes : 0),
            maxAudioBytes: context.limits.maxKeptAudioBytes)
        if let agent { context.conducts[ObjectIdentifier(self)] = AgentConduct(agent) }
    }

    /// The id that a session with this seed has.
    public static func id(seed: UInt64) -> String {
        var ids = IdentifierSource(seed: seed)
        return ids.make("sess_")
    }

    deinit {
        speechInput?.releaseDecoder(context)
        for response in responses { response.releaseEncoder() }
        forgetRecording()
        if hasAgent { context.conducts[ObjectIdentifier(self)] = nil }
    }

    /// The name of its agent, if it has one.
    public var agentName: String? { conduct?.agent.name }

    /// Whether nothing is in flight: no speech, no transcript awaited, no response.
    public var isIdle: Bool {
        responses.isEmpty && !userTurn.isRecognising && speechInput?.speechItemID == nil
            && tools?.isBusy != true
    }

    /// Whether the speech of a response that waits to be sent has reached `maxQueuedSpeechSeconds`,
    /// so that its synthesis should pause. False where no such response is in flight.
    public func hasEnoughSpeech(of responseID: String) -> Bool {
        response(responseID)?.hasEnoughSpeech ?? false
    }

    /// The client begins to use the session as it is.
    func noteKindSettled() { isKindSettled = true }

    // MARK: Inputs

    /// Emits `session.created`.
    /// - Parameter isSettled: whether the client has already said how it will be heard, as a call has.
    ///   An agent then speaks first at once; otherwise it waits for the client's first message.
    public func start(isSettled: Bool = false, at now: Instant) {
        begin(at: now)
        emit(.sessionCreated(id: id, parameters))
        prepareGreeting(isSettled: isSettled, at: now)
        // A client secret may bind a session to servers.
        if !parameters.mcpTools.isEmpty { madeTools().handleUpdate(at: now) }
        if isSettled { finish(at: now) }
    }

    /// A validated event of the client. `audio` is the decoded bytes of
    /// `input_audio_buffer.append`, and is empty for the others.
    public func handle(
        _ event: ClientEvent, eventID: String?, audio: RawSpan, at now: Instant
    ) {
        begin(at: now)
        do {
            if event.isAnythingButSessionUpdate { isKindSettled = true }
            if event.isOfUser { conduct?.noteUser() }
            switch event {
            case .sessionUpdate(let update): try apply(update, at: now)
            case .inputAudioBufferAppend(let sequence):
                try append(audio, number: sequence, eventID: eventID, at: now)
            case .inputAudioBufferCommit: try commit(at: now)
            case .inputAudioBufferClear: clearInput(at: now)
            case .conversationItemCreate(let item, let previousItemID):
                try create(item, after: previousItemID, at: now)
            case .conversationItemDelete(let itemID): try delete(itemID, at: now)
            case .conversationItemRetrieve(let itemID): try retrieve(itemID)
            case .conversationItemTruncate(let itemID, let contentIndex, let milliseconds):
                try truncate(itemID, contentIndex, milliseconds, at: now)
            case .responseCreate(let parameters): try createResponse(parameters, at: now)
            case .responseCancel(let responseID): try cancelResponse(responseID, at: now)
            case .outputAudioBufferClear: try clearOutput(at: now)
            case .outputAudioBufferPlayed(let itemID, let contentIndex, let milliseconds):
                try handlePlayed(itemID, contentIndex, milliseconds: milliseconds, at: now)
            case .ping: break  // Answered by its connection.
            }
        } catch {
            var refused = error
            refused.eventID = eventID
            emit(.error(refused))
        }
        finish(at: now)
    }

    /// An event that the parser refused: emits `error`.
    public func handle(_ error: ClientEventError, at now: Instant) {
        begin(at: now)
        emit(.error(error))
    }

    /// A packet of audio in the session's input format.
    /// - Parameter number: one more than that of the packet before. Nil means that the client does not
    ///   number its packets.
    public func handleAudioPacket(_ packet: RawSpan, number: UInt16? = nil, at now: Instant) {
        begin(at: now)
        isKindSettled = true
        do {
            try append(packet, number: number, eventID: nil, at: now)
        } catch {
            emit(.error(error))
        }
        finish(at: now)
    }

    /// Whether the rest of a long message of audio waits for its share of another tick. Until it is
    /// heard, no event and no audio of the client may be handled.
    public var hasUnheardAudio: Bool { speechInput?.unheard != nil }

    /// Whether a window of its audio waits in `SessionContext.activityBatch`. It is judged by the next input
    /// of any kind.
    public var awaitsActivity: Bool { speechInput?.awaitsActivity == true }

    /// The shard's batch is computed: acts on the voice activity of the window that waits there.
    public func handleActivity(at now: Instant) { begin(at: now) }

    /// Hears as much of the rest of the message as `SessionContext.beginShare()` allows.
    public func handleUnheardAudio(at now: Instant) {
        begin(at: now)
        do {
            try hearRest(at: now)
        } catch {
            emit(.error(error))
        }
        finish(at: now)
    }

    /// A result of an agent's work. Events of cancelled work are ignored.
    public func handle(_ event: AgentEvent, at now: Instant) {
        begin(at: now)
        guard !answerer.speculation.record(event, context) else { return finish(at: now) }
        switch event {
        case .transcript(let itemID, let text, let language):
            handleTranscript(text, in: language, of: itemID, at: now)
        case .transcriptPart(let itemID, let text): handleTranscriptPart(text, of: itemID)
        case .transcriptionFailed(let itemID, let error):
            handleTranscriptionFailed(error, of: itemID, at: now)
        case .hypothesis(let itemID, let text, let language):
            handleHypothesis(text, in: language, of: itemID, at: now)
        case .hypothesisFailed(let itemID): handleHypothesisFailed(of: itemID)
        case .turnEnd(let itemID, let probability):
            guard let speechInput, speechInput.speechItemID == itemID else { break }
            speechInput.handleTurnEnd(probability: probability)
        case .audioEncoded(let itemID, let bytes): handleEncodedAudio(bytes, of: itemID)
        case .modelDelta(let id, let delta):
            response(id)?.handle(delta, at: now)
        case .modelFinished(let id): response(id)?.handleModelFinished(at: now)
        case .modelFailed(let id, let error): response(id)?.failAudibly(.failed(error), at: now)
        case .speechFailed(let id, let error): response(id)?.fail(error)
        case .speech(let id, let chunk):
            hasSpoken = true
            if let response = response(id) {
                do {
                    try response.handle(chunk, at: now)
                } catch {
                    response.fail(error)
                }
            }
        case .speechFinished(let id): response(id)?.handleSpeechFinished(at: now)
        case .tools(let event): tools?.handle(event, at: now)
        }
        finish(at: now)
    }

    /// The deadline has come.
    public func handleDeadline(at now: Instant) {
        begin(at: now)
        // Audio leaves when it is due, not when the deadline of something else has come.
        let before = Instant(nanoseconds: now.nanoseconds - 1)
        for response in responses where response.nextDeadline(after: before) == now {
            response.advance(at: now)
        }
        if let due = idleDeadline, due <= now { handleIdleTimeout(at: now) }
        // Speech ends before its hold does, because its words may decide about the reply.
        if let due = audioGapDeadline, due <= now { endSpeech(at: now) }
        if let due = holdDeadline, due <= now { playback?.forgetSpeech(at: now) }
        speechInput?.releaseIfIdle(context, at: now)
        finish(at: now)
    }

    /// Handles a client that takes no more audio for now, or takes audio again. Until it does,
    /// replies wait here: their synthesis pauses at `maxQueuedSpeechSeconds`.
    public func handleClientRoom(_ hasRoom: Bool, at now: Instant) {
        begin(at: now)
        isClientFull = !hasRoom
        for response in responses { response.handleClientRoom(hasRoom, at: now) }
        finish(at: now)
    }

    // MARK: Audio that has not left

    /// Called before an input for each message of reply audio that waits for the socket, oldest
    /// first. It makes no output.
    /// - Parameter position: where in its item it starts, in samples at 48 kHz.
    /// - Returns: whether that is all the session must know; false: it is no audio of the
    ///   conversation's, and the next that waits is to be named.
    public func noteUnsent(itemID: String, position: Int) -> Bool {
        playback?.timeline?.noteUnsent(itemID, position: position) ?? true
    }

    /// Notes that all audio of a session that ends has left, except for audio that is reported as
    /// waiting after this call. No input follows that would say so. It makes no output.
    public func noteAllSent() { playback?.timeline?.noteAllSent() }

    /// Reply audio was dropped, unasked, before any of it had left. The session needs an input soon
    /// to report that. It makes no output.
    /// - Parameter position: where in its item it starts, in samples at 48 kHz.
    public func noteLost(itemID: String, position: Int) {
        playback?.timeline?.noteLost(itemID, position: position)
    }

    // MARK: Outputs

    /// When `handleDeadline(at:)` must be called, always after `now`, or nil where it need not be
    /// called before the next input.
    public func nextDeadline(after now: Instant) -> Instant? {
        var earliest = idleDeadline
        if let due = conduct?.greetingDue { earliest = min(earliest ?? due, due) }
        if let check = speechInput?.releaseCheck { earliest = min(earliest ?? check, check) }
        if let due = holdDeadline { earliest = min(earliest ?? due, due) }
        if let due = audioGapDeadline { earliest = min(earliest ?? due, due) }
        if isRecorded, let due = recording?.deadline { earliest = min(earliest ?? due, due) }
        earliest = earliest.map { max($0, Instant(nanoseconds: now.nanoseconds + 1)) }
        for response in responses {
            guard let due = response.nextDeadline(after: now) else { continue }
            earliest = earliest.map { min($0, due) } ?? due
        }
        return earliest
    }

    /// When a held reply is resumed although no more audio comes, or nil where none is held.
    private var holdDeadline: Instant? { playback?.deadline(lastAudio: speechInput?.lastAudio) }

    /// The next thing to do, or nil when all has been taken.
    public func nextOutput() -> SessionOutput? { context.outputs.next() }

    /// Every input begins here. All sessions of a shard share one output queue, so the outputs of
    /// the input before must have been taken. This traps in production, too, because going on would
    /// send one client what belongs to another. A window that waits in the shard's batch came
    /// before the input.
    func begin(at now: Instant) {
        precondition(context.outputs.isEmpty, "a session was mutated before its outputs were taken")
        playback?.settleUnsent()
        settleActivity(at: now)
    }

    /// Every input that may end a response, or make one possible, ends here. Each step relies on
    /// those before it:
    ///
    /// 1. `SessionTools.noteApprovals` records a response's questions to the client. It precedes 2, which
    ///    removes the response that asks.
    /// 2. `removeEndedResponses` cuts the conversation at what was heard, so that no model is shown
    ///    more (5), and frees the place for the next response (3 and 4 ask `canRespond`).
    /// 3. `beginNextResponse` begins what the client has asked for, `answerSpokenWords` what the user has
    ///    said. Both precede 4: the user has precedence over the results of tools. The
    ///    answer shows the model those results, too, and `begin(_:)` withdraws the response that is
    ///    due for them.
    /// 4. `continueAfterTools` begins the response that follows the results of tools. After it, because no
    ///    model sees those results there, `answerTurnWithoutWords` says that nothing was understood.
    ///    `greetIfDue` is last: a user who has begun needs no greeting.
    /// 5. `askWaitingResponses` asks the model for every response that 3, 4 and the input itself
    ///    have begun. A request is a copy of the conversation, so it comes after all changes.
    /// 6. `removeEndedResponses` again: a response may have ended in 3 to 5, because it does not
    ///    fit the model's context, or because its speculative reply was complete.
    /// 7. `Speculation.stopIfUseless` follows 5, which takes over the speculative reply that is used.
    /// 8. `forgetPlayedAudio` follows 6: it keeps what a response in flight still needs.
    /// 9. `emitRecorded` is last: a recording changes nothing of the session.
    func finish(at now: Instant) {
        tools?.noteApprovals()
        removeEndedResponses(at: now)
        beginNextResponse()
        answerSpokenWords()
        if let tools { continueAfterTools(tools) }
        answerTurnWithoutWords(at: now)
        greetIfDue(at: now)
        askWaitingResponses(at: now)
        removeEndedResponses(at: now)
        answerer.speculation.stopIfUseless(
            isTurnOpen: speechInput?.speechItemID != nil || userTurn.isRecognising, responses,
            context)
        forgetPlayedAudio(at: now)
        if isRecorded { emitRecorded(at: now) }
        checkInvariants()
    }

    /// Forgets the audio that was played, once nothing is being played.
    private func forgetPlayedAudio(at now: Instant) {
        guard let playback else { return }
        playback.forgetPlayed(at: now)
        // A transcript that is still awaited may be of speech over a reply.
        if playback.isOver, !userTurn.isRecognising { self.playback = nil }
    }

    private func removeEndedResponses(at now: Instant) {
        playback?.settleHeldReply(at: now)
        responses.removeAll { response in
            guard response.stage == .done else { return false }
            if response.isInConversation { playback?.handleDone(response) }
            tools?.considerContinuation(of: response)
            if response.isInConversation {
                userTurn.beginQuiet(
                    at: max(response.playedOut ?? now, now), now: now,
                    position: speechInput?.buffer.end ?? 0)
            }
            return true
        }
    }

    /// A conversation has one voice: it does not change once it was heard.
    func checkVoice(_ voice: String, param: String) throws(ClientEventError) {
        guard hasSpoken, voice != parameters.voice else { return }
        throw .voiceIsSettled(param: param)
    }

    // MARK: session.update

    private func apply(_ update: SessionUpdate, at now: Instant) throws(ClientEventError) {
        try checkKind(of: update)
        var update = update
        if let conduct {
            update = update.limited(to: conduct.agent.settings.clientFields, of: parameters)
            settleGreeting(at: now)
        }
        let updated = try context.parameters(parameters, changedBy: update)
        try checkVoice(updated.voice, param: "session.audio.output.voice")
        let before = parameters
        let (settled, ownBytes) = context.updatedParameters.settle(updated)
        settledParameters = settled
        parameterBytes = UInt32(clamping: ownBytes)
        isKindSettled = true
        speechInput?.handleUpdate(from: before, to: updated, context)
        if before.transcription?.languageHint != updated.transcription?.languageHint {
            heardLanguage = HeardLanguage()
        }
        if before.turnDetection != updated.turnDetection, let speechInput,
            speechInput.speechItemID != nil
        {
            choosePatience(for: speechInput)
        }
        if updated.turnDetection?.interruptResponse != true { playback?.forgetSpeech(at: now) }
        if updated.turnDetection == nil, before.turnDetection != nil { announceSpeechStopped() }
        if before.turnDetection == nil, updated.turnDetection != nil { announceSpeechStarted() }
        if updated.turnDetection?.speculativeResponse != true { answerer.speculation.stop(context) }
        emit(.sessionUpdated(id: id, parameters))
        if update.announcesAudio, context.hasRecognizer { command(.prepareRecognition) }
        if update.mcpTools != .absent, tools != nil || !parameters.mcpTools.isEmpty {
            madeTools().handleUpdate(at: now)
        }
    }

    /// The kind of a session is settled by its connection or its first event.
    private func checkKind(of update: SessionUpdate) throws(ClientEventError) {
        let kind = update.kind ?? parameters.kind
        guard kind == parameters.kind || !isKindSettled else {
            throw .sessionTypeIsSettled(parameters.kind, requested: kind)
        }
    }
}

extension ClientEvent {
    /// Whether the user, or the client for the user, has begun a turn.
    fileprivate var isOfUser: Bool {
        switch self {
        case .conversationItemCreate, .responseCreate, .inputAudioBufferCommit: true
        default: false
        }
    }

    /// Whether the client begins to use the session as it is.
    fileprivate var isAnythingButSessionUpdate: Bool {
        if case .sessionUpdate = self { false } else { true }
    }
}
