// Asking the model, and stopping it: response.create and response.cancel, and the answer to a
// spoken turn. Response emits the events of one response.

import Codec

extension VoiceSession {
    /// `response.create`
    /// - Parameter isOfClient: false where the idle timeout asks in the client's place.
    func createResponse(
        _ parameters: ResponseParameters, isOfClient: Bool = true, at now: Instant
    ) throws(ClientEventError) {
        guard self.parameters.kind == .realtime else {
            throw .noResponsesInTranscriptionSession
        }
        var parameters = parameters
        if isOfClient, let conduct {
            parameters = parameters.limited(to: conduct.agent.settings.clientFields)
        }
        if parameters.isInConversation, let active = activeResponse {
            guard active.isWritten, playback?.hasNext == false else {
                throw .responseIsActive(active.id)
            }
        }
        guard responses.count < context.limits.maxActiveResponses else {
            throw .tooManyResponses(most: context.limits.maxActiveResponses)
        }
        try context.checkToolServers(parameters.mcpTools ?? [], path: "response.tools")
        for (index, item) in (parameters.input ?? []).enumerated() {
            try checkImages(in: item, path: "response.input[\(index)]")
            try conversation.checkInput(item, path: "response.input[\(index)]")
        }
        if parameters.isInConversation {
            if let voice = parameters.voice {
                try checkVoice(voice, param: "response.audio.output.voice")
            }
            try makeRoom()
        }
        let speechEnd = userTurn.handleResponseRequested()
        tools?.continuations.handleAsked()
        for tool in parameters.mcpTools ?? [] {
            madeTools().open(tool, isOfSession: false, at: now)
        }
        let next = NextResponse(
            parameters: parameters, speechEnd: speechEnd, asked: speechEnd == nil ? now : nil)
        if parameters.isInConversation, let active = activeResponse {
            playback?.setNext(next)
            active.sendAhead(at: now)
        } else {
            begin(
                next.parameters, speechEnd: next.speechEnd, asked: next.asked,
                isOfClient: isOfClient)
        }
    }

    /// Begins the response that the client asked for while the one before was only spoken. A client
    /// that has stopped that one gets this one's end, too.
    func beginNextResponse() {
        guard canRespond, let next = playback?.takeNext() else { return }
        begin(
            next.parameters, speechEnd: next.speechEnd, asked: next.asked, isOfClient: true)
        if let end = next.end { activeResponse?.end(end) }
    }

    /// Answers the user's words once all of them are recognised, the user does not speak, and no
    /// other response is in flight. Words that came during a response are answered after it.
    func answerSpokenWords() {
        guard let speechEnd = userTurn.answerableSince, canRespond,
            speechInput?.speechItemID == nil
        else { return }
        do {
            try makeRoom()
            tools?.continuations.handleAsked()
            begin(ResponseParameters(), speechEnd: speechEnd)
        } catch {
            userTurn.forgetWords()
            emit(.error(error))
        }
    }

    /// Whether a response in the conversation may begin: none is in flight, and the limit is not
    /// reached, and the session does not go on elsewhere.
    var canRespond: Bool {
        activeResponse == nil && !isHandedOver
            && responses.count < context.limits.maxActiveResponses
    }

    /// Creates a response; the model is asked when nothing is left to transcribe.
    /// - Parameters:
    ///   - asked: when a client asked for it that has not spoken.
    ///   - isOfClient: whether a client asked for it.
    func begin(
        _ overrides: ResponseParameters, speechEnd: Instant?, asked: Instant? = nil,
        isOfClient: Bool = false
    ) {
        userTurn.handleResponseBegun(isInConversation: overrides.isInConversation)
        if overrides.isInConversation { tools?.continuations.handleResponseBegun() }
        let description = describe(
            overrides, as: claimResponseID(isInConversation: overrides.isInConversation))
        let rules = languageRules
        let clauses = ClauseSpeaker(
            of: description.id,
            voice: SpeechRequest(
                text: "", voice: description.voice, speed: parameters.speed,
                language: language),
            language: rules, context: context)
        let sender = SpeechSender(
            of: description, opus: overrides.outputOpus ?? parameters.outputOpus,
            language: rules,
            playout: beginPlayout(isInConversation: overrides.isInConversation),
            speechEnd: speechEnd, context: context)
        let response = Response(
            description: description, parameters: overrides, clauses: clauses, sender: sender,
            speechEnd: speechEnd, asked: asked, isOfClient: isOfClient, core: self)
        responses.append(response)
        if !answerer.isDialogue { response.failUnlessSpeakable() }
    }

    /// A response that begins.
    func describe(_ overrides: ResponseParameters, as id: String) -> ResponseDescription {
        var description = ResponseDescription(
            id: id, conversationID: overrides.isInConversation ? conversationID : nil,
            outputModality: overrides.outputModality ?? parameters.outputModality,
            outputFormat: overrides.outputFormat ?? parameters.outputFormat,
            voice: overrides.voice ?? parameters.voice,
            maxOutputTokens: overrides.maxOutputTokens(orOf: parameters),
            metadata: overrides.metadata)
        description.temperature = overrides.temperature ?? parameters.temperature
        useTextWithoutVoice(&description)
        return description
    }

    /// Responses in the conversation are heard one after another and share a timeline. Each other
    /// response has its own.
    private func beginPlayout(isInConversation: Bool) -> PlayoutTimeline {
        guard isInConversation else {
            let lead = Duration.milliseconds(context.limits.playoutLeadMilliseconds)
            let timeline = PlayoutTimeline(
                lead: lead, keepsAudio: false, isResumable: isResumable,
                isClientAway: isClientAway)
            timeline.isClientFull = isClientFull
            return timeline
        }
        let playback = playback ?? ReplyPlayback(core: self)
        self.playback = playback
        return playback.beginResponse(
            isUserHeard: speechInput?.turnDetector != nil, isResumable: isResumable,
            isClientAway: isClientAway)
    }

    /// A new id, or the id of the response that was begun before the end of the turn.
    private func claimResponseID(isInConversation: Bool) -> String {
        let claimed = isInConversation ? answerer.speculation.claim() : nil
        return claimed ?? ids.make("resp_")
    }

    /// Asks for an answer to every response that waits, once nothing is left to transcribe.
    func askWaitingResponses(at now: Instant) {
        guard !userTurn.isRecognising || modelHearsAudio, tools?.isListing != true else { return }
        for response in responses where response.stage == .waiting {
            if answerer.isDialogue {
                response.handleAsked(isOfDialogue: true)
                response.routes = tools?.routes(with: response.parameters)
                answerer.answer(
                    response.id, response.parameters, tools: response.routes?.functions ?? [])
            } else if !sayNotUnderstood(in: response, at: now) {
                askModel(for: response, at: now)
            }
        }
    }

    // MARK: Tools

    /// The session's MCP servers, made when the first is named.
    func madeTools() -> SessionTools {
        let made = tools ?? SessionTools(core: self)
        tools = made
        return made
    }

    /// Begins the responses that follow the results of tools, once nothing stands in the way.
    func continueAfterTools(_ tools: SessionTools) {
        guard !isHandedOver else { return }
        let most = context.limits.maxAutomaticResponses
        while responses.count < context.limits.maxActiveResponses {
            do {
                guard let next = try tools.continuations.takeOutOfBand(most: most) else { break }
                begin(next, speechEnd: nil)
            } catch {
                emit(.error(error))
            }
        }
        guard canRespond, speechInput?.speechItemID == nil, !userTurn.isOwedAnswer else { return }
        do {
            guard let next = try tools.continuations.takeNext(most: most) else { return }
            try makeRoom()
            begin(next, speechEnd: nil)
        } catch {
            emit(.error(error))
        }
    }

    // MARK: The client stops a response

    /// `response.cancel`
    func cancelResponse(_ responseID: String?, at now: Instant) throws(ClientEventError) {
        let truncated = playback?.takeTruncatedResponseID()
        guard let response = responseID.map({ self.response($0) }) ?? activeResponse else {
            // A client that falls silent truncates what it plays and cancels after that
            // (openai-agents). Where the whole response was written, the truncation was its end.
            if let truncated, responseID ?? truncated == truncated { return }
            throw .noResponseToCancel
        }
        let status = ResponseDescription.Status.cancelled(reason: "client_cancelled")
        if response.isInConversation {
            playback?.stop(status, keepsNext: responseID != nil, at: now)
        } else {
            context.outputs.append(.dropAudio(responseID: response.id))
            response.end(status)
        }
    }

    /// `output_audio_buffer.clear`
    func clearOutput(at now: Instant) throws(ClientEventError) {
        guard let response = activeResponse else { throw .outputBufferEmpty }
        emit(.outputAudioBufferCleared(responseID: response.id))
        let unheard = playback?.stopPlaying(at: now) ?? []
        response.mute(unheard: unheard, at: now)
    }
}
