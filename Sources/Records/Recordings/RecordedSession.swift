// Finds the files of one recording in a folder, for the command line. The folder's writer is
// RecordingFolder.

/// The two complete files of a recording.
public struct RecordedSession: Equatable, Sendable {
    /// The path of the user's side.
    public let user: String
    /// The path of the agent's side.
    public let agent: String
    /// The names of the session's other recordings, in the order in which they began.
    public let others: [String]

    /// Finds a recording by its name: the session's id, followed by the time from which on it went on
    /// elsewhere.
    /// - Throws: where the folder has no such recording, or not all of it yet.
    public init(_ name: String, in path: String) throws(RecordedSessionError) {
        let files = RecordedFile.all(in: path)
        let named = files.filter { $0.name == name }
        func complete(_ track: String) -> String? {
            named.first { $0.isComplete && $0.track == track }?.path
        }
        others = files.filter {
            $0.isComplete && $0.track == "user" && $0.sessionID == name && $0.name != name
        }.map(\.name)
        guard let user = complete("user"), let agent = complete("agent") else {
            throw named.isEmpty ? .missing(others: others) : .inProgress
        }
        self.user = user
        self.agent = agent
    }
}

/// Why a recording cannot be read.
public enum RecordedSessionError: Error, Equatable, Sendable {
    /// The folder has no such recording: there was none, or it was uploaded or removed. It may have
    /// other recordings of the session.
    case missing(others: [String])
    /// The session is still being recorded.
    case inProgress
}
