// Reply audio that was sent and has perhaps not been heard, kept so that it can be sent again after
// a false interruption. Which part has been heard is PlayoutTimeline's; pacing is PlayoutPacer's.
//
// Invariant: runs are in the order of their sending, without gaps; the kept audio never lasts
// longer than the limit.

import Codec

/// Runs that may have to be sent again.
struct ResendBuffer {
    /// Samples at 48 kHz that are kept at most.
    private var maxLength: Int
    private var runs: [SentRun] = []
    /// Runs at the front that are forgotten.
    private var head = 0
    /// Samples at 48 kHz that are kept.
    private(set) var length = 0

    init(maxMilliseconds: Int) {
        maxLength = SampleRate.hz48000.samples(inMilliseconds: maxMilliseconds)
    }

    /// Keeps at least this much from now on.
    mutating func keep(milliseconds: Int) {
        maxLength = max(maxLength, SampleRate.hz48000.samples(inMilliseconds: milliseconds))
    }

    /// Bytes of the kept runs, each a block of its own.
    var heldBytes: Int { runs.heapBytes + payloadBytes }
    private var payloadBytes = 0

    mutating func append(_ run: SentRun) {
        // The places of forgotten runs are removed once there are as many of them as of kept ones.
        if head > 8, head * 2 > runs.count {
            runs.removeFirst(head)
            head = 0
        }
        runs.append(run)
        payloadBytes += run.payload.heapBytes
        length += run.length
        forget(allBut: maxLength)
    }

    /// Forgets runs of which nothing lies in the last `wanted` samples.
    mutating func forget(allBut wanted: Int) {
        while head < runs.count, length - runs[head].length >= wanted {
            length -= runs[head].length
            payloadBytes -= runs[head].payload.heapBytes
            // Its memory goes now, its place in the array later.
            runs[head].payload = []
            head += 1
        }
    }

    /// Takes the last `wanted` samples out, as far as they are kept; nothing is kept any more.
    mutating func take(last wanted: Int) -> [SentRun] {
        forget(allBut: wanted)
        var taken = Array(runs[head...])
        let excess = length - wanted
        if excess > 0, let first = taken.first, excess < first.length {
            taken[0].removeFirst(excess)
        }
        removeAll()
        return wanted > 0 ? taken : []
    }

    mutating func removeAll() {
        runs = []
        head = 0
        payloadBytes = 0
        length = 0
    }
}
