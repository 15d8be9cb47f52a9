// A busy shard encodes replies with less effort. The share of time that it works is measured by
// TickMeter, the rule is Session's EncodingRelief.

import Codec
import Session

extension Shard {
    /// Takes the share of the time, a second or more, in which the shard worked.
    func handleLoad(_ share: Double, seconds: Int) {
        // A shard that has slept for long has been calm for as long.
        for _ in 0..<min(seconds, EncodingRelief.most * EncodingRelief.calmSeconds) {
            sessionContext.encodingRelief.handle(busyShare: share)
        }
        metrics.set(.busyPermille, to: Int(share * 1_000))
        metrics.set(.complexityReduction, to: sessionContext.encodingRelief.reduction)
    }
}
