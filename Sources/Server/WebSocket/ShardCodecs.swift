// How busy a shard is, second by second, what that means for the encoding of replies, and the
// numbers of its codecs. The rule itself is Session/EncodingRelief.
//
// Nothing here asks the clock: a tick knows when it began and when it ended.

import Codec
import Session

/// The share of time that a shard works, measured over a second or more.
struct ShardLoad {
    /// How long is measured at least.
    private static let period = Int64(1_000_000_000)

    private var since: Instant
    private var busy: Int64 = 0

    init(since: Instant) { self.since = since }

    /// A tick has worked from its beginning to its end.
    /// - Returns: the share, 0…1, if a second has passed, and how many whole ones have.
    mutating func handleTick(
        from beginning: Instant, to end: Instant
    ) -> (share: Double, seconds: Int)? {
        busy += end.nanoseconds - beginning.nanoseconds
        let passed = end.nanoseconds - since.nanoseconds
        guard passed >= Self.period else { return nil }
        defer {
            busy = 0
            since = end
        }
        return (min(1, Double(busy) / Double(passed)), Int(passed / Self.period))
    }
}

extension Shard {
    /// A second or more has passed, of which the shard worked this share.
    func handleLoad(_ share: Double, seconds: Int) {
        // A shard that has slept for long has been calm for as long.
        for _ in 0..<min(seconds, EncodingRelief.most * EncodingRelief.calmSeconds) {
            sessionContext.encodingRelief.handle(busyShare: share)
        }
        metrics.set(.busyPermille, to: Int(share * 1_000))
        metrics.set(.complexityReduction, to: sessionContext.encodingRelief.reduction)
    }

    /// Publishes what has changed in the shard's codecs since the last time.
    func publishCodecs(before: inout CodecUse?) {
        let use = sessionContext.codecUse
        guard use != before else { return }
        before = use
        metrics.set(.decodersInUse, to: use.decodersInUse)
        metrics.set(.decodersPooled, to: use.decodersPooled)
        metrics.set(.encodersInUse, to: use.encodersInUse)
        metrics.set(.encodersPooled, to: use.encodersPooled)
        metrics.set(.phraseHits, to: use.phraseHits)
        metrics.set(.phraseMisses, to: use.phraseMisses)
        metrics.set(.phraseBytes, to: use.phraseBytes)
    }
}
