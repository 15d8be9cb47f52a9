// The one list of the options of `parley serve`. Flags, variables, the configuration file, the
// help, the example file and --print-config are all made from it, and a test holds it against
// ServerConfiguration, so that a new limit cannot be forgotten here.

import Server
import Session

/// All options, in the order in which they are shown.
enum ServeOptionTable {
    /// Every option.
    static let all: [ServeOption] =
        listening + logging + agents + limits + timeLimits + fairness + sessions

    /// Finds an option by its name.
    static func option(named name: String) -> ServeOption? { byName[name] }

    /// Finds an option by the name of its flag; `--llm` is short for `--llm-url`.
    static func option(flagged name: String) -> ServeOption? {
        byName[name == "llm" ? "llm-url" : name]
    }

    private static let byName = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })

    private static let mebibyte = 1 << 20

    private static let listening: [ServeOption] = [
        .text(
            "host", \.server.host, allowed: "an address or a name", in: .listening,
            """
            Address or name to listen on. 127.0.0.1 exposes nothing: put TLS or a proxy in front \
            before choosing another.
            """),
        .integer(
            "port", \.server.port, 0...65_535, in: .listening,
            "TCP port. 0 lets the kernel choose one."),
        .toggle(
            "shares-port", \.server.sharesPort, in: .listening,
            """
            Whether another process may listen on the same port, as a restart without a gap \
            needs. By default a second server started by mistake is an error.
            """),
        .integer(
            "shards", \.server.shards, 1...1_024, unit: "threads", in: .listening,
            "Event loops, each on its own thread. One per core."),
        .integer(
            "listen-backlog", \.server.listenBacklog, 1...65_535, unit: "connections",
            in: .listening, "Connections that the kernel completes before they are accepted."),
    ]

    private static let logging: [ServeOption] = [
        .choice(
            "log-format", \.logFormat, in: .logging,
            "Log lines for a person (text) or for a collector (json, one object per line)."),
        .choice(
            "log-level", \.logLevel, in: .logging, "The least severe level that is logged."),
        .toggle(
            "log-content", \.server.logContent, in: .logging,
            "Whether transcripts and texts of conversations may appear in logs."),
    ]

    private static let agents: [ServeOption] = [
        .text(
            "models", \.modelsDirectory, allowed: "a folder", in: .agents,
            "Folder of the speech models, which `make models` fills."),
        .optionalText(
            "llm-url", \.modelURL, allowed: "a URL that begins with http:// or https://",
            in: .agents,
            """
            Base URL of an OpenAI-compatible chat-completions server, for example \
            http://127.0.0.1:8000/v1. Without it the built-in demo agent answers. The flag may be \
            shortened to --llm.
            """,
            isAllowed: { $0.hasPrefix("http://") || $0.hasPrefix("https://") }),
        .optionalText(
            "llm-key", \.modelKey, allowed: "a key", isSecret: true, in: .agents,
            """
            Key that is sent to that server as a bearer token. Prefer the variable or the file: \
            flags are visible to every user of the machine.
            """),
        .optionalText(
            "model", \.modelName, allowed: "a name", in: .agents,
            "Model to ask that server for. Without it, what the client names."),
        .integer(
            "worker-threads", \.server.workerThreads, 1...1_024, unit: "threads", in: .agents,
            "Threads for embedded speech models. One per core."),
        .integer(
            "max-queued-jobs", \.server.maxQueuedJobs, 1...1_000_000, unit: "jobs", in: .agents,
            "Jobs that wait for a worker; more fail with server_overloaded."),
    ]

    private static let limits: [ServeOption] = [
        .integer(
            "max-connections", \.server.maxConnections, 1...10_000_000, unit: "connections",
            in: .limits, "Open connections of any kind; more are answered with 503 and closed."),
        .integer(
            "max-sessions", \.server.maxSessions, 1...10_000_000, unit: "sessions", in: .limits,
            "Sessions; more are answered with 503."),
        .integer(
            "max-start-line-bytes", \.server.maxStartLineBytes, 256...mebibyte, unit: "bytes",
            in: .limits, "A request's first line; more is answered with 414."),
        .integer(
            "max-header-bytes", \.server.maxHeaderBytes, 1_024...mebibyte, unit: "bytes",
            in: .limits, "A request's header fields; more is answered with 431."),
        .integer(
            "max-header-fields", \.server.maxHeaderFields, 8...10_000, unit: "fields", in: .limits,
            "Header fields of a request; more is answered with 431."),
        .integer(
            "max-body-bytes", \.server.maxBodyBytes, 0...(1 << 30), unit: "bytes", in: .limits,
            "A request's body; more is answered with 413. No route takes one yet."),
        .integer(
            "max-message-bytes", \.server.maxMessageBytes, 1_024...(1 << 30), unit: "bytes",
            in: .limits,
            """
            A whole WebSocket message; more closes the connection with 1009. The protocol allows \
            15 MiB of audio in one event.
            """),
        .integer(
            "max-frames-per-message", \.server.maxFramesPerMessage, 1...1_000_000,
            unit: "frames", in: .limits,
            "Frames of a fragmented WebSocket message; more closes the connection with 1008."),
        .integer(
            "max-queued-output-bytes", \.server.maxQueuedOutputBytes, (64 << 10)...(1 << 30),
            unit: "bytes", in: .limits,
            """
            Unsent bytes of one connection; a client that reads slower than that is cut off. At \
            least twice max-write-bytes-per-turn.
            """),
        .integer(
            "soft-queued-output-bytes", \.server.softQueuedOutputBytes, 4_096...(1 << 30),
            unit: "bytes", in: .limits,
            """
            Unsent bytes of one connection beyond which its model and speech are held up until \
            less than half of that is left.
            """),
    ]

    private static let timeLimits: [ServeOption] = [
        .milliseconds(
            "header-timeout-ms", \.server.headerTimeout, 100...600_000, in: .time,
            "From a connection's start, or a request's first byte, to the end of its head."),
        .milliseconds(
            "keep-alive-timeout-ms", \.server.keepAliveTimeout, 100...86_400_000, in: .time,
            "Silence after which a kept-alive HTTP connection is closed."),
        .milliseconds(
            "ping-interval-ms", \.server.pingInterval, 100...86_400_000, in: .time,
            """
            Silence after which a WebSocket client is pinged: below the 30 s at which common \
            proxies forget a connection.
            """),
        .milliseconds(
            "idle-timeout-ms", \.server.idleTimeout, 100...86_400_000, in: .time,
            "Silence, unanswered pings included, after which a WebSocket is closed."),
        .milliseconds(
            "close-timeout-ms", \.server.closeTimeout, 10...600_000, in: .time,
            "Time that a client has to finish the closing handshake or to read the last answer."),
        .integer(
            "retry-after-seconds", \.server.retryAfterSeconds, 0...86_400, unit: "seconds",
            in: .time, "What Retry-After names when the server is full."),
    ]

    private static let fairness: [ServeOption] = [
        .integer(
            "max-write-bytes-per-turn", \.server.maxWriteBytesPerTurn, 1_024...(64 << 20),
            unit: "bytes", in: .fairness,
            "Written to one connection before the others have their turn."),
        .integer(
            "read-buffer-bytes", \.server.readBufferBytes, 4_096...(64 << 20), unit: "bytes",
            in: .fairness,
            "Read from one connection before the others have their turn; one buffer per shard."),
        .integer(
            "max-messages-per-turn", \.server.maxMessagesPerTurn, 1...1_000_000,
            unit: "messages", in: .fairness,
            "WebSocket messages of one connection before the others have their turn."),
        .milliseconds(
            "max-audio-per-turn-ms", \.server.maxAudioPerTurn, 20...60_000, in: .fairness,
            "Audio of one connection before the others have their turn; a message is not cut."),
        .integer(
            "max-accepts-per-turn", \.server.maxAcceptsPerTurn, 1...65_535, unit: "connections",
            in: .fairness, "Connections accepted before the open ones have their turn."),
        .integer(
            "max-jobs-per-turn", \.server.maxJobsPerTurn, 1...1_000_000, unit: "jobs",
            in: .fairness, "Steps of agents' tasks before the connections have their turn."),
        .milliseconds(
            "accept-pause-ms", \.server.acceptPause, 1...60_000, in: .fairness,
            "Time without accepting after the process ran out of file descriptors."),
    ]

    private static let sessions: [ServeOption] = [
        .text(
            "default-model", \.server.defaultModel, allowed: "a name", in: .session,
            "The model's name in a session whose URL names none."),
        .integer(
            "max-buffered-audio-seconds", \.server.session.maxBufferedAudioSeconds, 1...3_600,
            unit: "seconds", in: .session,
            "Uncommitted audio that is kept; longer utterances are committed in pieces."),
        .integer(
            "max-awaited-transcripts", \.server.session.maxAwaitedTranscripts, 1...1_000,
            unit: "turns", in: .session, "Turns whose words are being recognised at once."),
        .integer(
            "max-conversation-items", \.server.session.maxConversationItems, 2...1_000_000,
            unit: "items", in: .session, "Items in a conversation."),
        .integer(
            "max-conversation-bytes", \.server.session.maxConversationBytes, 1_024...(1 << 30),
            unit: "bytes", in: .session, "Text of all items of a conversation."),
        .integer(
            "max-response-bytes", \.server.session.maxResponseBytes, 1_024...(1 << 30),
            unit: "bytes", in: .session,
            "Text that one response may write; it then ends incomplete."),
        .integer(
            "max-response-items", \.server.session.maxResponseItems, 1...10_000, unit: "items",
            in: .session, "Messages and function calls of one response."),
        .integer(
            "max-active-responses", \.server.session.maxActiveResponses, 1...1_000,
            unit: "responses", in: .session,
            "Responses in flight in one session: one in the conversation, others out of band."),
        .integer(
            "max-queued-speech-seconds", \.server.session.maxQueuedSpeechSeconds, 1...3_600,
            unit: "seconds", in: .session, "Synthesised speech that waits to be played."),
        .integer(
            "playout-lead-ms", \.server.session.playoutLeadMilliseconds, 100...60_000,
            unit: "milliseconds", in: .session,
            "How far reply audio is sent ahead of its playing; bridges a network's hiccup."),
    ]
}
