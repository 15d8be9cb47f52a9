// A cascade answers: the model is asked about words, and about likely words ahead of the end of the turn.

import Codec

extension VoiceSession {
    /// Asks the model for a response that waits.
    func askModel(for response: Response, at now: Instant) {
        let composer = RequestComposer(core: self, tools: tools, overrides: response.parameters)
        let routes = composer.routes
        guard composer.fitContext(routes) else {
            return response.failAudibly(.contextLengthExceeded, at: now)
        }
        response.handleAsked()
        if let filler { response.fill(with: filler.phrase, at: now + filler.after) }
        response.routes = routes
        let request = composer.request(routes, for: response.id)
        if let events = answerer.speculation.use(for: response.id, asking: request, context) {
            response.handle(events, at: now)
        } else {
            command(.respond(responseID: response.id, request))
        }
    }

    /// Asks for the words of the speech in progress so far, where that is due.
    func hypothesize(_ speechInput: SpeechInput) {
        answerer.speculation.handleSpeech(
            endingAt: speechInput.turnDetector?.lastSpeechEnd, context)
        guard context.makesHypotheses else { return }
        let isShown = parameters.transcription != nil
        let isDecisive = playback?.needsWordsOfSpeech == true
        speechInput.hypothesize(
            wordsUse: isDecisive ? .interruption : isShown ? .display : nil,
            hints: recognitionHints, context)
    }

    /// Asks the model about the words before a silence, where they sound like the end of a turn.
    func speculate(on words: String, _ speechInput: SpeechInput) {
        guard let turnDetection = parameters.turnDetection, turnDetection.speculativeResponse,
            turnDetection.createResponse, let turnDetector = speechInput.turnDetector,
            let ending = TurnEndEstimator.ending(of: words, in: languageRules),
            ending != .unfinished,
            !modelHearsAudio, canRespond, !userTurn.isRecognising, !userTurn.hasUnansweredWords,
            answerer.speculation.reply == nil
        else { return }
        let composer = RequestComposer(
            core: self, tools: tools, overrides: ResponseParameters())
        let responseID = ids.make("resp_")
        let request = composer.request(composer.routes, for: responseID, saying: words)
        answerer.speculation.begin(
            SpeculativeReply(
                responseID: responseID, request: request,
                speechEnd: turnDetector.lastSpeechEnd),
            context)
    }
}
