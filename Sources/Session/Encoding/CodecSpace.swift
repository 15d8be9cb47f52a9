// The common parts of the codecs of a shard's sessions: work space, idle codecs, phrases that were
// spoken.

import Codec

/// Shared by the codecs of one shard; confined to the shard's thread.
final class CodecSpace {
    /// The server's settings for codecs.
    let settings: CodecSettings
    /// Decoding and encoding space.
    let scratch = AudioScratch()
    /// Idle decoders and encoders.
    @exclusivity(unchecked) var pool: CodecPool  // 68 instructions an echo.
    /// Phrases that have been spoken.
    @exclusivity(unchecked) var phrases: PhraseCache  // 68 instructions an echo.
    /// By how much a busy shard lowers the complexity of Opus.
    var relief = EncodingRelief()

    init(_ settings: CodecSettings) {
        self.settings = settings
        pool = CodecPool(capacity: settings.maxPooledCodecs)
        phrases = PhraseCache(maxBytes: settings.phraseCacheBytes)
    }

    /// How many codecs the shard's sessions use, for its metrics.
    var use: CodecUse {
        CodecUse(
            decodersInUse: pool.counts.decodersInUse, decodersPooled: pool.counts.decodersPooled,
            encodersInUse: pool.counts.encodersInUse, encodersPooled: pool.counts.encodersPooled,
            pooledBytes: pool.pooledBytes,
            phraseHits: phrases.hits, phraseMisses: phrases.misses, phraseBytes: phrases.bytes)
    }
}

/// Codecs and phrases of one shard.
public struct CodecUse: Equatable, Sendable {
    /// Decoders that sessions use now, and that wait for the next.
    public var decodersInUse, decodersPooled: Int
    /// Encoders, likewise.
    public var encodersInUse, encodersPooled: Int
    /// Bytes of those that wait.
    public var pooledBytes: Int
    /// Phrases found in the cache and not found, so far.
    public var phraseHits, phraseMisses: Int
    /// Bytes of the phrases that are kept.
    public var phraseBytes: Int
}
