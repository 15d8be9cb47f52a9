// What a session is doing, in one word: for the people who watch a server, and for numbers by
// state. Pure like all of the session: it looks at its state and at no clock. Whether a connection
// may be taken away is another question (VoiceSession+Turns).

import Codec

/// What a connection does. The raw values are the words of the admin routes and the labels of
/// metrics.
public enum SessionState: String, CaseIterable, Sendable {
    /// A session in which nothing happens.
    case idle
    /// Audio comes, or came within the last `codecIdleSeconds`, and nobody speaks in it.
    case listening
    /// The user speaks, over a reply or not; where the client ends the turns itself, it has sent
    /// enough audio for one.
    case speaking
    /// A turn is answered: words are recognised, a response is in flight, tools are at work. A text
    /// request over HTTP is always in this state.
    case replying
    /// There is no session: before the upgrade, after the end, or an echo. Never a session's state.
    case connection
}

extension VoiceSession {
    /// What the session does now.
    public var state: SessionState {
        if speechInput?.speechItemID != nil || hasUncommittedSpeech { return .speaking }
        if !isIdle || userTurn.hasUnansweredWords { return .replying }
        return speechInput?.releaseCheck != nil ? .listening : .idle
    }
}
