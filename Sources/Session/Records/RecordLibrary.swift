// The port through which an operator reads ended sessions: their records and their recordings. The
// layer Records implements it. RecordKeeper and RecordingKeeper are the ports for writing them.

/// A question about what is kept of sessions.
public enum RecordQuestion: Equatable, Sendable {
    /// Ended sessions, the newest first.
    case list(RecordSearch)
    /// Record and recordings of a session.
    case show(String)
    /// A piece of a file of a recording.
    case listen(RecordingPiece)
    /// Record and recordings of a session are to be deleted.
    case delete(String)
}

/// Which ended sessions are listed.
public struct RecordSearch: Equatable, Sendable {
    /// Sessions of one list. 100: some 30 kB of JSON.
    public static let limits = 1...100

    /// A place in the list, which keeps it while sessions are added and deleted.
    public struct Place: Equatable, Sendable {
        /// When the session began, in milliseconds since 1970.
        public let startedAt: Int
        /// The session.
        public let id: String

        /// Creates a place.
        public init(startedAt: Int, id: String) { (self.startedAt, self.id) = (startedAt, id) }
    }

    /// Text in the id, in a fact of the session (model, name of the key, numbers of a call), or in
    /// the conversation. Empty means all sessions. Case does not count in ASCII.
    public var text = ""
    /// The list begins behind this place. Nil means that it begins with the newest session.
    public var after: Place?
    /// The most records of a page. 1…100.
    public var limit = 50

    /// The newest 50.
    public init() {}
}

/// A piece of a file of a recording.
public struct RecordingPiece: Equatable, Sendable {
    /// The two sides of a conversation.
    public enum Side: String, CaseIterable, Sendable {
        /// The user as heard.
        case user
        /// The agent as played.
        case agent
    }

    /// The recording: the session's id, and for others than the first one the time behind it.
    public let name: String
    /// Which of its files.
    public let side: Side
    /// The first byte.
    public let offset: Int
    /// The most bytes to read.
    public let count: Int

    /// Creates a piece. `offset` and `count` are not negative.
    public init(name: String, side: Side, offset: Int, count: Int) {
        (self.name, self.side, self.offset, self.count) = (name, side, offset, count)
    }
}

/// One session of a list.
public struct RecordListing: Equatable, Sendable {
    /// `sess_…`
    public var id: String
    /// When it began, in milliseconds since 1970.
    public var startedAt: Int
    /// When it ended, likewise.
    public var endedAt: Int
    /// Why it ended.
    public var endReason: String
    /// JSON: the facts of the session, as `session` of its record.
    public var facts: String
    /// Responses that began.
    public var turns: Int
    /// Responses that failed.
    public var failedTurns: Int

    /// Creates a row.
    public init(
        id: String, startedAt: Int, endedAt: Int, endReason: String, facts: String, turns: Int,
        failedTurns: Int
    ) {
        (self.id, self.startedAt, self.endedAt) = (id, startedAt, endedAt)
        (self.endReason, self.facts) = (endReason, facts)
        (self.turns, self.failedTurns) = (turns, failedTurns)
    }

    /// Its place in the list.
    public var place: RecordSearch.Place { RecordSearch.Place(startedAt: startedAt, id: id) }
}

/// A complete recording in the server's folder.
public struct RecordingListing: Equatable, Sendable {
    /// Its name, by which its files are asked for.
    public var name: String
    /// Bytes of the user's side.
    public var userBytes: Int
    /// Bytes of the agent's side.
    public var agentBytes: Int

    /// Creates a listing.
    public init(name: String, userBytes: Int, agentBytes: Int) {
        (self.name, self.userBytes, self.agentBytes) = (name, userBytes, agentBytes)
    }
}

/// The answer to a question.
public enum RecordFinding: Equatable, Sendable {
    /// The list, and whether more follow.
    case list([RecordListing], hasMore: Bool)
    /// A session: JSON documents, one for each server that has had it, and its recordings.
    case record(documents: [String], recordings: [RecordingListing])
    /// Bytes of a file, and how many the file has.
    case piece([UInt8], of: Int)
    /// Nothing is kept of the session any more.
    case deleted
    /// There is no record of the session.
    case missing
    /// It has not ended, so that more is still written of it.
    case open
    /// The store of the sessions cannot be used now; one line says why.
    case failed(String)
}

/// Reads and deletes what is kept of sessions. Any thread.
public protocol RecordLibrary: Sendable {
    /// Asks. It returns at once: another thread reads.
    /// - Parameter answer: is called once, on any thread.
    /// - Returns: false where too many questions wait: there will be no answer.
    func ask(
        _ question: RecordQuestion, answer: @escaping @Sendable (RecordFinding) -> Void
    ) -> Bool

    /// Answers the questions that wait, and ends.
    func shutdown()
}
