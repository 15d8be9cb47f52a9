// Memory in which messages are inflated or deflated. A shard has one buffer for each direction,
// which all its connections use in turn. Message limits are enforced by the callers.

import Glibc

/// Reusable memory with one owner. It grows with what is written and can be freed.
public final class CompressionBuffer {
    private var base: UnsafeMutableRawPointer?
    /// Bytes written since `removeAll()`.
    public private(set) var count = 0
    /// Bytes allocated.
    public private(set) var capacity = 0

    /// Bytes of the first allocation, unless the message needs less: enough for an ordinary event.
    private static let firstCapacity = 4096

    /// Creates a buffer without memory.
    public init() {}

    deinit { free(base) }

    /// The bytes written; valid until the next call of any method.
    public var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

    /// Removes the content and keeps the memory.
    public func removeAll() { count = 0 }

    /// Removes the content, and frees memory beyond `limit` bytes.
    public func removeAll(keepingCapacity limit: Int) {
        count = 0
        guard capacity > limit else { return }
        free(base)
        base = nil
        capacity = 0
    }

    /// Free room after what was written. When there is none, the memory doubles, but never beyond
    /// `limit` bytes.
    /// - Returns: an empty buffer when `limit` bytes are written.
    func room(upTo limit: Int) -> UnsafeMutableRawBufferPointer {
        if count == capacity && capacity < limit {
            grow(to: min(limit, max(capacity * 2, Self.firstCapacity)))
        }
        return UnsafeMutableRawBufferPointer(
            start: base.map { $0 + count }, count: max(0, min(capacity, limit) - count))
    }

    /// Room for exactly `needed` bytes after what was written.
    func room(for needed: Int) -> UnsafeMutableRawBufferPointer {
        if capacity - count < needed { grow(to: count + needed) }
        return UnsafeMutableRawBufferPointer(start: base.map { $0 + count }, count: needed)
    }

    /// Counts bytes that were written into the room.
    /// - Precondition: the room was large enough.
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
