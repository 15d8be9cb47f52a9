// The user's audio that no turn has taken yet, on the session's audio timeline: samples at 16 kHz,
// counted from the first one the session ever received.
//
// Invariant: samples received = discarded + taken + held, and `end` only grows.

import Codec

/// Uncommitted audio of one session: mono, 16 kHz, bounded by `maxSamples`.
struct InputAudioBuffer {
    /// Held samples; the first one is at `start` on the timeline.
    private var samples: [Int16] = []
    /// Timeline position of the first held sample.
    private(set) var start = 0
    private let maxSamples: Int

    init(maxSamples: Int) { self.maxSamples = maxSamples }

    /// Timeline position just past the last sample.
    var end: Int { start + samples.count }
    /// Samples held.
    var count: Int { samples.count }
    /// Samples that still fit.
    var room: Int { maxSamples - samples.count }

    /// Appends samples.
    /// - Precondition: they fit in `room`.
    mutating func append(_ new: UnsafeBufferPointer<Int16>) {
        precondition(new.count <= room)
        samples.append(contentsOf: new)
    }

    /// Lends `body` the samples of a timeline range.
    /// - Precondition: the range is held.
    func withSamples<Result>(
        in range: Range<Int>, _ body: (UnsafeBufferPointer<Int16>) -> Result
    ) -> Result {
        samples.withUnsafeBufferPointer {
            body(
                UnsafeBufferPointer(
                    rebasing: $0[range.lowerBound - start..<range.upperBound - start]))
        }
    }

    /// Forgets what lies before a timeline position. Moves memory only once `slack` samples have
    /// gathered, so that a listening session moves 10 kB ten times a second, not fifty.
    mutating func discard(before position: Int, slack: Int = 1_600) {
        let excess = min(position, end) - start
        guard excess >= slack else { return }
        samples.removeFirst(excess)
        start += excess
    }

    /// Takes everything from a timeline position on, and forgets the rest.
    mutating func take(from position: Int) -> [Int16] {
        let skipped = max(0, min(position, end) - start)
        let taken = skipped == 0 ? samples : Array(samples[skipped...])
        start = end
        samples = []
        return taken
    }

    /// Forgets everything held.
    mutating func clear() {
        start = end
        samples = []
    }
}
