// A turn of the user in which no words were recognised. A phrase of the server answers it, without the
// model: what a model would answer, to the words before these or to none, would be a guess. Without
// that phrase the turn is not answered, but for a client that asks for a response itself.
//
// A cough, and noise that goes on and on, get no phrase (`UserTurn.handleNoWords`). A model that hears
// is asked, because it may have understood.

import Codec

extension VoiceSession {
    /// No words were recognised in a turn. The user, who may be speaking again, is told of it once the
    /// agent can speak.
    func handleNoWords(of turn: AwaitedTranscript, at now: Instant) {
        context.counters.turnsWithoutWords += 1
        guard !turn.isOverReply, userTurn.handleNoWords(of: turn),
            let phrase = context.notUnderstoodPhrase, canRespond, !userTurn.isOwedAnswer,
            speechInput?.speechItemID == nil
        else { return }
        do {
            try makeRoom()
        } catch {
            return emit(.error(error))
        }
        var parameters = ResponseParameters()
        parameters.metadata = RawJSON(#"{"parley_not_understood":"\#(turn.itemID)"}"#)
        begin(parameters, speechEnd: nil)
        activeResponse?.say(phrase, incompleteReason: nil, at: now)
    }

    /// Says the phrase in a response that the client has asked for, where it would answer a turn
    /// without words.
    /// - Returns: whether it was said; otherwise the model is asked.
    func sayNotUnderstood(in response: Response, at now: Instant) -> Bool {
        guard let phrase = context.notUnderstoodPhrase, userTurn.hasNoWords, !modelHearsAudio,
            response.isInConversation, response.parameters.input == nil,
            conversation.lastItem?.isWithoutWords == true
        else { return false }
        response.say(phrase, incompleteReason: nil, at: now)
        return true
    }
}
