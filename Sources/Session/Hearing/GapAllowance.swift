// How much audio may be made up for lost packets. A gap in the numbers claims that time has passed,
// so no more of it is filled than has passed by the clock. Otherwise a few bytes whose numbers jump
// would cost as much as minutes of audio. PacketOrder finds the gaps, OpusInput fills them.
//
// Invariant: the audio that is made up is at most `maxSamples` and the time since the first gap.

import Codec

/// The allowance of one stream.
struct GapAllowance {
    /// Audio that a stream may make up at once, in samples at 16 kHz: the longest gap that is
    /// filled. Packets that were late come in a burst, and so do their gaps.
    static let maxSamples = SampleRate.hz16000.samples(
        inMilliseconds: OpusInput.maxGapMilliseconds)

    private var samples = GapAllowance.maxSamples
    private var refilled: Instant?

    /// Packets are missing.
    /// - Parameter packetSamples: how long each of them lasts.
    /// - Returns: how many of them may be made up.
    mutating func take(_ missing: Int, packetSamples: Int, at now: Instant) -> Int {
        guard missing > 0, packetSamples > 0 else { return 0 }
        if let refilled {
            // Capped before it is converted: a stream may pause for days.
            let passed = min(now - refilled, .milliseconds(OpusInput.maxGapMilliseconds))
            let gained = SampleRate.hz16000.samples(inMilliseconds: passed.wholeMilliseconds)
            samples = min(Self.maxSamples, samples + max(0, gained))
        }
        refilled = now
        let granted = min(missing, samples / packetSamples)
        samples -= granted * packetSamples
        return granted
    }
}
