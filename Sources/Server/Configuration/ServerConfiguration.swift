// Every property of a server that a person can change, and below each group of properties the
// settings that change them. The text of a setting says what its property does; the comment beside
// the property gives the default, and the reason for it. SessionLimits has the settings of one
// session, CodecSettings those of Opus, ServerConfigurationRules the rules between settings.
//
// Not here: how values are read from options, environment and files; the `parley` command does that.

import CLinux
import Codec
import Session

/// The clients that must show a certificate of an authority in `tls-client-ca`.
public enum TLSClientAuthentication: String, CaseIterable, Sendable {
    /// A client without a certificate is served; one with a wrong certificate is not.
    case optional
    /// Only clients with a certificate are served.
    case required
}

/// Whether connections begin with a header of the PROXY protocol.
public enum ProxyProtocolMode: String, CaseIterable, Sendable {
    /// Never.
    case off
    /// The connections of trusted proxies must begin with one of version 2.
    case required
}

/// The configuration of a server. It never changes while the server runs.
public struct ServerConfiguration: Sendable {
    // MARK: Listening

    /// 127.0.0.1 exposes nothing before TLS or a proxy is set up.
    public var host = "127.0.0.1"
    /// 8080; 0 lets the kernel choose.
    public var port = 8080
    /// False: a second server by mistake is an error, and takes no half of the traffic.
    public var sharesPort = false
    /// One per core.
    public var shards = ServerConfiguration.coreCount
    /// 65,535: the kernel bounds it by its own limit. A client that finds the queue full comes back after a
    /// second, so a short queue makes a storm of connections slow.
    public var listenBacklog = 65_535
    /// False: the route is for tests and measurements, and no part of the service.
    public var debugEcho = false

    private static let listening: [Setting<Self>] = [
        .text(
            "host", \.host, "an address or a name",
            """
            Address or name to listen on. 127.0.0.1 exposes nothing: set up TLS or a proxy \
            before you choose another.
            """),
        .integer("port", \.port, 0...65_535, "TCP port. 0 lets the kernel choose one."),
        .toggle(
            "shares-port", \.sharesPort,
            """
            Whether another process may listen on the same port, as a restart without a gap \
            needs. By default a second server that is started by mistake is an error.
            """),
        .integer(
            "shards", \.shards, 1...1_024, unit: "threads",
            "Event loops, each on its own thread. One per core."),
        .integer(
            "listen-backlog", \.listenBacklog, 1...65_535, unit: "connections",
            """
            Connections that the kernel completes before the server accepts them. The kernel's own \
            limit (net.core.somaxconn) counts where it is lower. A client that finds the queue full \
            tries again after a second.
            """),
        .toggle(
            "debug-echo", \.debugEcho,
            """
            Whether /debug/echo is served: a WebSocket that sends every message back, for \
            tests of conformance and for measurements.
            """),
    ]

    // MARK: Telephone

    /// None: a carrier's route is there only where it is asked for.
    public var telephone: [TelephoneCarrier] = []
    /// Nil: the host of the request, which a proxy may have changed.
    public var telephoneURL: String?
    /// Nil: no path has a secret.
    public var telephoneSecret: String?
    /// Nil: Twilio's signatures are not checked.
    public var twilioAuthToken: String?
    /// Nil: Plivo's signatures are not checked.
    public var plivoAuthToken: String?

    private static let telephoneSettings: [Setting<Self>] = [
        .list(
            "telephone", \.telephone, of: "carriers",
            """
            Carriers whose calls are taken over a WebSocket, each at the path of its name: \
            twilio, signalwire, telnyx, exotel, plivo, vobiz, asterisk, conversation-relay. \
            docs/telephone.md says how to set them up.
            """),
        .optionalText(
            "telephone-url", \.telephoneURL, "a URL that begins with wss:// or https://",
            """
            URL of this server as carriers dial it, without a path, as \
            wss://voice.example.com. Their signatures are made of it. Without it the Host of \
            the request counts, which a proxy may have changed.
            """
        ) { $0.hasPrefix("wss://") || $0.hasPrefix("https://") },
        .optionalText(
            "telephone-secret", \.telephoneSecret, "a text", isSecret: true,
            """
            Secret that opens the path of a carrier with the secret behind it, as \
            /telnyx/SECRET, and nothing else: for carriers that neither sign nor send a key.
            """),
        .optionalText(
            "twilio-auth-token", \.twilioAuthToken, "a text", isSecret: true,
            """
            Auth token of the Twilio account, or the secret of the shared key with which a rule of \
            the account signs. Connections at /twilio and /conversation-relay must then have \
            Twilio's signature, or a credential of this server.
            """),
        .optionalText(
            "plivo-auth-token", \.plivoAuthToken, "a text", isSecret: true,
            """
            Auth token of the Plivo account. Connections at /plivo must then have Plivo's \
            signature, or a credential of this server.
            """),
    ]

    // MARK: Who may connect

    /// Empty: on a loopback address `localhost`, names below it and loopback addresses; elsewhere
    /// any.
    public var allowedHosts: [HostPattern] = []
    /// Beside the server's own origin, for routes with `PageAccess.allowedOrigins`. Empty: none.
    /// The rule stops cross-site WebSocket hijacking.
    public var allowedOrigins: [OriginPattern] = []
    /// Empty: any client can write the fields of a proxy.
    public var trustedProxies: [AddressRange] = []
    /// Off: such a header is refused, as all bytes that are no request.
    public var proxyProtocol = ProxyProtocolMode.off
    /// Loopback: a proxy or a load test on this machine has many clients behind one address.
    public var unlimitedAddresses = AddressRange.loopback
    /// For each IPv4 address or IPv6 /64. 1,000: the users of one office, and a twentieth of
    /// `maxConnections`.
    public var maxConnectionsPerAddress = 1_000
    /// 50: with TLS some 5% of a core.
    public var handshakesPerSecondPerAddress = 50
    /// 1,000: all clients of an office, after a restart.
    public var handshakeBurstPerAddress = 1_000
    /// No limit: `maxAcceptsPerTick` already keeps the open connections served.
    public var handshakesPerSecond = 0

    private static let admission: [Setting<Self>] = [
        .list(
            "allowed-hosts", \.allowedHosts, of: "hosts, ranges or *",
            """
            Hosts that requests may name, as voice.example.com, *.example.com, 10.0.0.5:8080 \
            or 10.0.0.0/8. Requests that name another are answered with 421: a web page could \
            otherwise point its own name at this machine (DNS rebinding). Where the list is \
            empty, a server on a loopback address answers to localhost and to loopback \
            addresses, and any other server to every name. "*", in quotes, is every name.
            """),
        .list(
            "allowed-origins", \.allowedOrigins, of: "origins or *",
            """
            Origins whose pages may open a WebSocket and send requests, beside the pages of \
            this server, as https://app.example.com or https://*.example.com. Others are \
            answered with 403. Metrics, administration and client secrets stay closed to \
            them: these are for the server's own pages. "*", in quotes, is every origin: then \
            any page that a user opens can connect.
            """),
        .list(
            "trusted-proxies", \.trustedProxies, of: "addresses or ranges",
            """
            Proxies, as 10.0.0.5 or 10.0.0.0/8, whose statements about their clients are \
            believed (X-Forwarded-For, -Proto and -Host, or the PROXY protocol). From any \
            other address these fields are ignored.
            """),
        .choice(
            "proxy-protocol", \.proxyProtocol,
            """
            Whether connections of trusted proxies must begin with a header of the PROXY \
            protocol, version 2, as HAProxy's send-proxy-v2 makes it.
            """),
        .list(
            "unlimited-addresses", \.unlimitedAddresses, of: "addresses or ranges",
            """
            Addresses that the four limits of new and open connections do not apply to. A \
            proxy or a load test on this machine has many clients behind one address.
            """),
        .integer(
            "max-connections-per-address", \.maxConnectionsPerAddress, 0...10_000_000,
            unit: "connections",
            """
            Open connections of one IPv4 address or IPv6 /64; more are answered with 429. 0 \
            is no limit. The default fits an office behind one address.
            """),
        .integer(
            "handshakes-per-second-per-address", \.handshakesPerSecondPerAddress,
            0...1_000_000, unit: "connections",
            """
            New connections of one address per second, once its burst is used up; more are \
            answered with 429. 0 is no limit.
            """),
        .integer(
            "handshake-burst-per-address", \.handshakeBurstPerAddress, 1...1_000_000,
            unit: "connections",
            "New connections of one address at once, as when an office reconnects."),
        .integer(
            "handshakes-per-second", \.handshakesPerSecond, 0...1_000_000,
            unit: "connections",
            """
            New connections of all addresses per second; more are answered with 503. 0 is no \
            limit: what a machine can take depends on its cores and on TLS.
            """),
    ]

    // MARK: Credentials

    /// Separated by commas; each is an operator's key. Nil: none.
    public var apiKey: String?
    /// `APIKeys` has the format. Nil: none.
    public var apiKeysFile: String?
    /// False: a server without credentials that others can reach is nearly always a mistake, and
    /// its owner pays for the model.
    public var insecure = false
    /// A JSON Web Key Set. Nil: none.
    public var jwtKeysFile: String?
    /// At least `JSONWebKey.minSecretBytes`. Nil: none.
    public var jwtSecret: String?
    /// Nil: a token with `aud` is for another server.
    public var jwtAudience: String?
    /// Nil: any issuer whose key is known.
    public var jwtIssuer: String?
    /// 30: clocks that NTP keeps differ by far less, others by minutes.
    public var jwtLeewaySeconds = 30
    /// No limit: one key often serves a whole product.
    public var maxSessionsPerKey = 0
    /// No limit: an idle session costs next to nothing.
    public var maxSessionSeconds = 0
    /// Quotas of each key, and of each subject of tokens, that has no such quota of its own. None by default.
    public var quotasPerKey: [Quota] = []
    /// Quotas that the clients of one address share. None by default: many people may share an address.
    public var quotasPerAddress: [Quota] = []
    /// Quotas of each session. None by default.
    public var quotasPerSession: [Quota] = []
    /// 20,000: one key alone has half of them, as many as there are sessions. They take 6 MB where
    /// they have no instructions.
    public var maxClientSecrets = 20_000
    /// 120: a client that retries an old key each second does not block others behind its address.
    public var authFailuresPerMinutePerAddress = 120

    private static let credentials: [Setting<Self>] = [
        .optionalText(
            "api-key", \.apiKey, "keys, with commas between", isSecret: true,
            """
            Key of the server, or several. Clients must then show one (Authorization: Bearer), \
            or a client secret made with one. The key also opens /metrics. Prefer the \
            variable: flags are visible to every user of the machine.
            """),
        .optionalText(
            "api-keys-file", \.apiKeysFile, "a file",
            """
            File of keys, one a line. A key may be followed by name=TEXT, max-sessions=N, \
            max-session-seconds=N, models=A,B, quotas=turns=20/minute,…, \
            recording=none|asked|all and operator, which opens /metrics. SIGHUP reads the file \
            again.
            """),
        .toggle(
            "insecure", \.insecure,
            """
            Whether the server may listen beyond this machine without asking for credentials. \
            By default such a start is refused.
            """),
        .optionalText(
            "jwt-keys-file", \.jwtKeysFile, "a file",
            """
            JSON Web Key Set (RFC 7517) of the issuers of tokens (RFC 7519): RSA (RS256), EC \
            on P-256 (ES256), oct (HS256). Clients may then show a token, which must have \
            exp. SIGHUP reads the file again.
            """),
        .optionalText(
            "jwt-secret", \.jwtSecret, "a text", isSecret: true,
            "Secret of at least 32 characters that tokens may be signed with (HS256)."),
        .optionalText(
            "jwt-audience", \.jwtAudience, "a text",
            "Audience that aud of a token must hold. Without it, a token with aud is refused."),
        .optionalText(
            "jwt-issuer", \.jwtIssuer, "a text",
            "Issuer that iss of a token must be. Without it, any issuer whose key is known."),
        .integer(
            "jwt-leeway-seconds", \.jwtLeewaySeconds, 0...600, unit: "seconds",
            "By how much the clocks of token issuers may differ from this machine's."),
        .integer(
            "max-sessions-per-key", \.maxSessionsPerKey, 0...10_000_000, unit: "sessions",
            """
            Sessions at once of one key, or one subject of tokens, that names no limit \
            itself; more are answered with 429. 0 is no limit: one key often serves a whole \
            product.
            """),
        .integer(
            "max-session-seconds", \.maxSessionSeconds, 0...604_800, unit: "seconds",
            """
            How long a session may last whose credential names no limit itself. Then an error \
            event and close code 1001 end it. 0 is no limit.
            """),
        .list(
            "quotas-per-key", \.quotasPerKey, of: Quota.form,
            """
            What all sessions of one key, or one subject of tokens, may use together; a key's \
            own quotas come before these. A quota fills up continuously: of turns=60/minute, \
            60 may be used at once, and then one each second. Beyond it, connections are \
            answered with 429, events with an error, and responses fail.
            """),
        .list(
            "quotas-per-address", \.quotasPerAddress, of: Quota.form,
            """
            What all sessions of one address may use together, an IPv6 one with its /64. \
            Addresses of unlimited-addresses have no such quota.
            """),
        .list(
            "quotas-per-session", \.quotasPerSession, of: Quota.form,
            "What one session may use."),
        .integer(
            "max-client-secrets", \.maxClientSecrets, 2...1_000_000, unit: "secrets",
            """
            Client secrets of all keys that have not expired. One key (one address, where no \
            credentials are asked for) may have as many as are still free: half of them where \
            it is alone. More are answered with 429.
            """),
        .integer(
            "auth-failures-per-minute-per-address", \.authFailuresPerMinutePerAddress,
            0...1_000_000, unit: "attempts",
            """
            Wrong credentials that one address may show in a minute; then it is answered with \
            429, whatever it shows. 0 is no limit.
            """),
    ]

    // MARK: TLS

    /// Nil: the port speaks plain TCP.
    public var tlsCertificate: String?
    /// Given with `tlsCertificate`, or not at all.
    public var tlsKey: String?
    /// Nil: clients are not asked for a certificate.
    public var tlsClientCA: String?
    /// Required: an operator who names authorities wants no other clients.
    public var tlsClientAuthentication = TLSClientAuthentication.required
    /// Nil: no response is stapled.
    public var tlsOCSP: String?
    /// 1 h: a client that reconnects within it saves the handshake's signature. A key that leaks
    /// has sealed no more than that.
    public var tlsTicketPeriod = Duration.seconds(3_600)
    /// 8: a handshake takes 0.3 to 1 ms, and a storm of them must not delay the 20 ms packets of
    /// other clients.
    public var maxTLSHandshakesPerTick = 8

    private static let tls: [Setting<Self>] = [
        .optionalText(
            "tls-cert", \.tlsCertificate, "a file",
            """
            PEM file of the certificate and, after it, its chain. With it and tls-key the \
            port speaks TLS 1.2 and 1.3 (https, wss) and nothing else. SIGHUP reads all TLS \
            files again.
            """),
        .optionalText(
            "tls-key", \.tlsKey, "a file",
            "PEM file of the certificate's private key, not encrypted."),
        .optionalText(
            "tls-client-ca", \.tlsClientCA, "a file",
            """
            PEM file of the authorities whose certificates clients may show. Without it \
            clients are not asked for one.
            """),
        .choice(
            "tls-client-auth", \.tlsClientAuthentication,
            """
            Whether a client without a certificate is served too, where tls-client-ca is \
            given.
            """),
        .optionalText(
            "tls-ocsp", \.tlsOCSP, "a file",
            """
            DER file of the issuer's OCSP response about the certificate. It is stapled to \
            handshakes until it expires.
            """),
        .milliseconds(
            "tls-ticket-period-ms", \.tlsTicketPeriod, 1_000...604_800_000,
            "Time for which a key seals session tickets; it opens them for as long again."),
        .integer(
            "max-tls-handshakes-per-tick", \.maxTLSHandshakesPerTick, 1...65_535,
            unit: "reads",
            """
            Reads of unfinished handshakes before the open connections are served; a \
            handshake takes as long as 50 packets of audio.
            """),
    ]

    // MARK: Logs

    /// False: logs have neither transcripts nor texts.
    public var logContent = false
    /// True: who tries the server at its own machine need not look for the log.
    public var explainsFailures = true

    private static let logging: [Setting<Self>] = [
        .toggle(
            "log-content", \.logContent,
            "Whether transcripts and texts of conversations may appear in logs."),
        .toggle(
            "explain-failures", \.explainsFailures,
            """
            Whether a client on this machine that may open the pages of operators is told why a service \
            has failed, as the log is. Switch it off behind a proxy of this machine that adds no field \
            such as X-Forwarded-For.
            """),
    ]

    // MARK: Agents

    /// One per core.
    public var workerThreads = ServerConfiguration.coreCount
    /// 64 for each core: some 25 s of work for a thread, with utterances of 10 s. So all callers of a
    /// machine may stop speaking at once, and their turns wait instead of failing.
    public var maxQueuedJobs = 64 * ServerConfiguration.coreCount
    /// False, also where the page is served: a server that hears no client stays below 20 MB. The page
    /// names its audio when it opens, which loads the model before the first sentence is over. `make run`
    /// sets it, so that there is nothing to wait for at all.
    public var warmsModels = false
    /// Nil: the system's authorities. New connections read the file again.
    public var serviceCA: String?

    private static let agents: [Setting<Self>] = [
        .integer(
            "worker-threads", \.workerThreads, 1...1_024, unit: "threads",
            "Threads for embedded speech models. One per core."),
        .integer(
            "max-queued-jobs", \.maxQueuedJobs, 1...1_000_000, unit: "jobs",
            """
            Jobs that wait for a worker thread; 64 for each core. Beyond that, a job of the \
            session with the most jobs fails.
            """),
        .toggle(
            "warm-models", \.warmsModels,
            """
            Whether the embedded speech models are loaded as soon as the server listens: some \
            220 MB. By default they are loaded when the first client names its audio in \
            `session.update` or sends some, which takes a second or more.
            """),
    ]

    /// The variables decide, as for other programs of the machine.
    public var serviceProxy = ServiceProxy.environment
    /// Nil: made of host and port.
    public var nodeURL: String?
    /// `memory`: a server alone needs nothing else.
    public var store = "memory"
    /// 32 MiB: a thousand conversations of an hour.
    public var maxSavedSessionBytes = 32 << 20

    private static let services: [Setting<Self>] = [
        .optionalText(
            "service-ca", \.serviceCA, "a file",
            """
            PEM file of the authorities that the certificates of model and speech servers are \
            checked against, instead of the system's.
            """),
        .value(
            "service-proxy", \.serviceProxy,
            "environment, none, or a URL that begins with http://, https://, socks5:// or socks5h://",
            isSecret: true,
            """
            Proxy for requests to models, speech and MCP servers, webhooks and uploads: the one that \
            the variables http_proxy, https_proxy or all_proxy name, none, or this one. Hosts of the \
            variable no_proxy are reached without it. Requests between nodes, Redis and PostgreSQL \
            use no proxy. The log of the start has what is in force.
            """),
        .text(
            "store", \.store, "memory, or a URL as redis://host:6379/0", isSecret: true,
            """
            Where sessions are kept that may go on elsewhere: memory, or a Redis or Valkey \
            server, redis[s]://[user:password@]host[:6379][/database], which several servers \
            share. A server that is away is never felt in a session. Prefer the variable where \
            the URL has a password.
            """, isAllowed: { $0 == "memory" || RedisAddress($0) != nil }),
        .optionalText(
            "node-url", \.nodeURL, "a URL as http://10.0.0.5:8080",
            """
            Where other servers that share the store reach this one, to pass on requests for its \
            sessions. By default the address that it listens on; with 0.0.0.0 or :: there is none, \
            and its sessions are not found from elsewhere.
            """, isAllowed: { ServerConfiguration.isNodeURL($0) }),
        .integer(
            "max-saved-session-bytes", \.maxSavedSessionBytes, 0...(64 << 30), unit: "bytes",
            """
            Memory for the last states of sessions that have ended without their client's \
            wish, where store is memory; the oldest go first. 0 keeps none.
            """),
    ]

    // MARK: Limits of the whole process

    /// 20,000, or fewer where `RLIMIT_NOFILE` allows fewer.
    public var maxConnections = ServerConfiguration.standardConnections
    /// 10,000.
    public var maxSessions = 10_000
    /// 1,000: each has a session, its reply, and its model's connection.
    public var maxTextRequests = 1_000
    /// 256: 64 MiB if each is as long as `SessionLimits.maxResponseBytes`, usually some hundred
    /// kilobytes. At most 10,000, because a full directory is searched.
    public var maxResumableReplies = 256
    /// 64 MiB: more than the largest message (21 MiB), a full conversation with its images (9) and
    /// the output of a client that stalls (8) together.
    public var maxConnectionMemoryBytes = 64 << 20
    /// Four fifths of what the control group or the machine has: the kernel needs the rest for its
    /// sockets. Each process counts alone: several in one group need a share each.
    public var maxMemoryBytes = ServerConfiguration.memoryBudget
    /// 5.
    public var retryAfterSeconds = 5

    private static let processLimits: [Setting<Self>] = [
        .integer(
            "max-connections", \.maxConnections, 1...10_000_000, unit: "connections",
            """
            Open connections of any kind; more are answered with 503 and closed. The default \
            is 20000, or fewer where the process may not open so many files (ulimit -n).
            """),
        .integer(
            "max-sessions", \.maxSessions, 1...10_000_000, unit: "sessions",
            "Sessions; more are answered with 503."),
        .integer(
            "max-text-turns", \.maxTextRequests, 1...10_000_000, unit: "requests",
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
        .integer(
            "max-connection-memory-bytes", \.maxConnectionMemoryBytes, 0...((4 << 30) - 1),
            unit: "bytes",
            """
            Memory that the server may hold for one connection or one text request over HTTP; \
            more closes it with 1008. 0 is no limit. The default is above all that the \
            other limits allow.
            """),
        .integer(
            "max-memory-bytes", \.maxMemoryBytes, 0...(65_536 << 30), unit: "bytes",
            """
            Memory of the whole process, by its own count or the kernel's, whichever is more. \
            The server's own memory and its models are part of it. Once clients hold \
            nine tenths of the rest, new sessions are answered with 503; beyond the limit the \
            connections that hold the most are closed with 1013. 0 is no limit. The default \
            is four fifths of what the control group or the machine has.
            """),
    ]

    // MARK: Limits of HTTP requests

    /// 8 KiB, as RFC 9112 §3 recommends.
    public var maxStartLineBytes = 8 * 1024
    /// 16 KiB, as most servers allow.
    public var maxHeaderBytes = 16 * 1024
    /// 100.
    public var maxHeaderFields = 100
    /// 4 MiB: a long chat with some pictures in it.
    public var maxBodyBytes = 4 << 20
    /// 10 s.
    public var headerTimeout = Duration.seconds(10)
    /// 5 s: a packet that a bad network loses is sent again within 3 s.
    public var requestGrace = Duration.seconds(5)
    /// 500: a telephone on 2G sends ten times that. A body has no other limit in time: the largest
    /// may take 136 s.
    public var minRequestBytesPerSecond = 500
    /// 75 s: longer than balancers keep their own idle connections (60 s of AWS's ALB and of
    /// nginx's upstreams). Of two equal times the server's may end first, while a request is on its
    /// way.
    public var keepAliveTimeout = Duration.seconds(75)

    private static let requestLimits: [Setting<Self>] = [
        .integer(
            "max-start-line-bytes", \.maxStartLineBytes, 256...(1 << 20), unit: "bytes",
            "A request's first line; more is answered with 414."),
        .integer(
            "max-header-bytes", \.maxHeaderBytes, 1_024...(1 << 20), unit: "bytes",
            "A request's header fields; more is answered with 431."),
        .integer(
            "max-header-fields", \.maxHeaderFields, 8...10_000, unit: "fields",
            "Number of header fields of a request; more is answered with 431."),
        .integer(
            "max-body-bytes", \.maxBodyBytes, 0...(1 << 30), unit: "bytes",
            "A request's body, for example a whole chat; more is answered with 413."),
    ]

    private static let requestTimes: [Setting<Self>] = [
        .milliseconds(
            "header-timeout-ms", \.headerTimeout, 100...600_000,
            "From a connection's start, or a request's first byte, to the end of its head."),
        .milliseconds(
            "request-grace-ms", \.requestGrace, 100...600_000,
            "Time from a request's first byte in which it may be sent at any pace."),
        .integer(
            "min-request-bytes-per-second", \.minRequestBytesPerSecond, 1...(1 << 30),
            unit: "bytes per second",
            """
            Average pace that a request must keep once it takes longer than request-grace-ms. \
            A slower one is answered with 408.
            """),
        .milliseconds(
            "keep-alive-timeout-ms", \.keepAliveTimeout, 100...86_400_000,
            """
            Silence after which a kept-alive HTTP connection is closed. Longer than a balancer in \
            front keeps its idle connections (60 s of AWS's ALB and of nginx), so that the \
            balancer closes first and sends no request on a connection that is closing.
            """),
    ]

    // MARK: Limits of WebSocket messages

    /// 21 MiB: one `input_audio_buffer.append` may carry 15 MiB of audio, which are 20 MiB of
    /// base64.
    public var maxMessageBytes = 21 << 20
    /// 4,096: 21 MiB in frames of 5.25 KiB. Empty frames count.
    public var maxFramesPerMessage = 4096
    /// 32: half of the smallest fragments that common clients send.
    public var tinyFragmentBytes = 32
    /// 100: two kinds of mistake in every 20 ms packet are still accepted.
    public var maxNuisancesPerSecond = 100
    /// 2,000: twice the thousand empty messages that a test of conformance sends.
    public var maxNuisanceBurst = 2_000
    /// 50, with 100 at once: far more than people and their applications ask for, and a few per cent of a
    /// shard.
    public var maxTurnsPerSecond = 50
    /// 25 s: below the 30 s at which common proxies and address translators forget a connection.
    public var pingInterval = Duration.seconds(25)
    /// 75 s: three pings.
    public var idleTimeout = Duration.seconds(75)
    /// 60 s: a short message that a network's outage delays arrives, or the silence ends the
    /// connection.
    public var messageGrace = Duration.seconds(60)
    /// 16 KiB, an uplink of 128 kbit/s: the largest message may take 23 minutes.
    public var minMessageBytesPerSecond = 16 << 10
    /// None: an idle session costs little more than its socket, and an assistant may wait for
    /// hours.
    public var messageIdleTimeout = Duration.zero
    /// 5 s.
    public var closeTimeout = Duration.seconds(5)

    private static let messageLimits: [Setting<Self>] = [
        .integer(
            "max-message-bytes", \.maxMessageBytes, 1_024...(1 << 30), unit: "bytes",
            """
            A whole WebSocket message; more closes the connection with 1009. The protocol \
            allows 15 MiB of audio in one event.
            """),
        .integer(
            "max-frames-per-message", \.maxFramesPerMessage, 1...1_000_000, unit: "frames",
            """
            Frames of a fragmented WebSocket message that may be of any size. More closes the \
            connection with 1008, unless the frames carry tiny-fragment-bytes on average.
            """),
        .integer(
            "max-nuisances-per-second", \.maxNuisancesPerSecond, 1...1_000_000,
            unit: "per second",
            """
            Control frames, tiny fragments, empty messages and refused events of one client \
            per second in the long run; more closes the connection with 1008.
            """),
        .integer(
            "max-nuisance-burst", \.maxNuisanceBurst, 1...1_000_000, unit: "nuisances",
            "How many of these a client may send at once after some quiet."),
        .integer(
            "max-turns-per-second", \.maxTurnsPerSecond, 0...10_000, unit: "per second",
            """
            Turns that one connection may begin per second in the long run, and twice as many at once. \
            Other events count as a part of a turn: an item as 1/64. Above that the connection is read \
            no faster, and after ten seconds closed with 1008. 0 is no limit.
            """),
        .integer(
            "tiny-fragment-bytes", \.tinyFragmentBytes, 0...65_536, unit: "bytes",
            "A fragment smaller than this, and not the last, counts as tiny; 0 for none."),
    ]

    private static let messageTimes: [Setting<Self>] = [
        .milliseconds(
            "ping-interval-ms", \.pingInterval, 100...86_400_000,
            """
            Silence after which a WebSocket client is pinged. The default is below the 30 s \
            at which common proxies forget a connection.
            """),
        .milliseconds(
            "idle-timeout-ms", \.idleTimeout, 100...86_400_000,
            "Silence, unanswered pings included, after which a WebSocket is closed with 1001."),
        .milliseconds(
            "message-grace-ms", \.messageGrace, 100...86_400_000,
            "Time from a WebSocket message's first byte in which it may be sent at any pace."),
        .integer(
            "min-message-bytes-per-second", \.minMessageBytesPerSecond, 1...(1 << 30),
            unit: "bytes per second",
            """
            Average pace that a WebSocket message must keep once it takes longer than \
            message-grace-ms. For a slower one the connection is closed with 1008.
            """),
        .milliseconds(
            "message-idle-timeout-ms", \.messageIdleTimeout, 0...86_400_000,
            """
            Time without any message, in either direction and pings aside, after which a \
            WebSocket is closed with 1001; 0 for none.
            """),
    ]

    // MARK: Output

    /// 8 MiB: more than the longest reply's audio as base64 in the time that a client may stall.
    public var maxQueuedOutputBytes = 8 << 20
    /// 1 MiB: some 15 s of a reply's audio, so that only a client that stalls pauses its agents. It
    /// leaves room below `maxQueuedOutputBytes` for what they have already begun.
    public var softQueuedOutputBytes = 1 << 20
    /// 64 KiB: some 16,000 words, so that only a client that stalls pauses its model.
    public var maxUnreadReplyBytes = 64 << 10
    /// 30 s: a page that is loaded again, or changes networks, is back by then.
    public var resumeTimeout = Duration.seconds(30)
    /// 60 s: with its model and speech paused, a client that reads at all falls below the limit at
    /// once.
    public var slowReaderTimeout = Duration.seconds(60)
    /// Counted from when the audio should have been heard. 5 s: shorter stalls only delay a reply.
    /// After longer ones the user no longer expects the middle of a sentence.
    public var lateAudioTolerance = Duration.seconds(5)
    /// `TCP_NOTSENT_LOWAT`. 128 KiB: two seconds of a reply's audio as base64. Without it the
    /// kernel buffers some megabytes.
    public var maxUnsentSocketBytes = 128 << 10
    /// `TCP_USER_TIMEOUT`, tcp(7). 30 s: longer than a phone takes from one network to the next,
    /// and less than half of `idleTimeout`.
    public var unacknowledgedTimeout = Duration.seconds(30)

    /// 4: a tool server, a supervisor, a recorder, and one that takes over from another.
    public var maxSidebandsPerSession = 4
    /// 4 MiB: a minute of a reply's audio as base64, and any event but one with large images.
    public var maxSidebandQueuedBytes = 4 << 20

    /// 120 s, as Socket.IO and Ably have it: a tunnel, a lift, a laptop that is closed and opened.
    public var resumeWindow = Duration.seconds(120)
    /// 10,000: all sessions of a node whose network is away. An idle one takes about a kilobyte.
    public var maxDetachedSessions = 10_000
    /// 256 KiB: a thousand deltas of text, several times the longest reply.
    public var maxResumeBytes = 256 << 10

    private static let resumeLimits: [Setting<Self>] = [
        .milliseconds(
            "resume-window-ms", \.resumeWindow, 0...86_400_000,
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
            "max-resume-bytes", \.maxResumeBytes, 4_096...(1 << 30), unit: "bytes",
            """
            Events of one session that are kept for a client that may have missed them; beyond \
            that the oldest are forgotten.
            """),
    ]

    private static let sidebandLimits: [Setting<Self>] = [
        .integer(
            "max-sidebands-per-session", \.maxSidebandsPerSession, 0...64, unit: "connections",
            "Connections that may join one session by its id; 0: none may."),
        .integer(
            "max-sideband-queued-bytes", \.maxSidebandQueuedBytes, (64 << 10)...(1 << 30),
            unit: "bytes",
            """
            Events that may wait for one sideband, or of one; more closes it with 1013, and the \
            session goes on. For one wait no more than max-queued-output-bytes.
            """),
    ]

    private static let outputLimits: [Setting<Self>] = [
        .integer(
            "max-queued-output-bytes", \.maxQueuedOutputBytes, (64 << 10)...(1 << 30),
            unit: "bytes",
            """
            Unsent bytes of one connection; a client that reads more slowly is disconnected. \
            At least twice max-write-bytes-per-tick.
            """),
        .integer(
            "soft-queued-output-bytes", \.softQueuedOutputBytes, 4_096...(1 << 30),
            unit: "bytes",
            """
            Unsent bytes of one connection beyond which its model and speech are paused until \
            less than half of that is left.
            """),
        .integer(
            "max-unread-reply-bytes", \.maxUnreadReplyBytes, 1_024...(1 << 30),
            unit: "bytes",
            "Unread part of a reply over HTTP beyond which its model is paused."),
        .integer(
            "max-unsent-socket-bytes", \.maxUnsentSocketBytes, 4_096...(1 << 30),
            unit: "bytes",
            """
            Output of one connection that the kernel takes before it can send it. The rest waits \
            in the server, where late audio can still be dropped.
            """),
    ]

    private static let outputTimes: [Setting<Self>] = [
        .milliseconds(
            "slow-reader-timeout-ms", \.slowReaderTimeout, 100...86_400_000,
            """
            Time that more than soft-queued-output-bytes may wait for a client; then it is \
            disconnected.
            """),
        .milliseconds(
            "late-audio-tolerance-ms", \.lateAudioTolerance, 0...600_000,
            "How late reply audio may be. Audio that would be heard later is dropped."),
        .milliseconds(
            "unacknowledged-timeout-ms", \.unacknowledgedTimeout, 0...86_400_000,
            """
            Time for which a client may leave data unacknowledged, or its window closed, \
            before the kernel ends the connection. 0 leaves that to the kernel, some 15 \
            minutes.
            """),
        .milliseconds(
            "resume-timeout-ms", \.resumeTimeout, 0...3_600_000,
            """
            How long a reply of /api/chat is kept, and goes on, while no client reads it; 0 \
            stops it at once.
            """),
    ]

    // MARK: The end

    /// 0 is right for a second server on the same port; behind a balancer it must be longer.
    public var drainDelay = Duration.zero
    /// 30 s: longer than a spoken reply lasts, and what supervisors commonly grant a process before
    /// they kill it.
    public var drainTimeout = Duration.seconds(30)
    /// 5 s: ten thousand clients then reconnect at 2,000 a second.
    public var drainJitter = Duration.seconds(5)

    private static let ending: [Setting<Self>] = [
        .milliseconds(
            "close-timeout-ms", \.closeTimeout, 10...600_000,
            "Time that a client has to finish the closing handshake or to read the last answer."),
        .milliseconds(
            "drain-delay-ms", \.drainDelay, 0...3_600_000,
            """
            How long /readyz answers 503 before a draining server stops listening: as long as \
            the balancer in front takes to notice.
            """),
        .milliseconds(
            "drain-timeout-ms", \.drainTimeout, 0...3_600_000,
            """
            Time that turns in flight then have to finish. A supervisor must wait for the \
            delay, this time and close-timeout-ms before it kills the process.
            """),
        .milliseconds(
            "drain-jitter-ms", \.drainJitter, 0...3_600_000,
            """
            Time over which idle sessions are closed, so that their clients do not all \
            reconnect at once; never more than drain-timeout-ms.
            """),
        .integer(
            "retry-after-seconds", \.retryAfterSeconds, 0...86_400, unit: "seconds",
            "Time that Retry-After names when the server is full."),
    ]

    // MARK: Compression

    /// True: only text is compressed, and the memory for it is bounded.
    public var compression = true
    /// 1 KiB: from there on two thirds are saved in 25 µs, below 400 bytes a quarter in 20 µs.
    public var compressMinBytes = 1024
    /// 128: a delta of a reply has 200, and shrinks to a fifth in 6 µs.
    public var contextCompressMinBytes = 128
    /// 4 MiB: all connections of a small server, and the first ones of a large server.
    public var maxCompressionContextBytes = 4 << 20
    /// 100: text stays below 20.
    public var maxInflationRatio = 100
    /// 256 KiB: five seconds of digital silence, which compresses as a bomb does.
    public var freeInflationBytes = 256 << 10

    private static let compressionSettings: [Setting<Self>] = [
        .toggle(
            "compression", \.compression,
            """
            Whether permessage-deflate is agreed on with clients that offer it. Audio is \
            never compressed.
            """),
        .integer(
            "compress-min-bytes", \.compressMinBytes, 1...(1 << 30), unit: "bytes",
            "Events from this size on are compressed by themselves; smaller ones gain little."),
        .integer(
            "context-compress-min-bytes", \.contextCompressMinBytes, 1...(1 << 30),
            unit: "bytes",
            "Events from this size on are compressed where they may refer to earlier ones."),
        .integer(
            "max-compression-context-bytes", \.maxCompressionContextBytes, 0...(64 << 30),
            unit: "bytes",
            """
            Memory per shard for compression that refers to earlier messages: about 50 kB for \
            a connection, from its beginning to its end. Connections beyond it, or all if it \
            is 0, compress each message by itself, which needs no memory between messages.
            """),
        .integer(
            "max-inflation-ratio", \.maxInflationRatio, 1...10_000,
            """
            Bytes that one byte of a compressed message may stand for; more closes the \
            connection with 1009 before the message is inflated. Deflate reaches 1,032.
            """),
        .integer(
            "free-inflation-bytes", \.freeInflationBytes, 0...(1 << 30), unit: "bytes",
            "Size up to which a compressed message may have any ratio."),
    ]

    // MARK: Fairness within a tick of the event loop

    /// 64 KiB.
    public var maxWriteBytesPerTick = 64 * 1024
    /// 64 KiB.
    public var readBufferBytes = 64 * 1024
    /// 64: more than a second of packets. A client that floods delays the others by no more than
    /// that.
    public var maxMessagesPerTick = 64
    /// In whole milliseconds; an Opus packet is never cut. 1 s: it takes some milliseconds to
    /// decode and analyse, and a few bytes of Opus can stand for 120 ms.
    public var maxAudioPerTick = Duration.seconds(1)
    /// 64.
    public var maxAcceptsPerTick = 64
    /// 1,024.
    public var maxJobsPerTick = 1024
    /// 100 ms: no spinning, and quick to recover.
    public var acceptPause = Duration.milliseconds(100)

    private static let fairness: [Setting<Self>] = [
        .integer(
            "max-write-bytes-per-tick", \.maxWriteBytesPerTick, 1_024...(64 << 20),
            unit: "bytes", "Bytes written to one connection before the others are served."),
        .integer(
            "read-buffer-bytes", \.readBufferBytes, 4_096...(64 << 20), unit: "bytes",
            "Bytes read from one connection before the others are served; one buffer per shard."),
        .integer(
            "max-messages-per-tick", \.maxMessagesPerTick, 1...1_000_000, unit: "messages",
            "WebSocket messages of one connection handled before the others are served."),
        .milliseconds(
            "max-audio-per-tick-ms", \.maxAudioPerTick, 20...60_000,
            """
            Audio that a shard decodes before it does its other work; each connection has \
            100 ms of it in any case.
            """),
        .integer(
            "max-accepts-per-tick", \.maxAcceptsPerTick, 1...65_535, unit: "connections",
            "Connections accepted before the open ones are served."),
        .integer(
            "max-jobs-per-tick", \.maxJobsPerTick, 1...1_000_000, unit: "jobs",
            "Steps of agents' tasks that run before the connections are served."),
        .milliseconds(
            "accept-pause-ms", \.acceptPause, 1...60_000,
            "Time without accepting after the process ran out of file descriptors."),
    ]

    // MARK: Sessions

    /// `parley`.
    public var defaultModel = "parley"
    /// Limits of each session.
    public var session = SessionLimits()
    /// Opus, codecs kept for reuse, and spoken phrases kept for reuse.
    public var codecs = CodecSettings()

    /// True, as at OpenAI: a field that is misspelt, or of the beta, would otherwise count for nothing in
    /// silence.
    public var refusesUnknownFields = true
    /// None: not each sound without words is a turn.
    public var notUnderstoodPhrase = Phrase.none
    /// A caller who hears nothing thinks that the line is dead, so the default speaks an apology.
    public var apologyPhrase =
        Phrase(
            """
            I'm sorry, I can't answer that just now. Please try again in a moment.\
            |de: Entschuldigung, das kann ich gerade nicht beantworten. Bitte versuchen Sie es gleich noch \
            einmal.\
            |es: Lo siento, ahora mismo no puedo responder. Inténtelo de nuevo en un momento.\
            |fr: Désolé, je ne peux pas répondre pour l'instant. Réessayez dans un instant.\
            |it: Mi dispiace, in questo momento non posso rispondere. Riprovi tra un attimo.\
            |nl: Sorry, ik kan nu even niet antwoorden. Probeer het zo nog eens.\
            |pt: Desculpe, não consigo responder agora. Tente novamente daqui a pouco.
            """) ?? .none

    private static let phrases =
        "texts of at most \(Phrase.maxBytes) bytes, with | between, each after its language and a colon"

    private static let sessions: [Setting<Self>] = [
        .text(
            "default-model", \.defaultModel, "a name",
            "The model's name in a session whose URL names none."),
        .toggle(
            "refuse-unknown-fields", \.refusesUnknownFields,
            """
            Whether a field that the protocol does not have is refused by name, in session.update, \
            response.create and requests for client secrets. Otherwise it is ignored.
            """),
        .value(
            "not-understood-phrase", \.notUnderstoodPhrase, phrases,
            """
            What is said to a user who spoke for half a second or more, and of whom no word was \
            recognised; for example: Sorry, I did not understand that.|de: Das habe ich nicht \
            verstanden. The language is that of audio.input.transcription; the first text is for all \
            others. It is not said more than twice in a row. Without it such a turn is not answered.
            """),
        .value(
            "apology-phrase", \.apologyPhrase, phrases,
            """
            What is said to a user whose spoken turn cannot be answered, because a model or the \
            recogniser has failed; languages as above. The response fails nonetheless. Empty: nothing \
            is said.
            """),
    ]

    /// None: a recording needs the consent of those who are heard.
    public var recordings = RecordingRule.none

    /// 0: no tone. Where the law wants one, it is usually each 15 s.
    public var recordingBeepSeconds = 0

    private static let recordingSettings: [Setting<Self>] = [
        .choice(
            "recordings", \.recordings,
            """
            Which sessions are recorded: none, those whose client says that the user consents \
            (asked), or all: then the operator must have the users' consent by other means. The \
            property recording of a key, or of a token, counts before this.
            """),
        .integer(
            "recording-beep-seconds", \.recordingBeepSeconds, 0...3_600, unit: "seconds",
            """
            A tone of 1,400 Hz and 200 ms in the agent's speech says that the session is recorded: \
            at its first words, and at the first words after each so many seconds. 0 is none.
            """),
    ]

    /// The defaults.
    public init() {}

    /// Every setting of a server, those of its sessions included.
    package static let settings: [SettingGroup<Self>] =
        [
            SettingGroup(.listening, listening), SettingGroup(.admission, admission),
            SettingGroup(.credentials, credentials), SettingGroup(.telephone, telephoneSettings),
            SettingGroup(.tls, tls),
            SettingGroup(.logging, logging), SettingGroup(.agents, agents),
            SettingGroup(.services, services),
            SettingGroup(
                .limits,
                processLimits + requestLimits + messageLimits + outputLimits
                    + resumeLimits + sidebandLimits),
            SettingGroup(.compression, compressionSettings),
            SettingGroup(.time, requestTimes + messageTimes + outputTimes + ending),
            SettingGroup(.fairness, fairness), SettingGroup(.session, sessions),
            SettingGroup(.recordings, recordingSettings),
        ] + SessionLimits.settings.map { $0.within(\.session) }
        + [CodecSettings.settings.within(\.codecs)]
}

extension ServerConfiguration {
    /// Whether the port speaks TLS.
    public var isSecure: Bool { tlsCertificate != nil }

    /// Whether clients must show a key, a client secret or a token.
    public var asksForCredentials: Bool {
        apiKey != nil || apiKeysFile != nil || jwtKeysFile != nil || jwtSecret != nil
    }

    /// Whether credentials come from files, which a reload reads again.
    var hasCredentialFiles: Bool { apiKeysFile != nil || jwtKeysFile != nil }

    /// Whether clients must show a certificate.
    var asksForCertificates: Bool {
        tlsClientCA != nil && tlsClientAuthentication == .required
    }

    /// Cores that this process may use, at least 1.
    static let coreCount = ProcessorShare.cores

    /// Open connections by default: 20,000, or as many as the process may have files for.
    static let standardConnections = DescriptorLimit.connections(atMost: 20_000)

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

    /// The pace that a slow request must keep.
    var requestPace: TransferPace {
        TransferPace(grace: requestGrace, bytesPerSecond: minRequestBytesPerSecond)
    }

    /// The pace that a slow WebSocket message must keep.
    var messagePace: TransferPace {
        TransferPace(grace: messageGrace, bytesPerSecond: minMessageBytesPerSecond)
    }
}
