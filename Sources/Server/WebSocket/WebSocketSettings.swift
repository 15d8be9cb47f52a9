// The most work that the messages of a WebSocket client may cause, and how long it may be silent.

import Codec
import Session

/// Limits of WebSocket messages.
public struct WebSocketSettings: BitwiseCopyable, Sendable {
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

    static let limits: [Setting<Self>] = [
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

    static let times: [Setting<Self>] = [
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

    /// Limits for the WebSocket parser.
    var parserLimits: WebSocketLimits {
        var limits = WebSocketLimits()
        limits.maxMessageBytes = maxMessageBytes
        limits.maxFramesPerMessage = Int32(clamping: maxFramesPerMessage)
        limits.tinyFragmentBytes = Int32(clamping: tinyFragmentBytes)
        return limits
    }
}
