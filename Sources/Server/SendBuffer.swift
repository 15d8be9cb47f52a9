// Bytes that wait for a socket: chunks from a pool that the connections of a shard share, so that
// the steady state (append, flush in the same turn) neither allocates nor frees.
// It writes no socket and knows no limit; `Shard` does.
//
// Invariant: chunks are linked from `head` to `tail`; none is empty; `count` is the sum of what
// they hold; an empty buffer holds no chunk.

/// Chunks for the send buffers of one shard.
final class ChunkPool {
    /// Bytes of a chunk without its header. 16 KiB: a text event or a piece of base64 audio fits in
    /// one, and a full turn's writes (64 KiB) take four calls.
    static let chunkBytes = 16 * 1024

    /// Free chunks that are kept. 64 (1 MiB): enough for a turn in which all speakers write.
    private let maxIdleChunks: Int
    private var idle: [UnsafeMutableRawPointer] = []
    /// Chunks that buffers hold now.
    private(set) var chunksInUse = 0

    /// Creates a pool that allocates when it is first needed.
    init(maxIdleChunks: Int = 64) {
        self.maxIdleChunks = maxIdleChunks
        idle.reserveCapacity(maxIdleChunks)
    }

    deinit {
        precondition(chunksInUse == 0, "a send buffer outlived its pool")
        for chunk in idle { chunk.deallocate() }
    }

    /// Bytes that the pool makes the process hold.
    var heldBytes: Int {
        (chunksInUse + idle.count) * (ChunkPool.chunkBytes + SendBuffer.Chunk.headerBytes)
    }

    fileprivate func take() -> SendBuffer.Chunk {
        chunksInUse += 1
        let memory =
            idle.popLast()
            ?? .allocate(
                byteCount: ChunkPool.chunkBytes + SendBuffer.Chunk.headerBytes, alignment: 16)
        return SendBuffer.Chunk(emptyAt: memory)
    }

    fileprivate func giveBack(_ chunk: SendBuffer.Chunk) {
        chunksInUse -= 1
        if idle.count < maxIdleChunks {
            idle.append(chunk.memory)
        } else {
            chunk.memory.deallocate()
        }
    }
}

/// A queue of bytes of one connection. The pool is passed in, so that the struct takes 24 bytes.
/// - Important: `removeAll(into:)` must be called before the last copy goes away.
struct SendBuffer {
    /// A chunk's memory: a header, then the bytes.
    struct Chunk {
        /// Next chunk's address, start and end of what the chunk holds.
        static let headerBytes = 16

        let memory: UnsafeMutableRawPointer

        fileprivate init(emptyAt memory: UnsafeMutableRawPointer) {
            self.memory = memory
            memory.storeBytes(of: nil, as: UnsafeMutableRawPointer?.self)
            memory.storeBytes(of: 0, toByteOffset: 8, as: UInt64.self)
        }

        fileprivate init(memory: UnsafeMutableRawPointer) { self.memory = memory }

        fileprivate var next: UnsafeMutableRawPointer? {
            get { memory.load(as: UnsafeMutableRawPointer?.self) }
            nonmutating set { memory.storeBytes(of: newValue, as: UnsafeMutableRawPointer?.self) }
        }

        fileprivate var start: Int {
            get { Int(memory.load(fromByteOffset: 8, as: UInt32.self)) }
            nonmutating set {
                memory.storeBytes(of: UInt32(newValue), toByteOffset: 8, as: UInt32.self)
            }
        }

        fileprivate var end: Int {
            get { Int(memory.load(fromByteOffset: 12, as: UInt32.self)) }
            nonmutating set {
                memory.storeBytes(of: UInt32(newValue), toByteOffset: 12, as: UInt32.self)
            }
        }

        fileprivate var bytes: UnsafeMutableRawPointer { memory + Chunk.headerBytes }
    }

    private var head: UnsafeMutableRawPointer?
    private var tail: UnsafeMutableRawPointer?
    /// Bytes that wait.
    private(set) var count = 0

    /// Whether nothing waits.
    var isEmpty: Bool { count == 0 }

    /// The oldest bytes, as far as they lie in one piece; empty only when the buffer is.
    /// Valid until the next mutation.
    var front: UnsafeRawBufferPointer {
        guard let head else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        let chunk = Chunk(memory: head)
        return UnsafeRawBufferPointer(
            start: chunk.bytes + chunk.start, count: chunk.end - chunk.start)
    }

    /// Copies bytes to the end.
    mutating func append(_ source: UnsafeRawBufferPointer, pool: ChunkPool) {
        guard var from = source.baseAddress else { return }
        var left = source.count
        count += left
        while left > 0 {
            let chunk = chunkWithRoom(pool: pool)
            let taken = min(left, ChunkPool.chunkBytes - chunk.end)
            (chunk.bytes + chunk.end).copyMemory(from: from, byteCount: taken)
            chunk.end += taken
            from += taken
            left -= taken
        }
    }

    /// Forgets the oldest `written` bytes.
    /// - Precondition: `written` is at most `front.count`.
    mutating func removeFirst(_ written: Int, pool: ChunkPool) {
        guard let head, written > 0 else { return }
        let chunk = Chunk(memory: head)
        precondition(written <= chunk.end - chunk.start)
        count -= written
        chunk.start += written
        guard chunk.start == chunk.end else { return }
        self.head = chunk.next
        if self.head == nil { tail = nil }
        pool.giveBack(chunk)
    }

    /// Forgets everything and gives all chunks back.
    mutating func removeAll(into pool: ChunkPool) {
        while !isEmpty { removeFirst(front.count, pool: pool) }
    }

    private mutating func chunkWithRoom(pool: ChunkPool) -> Chunk {
        if let tail {
            let last = Chunk(memory: tail)
            if last.end < ChunkPool.chunkBytes { return last }
        }
        let chunk = pool.take()
        if let tail { Chunk(memory: tail).next = chunk.memory } else { head = chunk.memory }
        tail = chunk.memory
        return chunk
    }
}
