// What the shell reads off a session: its state in one word, the tokens of replies in flight, and whether a
// turn is in flight, which the server asks before it closes a session's connection.
//
// Invariant: while any event or audio of a turn is still to come, `hasTurnInFlight` is true.

import Codec

extension VoiceSession {
    /// The session's state now.
    public var state: SessionState {
        if speechInput?.speechItemID != nil || hasUncommittedSpeech { return .speaking }
        if !isIdle || userTurn.hasUnansweredWords { return .replying }
        return speechInput?.releaseCheck != nil ? .listening : .idle
    }

    // MARK: Turns in flight

    /// Whether a turn is in flight. That is so while the user speaks, or while words or audio of
    /// the user are not answered or heard yet. It is also so while a response is in flight (its
    /// `response.done` follows its last audio), and while the model waits for the output of a
    /// function.
    ///
    /// Where the client ends the turns itself, audio that it has not committed counts as speech. A
    /// client that never answers a function call has a turn in flight for ever, so a wait for the
    /// end of turns needs a limit.
    public var hasTurnInFlight: Bool {
        !isIdle || userTurn.hasUnansweredWords || hasUncommittedSpeech
            || conversation.endsInFunctionCall || tools?.isBusy == true || hasUnheardAudio
    }

    /// When a client that plays at once will have played the last reply; nil before there is one,
    /// and while the next is in flight. Reply audio is sent up to `playoutLeadMilliseconds` ahead.
    public var playedOut: Instant? { userTurn.quietSince }

    /// When a client that plays at once will have played all reply audio that was sent. Nil where
    /// it already has.
    public var sentAudioEnd: Instant? { playback?.timeline?.playedOut }

    /// Whether a client that ends its turns itself has sent enough audio for one.
    var hasUncommittedSpeech: Bool {
        guard parameters.turnDetection == nil, let speechInput else { return false }
        let buffered = SampleRate.hz16000.milliseconds(ofSamples: speechInput.buffer.count)
        return buffered >= Self.minCommittedMilliseconds
    }

    /// The tokens that the responses in flight have made so far, estimated.
    public var unfinishedReplyTokens: Int {
        responses.reduce(0) { sum, response in
            response.outputs.reduce(sum) { $0 + TokenEstimate.text(bytes: $1.text.utf8.count) }
        }
    }
}
