// The limits of a connection: those of its protocol, and of the output that waits for its client.
//
// Every property is a number or a duration, so that lending them to each deadline counts no reference
// (`BitwiseCopyable`).

import Session

/// Limits of each connection.
public struct ConnectionSettings: BitwiseCopyable, Sendable {
    /// 8 MiB: more than the longest reply's audio as base64 in the time that a client may stall.
    public var maxQueuedOutputBytes = 8 << 20
    /// 1 MiB: some 15 s of a reply's audio, so that only a client that stalls pauses its agents. It
    /// leaves room below `maxQueuedOutputBytes` for what they have already begun.
    public var softQueuedOutputBytes = 1 << 20
    /// 60 s: its model and speech are paused, so a client that reads at all falls below the limit
    /// at once.
    public var slowReaderTimeout = Duration.seconds(60)
    /// Counted from when the audio should have been heard. 5 s: shorter stalls only delay a reply.
    /// After longer ones the user no longer expects the middle of a sentence.
    public var lateAudioTolerance = Duration.seconds(5)
    /// 5 s.
    public var closeTimeout = Duration.seconds(5)

    /// Requests over HTTP.
    public var http = HTTPSettings()
    /// Messages of a WebSocket.
    public var webSocket = WebSocketSettings()

    static let limits: [Setting<Self>] = [
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
    ]

    static let times: [Setting<Self>] = [
        .milliseconds(
            "slow-reader-timeout-ms", \.slowReaderTimeout, 100...86_400_000,
            """
            Time that more than soft-queued-output-bytes may wait for a client; then it is \
            disconnected.
            """),
        .milliseconds(
            "late-audio-tolerance-ms", \.lateAudioTolerance, 0...600_000,
            "How late reply audio may be. Audio that would be heard later is dropped."),
    ]

    static let closing: [Setting<Self>] = [
        .milliseconds(
            "close-timeout-ms", \.closeTimeout, 10...600_000,
            "Time that a client has to finish the closing handshake or to read the last answer.")
    ]

    /// The error in these settings; nil where there is none.
    var objection: String? {
        softQueuedOutputBytes > maxQueuedOutputBytes
            ? "soft-queued-output-bytes must not be more than max-queued-output-bytes" : nil
    }
}
