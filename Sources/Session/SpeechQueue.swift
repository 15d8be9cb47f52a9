// Synthesised samples of one spoken item that wait for their turn to be sent.

/// First in, first out; memory goes back as whole chunks leave.
struct SpeechQueue {
    private var chunks: [[Int16]] = []
    private var offset = 0
    /// Samples waiting.
    private(set) var count = 0

    /// Adds a chunk.
    mutating func append(_ samples: [Int16]) {
        guard !samples.isEmpty else { return }
        chunks.append(samples)
        count += samples.count
    }

    /// Moves up to `target.count` samples into `target`; returns how many.
    mutating func take(into target: UnsafeMutableBufferPointer<Int16>) -> Int {
        var taken = 0
        while taken < target.count, let chunk = chunks.first {
            let length = min(target.count - taken, chunk.count - offset)
            for index in 0..<length { target[taken + index] = chunk[offset + index] }
            taken += length
            offset += length
            if offset == chunk.count {
                chunks.removeFirst()
                offset = 0
            }
        }
        count -= taken
        return taken
    }
}
