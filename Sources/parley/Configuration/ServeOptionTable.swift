// The one list of the options of `parley serve`. Flags, variables, the configuration file, the
// help, the example file and --print-config are all made from it, and a test holds it against
// ServerConfiguration, so that a new limit cannot be forgotten here.

import Server
import Session

/// All options, in the order in which they are shown.
enum ServeOptionTable {
    /// Every option.
    static let all: [ServeOption] =
        listening + admission + credentials + tls + logging + agents + services + limits
        + compression + timeLimits
        + fairness + sessions + codecs + text + mcp + memory

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
        .toggle(
            "debug-echo", \.server.debugEcho, in: .listening,
            """
            Whether /debug/echo is served: a WebSocket that sends every message back, for tests \
            of conformance and measurements.
            """),
    ]

    private static let admission: [ServeOption] = [
        .list(
            "allowed-hosts", \.server.allowedHosts,
            of: "hosts, ranges or *", in: .admission,
            """
            Hosts that requests may name, as voice.example.com, *.example.com, 10.0.0.5:8080 or \
            10.0.0.0/8; others are answered with 421, against pages that point their own name at \
            this machine. Without any, a server on a loopback address answers to localhost and to \
            loopback addresses, another to every name. "*", in quotes, is all.
            """),
        .list(
            "allowed-origins", \.server.allowedOrigins, of: "origins or *", in: .admission,
            """
            Origins whose pages may open a WebSocket and send requests beside those of this \
            server, as https://app.example.com or https://*.example.com; others are answered with \
            403. Not metrics, administration and client secrets, which are for this server's own \
            pages. "*", in quotes, is all: then any page that a user opens can connect.
            """),
        .list(
            "trusted-proxies", \.server.trustedProxies, of: "addresses or ranges",
            in: .admission,
            """
            Proxies, as 10.0.0.5 or 10.0.0.0/8, that are believed what they say of their clients, \
            in X-Forwarded-For, -Proto and -Host or in the PROXY protocol. From others these \
            fields count for nothing.
            """),
        .choice(
            "proxy-protocol", \.server.proxyProtocol, in: .admission,
            """
            Whether connections of trusted proxies must begin with a header of the PROXY protocol, \
            version 2, as HAProxy's send-proxy-v2 makes it.
            """),
        .list(
            "unlimited-addresses", \.server.unlimitedAddresses, of: "addresses or ranges",
            in: .admission,
            """
            Addresses that the limits below are not for. A proxy or a load test on this machine \
            speaks for many.
            """),
        .integer(
            "max-connections-per-address", \.server.maxConnectionsPerAddress, 0...10_000_000,
            unit: "connections", in: .admission,
            """
            Open connections of one IPv4 address or IPv6 /64; more are answered with 429. 0 is no \
            limit. The default is an office behind one address.
            """),
        .integer(
            "handshakes-per-second-per-address", \.server.handshakesPerSecondPerAddress,
            0...1_000_000, unit: "connections", in: .admission,
            """
            New connections of one address per second, once its burst is used up; more are \
            answered with 429. 0 is no limit.
            """),
        .integer(
            "handshake-burst-per-address", \.server.handshakeBurstPerAddress, 1...1_000_000,
            unit: "connections", in: .admission,
            "New connections of one address at once, as when all of an office come back."),
        .integer(
            "handshakes-per-second", \.server.handshakesPerSecond, 0...1_000_000,
            unit: "connections", in: .admission,
            """
            New connections of all addresses per second; more are answered with 503. 0 is no \
            limit: what a machine can take depends on its cores and on TLS.
            """),
    ]

    private static let tls: [ServeOption] = [
        .optionalText(
            "tls-cert", \.server.tlsCertificate, allowed: "a file", in: .tls,
            """
            PEM file of the certificate and, after it, its chain. With it and tls-key the port \
            speaks TLS 1.2 and 1.3 (https, wss) and nothing else. SIGHUP reads all TLS files anew.
            """),
        .optionalText(
            "tls-key", \.server.tlsKey, allowed: "a file", in: .tls,
            "PEM file of the certificate's private key, not encrypted."),
        .optionalText(
            "tls-client-ca", \.server.tlsClientCA, allowed: "a file", in: .tls,
            """
            PEM file of the authorities whose certificates clients may show. Without it clients \
            are not asked for one.
            """),
        .choice(
            "tls-client-auth", \.server.tlsClientAuthentication, in: .tls,
            "Whether a client without a certificate is served too, where tls-client-ca is given."),
        .optionalText(
            "tls-ocsp", \.server.tlsOCSP, allowed: "a file", in: .tls,
            """
            DER file of the issuer's OCSP response about the certificate, which is stapled to \
            handshakes until it expires.
            """),
        .milliseconds(
            "tls-ticket-period-ms", \.server.tlsTicketPeriod, 1_000...604_800_000, in: .tls,
            "Time for which a key seals session tickets; it opens them for as long again."),
        .integer(
            "max-tls-handshakes-per-turn", \.server.maxTLSHandshakesPerTurn, 1...65_535,
            unit: "reads", in: .tls,
            """
            Reads of unfinished handshakes before the open connections have their turn; a \
            handshake takes as long as 50 packets of audio.
            """),
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
        .integer(
            "worker-threads", \.server.workerThreads, 1...1_024, unit: "threads", in: .agents,
            "Threads for embedded speech models. One per core."),
        .integer(
            "max-queued-jobs", \.server.maxQueuedJobs, 1...1_000_000, unit: "jobs", in: .agents,
            "Jobs that wait for a worker; beyond that, one of the largest caller's fails."),
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
            "A request's body, for example a whole chat; more is answered with 413."),
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
            """
            Frames of a fragmented WebSocket message that may be of any size; more closes the \
            connection with 1008, unless they carry tiny-fragment-bytes on the average.
            """),
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
        .integer(
            "max-unsent-socket-bytes", \.server.maxUnsentSocketBytes, 4_096...(1 << 30),
            unit: "bytes", in: .limits,
            """
            What the kernel takes of one connection beyond what it has sent; the rest waits in \
            the server, where late audio can still be dropped.
            """),
        .integer(
            "max-nuisances-per-second", \.server.maxNuisancesPerSecond, 1...1_000_000,
            unit: "per second", in: .limits,
            """
            Control frames, tiny fragments, empty messages and refused events of one client in \
            the long run; more closes the connection with 1008.
            """),
        .integer(
            "max-nuisance-burst", \.server.maxNuisanceBurst, 1...1_000_000, unit: "nuisances",
            in: .limits, "How many of them a client may send at once after some quiet."),
        .integer(
            "tiny-fragment-bytes", \.server.tinyFragmentBytes, 0...65_536, unit: "bytes",
            in: .limits,
            "A fragment smaller than this, and not the last, counts as one of them; 0 for none."),
    ]

    private static let compression: [ServeOption] = [
        .toggle(
            "compression", \.server.compression, in: .compression,
            """
            Whether permessage-deflate is agreed on with clients that offer it. Audio is never \
            compressed.
            """),
        .integer(
            "compress-min-bytes", \.server.compressMinBytes, 1...(1 << 30), unit: "bytes",
            in: .compression,
            "Events from this size on are compressed by themselves; smaller ones gain little."),
        .integer(
            "context-compress-min-bytes", \.server.contextCompressMinBytes, 1...(1 << 30),
            unit: "bytes", in: .compression,
            "Events from this size on are compressed where they may refer to earlier ones."),
        .integer(
            "max-compression-context-bytes", \.server.maxCompressionContextBytes,
            0...(64 << 30), unit: "bytes", in: .compression,
            """
            Memory per shard for compression that refers to earlier messages: about 50 kB for a \
            connection, from its beginning to its end. Connections beyond it, or all if it is 0, \
            compress each message by itself and cost nothing.
            """),
        .integer(
            "max-inflation-ratio", \.server.maxInflationRatio, 1...10_000, in: .compression,
            """
            Bytes that one byte of a compressed message may stand for; more closes the \
            connection with 1009 before it is inflated. Deflate reaches 1,032.
            """),
        .integer(
            "free-inflation-bytes", \.server.freeInflationBytes, 0...(1 << 30), unit: "bytes",
            in: .compression, "What a compressed message may have whatever its ratio."),
    ]

    private static let timeLimits: [ServeOption] = [
        .milliseconds(
            "header-timeout-ms", \.server.headerTimeout, 100...600_000, in: .time,
            "From a connection's start, or a request's first byte, to the end of its head."),
        .milliseconds(
            "request-grace-ms", \.server.requestGrace, 100...600_000, in: .time,
            "From a request's first byte, the time that it may take at any pace."),
        .integer(
            "min-request-bytes-per-second", \.server.minRequestBytesPerSecond, 1...(1 << 30),
            unit: "bytes per second", in: .time,
            "What a request that takes longer must have brought on average; else 408."),
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
            "Silence, unanswered pings included, after which a WebSocket is closed with 1001."),
        .milliseconds(
            "message-grace-ms", \.server.messageGrace, 100...86_400_000, in: .time,
            "From a WebSocket message's first byte, the time that it may take at any pace."),
        .integer(
            "min-message-bytes-per-second", \.server.minMessageBytesPerSecond, 1...(1 << 30),
            unit: "bytes per second", in: .time,
            """
            What a WebSocket message that takes longer must have brought on average; else the \
            connection is closed with 1008.
            """),
        .milliseconds(
            "message-idle-timeout-ms", \.server.messageIdleTimeout, 0...86_400_000, in: .time,
            """
            Time without any message, in either direction and pings aside, after which a \
            WebSocket is closed with 1001; 0 for none.
            """),
        .milliseconds(
            "slow-reader-timeout-ms", \.server.slowReaderTimeout, 100...86_400_000, in: .time,
            """
            Time that more than soft-queued-output-bytes may wait for a client, after which it is \
            cut off.
            """),
        .milliseconds(
            "late-audio-tolerance-ms", \.server.lateAudioTolerance, 0...600_000, in: .time,
            "How late reply audio may be; what would be heard later is dropped, not sent."),
        .milliseconds(
            "unacknowledged-timeout-ms", \.server.unacknowledgedTimeout, 0...86_400_000,
            in: .time,
            """
            Time for which a client may leave data unacknowledged, or its window closed, before \
            the kernel gives it up. 0 leaves that to the kernel, some 15 minutes.
            """),
        .milliseconds(
            "close-timeout-ms", \.server.closeTimeout, 10...600_000, in: .time,
            "Time that a client has to finish the closing handshake or to read the last answer."),
        .milliseconds(
            "drain-delay-ms", \.server.drainDelay, 0...3_600_000, in: .time,
            """
            How long /readyz says 503 before the server stops listening, once it is told to end: \
            as long as the balancer in front takes to notice.
            """),
        .milliseconds(
            "drain-timeout-ms", \.server.drainTimeout, 0...3_600_000, in: .time,
            """
            Time that turns in flight then have to finish. A supervisor must grant this, the \
            delay and close-timeout-ms before it kills the process.
            """),
        .milliseconds(
            "drain-jitter-ms", \.server.drainJitter, 0...3_600_000, in: .time,
            """
            Time over which idle sessions are closed, so that their clients do not all come back \
            at once; never more than drain-timeout-ms.
            """),
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
            "Audio that a shard hears before it sees to other work; each connection has 100 ms."),
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
            "model-context-tokens", \.server.session.modelContextTokens, 1_024...100_000_000,
            unit: "tokens", in: .session,
            "What the model has room for; the oldest items beyond it are not shown to it."),
        .integer(
            "max-kept-audio-bytes", \.server.session.maxKeptAudioBytes, 0...(1 << 30),
            unit: "bytes", in: .session,
            "Audio of the user that a client can retrieve with its item."),
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
            "max-heard-audio-seconds", \.server.session.maxHeardAudioSeconds, 1...3_600,
            unit: "seconds", in: .session,
            "What a model that hears audio is given of turns without a transcript."),
        .integer(
            "playout-lead-ms", \.server.session.playoutLeadMilliseconds, 100...60_000,
            unit: "milliseconds", in: .session,
            "How far reply audio is sent ahead of its playing; bridges a network's hiccup."),
        .integer(
            "min-interruption-ms", \.server.session.minInterruptionMilliseconds, 0...10_000,
            unit: "milliseconds", in: .session,
            "How long speech over a reply must last to interrupt it; 0: at once. It is silent "
                + "meanwhile, and goes on where the speech was shorter."),
    ]
}
