// Which WebSocket messages are compressed, and how large a client's compressed message may be once
// inflated.

import Session

/// Settings of permessage-deflate.
public struct CompressionSettings: Sendable {
    /// True: only text is compressed, and the memory for it is bounded.
    public var isOn = true
    /// 1 KiB: from there on two thirds are saved in 25 µs, below 400 bytes a quarter in 20 µs.
    public var minBytes = 1024
    /// 128: a delta of a reply has 200, and shrinks to a fifth in 6 µs.
    public var contextMinBytes = 128
    /// 4 MiB: all connections of a small server, and the first ones of a large server.
    public var maxContextBytes = 4 << 20
    /// 100: text stays below 20.
    public var maxInflationRatio = 100
    /// 256 KiB: five seconds of digital silence, which compresses as a bomb does.
    public var freeInflationBytes = 256 << 10

    static let settings: [Setting<Self>] = [
        .toggle(
            "compression", \.isOn,
            """
            Whether permessage-deflate is agreed on with clients that offer it. Audio is \
            never compressed.
            """),
        .integer(
            "compress-min-bytes", \.minBytes, 1...(1 << 30), unit: "bytes",
            "Events from this size on are compressed by themselves; smaller ones gain little."),
        .integer(
            "context-compress-min-bytes", \.contextMinBytes, 1...(1 << 30),
            unit: "bytes",
            "Events from this size on are compressed where they may refer to earlier ones."),
        .integer(
            "max-compression-context-bytes", \.maxContextBytes, 0...(64 << 30),
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
}
