// A busy shard encodes replies with less effort. The share of time that it works is measured by
// TickMeter, the rule is Session's EncodingRelief. Beside that, the numbers of the shard's codecs.

import Codec
import Session

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
    func publishCodecs() {
        let use = sessionContext.codecUse
        guard meter.isNew(use) else { return }
        metrics.set(.decodersInUse, to: use.decodersInUse)
        metrics.set(.decodersPooled, to: use.decodersPooled)
        metrics.set(.encodersInUse, to: use.encodersInUse)
        metrics.set(.encodersPooled, to: use.encodersPooled)
        metrics.set(.phraseHits, to: use.phraseHits)
        metrics.set(.phraseMisses, to: use.phraseMisses)
        metrics.set(.phraseBytes, to: use.phraseBytes)
    }
}
