// One response from its creation to its single `response.done`: what the model has written, and the
// events that report it to the client. Which responses exist, and what the model is asked, is
// VoiceSession's.
//
// The types that speak a response, from the whole to the part:
//
//   Response             one response: its items, its events, its end
//   ├─ OutputItem        one item of it: its text, and where it was cut
//   ├─ ClauseSpeaker     its text as clauses to the synthesiser, unless a dialogue speaks itself
//   └─ SpeechSender      speech through the encoder to the client
//      ├─ ItemSpeech        the speech of one item: clauses to come, how much was sent
//      │  └─ ItemSpeechQueue   synthesised speech of that item that is not sent yet
//      └─ PlayoutTimeline   how much of all replies was sent, has left and was heard
//         ├─ PlayoutPacer   when audio may be sent: as it is played, with a bounded lead
//         └─ ResendBuffer   audio that may be sent again after a false interruption
//
// The responses of a conversation share one PlayoutTimeline, because they are heard one after
// another. All else belongs to one response.
//
//   waiting ──▶ writing ──▶ (model finished) speaking ──▶ done
//      └───────────┴───────────────┴── end(_:) ──────────▶ done
//
// Invariant: nothing of a response follows its `response.done`.

import Codec

/// A response in flight. Its events go to the session's output queue; its items, unless it is out
/// of band, to the conversation.
final class Response {
    /// Its state; the file's diagram has the transitions.
    enum Stage { case waiting, writing, speaking, done }

    /// The parameters that the client gave for it.
    let parameters: ResponseParameters
    private(set) var description: ResponseDescription
    private(set) var stage = Stage.waiting
    /// Whether a client asked for it.
    let isOfClient: Bool
    /// The session that it belongs to: its items go to that conversation.
    unowned let core: any SessionCore
    let context: SessionContext
    var outputs: [OutputItem] = []
    /// MCP tools that the model may call, if there are any.
    var routes: ToolRoutes?
    /// A question to the client that is still being written.
    var writtenApproval: WrittenApproval?
    /// Questions to the client that the session has not taken note of.
    var newApprovals: [PendingApproval] = []
    /// Whether the client has answered one while the response was in flight.
    var hasSettledApproval = false
    private var thoughts = ThoughtFilter()
    /// The phrase for a slow model, and when it is due. In a box, because few agents have it.
    private var filler: Filler?
    /// Has its text spoken, unless a dialogue answers.
    private var clauses: ClauseSpeaker
    /// Whether a dialogue was asked, whose words come with their speech.
    private(set) var isOfDialogue = false
    private(set) var sender: SpeechSender
    /// Bytes of the parameters.
    private let parameterBytes: Int
    private var bytesWritten = 0
    private(set) var incompleteReason: String?
    /// How it ends once its apology is spoken. Nil as long as its model has not failed.
    private(set) var failure: ResponseDescription.Status?
    /// The text that the agent gets back with the next request.
    private var memento: (provider: String, text: String)?
    private(set) var usage = ResponseUsage()
    /// When the user stopped speaking, until the first token has been measured from it; where the
    /// user has not spoken, when the client asked for the response.
    private var speechEnd: Instant?, asked: Instant?

    var id: String { description.id }
    /// Whether its items belong to the conversation.
    var isInConversation: Bool { parameters.isInConversation }

    /// - Parameters:
    ///   - speechEnd: when the user stopped speaking, for the turn's measurements.
    ///   - asked: when the client asked for it, where the user has not spoken.
    ///   - isOfClient: whether a client asked for it.
    init(
        description: ResponseDescription, parameters: ResponseParameters,
        clauses: ClauseSpeaker, sender: SpeechSender, speechEnd: Instant?, asked: Instant?,
        isOfClient: Bool = false,
        core: any SessionCore
    ) {
        self.isOfClient = isOfClient
        self.description = description
        self.parameters = parameters
        parameterBytes = parameters.heapBytes
        self.clauses = clauses
        self.sender = sender
        self.speechEnd = speechEnd
        self.asked = asked
        self.core = core
        context = core.context
        emit(.responseCreated(description))
    }

    /// When audio may next be sent, or nil where that depends on another event.
    func nextDeadline(after now: Instant) -> Instant? {
        guard stage != .done else { return nil }
        let sending = sender.nextDeadline(after: now)
        let text = filler?.due ?? clauses.pauseEnd(sender)
        guard let text else { return sending }
        let next = max(text, Instant(nanoseconds: now.nanoseconds + 1))
        return sending.map { min($0, next) } ?? next
    }

    private final class Filler {
        let phrase: String
        let due: Instant
        init(_ phrase: String, due: Instant) { (self.phrase, self.due) = (phrase, due) }
    }

    /// Has a phrase said if the model has not begun by an instant, where the response is spoken.
    func fill(with phrase: String, at due: Instant) {
        guard description.outputModality == .audio, isInConversation else { return }
        filler = Filler(phrase, due: due)
    }

    /// Says that phrase once it is due, as an item of its own: the model's words come after it.
    private func sayFiller(at now: Instant) {
        guard stage == .writing, let due = filler, due.due <= now else { return }
        filler = nil
        write(due.phrase, at: now)
        closeOpenOutputs()
    }

    /// When everything sent so far will have been played.
    var playedOut: Instant? { sender.playout.playedOut }

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(Response.self)

    /// Bytes of all of it but what encodes it.
    var heldBytes: Int {
        let own = Self.objectBytes + parameterBytes + outputs.heapBytes + thoughts.heldBytes
        let speech = clauses.heldBytes + sender.heldBytes
        return outputs.reduce(own + speech) { $0 + $1.heldBytes }
    }

    /// Bytes of the encoder.
    var encoderBytes: Int { sender.encoderBytes }

    /// The timeline that its audio is sent on.
    var playout: PlayoutTimeline { sender.playout }

    /// Whether enough speech waits to be sent, so that no more should be made yet.
    var hasEnoughSpeech: Bool { sender.hasEnough }

    /// Gives the encoder back; nothing more is encoded.
    func releaseEncoder() { sender.releaseEncoder() }

    /// Notes that its answer is being asked for.
    /// - Parameter isOfDialogue: whether a dialogue is asked, whose words come with their speech.
    func handleAsked(isOfDialogue: Bool = false) {
        guard stage == .waiting else { return context.handle(.askedTwice) }
        stage = .writing
        self.isOfDialogue = isOfDialogue
    }

    /// Stops what answers it; events of it that come later are ignored.
    private func stopAnswer() {
        if isOfDialogue {
            core.answerer.stop(id)
        } else {
            context.outputs.append(.command(.cancelResponse(responseID: id)))
        }
    }

    // MARK: The model writes

    /// Takes a piece of the model's reply.
    func handle(_ delta: ModelDelta, at now: Instant) {
        guard stage == .writing else { return }
        filler = nil
        if let end = speechEnd.take() {
            context.outputs.append(.measured(.firstToken, now - end))
        } else if let asked = asked.take() {
            context.outputs.append(.answered(after: now - asked))
        }
        switch delta {
        case .text(let text):
            guard !text.isEmpty, isWithinLimits(adding: text) else { return }
            write(thoughts.append(text), at: now)
        case .functionCallStarted(let callID, let name):
            guard isWithinLimits(adding: name) else { return }
            endText(at: now)
            guard !beginToolCall(name) else { break }
            closeOpenOutputs()
            let item = ConversationItem(
                id: core.ids.make("item_"), status: .inProgress,
                kind: .functionCall(callID: callID, name: name, arguments: ""))
            add(OutputItem(item: item, modality: .text))
        case .functionCallArguments(let arguments):
            guard !arguments.isEmpty, isWithinLimits(adding: arguments) else { return }
            writeArguments(arguments)
        case .usage(let inputTokens, let cachedTokens, let outputTokens):
            usage.inputTextTokens = inputTokens
            usage.cachedTokens = cachedTokens
            usage.outputTextTokens = outputTokens
        case .incomplete(let reason):
            incompleteReason = reason
        case .messageEnded:
            endText(at: now)
            closeOpenOutputs()
        case .memento(let provider, let text): memento = (provider, text)
        case .agentEvent(let name, let value):
            guard isWithinLimits(adding: value.text) else { return }
            emit(.agentEvent(responseID: id, name: name, value))
        }
        advance(at: now)
    }

    /// Takes the events that the model has made ahead of this response.
    func handle(_ events: [AgentEvent], at now: Instant) {
        for event in events {
            if case .modelDelta(_, let delta) = event { handle(delta, at: now) }
            if case .modelFinished = event { handleModelFinished(at: now) }
        }
    }

    /// The model's reply is complete. A client that has to answer a call is not kept waiting until the
    /// words before it have been played.
    func handleModelFinished(at now: Instant) {
        guard stage == .writing else { return }
        endText(at: now)
        closeOpenOutputs()
        stage = .speaking
        if outputs.contains(where: \.isFunctionCall) { playout.sendsAhead = true }
        advance(at: now)
    }

    /// The model has failed; what follows is the apology, as if the model had written it.
    func beginApology(endingAs status: ResponseDescription.Status) {
        failure = status
        if isOfDialogue {
            stopAnswer()
            if let index = openMessageIndex { sender.endSpeech(of: index) }
            isOfDialogue = false
        }
        incompleteReason = nil
        // The apology is no answer, and is not measured as one.
        (speechEnd, asked) = (nil, nil)
        thoughts = ThoughtFilter()
        stage = .writing
    }

    /// Whether nothing is left to be done but to speak it.
    var isWritten: Bool { stage == .speaking && !outputs.contains(where: \.awaitsTool) }

    /// Sends the rest of its audio as fast as it is made: another response follows.
    func sendAhead(at now: Instant) {
        playout.sendsAhead = true
        advance(at: now)
    }

    /// The message that is being written, if there is one.
    private var openMessageIndex: Int? {
        outputs.lastIndex { $0.isOpen && !$0.isCall }
    }

    private func openMessage() -> Int {
        if let index = openMessageIndex { return index }
        closeOpenOutputs()
        let item = ConversationItem(
            id: core.ids.make("item_"), status: .inProgress,
            kind: .message(role: .assistant, content: []))
        let index = add(
            OutputItem(item: item, modality: description.outputModality))
        emit(.responseContentPartAdded(address(index), description.outputModality))
        if isOfDialogue, description.outputModality == .audio { sender.beginSpeech(of: index) }
        return index
    }

    /// The model's message is complete, its thoughts left out.
    private func endText(at now: Instant) { write(thoughts.finish(), at: now) }

    private func write(_ text: String, at now: Instant) {
        guard !text.isEmpty else { return }
        let index = openMessage()
        // The client has cut the item: text after that is not spoken.
        guard outputs[index].cut?.isByClient != true else { return }
        outputs[index].write(text)
        switch description.outputModality {
        case .text: emit(.responseOutputTextDelta(address(index), delta: text))
        case .audio:
            emit(.responseOutputAudioTranscriptDelta(address(index), delta: text))
            if isOfDialogue {
                sender.noteWords(of: index, bytes: text.utf8.count)
            } else {
                clauses.append(text, of: index, to: &sender, at: now)
            }
        }
    }

    /// Whether more text, perhaps in another item, is within the limits. If not, the response ends.
    private func isWithinLimits(adding text: String) -> Bool {
        bytesWritten += text.utf8.count
        guard bytesWritten <= context.limits.maxResponseBytes,
            outputs.count < context.limits.maxResponseItems
        else {
            end(.incomplete(reason: "max_output_tokens"))
            return false
        }
        return true
    }

    @discardableResult
    func add(_ output: OutputItem) -> Int {
        var output = output
        output.isOfDialogue = isOfDialogue
        let index = outputs.count
        emit(.responseOutputItemAdded(responseID: id, outputIndex: index, output.item))
        if isInConversation {
            // A full conversation still takes the reply in flight: the response has limits of its
            // own, and none begins in a full conversation.
            output.previousItemID = core.conversation.append(output.item)
            emit(.conversationItemAdded(output.item, previousItemID: output.previousItemID))
        }
        outputs.append(output)
        sender.begin(output.item.id)
        if isOfDialogue { core.answerer.begin(output.item.id, in: id) }
        return index
    }

    /// No more is written to the outputs that are open: calls are complete, messages may still
    /// have to be spoken.
    func closeOpenOutputs() {
        for index in outputs.indices where outputs[index].isOpen {
            if outputs[index].isCall { completeArguments(of: index) }
            outputs[index].isOpen = false
            if isOfDialogue {
                sender.endSpeech(of: index)
            } else {
                clauses.finish(index, in: &sender)
            }
            sender.close(index)
        }
        if routes != nil { startToolCalls() }
        completeOutputs()
    }

    // MARK: The answerer speaks

    /// Takes a run of speech: of the clause in progress, or of the message that a dialogue is
    /// speaking.
    func handle(_ chunk: SpeechChunk, at now: Instant) throws(AgentError) {
        guard stage != .done else { return }
        if isOfDialogue {
            guard stage == .writing, description.outputModality == .audio else { return }
            try OutputAudioEncoder.check(chunk)
            let index = openMessage()
            sender.enqueue(chunk, of: index)
        } else {
            try clauses.handle(chunk, &sender)
        }
        advance(at: now)
    }

    /// The clause in progress is spoken.
    func handleSpeechFinished(at now: Instant) {
        guard stage != .done else { return }
        clauses.handleClauseSpoken(&sender)
        advance(at: now)
    }

    /// Drops audio that was not sent yet and speaks no more of it; the text goes on.
    /// - Parameter unheard: what of the audio that was sent the client drops as well.
    func mute(unheard: [PlayoutTimeline.HeardItem], at now: Instant) {
        noteUnheard(unheard)
        for index in outputs.indices where outputs[index].isAudio && outputs[index].cut == nil {
            guard !outputs[index].isComplete else { continue }
            outputs[index].cut = .init(milliseconds: sender.sentMilliseconds(index))
        }
        sender.mute()
        clauses.mute()
        advance(at: now)
    }

    // MARK: The end

    /// Takes the steps that have become possible, also because audio is due: speak the next clause,
    /// send, complete items, end.
    func advance(at now: Instant) {
        guard stage != .done else { return }
        sayFiller(at: now)
        clauses.speakPausedSentence(of: openMessageIndex, in: &sender, at: now)
        clauses.speakNextClause(&sender)
        do {
            try sender.send(at: now)
        } catch {
            fail(error)
            return
        }
        completeOutputs()
        guard stage == .speaking, outputs.allSatisfy(\.isComplete) else { return }
        if failure == nil, incompleteReason == nil, outputs.contains(where: \.isBrokenFunctionCall)
        {
            return failAudibly(.failed(.brokenArguments), at: now)
        }
        let status = incompleteReason.map { ResponseDescription.Status.incomplete(reason: $0) }
        // A model that had to stop before its first word has said nothing to the user.
        if let status, outputs.isEmpty { return failAudibly(status, at: now) }
        end(status ?? .completed)
    }

    /// Completes the items that are written and, where spoken, sent. While audio may be sent again,
    /// a spoken item is not complete: nothing may follow an item's done events.
    private func completeOutputs() {
        for index in outputs.indices where !outputs[index].isOpen && !outputs[index].isComplete {
            let output = outputs[index]
            guard !sender.awaitsSpeech(index), !output.awaitsTool,
                !output.isAudio || !sender.mayBeSentAgain
            else { continue }
            // Where the model had to stop, the item that it was writing is incomplete: clients run
            // a function as soon as its call is completed. Where it failed, that item stands before
            // the apology.
            let isWhole =
                output.cut?.isByClient != true && !output.hasBrokenArguments
                && (incompleteReason == nil || index < outputs.count - 1)
                && (failure == nil || stage == .speaking && index == outputs.count - 1)
            complete(index, isWhole ? .completed : .incomplete)
        }
    }

    /// Ends the response: its items, then its one `response.done`.
    /// - Parameters:
    ///   - unheard: where the client stops playing, the items of which it has not played all that
    ///     was sent; empty: the client plays the audio that has left.
    ///   - dropsUnsent: whether audio that waits for the socket is dropped.
    func end(
        _ status: ResponseDescription.Status, unheard: [PlayoutTimeline.HeardItem] = [],
        dropsUnsent: Bool = true
    ) {
        guard stage != .done else { return }
        if stage == .writing || clauses.isSpeaking { stopAnswer() }
        if routes != nil { stopToolCalls() }
        noteUnheard(unheard)
        if isInConversation, dropsUnsent, !outputs.allSatisfy(\.isComplete) {
            noteUnheard(sender.dropUnsent())
        }
        for index in outputs.indices where !outputs[index].isComplete {
            if outputs[index].isAudio, outputs[index].cut == nil {
                outputs[index].cut = .init(milliseconds: sender.sentMilliseconds(index))
            }
            complete(index, .incomplete)
        }
        if isInConversation, let memento, let last = outputs.last {
            core.conversation.keep(memento: memento.text, of: memento.provider, upTo: last.item.id)
        }
        stage = .done
        filler = nil
        releaseEncoder()
        let status = failure ?? status
        description.status = status
        description.output = outputs.map(\.item)
        description.usage = usage
        count(status)
        emit(.responseDone(description))
    }

    // MARK: What was heard

    /// Whether an item's done events have been emitted.
    func isOver(_ itemID: String) -> Bool {
        index(of: itemID).map { outputs[$0].isComplete } ?? true
    }

    /// The item of a spoken message that is not done, and how much of it was sent. Nil where the
    /// response has no such item.
    func sentMilliseconds(ofOpen itemID: String) -> Int? {
        outputs.lastIndex { $0.item.id == itemID && $0.isAudio && !$0.isComplete }
            .map { sender.sentMilliseconds($0) }
    }

    /// The text of its newest message so far; nil where it has none.
    var newestText: String? {
        outputs.last { !$0.isFunctionCall && !$0.text.isEmpty }?.text
    }

    /// The words of an item so far, and when they were spoken.
    func words(of itemID: String) -> (text: String, speech: Conversation.Speech)? {
        // When each word of a dialogue's message was spoken is not known before its end.
        index(of: itemID).map {
            (outputs[$0].text, sender.said($0, isCutOff: outputs[$0].isOfDialogue))
        }
    }

    private func index(of itemID: String) -> Int? {
        outputs.lastIndex { $0.item.id == itemID }
    }

    /// Cuts an item that the client has heard only to this point, and of which it wants no more.
    /// - Parameter status: how the response ends with the cut. Where nil, it goes on without the
    ///   item.
    func cut(
        _ itemID: String, milliseconds: Int, endingAs status: ResponseDescription.Status?,
        at now: Instant
    ) {
        guard let index = index(of: itemID) else { return }
        outputs[index].cut = .init(milliseconds: milliseconds, isByClient: true)
        if let status { return end(status) }
        sender.mute(index)
        clauses.mute(index)
        advance(at: now)
    }

    /// Items whose words were not all heard, in order.
    var cuts: [(itemID: String, cut: OutputItem.Cut)] {
        outputs.compactMap { output in output.heardEnd.map { (output.item.id, $0) } }
    }

    /// An item was not heard from here on, because its audio was lost.
    func noteLost(_ itemID: String, from milliseconds: Int) {
        guard let index = index(of: itemID) else { return }
        outputs[index].noteLost(from: milliseconds)
    }

    /// The client does not play these items to their end. A cut that the client set itself takes
    /// precedence.
    func noteUnheard(_ unheard: [PlayoutTimeline.HeardItem]) {
        for part in unheard {
            guard let index = index(of: part.itemID) else { continue }
            if let cut = outputs[index].cut, cut.isByClient || cut.milliseconds <= part.heard {
                continue
            }
            outputs[index].cut = .init(milliseconds: part.heard)
        }
    }

    /// The client takes no more audio for now, or takes audio again.
    func handleClientRoom(_ hasRoom: Bool, at now: Instant) {
        playout.isClientFull = !hasRoom
        if hasRoom { advance(at: now) }
    }

    // MARK: A client that is away

    /// The client has lost its connection. This is for a response outside of the conversation;
    /// those in it are held together. Audio that waits for the socket counts as sent.
    func handleClientAway(at now: Instant) {
        _ = playout.settleUnsent()
        if !playout.isHeld { context.outputs.append(.dropAudio(responseID: id)) }
        playout.hold(.clientAway, at: now)
    }

    /// Resumes the audio of such a response for a client that is back.
    func handleClientBack(_ played: PlayedAudio?, at now: Instant) {
        if let played { playout.handleBack(played) }
        _ = playout.resume(after: .clientAway, at: now, tellsPositions: true) { isOver($0.itemID) }
        advance(at: now)
    }

    // MARK: Events

    func complete(_ index: Int, _ status: ConversationItem.Status) {
        sender.drop(index)
        outputs[index].complete(status)
        let output = outputs[index]
        if output.isFunctionCall {
            emit(
                .responseFunctionCallArgumentsDone(
                    address(index), callID: output.callID, name: output.functionName,
                    arguments: output.text))
        } else if output.isCall {
            sayToolDone(index)
        } else {
            switch output.modality {
            case .text: emit(.responseOutputTextDone(address(index), text: output.text))
            case .audio:
                emit(.responseOutputAudioDone(address(index)))
                emit(
                    .responseOutputAudioTranscriptDone(
                        address(index), transcript: output.text))
            }
            emit(.responseContentPartDone(address(index), output.modality, text: output.text))
        }
        if isInConversation {
            core.conversation.update(output.item, speech: sender.said(index))
            emit(.conversationItemDone(output.item, previousItemID: output.previousItemID))
            // A dialogue has said its own words, but has not seen the result of an MCP tool.
            if !output.isOfDialogue || output.toolCall != nil {
                core.answerer.insert(output.item, after: output.previousItemID)
            }
        }
        emit(.responseOutputItemDone(responseID: id, outputIndex: index, output.item))
    }

    /// Ends a response that would be spoken, where nothing can speak its text.
    func failUnlessSpeakable() {
        guard description.outputModality == .audio, !context.hasSynthesizer else { return }
        fail(
            .unavailable(
                message: "This server has no speech synthesis: ask for the modality text."))
    }

    /// An agent has failed.
    func fail(_ error: AgentError) {
        end(.failed(error))
    }

    private func count(_ status: ResponseDescription.Status) {
        switch status {
        case .inProgress: break
        case .completed: context.counters.responsesCompleted += 1
        case .cancelled: context.counters.responsesCancelled += 1
        case .incomplete: context.counters.responsesIncomplete += 1
        case .failed: context.counters.responsesFailed += 1
        }
    }

    func address(_ index: Int) -> PartAddress {
        PartAddress(responseID: id, itemID: outputs[index].item.id, outputIndex: index)
    }

    func emit(_ event: ServerEvent) { context.outputs.append(.event(event)) }
}

extension ResponseDescription.Status {
    /// The status of a response whose agent failed.
    static func failed(_ error: AgentError) -> Self {
        .failed(
            type: "server_error", code: error.code, message: error.message,
            retryAfterSeconds: error.retryAfterSeconds)
    }
}
