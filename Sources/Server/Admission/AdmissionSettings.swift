// Which clients may connect, and how many at once. CredentialSettings has the credentials they must
// show.

import Codec
import Session

/// Whether connections begin with a header of the PROXY protocol.
public enum ProxyProtocolMode: String, CaseIterable, Sendable {
    /// Never.
    case off
    /// The connections of trusted proxies must begin with one of version 2.
    case required
}

/// Settings of the admission of connections and sessions.
public struct AdmissionSettings: Sendable {
    /// Empty: on a loopback address `localhost`, names below it and loopback addresses; elsewhere
    /// any.
    public var allowedHosts: [HostPattern] = []
    /// Beside the server's own origin, for routes with `PageAccess.allowedOrigins`. Empty: none.
    /// The rule stops cross-site WebSocket hijacking.
    public var allowedOrigins: [OriginPattern] = []
    /// Empty: any client can write the fields of a proxy.
    public var trustedProxies: [AddressRange] = []
    /// Off: such a header is refused, like all other bytes that are no request.
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
    /// No limit: `LoopSettings.maxAcceptsPerTick` already keeps the open connections served.
    public var handshakesPerSecond = 0
    /// 20,000, or fewer where `RLIMIT_NOFILE` allows fewer.
    public var maxConnections = Self.standardConnections
    /// 10,000.
    public var maxSessions = 10_000
    /// 5.
    public var retryAfterSeconds = 5

    static let rules: [Setting<Self>] = [
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

    static let limits: [Setting<Self>] = [
        .integer(
            "max-connections", \.maxConnections, 1...10_000_000, unit: "connections",
            """
            Open connections of any kind; more are answered with 503 and closed. The default \
            is 20000, or fewer where the process may not open so many files (ulimit -n).
            """),
        .integer(
            "max-sessions", \.maxSessions, 1...10_000_000, unit: "sessions",
            "Sessions; more are answered with 503."),
    ]

    static let times: [Setting<Self>] = [
        .integer(
            "retry-after-seconds", \.retryAfterSeconds, 0...86_400, unit: "seconds",
            "Time that Retry-After names when the server is full.")
    ]

    /// Open connections by default: 20,000, or as many as the process may have files for.
    private static let standardConnections = DescriptorLimit.connections(atMost: 20_000)

    /// The error in these settings; nil where there is none.
    var objection: String? {
        proxyProtocol == .required && trustedProxies.isEmpty
            ? "proxy-protocol needs trusted-proxies: only their headers are believed" : nil
    }
}
