// How many connections may join a session, and how much may wait for one.

import Session

/// Limits of sidebands.
public struct SidebandSettings: Sendable {
    /// 4: a tool server, a supervisor, a recorder, and one that takes over from another.
    public var maxPerSession = 4
    /// 4 MiB: a minute of a reply's audio as base64, and any event but one with large images.
    public var maxQueuedBytes = 4 << 20

    static let settings: [Setting<Self>] = [
        .integer(
            "max-sidebands-per-session", \.maxPerSession, 0...64, unit: "connections",
            "Connections that may join one session by its id; 0: none may."),
        .integer(
            "max-sideband-queued-bytes", \.maxQueuedBytes, (64 << 10)...(1 << 30),
            unit: "bytes",
            """
            Events that may wait for one sideband, or of one; more closes it with 1013, and the \
            session goes on. For one wait no more than max-queued-output-bytes.
            """),
    ]
}
