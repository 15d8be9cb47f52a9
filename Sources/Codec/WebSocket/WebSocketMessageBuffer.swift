// The memory in which a WebSocketConnection keeps what it cannot return from the read buffer:
// messages in several frames, and frames in several reads. An idle connection holds none.
// WebSocketConnection enforces limits; this type only grows, shrinks and counts.

import Glibc

/// A byte buffer that allocates with its first byte and frees on `release()`.
struct WebSocketMessageBuffer: ~Copyable {
    private var base: UnsafeMutableRawPointer?
    private(set) var count = 0
    /// Bytes allocated. 0 while empty.
    private(set) var capacity = 0

    /// Bytes of the first allocation, if the message may need that many. Smaller steps cost more
    /// than they save.
    private static let firstCapacity = 1024

    deinit { free(base) }

    /// The content; valid until the next mutation other than `truncate(to:)`.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

    /// Appends bytes and returns where they lie now.
    ///
    /// Memory doubles with what has arrived, and never follows what a header announces: otherwise
    /// 14 bytes from each of many peers would reserve a maximum-size message each.
    /// - Parameter outlook: the expected final count, as far as it is known. The buffer grows no
    ///   further unless it must.
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
        // `capacity` ≥ 1 because the source is not empty, so there is memory.
        let destination = base! + count
        destination.copyMemory(from: start, byteCount: source.count)
        count = needed
        return UnsafeMutableRawBufferPointer(start: destination, count: source.count)
    }

    /// Removes the bytes after the first `count`. They stay readable until the next append.
    /// - Precondition: `count` is 0…`self.count`.
    mutating func truncate(to count: Int) {
        precondition(count >= 0 && count <= self.count)
        self.count = count
    }

    /// Frees the memory.
    mutating func release() {
        free(base)
        base = nil
        count = 0
        capacity = 0
    }
}
