// A growing byte buffer that encoders write into and reuse without reallocation. JSONWriter and
// WebSocketFrame have the rules of text and framing.

/// An append-only byte buffer with one owner. Growth doubles; `removeAll()` keeps the memory.
public struct ByteWriter: ~Copyable {
    @usableFromInline var base: UnsafeMutableRawPointer
    @usableFromInline var capacity: Int
    @usableFromInline var used = 0

    /// Bytes written since the last `removeAll()`.
    @inlinable public var count: Int { used }

    /// Bytes allocated, whether used or not.
    public var allocatedBytes: Int { capacity }

    /// Creates a writer with room for `capacity` bytes before it first grows.
    /// - Precondition: `capacity` is positive.
    public init(capacity: Int) {
        precondition(capacity > 0)
        base = .allocate(byteCount: capacity, alignment: 16)
        self.capacity = capacity
    }

    deinit { base.deallocate() }

    /// Calls `body` with the bytes written so far. Take `.bytes` of them for a checked span.
    ///
    /// A property could not return them: the writer frees its memory after its own last use, and a
    /// pointer taken out of it does not count as a use.
    @inlinable
    public func withUnsafeBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(UnsafeRawBufferPointer(start: base, count: used))
    }

    /// A copy of the bytes written so far.
    public var copiedBytes: [UInt8] { withUnsafeBytes { [UInt8]($0) } }

    /// Removes the content and keeps the memory.
    @inlinable
    public mutating func removeAll() { used = 0 }

    /// Makes room for `additional` more bytes; the allocation doubles where it must grow.
    @inlinable
    public mutating func reserve(_ additional: Int) {
        if capacity - used < additional { grow(to: used + additional) }
    }

    @usableFromInline
    mutating func grow(to needed: Int) {
        let larger = max(needed, capacity * 2)
        let moved = UnsafeMutableRawPointer.allocate(byteCount: larger, alignment: 16)
        moved.copyMemory(from: base, byteCount: used)
        base.deallocate()
        base = moved
        capacity = larger
    }

    /// Appends one byte.
    @inlinable
    public mutating func append(_ byte: UInt8) {
        reserve(1)
        base.storeBytes(of: byte, toByteOffset: used, as: UInt8.self)
        used += 1
    }

    /// Appends bytes.
    @inlinable
    public mutating func append(_ source: UnsafeRawBufferPointer) {
        guard let start = source.baseAddress, source.count > 0 else { return }
        reserve(source.count)
        (base + used).copyMemory(from: start, byteCount: source.count)
        used += source.count
    }

    /// Appends bytes.
    @inlinable
    public mutating func append(_ source: RawSpan) {
        source.withUnsafeBytes { append($0) }
    }

    /// Appends the UTF-8 of a literal without creating a `String`.
    @inlinable
    public mutating func append(_ literal: StaticString) {
        append(UnsafeRawBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
    }

    /// Appends the UTF-8 of a string.
    @inlinable
    public mutating func append(_ text: String) {
        var text = text
        text.withUTF8 { append(UnsafeRawBufferPointer($0)) }
    }

    /// Appends at most `maximum` bytes, written by `body`, which returns how many it wrote.
    /// - Precondition: `body` returns 0…`maximum`.
    @inlinable
    public mutating func append<Failure: Error>(
        upTo maximum: Int, _ body: (UnsafeMutableRawBufferPointer) throws(Failure) -> Int
    ) throws(Failure) {
        reserve(maximum)
        let written = try body(UnsafeMutableRawBufferPointer(start: base + used, count: maximum))
        precondition(written >= 0 && written <= maximum)
        used += written
    }
}
