// The options of turns over HTTP: chat completions and the UI message stream. The list of all
// options is ServeOptionTable.

import Server

extension ServeOptionTable {
    static let text: [ServeOption] = [
        .integer(
            "max-text-turns", \.server.maxTextTurns, 1...10_000_000, unit: "turns", in: .limits,
            "Turns over HTTP (/v1/chat/completions, /api/chat) in flight; more get 503."),
        .integer(
            "max-unread-reply-bytes", \.server.maxUnreadReplyBytes, 1_024...(1 << 30),
            unit: "bytes", in: .limits,
            "What a client over HTTP may leave unread of a reply before its model is held up."),
        .integer(
            "max-resumable-replies", \.server.maxResumableReplies, 0...10_000,
            unit: "replies", in: .limits,
            """
            Replies of /api/chat that are kept for clients that lose their connection, each at \
            most max-response-bytes; 0 keeps none.
            """),
        .milliseconds(
            "resume-timeout-ms", \.server.resumeTimeout, 0...3_600_000, in: .time,
            """
            How long a reply of /api/chat is kept, and goes on, while nobody reads it; 0 stops it \
            at once.
            """),
    ]
}
