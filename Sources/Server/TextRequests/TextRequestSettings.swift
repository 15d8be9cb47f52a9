// How many text requests over HTTP there may be, and how long their replies are kept.

import Session

/// Settings of text requests over HTTP.
public struct TextRequestSettings: Sendable {
    /// 1,000: each has a session, its reply, and its model's connection.
    public var maxRequests = 1_000
    /// 256: 64 MiB if each is as long as `SessionLimits.maxResponseBytes`, usually some hundred
    /// kilobytes. At most 10,000, because a full directory is searched.
    public var maxResumableReplies = 256
    /// 64 KiB: some 16,000 words, so that only a client that stalls pauses its model.
    public var maxUnreadReplyBytes = 64 << 10
    /// 30 s: a page that is loaded again, or changes networks, is back by then.
    public var resumeTimeout = Duration.seconds(30)

    static let counts: [Setting<Self>] = [
        .integer(
            "max-text-turns", \.maxRequests, 1...10_000_000, unit: "requests",
            """
            Text requests over HTTP (/v1/chat/completions, /api/chat) in flight; more are \
            answered with 503.
            """),
        .integer(
            "max-resumable-replies", \.maxResumableReplies, 0...10_000, unit: "replies",
            """
            Replies of /api/chat that are kept for clients that lose their connection, each \
            at most max-response-bytes; 0 keeps none.
            """),
    ]

    static let output: [Setting<Self>] = [
        .integer(
            "max-unread-reply-bytes", \.maxUnreadReplyBytes, 1_024...(1 << 30),
            unit: "bytes",
            "Unread part of a reply over HTTP beyond which its model is paused.")
    ]

    static let times: [Setting<Self>] = [
        .milliseconds(
            "resume-timeout-ms", \.resumeTimeout, 0...3_600_000,
            """
            How long a reply of /api/chat is kept, and goes on, while no client reads it; 0 \
            stops it at once.
            """)
    ]
}
