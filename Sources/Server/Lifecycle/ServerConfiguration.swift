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

    // MARK: Who may connect

    /// Hosts that requests may name; more are answered with 421, against DNS rebinding. Empty: on a
    /// loopback address `localhost`, names below it and loopback addresses, elsewhere any.
    public var allowedHosts: [HostPattern] = []
    /// Origins whose pages may use the routes of applications beside those of the server itself
    /// (`PageAccess.allowedOrigins`); others are answered with 403, against cross-site WebSocket
    /// hijacking and requests that pages send unasked. Empty: none.
    public var allowedOrigins: [OriginPattern] = []
    /// Proxies whose word on their clients is taken: X-Forwarded-For, -Proto and -Host, and the
    /// PROXY protocol. Empty: everybody can write such fields.
    public var trustedProxies: [AddressRange] = []
    /// Whether trusted proxies begin their connections with a header of the PROXY protocol, version
    /// 2. Off: bytes of one are then refused as any that are no request.
    public var proxyProtocol = ProxyProtocolMode.off
    /// Addresses that the following limits are not for. Loopback: a proxy or a load test on this
    /// machine speaks for many, and whoever is here has other means.
    public var unlimitedAddresses = AddressRange.loopback
    /// Open connections of one IPv4 address or IPv6 /64; more are answered with 429. 0…; 0 is no
    /// limit. 1,000: an office behind one address fits, and takes no more than a twentieth of
    /// `maxConnections`.
    public var maxConnectionsPerAddress = 1_000
    /// New connections per second of one address, once its burst is used up; more are answered with
    /// 429. 0…; 0 is no limit. 50: with TLS some 5% of a core.
    public var handshakesPerSecondPerAddress = 50
    /// New connections of one address at once. 1,000: all that an office has, after a restart.
    public var handshakeBurstPerAddress = 1_000
    /// New connections per second of all addresses together; more are answered with 503. 0…; 0 is
    /// no limit, and the default: what a machine can take depends on its cores and on TLS, and
    /// `maxAcceptsPerTurn` already keeps the open connections served.
    public var handshakesPerSecond = 0

    // MARK: Credentials

    /// The server's own keys, separated by commas; whoever has one is the operator. Nil: none.
    public var apiKey: String?
    /// File of keys, one a line, with names and limits (APIKeys). Nil: none.
    public var apiKeysFile: String?
    /// File of the keys that tokens are signed with, a JSON Web Key Set. Nil: none.
    public var jwtKeysFile: String?
    /// Secret that tokens are signed with (HS256), at least 32 characters. Nil: none.
    public var jwtSecret: String?
    /// What a token's `aud` must hold. Nil: a token that has one is somebody else's.
    public var jwtAudience: String?
    /// What a token's `iss` must be. Nil: anything that one of the keys has signed.
    public var jwtIssuer: String?
    /// Seconds by which the clocks of those who make tokens may differ from this one. 0…600; 30:
    /// clocks that are kept by NTP differ by far less, others by minutes.
    public var jwtLeewaySeconds = 30
    /// Sessions at once of one key, or of one subject of tokens, that says nothing itself; more are
    /// answered with 429. 0…; 0 is no limit, and the default: a key is often all of a product's.
    public var maxSessionsPerKey = 0
    /// Seconds that a session may last whose credential says nothing itself. 0…604,800; 0 is no
    /// limit, and the default: a session that is idle costs next to nothing.
    public var maxSessionSeconds = 0
    /// Client secrets of all keys that have not expired. One key has at most as many as are still
    /// free, which is half of them where it is alone, and is answered with 429 beyond it.
    /// 2…1,000,000. 20,000: one key alone has 10,000, as many as sessions, and 6 MB without
    /// instructions in them.
    public var maxClientSecrets = 20_000
    /// Wrong credentials that one address may show in a minute; then it has to wait, whatever it
    /// shows. 0…; 0 is no limit. 120: one client that tries an old key again each second leaves
    /// others behind the same address in peace.
    public var authFailuresPerMinutePerAddress = 120
    /// Whether the server may listen beyond this machine although it asks nobody for credentials.
    /// False: that is nearly always a mistake, and costs whoever pays for the model.
    public var insecure = false

    // MARK: TLS

    /// PEM file of the certificate and, after it, its chain. Nil: the port speaks plain TCP.
    public var tlsCertificate: String?
    /// PEM file of the certificate's private key, not encrypted. Given with `tlsCertificate`, or
    /// not at all.
    public var tlsKey: String?
    /// PEM file of those who may have issued clients' certificates. Nil: clients are not asked.
    public var tlsClientCA: String?
    /// Whether a client must show a certificate, where `tlsClientCA` is given. Required: who
    /// names authorities wants nobody else in.
    public var tlsClientAuthentication = TLSClientAuthentication.required
    /// DER file of an OCSP response about the certificate, stapled to handshakes. Nil: none is.
    public var tlsOCSP: String?
    /// PEM file of the authorities that the certificates of model and speech services are checked
    /// against. Nil: the system's. It is read anew for new connections.
    public var serviceCA: String?
    /// How long a key seals session tickets; it opens them for as long again. 1 h: a client that
    /// comes back within it saves the handshake's signature, and a key that leaks has sealed no
    /// more than that.
    public var tlsTicketPeriod = Duration.seconds(3_600)
    /// Reads of unfinished TLS handshakes per turn; more wait for the next. 8: a handshake takes
    /// 0.3 to 1 ms, and a storm of them must not delay the 20 ms packets of the others.
    public var maxTLSHandshakesPerTurn = 8

    // MARK: HTTP and WebSocket

    /// Bytes of a request line. 8 KiB, as RFC 9112 §3 recommends.
    public var maxStartLineBytes = 8 * 1024
    /// Bytes of a request's header fields. 16 KiB, as most servers allow.
    public var maxHeaderBytes = 16 * 1024
    /// Header fields of a request. 100.
    public var maxHeaderFields = 100
    /// Bytes of a request's body. 0…; 4 MiB: a long chat with some pictures in it.
    public var maxBodyBytes = 4 << 20
    /// Bytes of a whole WebSocket message. 21 MiB: one `input_audio_buffer.append` may carry 15 MiB
    /// of audio, which are 20 MiB of base64.
    public var maxMessageBytes = 21 << 20
    /// WebSocket frames of one message that may be of any size; empty ones count. 4,096: 21 MiB
    /// in frames of 5.25 KiB. More are taken while they carry `tinyFragmentBytes` on the average.
    public var maxFramesPerMessage = 4096
    /// Time from the first byte of a request, or from the connection's start, to the end of its
    /// head. 10 s.
    public var headerTimeout = Duration.seconds(10)
    /// Time from a request's first byte that it may take at any pace. 5 s: a lost packet of a bad
    /// network is sent again within 3 s.
    public var requestGrace = Duration.seconds(5)
    /// Bytes per second that a request must have brought on average when it takes longer; 1…. 500:
    /// a telephone on 2G sends ten times that, and a peer that trickles loses its place at once. A
    /// body has no other limit in time: the largest may take 136 s.
    public var minRequestBytesPerSecond = 500
    /// Silence after which a kept-alive HTTP connection is closed. 60 s.
    public var keepAliveTimeout = Duration.seconds(60)
    /// Silence after which a WebSocket peer is pinged. 25 s: below the 30 s at which common
    /// proxies and address translators forget a connection.
    public var pingInterval = Duration.seconds(25)
    /// Silence, unanswered pings included, after which a WebSocket is closed. 75 s: three pings.
    public var idleTimeout = Duration.seconds(75)
    /// Time from the first byte of a WebSocket message that it may take at any pace. 60 s: a short
    /// message that is stuck behind a network's outage arrives, or the silence ends the connection.
    public var messageGrace = Duration.seconds(60)
    /// Bytes per second that a WebSocket message must have brought on average when it takes longer;
    /// 1…. 16 KiB (an uplink of 128 kbit/s): the largest message may take 23 minutes, and one that
    /// trickles holds its memory no longer than its bytes have paid for.
    public var minMessageBytesPerSecond = 16 << 10
    /// Time without any message, in either direction and pings aside, after which a WebSocket is
    /// closed although its peer is alive; zero for none. None: an idle session costs little more
    /// than its socket, and an assistant that waits for hours is a use, not an abuse.
    public var messageIdleTimeout = Duration.zero
    /// Time that a peer has to finish the closing handshake or to read the last answer. 5 s.
    public var closeTimeout = Duration.seconds(5)

    /// Time for which sent data may stay unacknowledged, or a client's window closed, before the
    /// kernel gives a connection up (`TCP_USER_TIMEOUT`, tcp(7)). 0 leaves it to the kernel, some
    /// 15 minutes. 30 s: longer than a phone takes from one network to the next, and less than half
    /// of `idleTimeout`, so that who vanished in the middle of a reply frees its buffers early.
    public var unacknowledgedTimeout = Duration.seconds(30)

    // MARK: The end

    /// How long `/readyz` says 503 before the server stops listening, once it is told to end.
    /// 0…1 h; 0: right for a second server on the same port, whereas behind a balancer it is as
    /// long as the balancer takes to notice.
    public var drainDelay = Duration.zero
    /// Time from then on that turns in flight have to finish; 0…1 h. 30 s: longer than a spoken
    /// reply lasts, and what supervisors commonly grant a process before they kill it.
    public var drainTimeout = Duration.seconds(30)
    /// Time over which idle sessions are closed, each at a random moment; 0…1 h, and never beyond
    /// `drainTimeout`. 5 s: ten thousand clients then come back at 2,000 a second.
    public var drainJitter = Duration.seconds(5)

    // MARK: Compression

    /// Whether permessage-deflate is agreed on with clients that offer it. True: only what gains
    /// by it is compressed, and its memory is bounded.
    public var compression = true
    /// Bytes from which on an event that stands alone is compressed. 1 KiB: from there on two
    /// thirds are saved in 25 µs, below 400 bytes a quarter in 20 µs, and small events are many.
    public var compressMinBytes = 1024
    /// Bytes from which on an event is compressed where it may refer to earlier ones. 128: a delta
    /// of a reply has 200, and shrinks to a fifth in 6 µs.
    public var contextCompressMinBytes = 128
    /// Bytes per shard for the contexts that let messages refer to earlier ones, some 50 kB for a
    /// connection from its beginning to its end; 0…, 0 for none. 4 MiB: all connections of a small
    /// server, and no weight in a large one, whose later connections do without.
    public var maxCompressionContextBytes = 4 << 20
    /// Bytes that one byte of a compressed message may stand for. 100: text stays below 20,
    /// deflate reaches 1,032.
    public var maxInflationRatio = 100
    /// Bytes that a compressed message may have whatever its ratio. 256 KiB: five seconds of
    /// digital silence, which compresses as a bomb does.
    public var freeInflationBytes = 256 << 10

    // MARK: Limits of the whole process

    /// Open connections of any kind; more are answered with 503 and closed. 20,000.
    public var maxConnections = 20_000
    /// Sessions; more upgrades are answered with 503. 10,000.
    public var maxSessions = 10_000
    /// Text requests in flight; more are answered with 503. 1…. 1,000: each holds a session and
    /// its reply, and its model's connection.
    public var maxTextTurns = 1_000
    /// Replies of chats that are kept for clients that lose their connection, complete ones
    /// included; each at most `SessionLimits.maxResponseBytes` and its framing. 0…10,000, as a full
    /// directory is searched; 0 keeps none. 256: 64 MiB if all were as long as they can be, and
    /// usually some hundred kilobytes.
    public var maxResumableReplies = 256
    /// Bytes that one connection, or one text request, may make the process hold, of whatever
    /// kind; more closes it with 1008. 0…; 0 is no limit. 64 MiB: all that the other limits allow
    /// of one kind at a time, the largest message as it comes, a full conversation with its images
    /// and a client that stalls, and then as much again.
    public var maxConnectionMemoryBytes = 64 << 20
    /// Bytes that the whole process may hold, counted by its connections' ledgers or by the
    /// kernel, whichever is more. The server's own memory and its models are part of it. Once
    /// clients hold nine tenths of the rest, new sessions are answered with 503; beyond the limit
    /// the connections that hold the most are closed with 1013, one after another. 0…; 0 is no
    /// limit. Four fifths of what its control group or the machine has: the rest is the kernel's,
    /// for its sockets. It is each process's own: several in one group need a share each.
    public var maxMemoryBytes = ServerConfiguration.memoryBudget
    /// Seconds that `Retry-After` names when the server is full. 5.
    public var retryAfterSeconds = 5
    /// Threads for embedded speech models, 1…. One per core.
    public var workerThreads = ServerConfiguration.coreCount
    /// Jobs that wait for a worker. Beyond that a job of the caller with the most jobs fails with
    /// `server_overloaded`. 1…. 64: some 25 s of work for one thread, with utterances of 10 s.
    public var maxQueuedJobs = 64

    // MARK: Output

    /// Unsent bytes of one connection; one that reads slower than that is cut off. 8 MiB: more
    /// than the longest reply's audio as base64 in the time that a client may stall.
    public var maxQueuedOutputBytes = 8 << 20
    /// Unsent bytes of one connection beyond which its agents are held up until less than half of
    /// that is left. 1 MiB: some 15 s of a reply's audio, so that only a client that stalls is ever
    /// waited for; and far enough below `maxQueuedOutputBytes` for what is on its way by then.
    public var softQueuedOutputBytes = 1 << 20
    /// Bytes of a reply over HTTP that its client has not read, from which on its model is held up.
    /// 1 KiB…. 64 KiB: some 16,000 words, so that only a client that stalls is ever waited for.
    public var maxUnreadReplyBytes = 64 << 10
    /// Time for which a chat's reply is kept, and goes on, without a client that reads it; zero
    /// stops it at once. 30 s: a page that is loaded again, or changes networks, is back by then.
    public var resumeTimeout = Duration.seconds(30)
    /// Time that more than `softQueuedOutputBytes` may wait for one connection without a break,
    /// after which it is cut off. 60 s: with its agents held up, a client that reads at all falls
    /// below the limit at once; who has not for a minute will not, and holds a megabyte.
    public var slowReaderTimeout = Duration.seconds(60)
    /// How late reply audio may be, counted from when it should have been heard; what is later is
    /// dropped before it is sent. 5 s: shorter stalls only delay a reply, after longer ones nobody
    /// waits for the middle of a sentence.
    public var lateAudioTolerance = Duration.seconds(5)
    /// Bytes that the kernel takes of one connection beyond what it has sent (TCP_NOTSENT_LOWAT);
    /// the rest waits here, where audio can still be dropped and is counted. 128 KiB: two seconds
    /// of a reply's audio as base64. By itself the kernel takes up to some megabytes.
    public var maxUnsentSocketBytes = 128 << 10
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
    /// Audio of all connections of a shard handled per turn, in whole milliseconds; what follows
    /// waits for the next turn, the rest of a long message too. Each connection has 100 ms of it in
    /// any case. 1 s: a second of audio takes some milliseconds to decode and analyse, and a few
    /// bytes of Opus can stand for 120 ms. An Opus packet is never cut.
    public var maxAudioPerTurn = Duration.seconds(1)
    /// Connections accepted per turn. 64.
    public var maxAcceptsPerTurn = 64
    /// Jobs of agents' tasks run per turn. 1024.
    public var maxJobsPerTurn = 1024
    /// Time without accepting after the process ran out of descriptors. 100 ms: no spinning, and
    /// quick to recover.
    public var acceptPause = Duration.milliseconds(100)

    // MARK: Floods

    /// Of what costs a client next to nothing, how much per second it may do in the long run; 1….
    /// Control frames, tiny fragments, empty messages, and events that are answered by an error
    /// count one each. 100: two kinds of mistake in every 20 ms packet are still borne.
    public var maxNuisancesPerSecond = 100
    /// The same, at once after some quiet; 1…. 2,000: twice the thousand empty messages that a test
    /// of conformance sends.
    public var maxNuisanceBurst = 2_000
    /// Payloads smaller than this make a fragment of a message tiny, unless it is the last; 0 for
    /// none. 32: half of what anybody of note cuts messages into.
    public var tinyFragmentBytes = 32

    // MARK: Sessions

    /// The model's name when the URL names none.
    public var defaultModel = "parley"
    /// Limits of each session.
    public var session = SessionLimits()
    /// Opus and what is kept of codecs and spoken phrases; each with its reason where it is
    /// defined.
    public var codecs = CodecSettings()

    // MARK: Diagnosis

    /// Whether `GET /debug/echo` is served: a WebSocket that sends every message back, for tests
    /// of conformance and measurements. False: it takes no place of a session.
    public var debugEcho = false

    // MARK: Logs

    /// Whether transcripts and texts may appear in logs. False.
    public var logContent = false

    /// The defaults.
    public init() {}

    /// Whether the port speaks TLS.
    public var isSecure: Bool { tlsCertificate != nil }

    /// Whether those who use the server must show a key, a client secret or a token.
    public var asksForCredentials: Bool {
        apiKey != nil || apiKeysFile != nil || jwtKeysFile != nil || jwtSecret != nil
    }

    /// Whether files say which credentials are good; a reload reads them anew.
    var hasCredentialFiles: Bool { apiKeysFile != nil || jwtKeysFile != nil }

    /// Whether nobody gets in without a certificate of his own.
    var asksForCertificates: Bool {
        tlsClientCA != nil && tlsClientAuthentication == .required
    }

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
        limits.maxFramesPerMessage = Int32(clamping: maxFramesPerMessage)
        limits.tinyFragmentBytes = Int32(clamping: tinyFragmentBytes)
        return limits
    }

    /// Limits for messages that come compressed.
    var inflationLimits: InflationLimits {
        var limits = InflationLimits()
        limits.maxMessageBytes = maxMessageBytes
        limits.maxRatio = maxInflationRatio
        limits.freeBytes = freeInflationBytes
        return limits
    }

    /// What a request that takes its time must keep.
    var requestPace: TransferPace {
        TransferPace(grace: requestGrace, bytesPerSecond: minRequestBytesPerSecond)
    }

    /// What a WebSocket message that takes its time must keep.
    var messagePace: TransferPace {
        TransferPace(grace: messageGrace, bytesPerSecond: minMessageBytesPerSecond)
    }
}
