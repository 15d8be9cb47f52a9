// A turn of the user in which no words were recognised. A phrase of the server answers it, without the
// model: what a model would answer, to the words before these or to none, would be a guess. Without
// that phrase the turn is not answered, but for a client that asks for a response itself.
//
//   no words ──▶ owed ── the agent may speak ──▶ said
//                  └── words come, or a response begins ──▶ forgotten
//
// A cough, and noise that goes on and on, get no phrase (`UserTurn.handleNoWords`). A model that hears
// is asked, because it may have understood.

import Codec

extension VoiceSession {
    /// Speaks the phrase that answers a turn without words, once the agent may speak and nothing
    /// else is to be answered.
    func answerTurnWithoutWords(at now: Instant) {
        guard userTurn.isOwedPhrase, canRespond, !userTurn.isOwedAnswer,
            speechInput?.speechItemID == nil, tools?.continuations.isDue != true
        else { return }
        guard let phrase = notUnderstoodPhrase, !modelHearsAudio,
            conversation.isNewestWithoutWords, let itemID = conversation.lastItemID
        else { return userTurn.forgetPhrase() }
        do {
            try makeRoom()
        } catch {
            userTurn.forgetPhrase()
            return emit(.error(error))
        }
        userTurn.handlePhrase()
        // The head start answered words that were not said.
        answerer.speculation.stop(context)
        var parameters = ResponseParameters()
        parameters.metadata = RawJSON(#"{"parley_not_understood":"\#(itemID)"}"#)
        begin(parameters, speechEnd: nil)
        activeResponse?.say(phrase, incompleteReason: nil, at: now)
    }

    /// Says the phrase in a response that a client has asked for which ends turns itself, where the
    /// response would answer turns without words alone.
    /// - Returns: whether the phrase is spoken; otherwise the model is asked.
    func sayNotUnderstood(in response: Response, at now: Instant) -> Bool {
        guard let phrase = notUnderstoodPhrase, response.isOfClient,
            response.isInConversation, response.parameters.input == nil,
            response.parameters.instructions == nil, !modelHearsAudio,
            parameters.turnDetection?.createResponse != true, conversation.endsWithoutWords
        else { return false }
        if answerer.speculation.reply?.responseID == response.id {
            answerer.speculation.stop(context)
        }
        response.say(phrase, incompleteReason: nil, at: now)
        return true
    }
}
