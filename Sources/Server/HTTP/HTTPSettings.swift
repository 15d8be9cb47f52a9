// How large an HTTP request may be, and how slow.

import Codec
import Session

/// Limits of HTTP requests.
public struct HTTPSettings: BitwiseCopyable, Sendable {
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
    /// nginx's upstreams). With equal times, the server's may end first, while a request is on its
    /// way.
    public var keepAliveTimeout = Duration.seconds(75)

    static let limits: [Setting<Self>] = [
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

    static let times: [Setting<Self>] = [
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

    /// Limits for the HTTP parser.
    var parserLimits: HTTPLimits {
        var limits = HTTPLimits()
        limits.maxStartLineBytes = maxStartLineBytes
        limits.maxHeaderBytes = maxHeaderBytes
        limits.maxHeaderFields = maxHeaderFields
        limits.maxBodyBytes = maxBodyBytes
        return limits
    }

    /// The pace that a slow request must keep.
    var pace: TransferPace {
        TransferPace(grace: requestGrace, bytesPerSecond: minRequestBytesPerSecond)
    }
}
