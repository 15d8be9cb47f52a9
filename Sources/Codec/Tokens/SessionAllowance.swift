// What the holder of a credential may have of the server. Who holds one, and what the server's own
// defaults are, is Server's; how tokens say it is in TokenClaims.

/// Limits of the sessions that are opened with one credential.
public struct SessionAllowance: Equatable, Sendable {
    /// The most that `maxSessions` may be.
    public static let sessionsRange = 1...10_000_000
    /// What `maxSessionSeconds` may be. The upper end is a week.
    public static let secondsRange = 1...604_800
    /// The most models that may be named.
    public static let maxModels = 64
    /// Bytes of a model's name, as in the protocol's events.
    public static let maxModelBytes = 512

    /// Sessions at once, in `sessionsRange`; nil: as the server's default is.
    public var maxSessions: Int?
    /// How long a session may last, in seconds, in `secondsRange`; nil: as the server's default is.
    public var maxSessionSeconds: Int?
    /// Models that may be asked for; nil: any.
    public var models: [String]?

    /// Creates an allowance; without limits of its own by default.
    public init(maxSessions: Int? = nil, maxSessionSeconds: Int? = nil, models: [String]? = nil) {
        self.maxSessions = maxSessions
        self.maxSessionSeconds = maxSessionSeconds
        self.models = models
    }

    /// Whether a model may be asked for.
    public func allows(model: String) -> Bool { models?.contains(model) ?? true }
}
