// How much time clients have when a server ends.

import Session

/// Settings of the end of a server.
public struct DrainSettings: Sendable {
    /// 0 is right for a second server on the same port; behind a balancer it must be longer.
    public var delay = Duration.zero
    /// 30 s: longer than a spoken reply lasts, and what supervisors commonly grant a process before
    /// they kill it.
    public var timeout = Duration.seconds(30)
    /// 5 s: ten thousand clients then reconnect at 2,000 a second.
    public var jitter = Duration.seconds(5)

    static let settings: [Setting<Self>] = [
        .milliseconds(
            "drain-delay-ms", \.delay, 0...3_600_000,
            """
            How long /readyz answers 503 before a draining server stops listening: as long as \
            the balancer in front takes to notice.
            """),
        .milliseconds(
            "drain-timeout-ms", \.timeout, 0...3_600_000,
            """
            Time that turns in flight then have to finish. A supervisor must wait for the \
            delay, this time and close-timeout-ms before it kills the process.
            """),
        .milliseconds(
            "drain-jitter-ms", \.jitter, 0...3_600_000,
            """
            Time over which idle sessions are closed, so that their clients do not all \
            reconnect at once; never more than drain-timeout-ms.
            """),
    ]
}
