// Whether a turn is under way: what a server asks before it takes a session's connection away.
// Pure like all of the session: it looks at its state and at no clock.
//
// Invariant: while any event or audio of a turn is still to come, `hasTurnInFlight` is true.

import Codec

extension VoiceSession {
    /// Whether a turn is in flight: the user speaks, or has spoken words that are not answered yet;
    /// audio has come that is not heard yet; a response is written or spoken, up to its
    /// `response.done`, which follows its last audio; or the model has called a function and waits
    /// to be told the outcome.
    ///
    /// Where the client ends the turns itself, audio that it has not committed counts as speech. A
    /// client that never answers a function call has a turn in flight for ever: whoever waits for
    /// the end of turns must not wait without a limit.
    public var hasTurnInFlight: Bool {
        !isIdle || userTurn.hasUnansweredWords || hasUncommittedSpeech
            || conversation.endsInFunctionCall
            || tools?.isBusy == true || hasUnheardAudio
    }

    /// When a client that plays at once will have played the last reply; nil before there is one,
    /// and while the next is in flight. Reply audio is sent up to `playoutLeadMilliseconds` ahead.
    public var playedOut: Instant? { userTurn.quietSince }

    /// Whether a client that ends its turns itself has sent enough audio for one.
    var hasUncommittedSpeech: Bool {
        guard parameters.turnDetection == nil, let speechInput else { return false }
        let buffered = SampleRate.hz16000.milliseconds(ofSamples: speechInput.buffer.count)
        return buffered >= Self.minCommittedMilliseconds
    }
}
