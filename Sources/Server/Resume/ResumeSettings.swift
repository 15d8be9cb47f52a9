// How long a session waits for a client that comes back, and what is kept for it.

import Session

/// Settings of sessions that wait for their clients.
public struct ResumeSettings: Sendable {
    /// 120 s, as Socket.IO and Ably have it: a tunnel, a lift, a laptop that is closed and opened.
    public var window = Duration.seconds(120)
    /// 10,000: all sessions of a node whose network is away. An idle one takes about a kilobyte.
    public var maxDetachedSessions = 10_000
    /// 256 KiB: a thousand deltas of text, several times the longest reply.
    public var maxBytes = 256 << 10

    static let settings: [Setting<Self>] = [
        .milliseconds(
            "resume-window-ms", \.window, 0...86_400_000,
            """
            How long a session waits for a client that asked to be able to come back and has lost \
            its connection; 0: no session can be resumed.
            """),
        .integer(
            "max-detached-sessions", \.maxDetachedSessions, 0...16_777_216, unit: "sessions",
            """
            Sessions that may wait for their client at once. For one more the oldest of the key \
            (or address, where there are none) with the most ends, or itself.
            """),
        .integer(
            "max-resume-bytes", \.maxBytes, 4_096...(1 << 30), unit: "bytes",
            """
            Events of one session that are kept for a client that may have missed them; beyond \
            that the oldest are forgotten.
            """),
    ]
}
