// The server's settings for speech and its codecs. A client's own settings take precedence.

import Codec

/// Settings of the codecs of one shard.
public struct CodecSettings: Equatable, Sendable {
    /// Bits per second of reply audio as Opus. 24,000: wideband speech without audible loss.
    public var opusBitrate = 24_000
    /// The complexity of Opus, 0…10, for sessions that set none. 5: half the cost of 10, with
    /// hardly a difference for speech.
    public var opusComplexity = 5
    /// Whether silence in replies becomes packets of a byte or two (DTX). False: pauses of
    /// synthesised speech are short, and not every player fills such packets with noise.
    public var opusDTX = false
    /// How long a session keeps its decoder after the last audio, in seconds. 5: the state survives
    /// a pause between two turns.
    public var codecIdleSeconds = 5
    /// Idle decoders, and idle encoders, that a shard keeps. 32: 2 MB. A new one costs less than a
    /// packet.
    public var maxPooledCodecs = 32
    /// Bytes of spoken phrases that a shard keeps for all its sessions; 0: none. 4 MiB: twenty
    /// minutes as Opus, two minutes as samples.
    public var phraseCacheBytes = 4 << 20

    /// The settings that change these.
    package static let settings = SettingGroup<Self>(.session, all)

    private static let all: [Setting<Self>] = [
        .integer(
            "opus-bitrate", \.opusBitrate, 6_000...128_000, unit: "bits per second",
            "Opus of replies, unless the client asks for another bitrate."),
        .integer(
            "opus-complexity", \.opusComplexity, 0...10,
            """
            Work per packet of Opus, unless the client asks for another complexity. A busy \
            shard uses a lower one.
            """),
        .toggle(
            "opus-dtx", \.opusDTX,
            "Whether silence in replies becomes Opus packets of a byte or two."),
        .integer(
            "codec-idle-seconds", \.codecIdleSeconds, 1...3_600, unit: "seconds",
            "How long a session keeps its decoder when no audio comes."),
        .integer(
            "max-pooled-codecs", \.maxPooledCodecs, 0...10_000, unit: "codecs",
            """
            Decoders, and encoders, that a shard keeps for their next use: about 60 kB a pair.
            """),
        .integer(
            "phrase-cache-bytes", \.phraseCacheBytes, 0...(1 << 30), unit: "bytes",
            """
            Memory per shard for phrases that have been spoken. A phrase that is spoken again \
            is neither synthesised nor encoded again. 0: none are kept.
            """),
    ]

    /// The defaults.
    public init() {}

    /// The settings that a client asked for, completed by the server's.
    func resolved(_ asked: OpusSettings) -> ResolvedOpusSettings {
        ResolvedOpusSettings(
            bitrate: asked.bitrate ?? opusBitrate, complexity: asked.complexity ?? opusComplexity,
            usesDTX: asked.usesDTX ?? opusDTX)
    }
}

/// Opus settings without gaps.
struct ResolvedOpusSettings: Hashable, Sendable {
    var bitrate: Int
    var complexity: Int
    var usesDTX: Bool
}
