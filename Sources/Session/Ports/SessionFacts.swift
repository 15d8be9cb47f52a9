// What the server can tell an agent of the session that the agent works for: numbers that an
// operator sees in `parley top`, for one session. AgentHost hands them out.

/// How long the hops of one turn took, in whole milliseconds from the end of the user's speech. In
/// a typed turn they count from its request. A time is nil where its hop was not reached, or the
/// turn does not have it.
public struct TurnTimes: Equatable, Sendable {
    /// Until the transcript.
    public var transcript: Int?
    /// Until the reply's first token.
    public var firstToken: Int?
    /// Until the reply's first audio.
    public var firstAudio: Int?

    /// Creates times.
    public init(transcript: Int? = nil, firstToken: Int? = nil, firstAudio: Int? = nil) {
        self.transcript = transcript
        self.firstToken = firstToken
        self.firstAudio = firstAudio
    }
}

/// A session and its server in numbers.
public struct SessionFacts: Equatable, Sendable {
    /// Sessions open in this process, this one included.
    public var openSessions: Int
    /// Bytes on the session's ledger.
    public var bytes: Int
    /// The last turn that was answered, before the one that asks, if there is one.
    public var answeredTurn: TurnTimes?

    /// Creates facts.
    public init(openSessions: Int, bytes: Int, answeredTurn: TurnTimes? = nil) {
        self.openSessions = openSessions
        self.bytes = bytes
        self.answeredTurn = answeredTurn
    }
}
