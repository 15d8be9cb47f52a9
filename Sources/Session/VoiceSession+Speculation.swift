// When the model is asked ahead of the end of the user's turn, and when that is stopped. What it
// has answered, and how far the head start has come, is Speculation's.

import Codec

extension VoiceSession {
    /// Asks the model about the words before a silence, where they sound like the end of a turn.
    func speculate(on words: String, _ speechInput: SpeechInput) {
        guard let turnDetection = parameters.turnDetection, turnDetection.speculativeResponse,
            turnDetection.createResponse, let turnDetector = speechInput.turnDetector,
            let ending = TurnEndEstimator.ending(of: words), ending != .unfinished,
            !modelHearsAudio, canRespond, !userTurn.isRecognising, !userTurn.hasUnansweredWords,
            speculation.reply == nil
        else { return }
        var request = request(with: ResponseParameters())
        request.messages.append(.user(words))
        let reply = SpeculativeReply(
            responseID: ids.make("resp_"), request: request,
            speechEnd: turnDetector.lastSpeechEnd)
        speculation = .ahead(reply)
        command(.respond(responseID: reply.responseID, request))
    }

    /// The speech goes on: its words were not all.
    func dropOutdatedSpeculation(_ speechInput: SpeechInput) {
        guard let reply = speculation.reply,
            reply.speechEnd != speechInput.turnDetector?.lastSpeechEnd
        else { return }
        dropSpeculation()
    }

    /// Stops the model where no response can use its head start any more.
    func dropUselessSpeculation() {
        guard let reply = speculation.reply else { return }
        let isPossible = speechInput?.speechItemID != nil || userTurn.isRecognising
        let isUsed = responses.contains { $0.id == reply.responseID && $0.stage == .waiting }
        if !isUsed, speculation.isClaimed || !isPossible { dropSpeculation() }
    }

    /// Keeps what a model writes ahead of its response; false: it is not ahead.
    func keepAhead(_ event: AgentEvent) -> Bool {
        switch speculation.record(event, maxBytes: context.limits.maxResponseBytes) {
        case .ofAnother: return false
        case .kept: return true
        case .unusable:
            dropSpeculation()
            return true
        }
    }

    /// Lets a response that has just been asked for go on from what the model has written, if it
    /// was asked the same.
    /// - Returns: false: the model must be asked.
    func resumeSpeculation(_ response: Response, _ request: ModelRequest, at now: Instant) -> Bool {
        switch speculation.use(for: response.id, asking: request) {
        case .ofAnother: return false
        case .unusable:
            dropSpeculation()
            return false
        case .used(let events):
            for event in events {
                switch event {
                case .modelDelta(_, let delta):
                    response.handle(delta, at: now)
                case .modelFinished: response.handleModelFinished(at: now)
                default: break
                }
            }
            return true
        }
    }

    /// Stops the model; the client was told nothing of its answer.
    func dropSpeculation() {
        guard let responseID = speculation.stop() else { return }
        command(.cancelResponse(responseID: responseID))
    }
}
