// The user's audio that no turn has taken yet, on the session's audio timeline: samples at 16 kHz,
// counted from the first one the session ever received. All of it is kept small (HeardAudio); the
// newest is also there as samples, where voice activity listens (RecentSamples).
//
// Invariant: samples received = discarded + taken + kept, and `end` only grows.

import Codec

/// Uncommitted audio of one session: mono, 16 kHz, bounded by `maxSamples`.
struct InputAudioBuffer {
    private var audio = HeardAudio()
    /// The newest samples, as long as somebody listens; at least those not analysed yet.
    private var recent = RecentSamples()
    private let maxSamples: Int

    init(maxSamples: Int) { self.maxSamples = maxSamples }

    /// Timeline position of the first kept sample.
    var start: Int { audio.start }
    /// Timeline position just past the last sample.
    var end: Int { audio.end }
    /// Samples that are kept.
    var count: Int { audio.sampleCount }
    /// Samples that still fit.
    var room: Int { maxSamples - count }
    /// Bytes on the heap.
    var heldBytes: Int { audio.heldBytes + recent.heldBytes }
    /// Timeline position from which samples can be looked at.
    var recentStart: Int { max(recent.start, start) }

    /// An Opus packet has come, and what is appended until `endPacket()` is what it says.
    mutating func beginPacket(_ packet: RawSpan, missing: Int?) {
        audio.beginPacket(packet, missing: missing)
    }

    /// What is appended from now on is not what the packet says.
    mutating func endPacket() { audio.endPacket() }

    /// Appends samples.
    /// - Parameter isHeard: whether voice activity will look at them.
    /// - Precondition: they fit in `room`.
    mutating func append(_ new: UnsafeBufferPointer<Int16>, isHeard: Bool) {
        precondition(new.count <= room)
        audio.append(new)
        if isHeard {
            recent.append(new)
        } else {
            recent.removeAll(goingOnAt: end)
        }
    }

    /// Lends `body` the samples of a timeline range.
    /// - Precondition: the range is kept, and begins at `recentStart` or later.
    func withSamples<Result>(
        in range: Range<Int>, _ body: (UnsafeBufferPointer<Int16>) -> Result
    ) -> Result { recent.withSamples(in: range, body) }

    /// The audio of a timeline range, to be turned into samples elsewhere.
    /// - Precondition: the range is kept.
    func audio(in range: Range<Int>) -> HeardAudio { audio.part(range) }

    /// Forgets what lies before a timeline position. A little less, so that a listening session
    /// does so ten times a second, not fifty.
    mutating func discard(before position: Int, slack: Int = 1_600) {
        let wanted = min(position, end)
        guard wanted - start >= slack else { return }
        audio.discard(before: wanted)
    }

    /// Samples before a timeline position need not be looked at any more.
    /// - Parameter isLasting: whether as few will be needed for a while.
    mutating func discardRecent(before position: Int, isLasting: Bool) {
        recent.discard(before: position)
        if isLasting { recent.shrink() }
    }

    /// Takes everything from a timeline position on, and forgets the rest.
    mutating func take(from position: Int) -> HeardAudio {
        let taken = audio.part(min(max(position, start), end)..<end)
        audio.removeAll()
        return taken
    }

    /// Forgets everything that is kept.
    mutating func clear() {
        audio.removeAll()
        recent.removeAll(goingOnAt: end)
    }

    /// What comes does not follow on what was received.
    mutating func forgetLead() { audio.forgetLead() }
}
