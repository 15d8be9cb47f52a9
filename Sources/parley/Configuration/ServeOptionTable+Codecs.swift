// The options of Opus, of codecs that wait for their next use, and of spoken phrases that are kept.
// The list of all options is ServeOptionTable.

import Server
import Session

extension ServeOptionTable {
    static let codecs: [ServeOption] = [
        .integer(
            "opus-bitrate", \.server.codecs.opusBitrate, 6_000...128_000,
            unit: "bits per second", in: .session,
            "Opus of replies, unless the client asks for another bitrate."),
        .integer(
            "opus-complexity", \.server.codecs.opusComplexity, 0...10, in: .session,
            """
            Work per packet of Opus, unless the client asks for another complexity. A busy shard \
            does less by itself.
            """),
        .toggle(
            "opus-dtx", \.server.codecs.opusDTX, in: .session,
            "Whether silence in replies becomes Opus packets of a byte or two."),
        .integer(
            "codec-idle-seconds", \.server.codecs.codecIdleSeconds, 1...3_600, unit: "seconds",
            in: .session, "How long a session keeps its decoder when no audio comes."),
        .integer(
            "max-pooled-codecs", \.server.codecs.maxPooledCodecs, 0...10_000, unit: "codecs",
            in: .session,
            "Decoders, and encoders, that a shard keeps for their next use: about 60 kB a pair."),
        .integer(
            "phrase-cache-bytes", \.server.codecs.phraseCacheBytes, 0...(1 << 30), unit: "bytes",
            in: .session,
            """
            Memory per shard for phrases that have been spoken: who says the same again does not \
            synthesise or encode it. 0: none are kept.
            """),
    ]
}
