// The work that one tick of an event loop does for one connection, or of one kind, before the
// others are served.

import Session

/// Shares of a tick.
public struct LoopSettings: Sendable {
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

    static let settings: [Setting<Self>] = [
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
}
