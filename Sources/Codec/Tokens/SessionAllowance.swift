// Limits that come with a credential. Server has the credentials and its own defaults; TokenClaims
// reads the limits from tokens.

/// Limits of the sessions that are opened with one credential.
public struct SessionAllowance: Equatable, Sendable {
    /// Allowed values of `maxSessions`.
    public static let sessionsRange = 1...10_000_000
    /// Allowed values of `maxSessionSeconds`. The upper end is a week.
    public static let secondsRange = 1...604_800
    /// Maximum number of models.
    public static let maxModels = 64

    /// Maximum concurrent sessions, in `sessionsRange`. Nil means the server's default.
    public var maxSessions: Int?
    /// Maximum duration of a session in seconds, in `secondsRange`. Nil means the server's default.
    public var maxSessionSeconds: Int?
    /// Models that may be requested. Nil means any.
    public var models: [String]?
    /// Agents that its sessions may have, the first where a session names none. Nil means any.
    public var agents: [String]?
    /// Quotas of its holder. For a unit and a period without a quota, the server's default applies.
    public var quotas: [Quota]
    /// Whether its sessions are recorded. Nil means the server's default.
    public var recording: RecordingRule?

    /// Creates an allowance, by default without limits of its own.
    public init(
        maxSessions: Int? = nil, maxSessionSeconds: Int? = nil, models: [String]? = nil,
        quotas: [Quota] = [], recording: RecordingRule? = nil
    ) {
        self.maxSessions = maxSessions
        self.maxSessionSeconds = maxSessionSeconds
        self.models = models
        self.quotas = quotas
        self.recording = recording
    }

    /// Whether a model may be requested.
    public func allows(model: String) -> Bool { models?.contains(model) ?? true }
}
