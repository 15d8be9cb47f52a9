// Why a saved session cannot be restored.

import Codec

/// Why a saved session cannot be restored. Others can write to the store that it comes from, so
/// each of these is expected.
public enum SavedSessionError: Error, Equatable, Sendable {
    /// There is no field of this name.
    case missing(String)
    /// A field is longer than this server reads.
    case tooLarge(bytes: Int)
    /// A field is not JSON.
    case notJSON(JSONError)
    /// The state has another form than this server reads: its version, or nil where it has none.
    case version(Int?)
    /// A member of a field is missing, or has another form than it must have.
    case malformed(String)
    /// The settings are not those of any session, or this server cannot meet them.
    case settings(ClientEventError)

    /// The reason as a clause for a log.
    public var explanation: String {
        switch self {
        case .missing(let field): "there is no field '\(field)'"
        case .tooLarge(let bytes): "a field has \(bytes) bytes"
        case .notJSON(let error): error.explanation
        case .version(let version?): "its form is version \(version)"
        case .version(nil): "it does not say its version"
        case .malformed(let member): "'\(member)' is missing or malformed"
        case .settings(let error): "its settings are refused: \(error.message)"
        }
    }
}
