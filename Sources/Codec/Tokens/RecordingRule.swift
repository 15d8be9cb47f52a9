// Which sessions are recorded: a setting of the server, a property of a key and a claim of a token.
// Server applies it.

/// Whether sessions are recorded.
public enum RecordingRule: String, CaseIterable, Sendable {
    /// Never.
    case none
    /// Where the client says that the user has agreed.
    case asked
    /// Always: the operator has the users' consent by other means.
    case all
}
