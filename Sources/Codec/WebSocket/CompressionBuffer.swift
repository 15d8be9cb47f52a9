// Memory that messages pass through while they are inflated or deflated. A shard has one for either
// direction, and all its connections use them in turn. Limits on the messages are not known here.

import Glibc

/// Reusable memory of one owner, which grows with what is written and can be given back.
public final class CompressionBuffer {
    private var base: UnsafeMutableRawPointer?
    /// Bytes written since `removeAll()`.
    public private(set) var count = 0
    /// Bytes allocated.
    public private(set) var capacity = 0

    /// What is allocated at first, where the message may need as much: it holds an ordinary event.
    private static let firstCapacity = 4096

    /// Creates a buffer that holds no memory yet.
    public init() {}

    deinit { free(base) }

    /// What was written; valid until the next call of any method.
    public var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

    /// Forgets the content and keeps the memory.
    public func removeAll() { count = 0 }

    /// Forgets the content, and gives back memory beyond `limit` bytes.
    public func removeAll(keepingCapacity limit: Int) {
        count = 0
        guard capacity > limit else { return }
        free(base)
        base = nil
        capacity = 0
    }

    /// Room behind what was written, and more of it when there is none: memory doubles, but never
    /// to more than `limit` bytes.
    /// - Returns: an empty buffer when `limit` bytes are written.
    func room(upTo limit: Int) -> UnsafeMutableRawBufferPointer {
        if count == capacity && capacity < limit {
            grow(to: min(limit, max(capacity * 2, Self.firstCapacity)))
        }
        return UnsafeMutableRawBufferPointer(
            start: base.map { $0 + count }, count: max(0, min(capacity, limit) - count))
    }

    /// Room for exactly `needed` bytes behind what was written.
    func room(for needed: Int) -> UnsafeMutableRawBufferPointer {
        if capacity - count < needed { grow(to: count + needed) }
        return UnsafeMutableRawBufferPointer(start: base.map { $0 + count }, count: needed)
    }

    /// Counts bytes that were written into the room.
    /// - Precondition: there was room for them.
    func advance(by written: Int) {
        precondition(written >= 0 && written <= capacity - count)
        count += written
    }

    private func grow(to larger: Int) {
        guard let moved = realloc(base, larger) else { fatalError("Out of memory.") }
        base = moved
        capacity = larger
    }
}
