// The memory that a WebSocketConnection holds for what it cannot hand out from the read buffer:
// messages in several frames, and frames in several reads. An idle connection holds none.
// Limits are WebSocketConnection's; this type only grows, shrinks and counts.

import Glibc

/// A byte buffer that owns no memory until its first byte and gives it back on `release()`.
struct WebSocketMessageBuffer: ~Copyable {
    private var base: UnsafeMutableRawPointer?
    private(set) var count = 0
    /// Bytes allocated. 0 while nothing is held.
    private(set) var capacity = 0

    /// What is allocated at once, if the message may need as much; smaller steps cost more than
    /// they save.
    private static let firstCapacity = 1024

    deinit { free(base) }

    /// The content; valid until the next mutation other than `truncate(to:)`.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

    /// Appends bytes and returns where they lie now.
    ///
    /// Memory follows what has arrived, doubling, and never what a header merely announces:
    /// otherwise 14 bytes from each of many peers would reserve the message limit each.
    /// - Parameter outlook: the count that the content is going to reach as far as is known. The
    ///   buffer grows no further than that unless it must.
    @discardableResult
    mutating func append(
        _ source: UnsafeMutableRawBufferPointer, outlook: Int
    ) -> UnsafeMutableRawBufferPointer {
        guard let start = source.baseAddress, source.count > 0 else { return source }
        let needed = count + source.count
        if needed > capacity {
            let larger = max(capacity * 2, Self.firstCapacity)
            capacity = max(needed, min(larger, outlook))
            guard let moved = realloc(base, capacity) else { fatalError("Out of memory.") }
            base = moved
        }
        // `capacity` ≥ 1 since the source is not empty, so there is memory.
        let destination = base! + count
        destination.copyMemory(from: start, byteCount: source.count)
        count = needed
        return UnsafeMutableRawBufferPointer(start: destination, count: source.count)
    }

    /// Forgets the bytes after the first `count`; they stay readable until the next append.
    /// - Precondition: `count` is 0…`self.count`.
    mutating func truncate(to count: Int) {
        precondition(count >= 0 && count <= self.count)
        self.count = count
    }

    /// Gives the memory back.
    mutating func release() {
        free(base)
        base = nil
        count = 0
        capacity = 0
    }
}
