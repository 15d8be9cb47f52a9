// Every setting and limit of the server, in one place. How they are read from options, environment
// and files is the `parley` command's business. Limits of a single session's memory are in
// Session/SessionContext.

import CLinux
import Codec
import Session

/// What a server is told at its start; it never changes while it runs.
public struct ServerConfiguration: Sendable {
    // MARK: Where

    /// Address or name to listen on. 127.0.0.1: nothing is exposed before TLS or a proxy is set up.
    public var host = "127.0.0.1"
    /// TCP port, 0…65535; 0 lets the kernel choose. 8080.
    public var port = 8080
    /// Whether another process may listen on the same port, as a restart without a gap needs.
    /// False: a second server by mistake is an error instead of a silent half of the traffic.
    public var sharesPort = false
    /// Event loops, each on its own thread; 1…1024. One per core.
    public var shards = ServerConfiguration.coreCount
    /// Connections that the kernel completes before they are accepted. 1024.
    public var listenBacklog = 1024

    // MARK: HTTP and WebSocket

    /// Bytes of a request line. 8 KiB, as RFC 9112 §3 recommends.
    public var maxStartLineBytes = 8 * 1024
    /// Bytes of a request's header fields. 16 KiB, as most servers allow.
    public var maxHeaderBytes = 16 * 1024
    /// Header fields of a request. 100.
    public var maxHeaderFields = 100
    /// Bytes of a request's body. 0…; 64 KiB, though no route takes one.
    public var maxBodyBytes = 64 * 1024
    /// Bytes of a whole WebSocket message. 21 MiB: one `input_audio_buffer.append` may carry 15 MiB
    /// of audio, which are 20 MiB of base64.
    public var maxMessageBytes = 21 << 20
    /// WebSocket frames of one message. 4,096: 21 MiB in frames of 5.25 KiB; empty frames count.
    public var maxFramesPerMessage = 4096
    /// Time from the first byte of a request, or from the connection's start, to the end of its
    /// head. 10 s.
    public var headerTimeout = Duration.seconds(10)
    /// Silence after which a kept-alive HTTP connection is closed. 60 s.
    public var keepAliveTimeout = Duration.seconds(60)
    /// Silence after which a WebSocket peer is pinged. 25 s: below the 30 s at which common
    /// proxies and address translators forget a connection.
    public var pingInterval = Duration.seconds(25)
    /// Silence, unanswered pings included, after which a WebSocket is closed. 75 s: three pings.
    public var idleTimeout = Duration.seconds(75)
    /// Time that a peer has to finish the closing handshake or to read the last answer. 5 s.
    public var closeTimeout = Duration.seconds(5)

    // MARK: Limits of the whole process

    /// Open connections of any kind; more are answered with 503 and closed. 20,000.
    public var maxConnections = 20_000
    /// Sessions; more upgrades are answered with 503. 10,000.
    public var maxSessions = 10_000
    /// Seconds that `Retry-After` names when the server is full. 5.
    public var retryAfterSeconds = 5
    /// Threads for embedded speech models, 1…. One per core.
    public var workerThreads = ServerConfiguration.coreCount
    /// Jobs that wait for a worker; more fail with `server_overloaded`. 64.
    public var maxQueuedJobs = 64

    // MARK: Output

    /// Unsent bytes of one connection; one that reads slower than that is cut off. 8 MiB: more
    /// than the longest reply's audio as base64 in the time that a client may stall.
    public var maxQueuedOutputBytes = 8 << 20
    /// Unsent bytes of one connection beyond which its agents are held up until less than half of
    /// that is left. 1 MiB: some 15 s of a reply's audio, so that only a client that stalls is ever
    /// waited for; and far enough below `maxQueuedOutputBytes` for what is on its way by then.
    public var softQueuedOutputBytes = 1 << 20
    /// Bytes written to one connection per turn of its shard, so that a fast reader of much data
    /// does not delay the others. 64 KiB.
    public var maxWriteBytesPerTurn = 64 * 1024

    // MARK: Fairness within a turn of a shard

    /// Bytes of the read buffer that a shard's connections share: the most that one of them is
    /// served per turn. 64 KiB.
    public var readBufferBytes = 64 * 1024
    /// WebSocket messages of one connection handled per turn; those behind them wait for the next
    /// turn. 64: more than a second of packets, and a client that floods delays the others by no
    /// more than that.
    public var maxMessagesPerTurn = 64
    /// Audio of one connection handled per turn, in whole milliseconds; what follows waits for the
    /// next turn. 1 s: a second of audio takes some milliseconds to decode and analyse, and a few
    /// bytes of Opus can stand for 120 ms. A single message is never cut.
    public var maxAudioPerTurn = Duration.seconds(1)
    /// Connections accepted per turn. 64.
    public var maxAcceptsPerTurn = 64
    /// Jobs of agents' tasks run per turn. 1024.
    public var maxJobsPerTurn = 1024
    /// Time without accepting after the process ran out of descriptors. 100 ms: no spinning, and
    /// quick to recover.
    public var acceptPause = Duration.milliseconds(100)

    // MARK: Sessions

    /// The model's name when the URL names none.
    public var defaultModel = "parley"
    /// Limits of each session.
    public var session = SessionLimits()

    // MARK: Logs

    /// Whether transcripts and texts may appear in logs. False.
    public var logContent = false

    /// The defaults.
    public init() {}

    /// Cores that this process may use, at least 1.
    static let coreCount = max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))

    /// Limits for the HTTP parser.
    var httpLimits: HTTPLimits {
        var limits = HTTPLimits()
        limits.maxStartLineBytes = maxStartLineBytes
        limits.maxHeaderBytes = maxHeaderBytes
        limits.maxHeaderFields = maxHeaderFields
        limits.maxBodyBytes = maxBodyBytes
        return limits
    }

    /// Limits for the WebSocket parser.
    var webSocketLimits: WebSocketLimits {
        var limits = WebSocketLimits()
        limits.maxMessageBytes = maxMessageBytes
        limits.maxFramesPerMessage = maxFramesPerMessage
        return limits
    }
}
