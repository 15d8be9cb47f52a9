// The user's audio that no turn has taken yet, on the session's audio timeline: samples at 16 kHz,
// counted from the first one that the session received. All of it is kept in compact form
// (HeardAudio). Where voice activity analyses it, the newest audio is also kept as samples
// (RecentSamples).
//
// Invariant: samples received = discarded + taken + kept, and `end` only grows.

import Codec

/// Uncommitted audio of one session: mono, 16 kHz, bounded by `maxSamples`.
struct InputAudioBuffer {
    private var audio = HeardAudio()
    /// The newest samples, where they are analysed; at least those not analysed yet.
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
    /// Timeline position from which samples are kept.
    var recentStart: Int { max(recent.start, start) }

    /// An Opus packet has come, and the samples appended until `endPacket()` are its own.
    mutating func beginPacket(_ packet: RawSpan, missing: Int?) {
        audio.beginPacket(packet, missing: missing)
    }

    /// Samples appended from now on are not the packet's.
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

    /// The audio of a timeline range, to be decoded elsewhere.
    /// - Precondition: the range is kept.
    func audio(in range: Range<Int>) -> HeardAudio { audio.part(range) }

    /// Forgets audio before a timeline position. It keeps a little more than asked, so that audio
    /// is moved ten times a second and not fifty.
    mutating func discard(before position: Int, slack: Int = 1_600) {
        let wanted = min(position, end)
        guard wanted - start >= slack else { return }
        audio.discard(before: wanted)
    }

    /// Samples before a timeline position will not be analysed any more.
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

    /// The next audio does not continue the audio before it.
    mutating func forgetLead() { audio.forgetLead() }
}
