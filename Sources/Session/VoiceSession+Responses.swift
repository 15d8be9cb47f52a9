// Asking the model, and stopping it: response.create and response.cancel, and the answer to a
// spoken turn. Response emits the events of one response.

import Codec

extension VoiceSession {
    /// The response in flight that belongs to the conversation.
    var activeResponse: Response? { responses.first { $0.isInConversation } }

    /// The response in flight with an id.
    func response(_ id: String) -> Response? { responses.first { $0.id == id } }

    /// `response.create`
    func createResponse(
        _ parameters: ResponseParameters, at now: Instant
    ) throws(ClientEventError) {
        guard self.parameters.kind == .realtime else {
            throw .noResponsesInTranscriptionSession
        }
        if parameters.isInConversation, let active = activeResponse {
            throw .responseIsActive(active.id)
        }
        guard responses.count < context.limits.maxActiveResponses else {
            throw .tooManyResponses(most: context.limits.maxActiveResponses)
        }
        try context.checkToolServers(parameters.mcpTools ?? [], path: "response.tools")
        for (index, item) in (parameters.input ?? []).enumerated() {
            try checkInput(item, path: "response.input[\(index)]")
        }
        if parameters.isInConversation {
            if let voice = parameters.voice {
                try checkVoice(voice, param: "response.audio.output.voice")
            }
            try makeRoom()
        }
        let speechEnd = userTurn.handleResponseRequested()
        tools?.automaticResponses = 0
        openToolServers(of: parameters, at: now)
        begin(parameters, speechEnd: speechEnd, asked: speechEnd == nil ? now : nil)
    }

    /// Answers the user's words once all of them are recognised, the user does not speak, and no
    /// other response is in flight. Words that came during a response are answered after it.
    func answerSpokenWords() {
        guard let speechEnd = userTurn.answerableSince, canRespond,
            speechInput?.speechItemID == nil
        else { return }
        do {
            try makeRoom()
            tools?.automaticResponses = 0
            begin(ResponseParameters(), speechEnd: speechEnd)
        } catch {
            userTurn.forgetWords()
            emit(.error(error))
        }
    }

    /// Whether a response in the conversation may begin: none is in flight, and the limit is not
    /// reached.
    var canRespond: Bool {
        activeResponse == nil && responses.count < context.limits.maxActiveResponses
    }

    /// Creates a response; the model is asked when nothing is left to transcribe.
    /// - Parameter asked: when a client asked for it that has not spoken.
    func begin(_ overrides: ResponseParameters, speechEnd: Instant?, asked: Instant? = nil) {
        userTurn.handleResponseBegun(isInConversation: overrides.isInConversation)
        if overrides.isInConversation {
            truncatedResponseID = nil
            // This response shows the model the results that another was due for.
            tools?.due = nil
        }
        let voice = overrides.voice ?? parameters.voice
        let description = ResponseDescription(
            id: claimResponseID(isInConversation: overrides.isInConversation),
            conversationID: overrides.isInConversation ? conversationID : nil,
            outputModality: overrides.outputModality ?? parameters.outputModality,
            outputFormat: overrides.outputFormat ?? parameters.outputFormat, voice: voice,
            maxOutputTokens: maxOutputTokens(with: overrides), metadata: overrides.metadata)
        let speaker = ResponseSpeaker(
            of: description, voice: SpeechRequest(text: "", voice: voice, speed: parameters.speed),
            opus: overrides.outputOpus ?? parameters.outputOpus,
            transport: parameters.outputTransport,
            playout: sharedPlayout(isInConversation: overrides.isInConversation),
            speechEnd: speechEnd,
            context: context)
        let response = Response(
            description: description, parameters: overrides, speaker: speaker, speechEnd: speechEnd,
            asked: asked, session: self)
        responses.append(response)
        if description.outputModality == .audio, !context.hasSynthesizer {
            response.fail(
                .unavailable(
                    message: "This server has no speech synthesis: ask for text "
                        + "(output_modalities [\"text\"])."))
        }
    }

    /// Responses in the conversation are heard one after another and share a timeline. Each other
    /// response has its own.
    private func sharedPlayout(isInConversation: Bool) -> PlayoutTimeline {
        let lead = Duration.milliseconds(context.limits.playoutLeadMilliseconds)
        guard isInConversation else { return PlayoutTimeline(lead: lead, keepsAudio: false) }
        let playout =
            playout
            ?? PlayoutTimeline(lead: lead, keepsAudio: parameters.turnDetection != nil)
        self.playout = playout
        listenForEcho()
        return playout
    }

    /// The client's microphone picks up the reply, too, unless the user wears headphones.
    func listenForEcho() {
        guard let playout, speechInput?.turnDetector != nil else { return }
        let echo =
            echo ?? EchoCheck(lead: .milliseconds(context.limits.playoutLeadMilliseconds))
        self.echo = echo
        playout.echo = echo
    }

    /// A new id, or that of the response that was begun ahead of the end of the turn.
    private func claimResponseID(isInConversation: Bool) -> String {
        let claimed = isInConversation ? speculation.claim() : nil
        return claimed ?? ids.make("resp_")
    }

    /// Asks the model for every response that waits, once nothing is left to transcribe.
    func askWaitingResponses(at now: Instant) {
        guard !userTurn.isRecognising || modelHearsAudio, !awaitsToolLists else { return }
        for response in responses where response.stage == .waiting {
            guard fitsContext(response.parameters) else {
                response.end(.contextLengthExceeded)
                continue
            }
            response.handleAsked()
            response.routes = toolRoutes(with: response.parameters)
            let request = request(with: response.parameters)
            if !resumeSpeculation(response, request, at: now) {
                command(.respond(responseID: response.id, request))
            }
        }
    }

    /// The request to the model for a response with these overrides.
    func request(with overrides: ResponseParameters) -> ModelRequest {
        let messages =
            overrides.input.map { $0.flatMap { shownMessages(ofInput: $0) } }
            ?? conversation.modelMessages()
        var request = ModelRequest(
            model: parameters.model,
            instructions: overrides.instructions ?? parameters.instructions,
            messages: messages, tools: overrides.tools ?? parameters.tools,
            toolChoice: overrides.toolChoice ?? parameters.toolChoice,
            parallelToolCalls: overrides.parallelToolCalls ?? parameters.parallelToolCalls,
            maxOutputTokens: maxOutputTokens(with: overrides))
        offerTools(to: &request, with: overrides)
        return request
    }

    func maxOutputTokens(with overrides: ResponseParameters) -> Int? {
        switch overrides.maxOutputTokens {
        case .absent: parameters.maxOutputTokens
        case .null: nil
        case .value(let tokens): tokens
        }
    }

    /// `response.cancel`
    func cancelResponse(_ responseID: String?, at now: Instant) throws(ClientEventError) {
        let truncated = truncatedResponseID
        truncatedResponseID = nil
        guard let response = responseID.map({ self.response($0) }) ?? activeResponse else {
            // A client that falls silent truncates what it plays and cancels after that
            // (openai-agents). Where all was written, the truncation was the response's end.
            if let truncated, responseID ?? truncated == truncated { return }
            throw .noResponseToCancel
        }
        let status = ResponseDescription.Status.cancelled(reason: "client_cancelled")
        if response.isInConversation {
            stopReplies(status, at: now)
        } else {
            context.outputs.append(.dropAudio(responseID: response.id))
            response.end(status)
        }
    }

    /// `output_audio_buffer.clear`
    func clearOutput(at now: Instant) throws(ClientEventError) {
        guard let response = activeResponse else { throw .outputBufferEmpty }
        emit(.outputAudioBufferCleared(responseID: response.id))
        let unheard = stopPlayout(at: now)
        response.mute(unheard: unheard, at: now)
    }
}
