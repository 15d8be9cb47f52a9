// One response from its creation to its single `response.done`: what the model has written, what
// has been said of it, and the events that tell the client. Which responses exist, and what the
// model is asked, is VoiceSession's.
//
//   waiting ──▶ writing ──▶ (model finished) speaking ──▶ done
//      └───────────┴───────────────┴── end(_:) ──────────▶ done
//
// Invariant: nothing of a response follows its `response.done`.

import Codec

/// A response in flight. Its events go to the session's output queue; its items, unless it is out
/// of band, to the conversation.
final class Response {
    /// How far it has come; the next states are in the file's diagram.
    enum Stage { case waiting, writing, speaking, done }

    /// What it will be asked with.
    let parameters: ResponseParameters
    private(set) var description: ResponseDescription
    private(set) var stage = Stage.waiting
    private let context: SessionContext
    private let voice: SpeechRequest
    private let transport: AudioTransport
    private var outputs: [ResponseOutput] = []
    private var splitter = ClauseSplitter()
    /// Clauses that wait for the synthesiser, each with its output's index.
    private var clauses: [(output: Int, text: String)] = []
    private var clauseHead = 0
    /// The output whose clause the synthesiser is speaking.
    private var spokenOutput: Int?
    private var encoder: OutputAudioEncoder?
    private var playout: Playout
    private var bytesWritten = 0
    private var incompleteReason: String?
    private var usage = ResponseUsage()
    /// When the user stopped speaking, until the first audio has been measured from it.
    private var speechEnd: Instant?
    private var hasFirstToken = false
    /// Whether the client has cleared its audio: what is still written is not spoken.
    private var isMuted = false

    var id: String { description.id }
    /// Whether its items belong to the conversation.
    var isInConversation: Bool { parameters.isInConversation }

    /// - Parameters:
    ///   - voice: voice and speed; its text is not used.
    ///   - speechEnd: when the user stopped speaking, for the turn's measurements.
    init(
        description: ResponseDescription, parameters: ResponseParameters, voice: SpeechRequest,
        transport: AudioTransport, speechEnd: Instant?, context: SessionContext
    ) {
        self.description = description
        self.parameters = parameters
        self.voice = voice
        self.transport = transport
        self.speechEnd = speechEnd
        self.context = context
        playout = Playout(lead: .milliseconds(context.limits.playoutLeadMilliseconds))
        emit(.responseCreated(description))
    }

    /// When audio may next be sent, or nil: not before something else happens.
    func nextDeadline(after now: Instant) -> Instant? {
        guard stage != .done, outputs.contains(where: \.hasSendableSpeech) else { return nil }
        return playout.nextSend(after: now)
    }

    /// When everything sent so far will have been played.
    var playedOut: Instant? { playout.playedOut }

    /// Bytes of speech that was not sent yet.
    var heldBytes: Int { outputs.reduce(0) { $0 + $1.speech.byteCount } }

    /// The model is being asked.
    func handleAsked() {
        precondition(stage == .waiting)
        stage = .writing
    }

    // MARK: The model writes

    /// A piece of the model's reply.
    func handle(
        _ delta: ModelDelta, ids: inout IdentifierSource, conversation: inout Conversation,
        at now: Instant
    ) {
        guard stage == .writing else { return }
        if !hasFirstToken {
            hasFirstToken = true
            if let speechEnd { measure(.firstToken, now - speechEnd) }
        }
        switch delta {
        case .text(let text):
            guard !text.isEmpty, isWithinLimits(adding: text, &conversation) else { return }
            write(text, to: openMessage(ids: &ids, conversation: &conversation))
        case .functionCallStarted(let callID, let name):
            guard isWithinLimits(adding: name, &conversation) else { return }
            closeOpenOutputs(&conversation)
            let item = ConversationItem(
                id: ids.make("item_"), status: .inProgress,
                kind: .functionCall(callID: callID, name: name, arguments: ""))
            add(ResponseOutput(item: item, modality: .text), &conversation)
        case .functionCallArguments(let arguments):
            guard let index = outputs.lastIndex(where: { $0.isOpen && $0.isFunctionCall }),
                isWithinLimits(adding: arguments, &conversation)
            else { return }
            outputs[index].text += arguments
            emit(
                .responseFunctionCallArgumentsDelta(
                    address(index), callID: outputs[index].callID, delta: arguments))
        case .usage(let inputTokens, let cachedTokens, let outputTokens):
            usage.inputTextTokens = inputTokens
            usage.cachedTokens = cachedTokens
            usage.outputTextTokens = outputTokens
        case .incomplete(let reason):
            incompleteReason = reason
        }
        advance(&conversation, at: now)
    }

    /// The model's reply is complete.
    func handleModelFinished(_ conversation: inout Conversation, at now: Instant) {
        guard stage == .writing else { return }
        closeOpenOutputs(&conversation)
        stage = .speaking
        advance(&conversation, at: now)
    }

    private func openMessage(
        ids: inout IdentifierSource, conversation: inout Conversation
    ) -> Int {
        if let index = outputs.lastIndex(where: { $0.isOpen && !$0.isFunctionCall }) {
            return index
        }
        closeOpenOutputs(&conversation)
        let item = ConversationItem(
            id: ids.make("item_"), status: .inProgress,
            kind: .message(role: .assistant, content: []))
        let index = add(
            ResponseOutput(item: item, modality: description.outputModality), &conversation)
        emit(.responseContentPartAdded(address(index), description.outputModality))
        return index
    }

    private func write(_ text: String, to index: Int) {
        outputs[index].text += text
        switch description.outputModality {
        case .text: emit(.responseOutputTextDelta(address(index), delta: text))
        case .audio:
            emit(.responseOutputAudioTranscriptDelta(address(index), delta: text))
            for clause in splitter.append(text) { enqueue(clause, for: index) }
        }
    }

    /// Whether more text, perhaps in another item, keeps the limits; ends the response if not.
    private func isWithinLimits(adding text: String, _ conversation: inout Conversation) -> Bool {
        bytesWritten += text.utf8.count
        guard bytesWritten <= context.limits.maxResponseBytes,
            outputs.count < context.limits.maxResponseItems
        else {
            end(.incomplete(reason: "max_output_tokens"), &conversation)
            return false
        }
        return true
    }

    @discardableResult
    private func add(_ output: ResponseOutput, _ conversation: inout Conversation) -> Int {
        var output = output
        let index = outputs.count
        emit(.responseOutputItemAdded(responseID: id, outputIndex: index, output.item))
        if isInConversation {
            // A full conversation still takes the reply in flight: a response is bounded itself,
            // and none begins in a full conversation.
            output.previousItemID = conversation.append(output.item)
            emit(.conversationItemAdded(output.item, previousItemID: output.previousItemID))
        }
        outputs.append(output)
        return index
    }

    /// No more is written to the outputs that are open: calls are complete, messages may still
    /// have to be spoken.
    private func closeOpenOutputs(_ conversation: inout Conversation) {
        for index in outputs.indices where outputs[index].isOpen {
            outputs[index].isOpen = false
            if let rest = splitter.finish() { enqueue(rest, for: index) }
            if !outputs[index].awaitsSpeech { complete(index, .completed, &conversation) }
        }
    }

    // MARK: The synthesiser speaks

    private func enqueue(_ clause: String, for index: Int) {
        guard !isMuted else { return }
        clauses.append((index, clause))
        outputs[index].unspokenClauses += 1
    }

    /// A run of speech of the clause in progress.
    func handle(
        _ chunk: SpeechChunk, conversation: inout Conversation, at now: Instant
    ) throws(AgentError) {
        guard stage != .done, let index = spokenOutput else { return }
        try OutputAudioEncoder.check(chunk)
        outputs[index].enqueue(chunk)
        advance(&conversation, at: now)
    }

    /// The clause in progress is spoken.
    func handleSpeechFinished(_ conversation: inout Conversation, at now: Instant) {
        guard stage != .done, let index = spokenOutput else { return }
        spokenOutput = nil
        outputs[index].handleClauseSpoken()
        advance(&conversation, at: now)
    }

    /// Audio may be due.
    func handleDeadline(_ conversation: inout Conversation, at now: Instant) {
        advance(&conversation, at: now)
    }

    /// Drops audio that was not sent yet and speaks no more of it; the text goes on.
    func dropQueuedSpeech(_ conversation: inout Conversation, at now: Instant) {
        isMuted = true
        clauses.removeAll()
        clauseHead = 0
        for index in outputs.indices { outputs[index].dropSpeech() }
        if spokenOutput != nil {
            context.outputs.append(.command(.cancelSpeech(responseID: id)))
            spokenOutput = nil
        }
        advance(&conversation, at: now)
    }

    private var queuedSpeechSeconds: Int {
        outputs.reduce(0) { $0 + $1.speech.count } / SpeechQueue.rate.hertz
    }

    private func speakNextClause() {
        guard spokenOutput == nil, clauseHead < clauses.count,
            queuedSpeechSeconds < context.limits.maxQueuedSpeechSeconds
        else { return }
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
        context.outputs.append(.command(.speak(responseID: id, request)))
    }

    /// Sends what may leave now: Opus by the frame, the other formats in one run.
    private func send(at now: Instant) throws(AgentError) {
        guard outputs.contains(where: \.hasSpeech) else { return }
        let encoder = encoder ?? OutputAudioEncoder(format: description.outputFormat)
        self.encoder = encoder
        var allowance = playout.allowance(at: now)
        for index in outputs.indices where outputs[index].hasSpeech {
            while allowance >= OutputAudioEncoder.frameMilliseconds,
                outputs[index].hasSendableSpeech
            {
                let whole = outputs[index].speech.count / SpeechQueue.frameLength
                let due = allowance / OutputAudioEncoder.frameMilliseconds
                let milliseconds = try sendRun(
                    ofFrames: max(1, min(whole, due)), output: index, encoder, at: now)
                playout.handleSent(milliseconds: milliseconds, at: now)
                allowance -= milliseconds
            }
        }
    }

    private func sendRun(
        ofFrames frames: Int, output index: Int, _ encoder: OutputAudioEncoder, at now: Instant
    ) throws(AgentError) -> Int {
        let (payload, length) = try encoder.encodeNext(
            of: &outputs[index].speech, maxFrames: frames, scratch: context.scratch)
        let milliseconds = max(1, SpeechQueue.rate.milliseconds(ofSamples: length))
        switch transport {
        case .json: emit(.responseOutputAudioDelta(address(index), audio: payload))
        case .binary:
            let position =
                outputs[index].sentSamples * encoder.format.sampleRate.hertz
                / SpeechQueue.rate.hertz
            context.outputs.append(
                .audio(
                    OutputAudioPacket(
                        responseID: id, itemID: outputs[index].item.id, contentIndex: 0,
                        format: encoder.format, position: position, payload: payload)))
        }
        outputs[index].sentSamples += length
        context.counters.millisecondsOut += milliseconds
        if let end = speechEnd {
            measure(.firstAudio, now - end)
            speechEnd = nil
        }
        return milliseconds
    }

    // MARK: The end

    /// Does what has become possible: the next clause, finished items, the end.
    private func advance(_ conversation: inout Conversation, at now: Instant) {
        guard stage != .done else { return }
        speakNextClause()
        do {
            try send(at: now)
        } catch {
            fail(error, &conversation)
            return
        }
        for index in outputs.indices
        where !outputs[index].isOpen && !outputs[index].isComplete && !outputs[index].awaitsSpeech {
            complete(index, .completed, &conversation)
        }
        guard stage == .speaking, outputs.allSatisfy(\.isComplete) else { return }
        end(incompleteReason.map { .incomplete(reason: $0) } ?? .completed, &conversation)
    }

    /// Ends the response: its items, then its one `response.done`.
    func end(_ status: ResponseDescription.Status, _ conversation: inout Conversation) {
        guard stage != .done else { return }
        if stage == .writing || spokenOutput != nil {
            context.outputs.append(.command(.cancelResponse(responseID: id)))
        }
        for index in outputs.indices where !outputs[index].isComplete {
            complete(index, .incomplete, &conversation)
        }
        stage = .done
        description.status = status
        description.output = outputs.map(\.item)
        description.usage = usage
        count(status)
        emit(.responseDone(description))
        emit(.rateLimitsUpdated)
    }

    private func complete(
        _ index: Int, _ status: ConversationItem.Status, _ conversation: inout Conversation
    ) {
        outputs[index].complete(status)
        let output = outputs[index]
        if output.isFunctionCall {
            emit(
                .responseFunctionCallArgumentsDone(
                    address(index), callID: output.callID, name: output.functionName,
                    arguments: output.text))
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
            conversation.update(output.item, speech: output.said())
            emit(.conversationItemDone(output.item, previousItemID: output.previousItemID))
        }
        emit(.responseOutputItemDone(responseID: id, outputIndex: index, output.item))
    }

    /// An agent could not do its part.
    func fail(_ error: AgentError, _ conversation: inout Conversation) {
        end(.failed(error), &conversation)
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

    private func address(_ index: Int) -> PartAddress {
        PartAddress(responseID: id, itemID: outputs[index].item.id, outputIndex: index)
    }

    private func emit(_ event: ServerEvent) { context.outputs.append(.event(event)) }

    private func measure(_ hop: TurnHop, _ duration: Duration) {
        context.outputs.append(.measured(hop, duration))
    }
}

extension ResponseDescription.Status {
    /// The status of a response whose agent failed.
    static func failed(_ error: AgentError) -> Self {
        .failed(type: "server_error", code: error.code, message: error.message)
    }
}
