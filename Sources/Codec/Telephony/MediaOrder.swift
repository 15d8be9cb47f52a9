// Puts numbered media into order. The chunks of Telnyx may overtake each other on their way; each has
// its number in the stream. A chunk that comes before its turn waits until those before it are there,
// or until so many wait that one must be lost.
//
// Not here: what a session does about a loss. It hears what is there, one chunk after another.
//
// Invariant: chunks are handed on with rising numbers, each once; at most `maxWaiting` wait.

/// The order of one line's media.
public struct MediaOrder: Sendable {
    /// Chunks that wait for an earlier one. 5: after a loss the audio is late by 100 ms, with chunks
    /// of 20 ms.
    public static let maxWaiting = 5
    /// Bytes of a chunk that may wait; a longer one counts as in order. 4 KiB: 500 ms of G.711.
    public static let maxWaitingBytes = 4 << 10
    /// How late a chunk may be. Beyond that the sender has begun anew. 100: two seconds.
    public static let maxLateness = 100

    private struct Chunk {
        let number: Int
        let audio: [UInt8]
    }

    /// The number of the chunk that is due; nil before the first.
    private var due: Int?
    /// By their numbers.
    private var waiting: [Chunk] = []
    /// Chunks that came too late, or twice.
    public private(set) var late = 0

    /// Nothing has come yet.
    public init() {}

    /// Heap bytes of the chunks that wait.
    public var heapBytes: Int {
        waiting.reduce(waiting.heapBytes) { $0 + $1.audio.heapBytes }
    }

    /// Takes a chunk that has come, and hands on the chunks whose turn it is.
    /// - Parameter number: the chunk's number, or nil where the stream is not numbered.
    public mutating func take(
        _ number: Int?, _ audio: UnsafeRawBufferPointer,
        _ hear: (UnsafeRawBufferPointer) -> Void
    ) {
        guard let number, number < Int.max else { return hear(audio) }
        let due = due ?? number
        if number == due || (number > due && audio.count > Self.maxWaitingBytes)
            || number < due - Self.maxLateness
        {
            // Chunks of another stream, and those before a long chunk, are not waited for any
            // longer.
            handOn(before: number < due ? .max : number, hear)
            hear(audio)
            return handOn(from: number + 1, hear)
        }
        guard number > due, !waiting.contains(where: { $0.number == number }) else {
            late += 1
            return
        }
        let place = waiting.firstIndex { $0.number > number } ?? waiting.count
        waiting.insert(Chunk(number: number, audio: Array(audio)), at: place)
        guard waiting.count > Self.maxWaiting else {
            self.due = due
            return
        }
        // The missing chunk is lost.
        handOn(from: waiting[0].number, hear)
    }

    private mutating func handOn(before number: Int, _ hear: (UnsafeRawBufferPointer) -> Void) {
        while let first = waiting.first, first.number < number {
            first.audio.withUnsafeBytes(hear)
            waiting.removeFirst()
        }
    }

    private mutating func handOn(from number: Int, _ hear: (UnsafeRawBufferPointer) -> Void) {
        var next = number
        while let first = waiting.first, first.number <= next {
            if first.number == next {
                first.audio.withUnsafeBytes(hear)
                next += 1
            }
            waiting.removeFirst()
        }
        due = next
    }
}
