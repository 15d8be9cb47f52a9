// Where a server listens, and what the kernel does for the connections that it accepts.

import Session

/// Settings of the listening sockets.
public struct ListenerSettings: Sendable {
    /// 127.0.0.1 exposes nothing before TLS or a proxy is set up.
    public var host = "127.0.0.1"
    /// 8080; 0 lets the kernel choose.
    public var port = 8080
    /// False: a second server by mistake is an error, and takes no half of the traffic.
    public var sharesPort = false
    /// 65,535: the kernel bounds it by its own limit. A client that finds the queue full comes back after a
    /// second, so a short queue makes a storm of connections slow.
    public var backlog = 65_535
    /// `TCP_NOTSENT_LOWAT`. 128 KiB: two seconds of a reply's audio as base64. Without it the
    /// kernel buffers some megabytes.
    public var maxUnsentSocketBytes = 128 << 10
    /// `TCP_USER_TIMEOUT`, tcp(7). 30 s: longer than a phone takes from one network to the next,
    /// and less than half of `WebSocketSettings.idleTimeout`.
    public var unacknowledgedTimeout = Duration.seconds(30)

    static let address: [Setting<Self>] = [
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
    ]

    static let queue: [Setting<Self>] = [
        .integer(
            "listen-backlog", \.backlog, 1...65_535, unit: "connections",
            """
            Connections that the kernel completes before the server accepts them. The kernel's own \
            limit (net.core.somaxconn) counts where it is lower. A client that finds the queue full \
            tries again after a second.
            """)
    ]

    static let limits: [Setting<Self>] = [
        .integer(
            "max-unsent-socket-bytes", \.maxUnsentSocketBytes, 4_096...(1 << 30),
            unit: "bytes",
            """
            Output of one connection that the kernel takes before it can send it. The rest waits \
            in the server, where late audio can still be dropped.
            """)
    ]

    static let times: [Setting<Self>] = [
        .milliseconds(
            "unacknowledged-timeout-ms", \.unacknowledgedTimeout, 0...86_400_000,
            """
            Time for which a client may leave data unacknowledged, or its window closed, \
            before the kernel ends the connection. 0 leaves that to the kernel, some 15 \
            minutes.
            """)
    ]
}
