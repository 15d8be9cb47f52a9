// What the server says about speech and its codecs; a client's own settings go before these.

import Codec

/// Settings of the codecs of one shard.
public struct CodecSettings: Equatable, Sendable {
    /// Bits per second of reply audio as Opus. 24,000: wideband speech without audible loss.
    public var opusBitrate = 24_000
    /// The most work per packet, 0…10, for sessions that ask for none. 5: half the cost of 10, and
    /// hard to tell from it for speech.
    public var opusComplexity = 5
    /// Whether silence in replies becomes packets of a byte or two. False: pauses of synthesised
    /// speech are short, and not every player makes noise of such packets.
    public var opusDTX = false
    /// How long a decoder is kept after the last audio, in seconds. 5: a pause between two turns
    /// does not cost its state twice.
    public var codecIdleSeconds = 5
    /// Decoders, and encoders, that a shard keeps for the next who need one. 32: 2 MB, and a new
    /// one costs less than a packet.
    public var maxPooledCodecs = 32
    /// Bytes of spoken phrases that a shard keeps for all its sessions; 0: none. 4 MiB: twenty
    /// minutes as Opus, two minutes as samples.
    public var phraseCacheBytes = 4 << 20

    /// The defaults.
    public init() {}

    /// What a client gets that asked for these.
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
