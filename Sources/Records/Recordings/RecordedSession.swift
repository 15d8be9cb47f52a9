// Finds the files of one recording in a folder, for the command line. The folder's writer is
// RecordingFolder.

import Glibc

/// The two complete files of a recording.
public struct RecordedSession: Equatable, Sendable {
    /// The path of the user's side.
    public let user: String
    /// The path of the agent's side.
    public let agent: String

    /// Finds a recording by its name: the session's id, followed by `-2` and so on for a second one
    /// of that session.
    /// - Throws: where the folder has no such recording, or not all of it yet.
    public init(_ name: String, in path: String) throws(RecordedSessionError) {
        let names = RecordingFolder.names(in: path)
        func find(_ ending: String) -> String? { names.first { $0.hasSuffix("/\(name)\(ending)") } }
        guard let user = find(".user\(RecordingFolder.ending)"),
            let agent = find(".agent\(RecordingFolder.ending)")
        else {
            let isOpen = find(".user\(RecordingFolder.partEnding)") != nil
            throw isOpen ? .inProgress : .missing
        }
        self.user = user
        self.agent = agent
    }
}

/// Why a recording cannot be read.
public enum RecordedSessionError: Error, Equatable, Sendable {
    /// The folder has no such recording: there was none, or it was uploaded.
    case missing
    /// The session is still being recorded.
    case inProgress
}
