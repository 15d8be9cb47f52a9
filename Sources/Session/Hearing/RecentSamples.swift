// The newest samples of a stream, for voice activity, which analyses them as they come. HeardAudio
// keeps all audio.
//
// Invariant: the samples from `start` to `end` are kept. Memory grows by 0.8 kB at a time, and is
// freed by `shrink()`.

/// The end of a stream of samples at 16 kHz, on the session's audio timeline.
struct RecentSamples {
    /// Samples by which memory grows.
    private static let growth = 416
    /// Samples that a stream of packets of 20 ms needs: an incomplete window of 511, and a packet.
    private static let usual = 2 * growth
    /// Samples that may be forgotten before more of them are moved.
    private static let slack = 512

    private var samples: [Int16] = []
    /// Timeline position of the first kept sample.
    private(set) var start = 0
    /// Timeline position just past the last sample.
    var end: Int { start + samples.count }
    /// Bytes on the heap.
    var heldBytes: Int { samples.heapBytes }

    mutating func append(_ new: UnsafeBufferPointer<Int16>) {
        reserve(samples.count + new.count)
        samples.append(contentsOf: new)
    }

    private mutating func reserve(_ count: Int) {
        guard count > samples.capacity else { return }
        samples.reserveCapacity((count + Self.growth - 1) / Self.growth * Self.growth)
    }

    /// Lends `body` the samples of a timeline range.
    /// - Precondition: the range is kept.
    func withSamples<Result>(
        in range: Range<Int>, _ body: (UnsafeBufferPointer<Int16>) -> Result
    ) -> Result {
        samples.withUnsafeBufferPointer {
            body(
                UnsafeBufferPointer(
                    rebasing: $0[range.lowerBound - start..<range.upperBound - start]))
        }
    }

    /// Forgets what lies before a timeline position.
    mutating func discard(before position: Int) {
        let excess = min(position, end) - start
        guard excess > 0, excess >= min(Self.slack, samples.count - excess) else { return }
        samples.removeFirst(excess)
        start += excess
    }

    /// Gives back memory beyond what a run or two need.
    mutating func shrink() {
        guard samples.capacity >= 2 * Self.usual, samples.count <= Self.usual / 2 else { return }
        let before = samples
        samples = []
        reserve(Self.usual)
        samples += before
    }

    /// Forgets everything, memory included, and goes on at a timeline position.
    mutating func removeAll(goingOnAt position: Int) {
        samples = []
        start = position
    }
}
