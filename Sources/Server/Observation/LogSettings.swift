// The detail in which a server reports its sessions: in its log, and to clients on its own machine.

import Session

/// Settings of the log.
public struct LogSettings: Sendable {
    /// False: logs have neither transcripts nor texts.
    public var includesContent = false
    /// True: who tries the server at its own machine need not look for the log.
    public var explainsFailures = true

    static let settings: [Setting<Self>] = [
        .toggle(
            "log-content", \.includesContent,
            "Whether transcripts and texts of conversations may appear in logs."),
        .toggle(
            "explain-failures", \.explainsFailures,
            """
            Whether a client on this machine that may open the pages of operators is told why a service \
            has failed, as the log is. Switch it off behind a proxy of this machine that adds no field \
            such as X-Forwarded-For.
            """),
    ]
}
