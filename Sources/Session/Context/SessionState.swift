// The state of a session in one word, for operators and for metrics by state.

/// The state of a connection. The raw values are the words of the admin routes and the labels of
/// metrics.
public enum SessionState: String, CaseIterable, Sendable {
    /// A session in which nothing happens.
    case idle
    /// Audio comes, or came within the last `codecIdleSeconds`, without speech.
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
