// Bytes that wait for a socket: chunks from a pool that the connections of a shard share, so that
// the steady state (append, flush in the same tick) neither allocates nor frees.
// It writes no socket and knows no limit; `Shard` does.
//
// Invariant: chunks are linked from `head` to `tail`; none is empty; `count` is the sum of what
// they contain; an empty buffer has no chunk.

import Codec

/// Chunks for the send buffers of one shard.
final class ChunkPool {
    /// Bytes of a chunk without its header. 16 KiB: a text event or a piece of base64 audio fits in
    /// one, and a full tick's writes (64 KiB) take four calls.
    static let chunkBytes = 16 * 1024

    /// Free chunks that are kept. 64 (1 MiB): enough for a tick in which all speakers write.
    private let maxIdleChunks: Int
    /// The chunk that is taken next; the others are linked behind it.
    private var idle: UnsafeMutableRawPointer?
    private var idleCount = 0
    /// Chunks in buffers now.
    private(set) var chunksInUse = 0

    /// Creates a pool that allocates when it is first needed.
    init(maxIdleChunks: Int = 64) { self.maxIdleChunks = maxIdleChunks }

    deinit {
        precondition(chunksInUse == 0, "a send buffer outlived its pool")
        releaseIdle()
    }

    /// Memory of all chunks, used and kept, in bytes.
    var heldBytes: Int {
        (chunksInUse + idleCount) * ChunkPool.blockBytes
    }

    /// Memory of the chunks that wait to be used again, in bytes.
    var idleBytes: Int { idleCount * ChunkPool.blockBytes }

    /// Bytes of a chunk with its header, and the allocator's.
    static let blockBytes = HeapBlock.bytes(ChunkPool.chunkBytes + SendBuffer.Chunk.headerBytes)

    /// Lets go of the chunks that are kept.
    func releaseIdle() {
        while let memory = idle {
            idle = SendBuffer.Chunk(memory: memory).next
            memory.deallocate()
        }
        idleCount = 0
    }

    @inline(__always)
    fileprivate func take() -> SendBuffer.Chunk {
        chunksInUse += 1
        guard let memory = idle else { return SendBuffer.Chunk(emptyAt: allocate()) }
        idle = SendBuffer.Chunk(memory: memory).next
        idleCount -= 1
        return SendBuffer.Chunk(emptyAt: memory)
    }

    private func allocate() -> UnsafeMutableRawPointer {
        .allocate(byteCount: ChunkPool.chunkBytes + SendBuffer.Chunk.headerBytes, alignment: 16)
    }

    fileprivate func giveBack(_ chunk: SendBuffer.Chunk) {
        chunksInUse -= 1
        if idleCount < maxIdleChunks {
            chunk.next = idle
            idle = chunk.memory
            idleCount += 1
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
        /// Next chunk's address, start and end of the chunk's bytes.
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

    /// Bytes of its chunks, of which all but the last are full.
    var heldBytes: Int {
        guard let head else { return 0 }
        let chunks =
            (Chunk(memory: head).start + count + ChunkPool.chunkBytes - 1)
            / ChunkPool.chunkBytes
        return chunks * ChunkPool.blockBytes
    }

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

    /// Appends `size` bytes in one piece, for the caller to fill in at once.
    /// - Returns: nil, with nothing done, when they do not fit into one chunk.
    @inline(__always)
    mutating func append(inOnePiece size: Int, pool: ChunkPool) -> UnsafeMutableRawBufferPointer? {
        let end = tail.map { Chunk(memory: $0).end } ?? 0
        guard size > 0, size <= ChunkPool.chunkBytes - end else { return nil }
        let chunk = chunkWithRoom(pool: pool)
        chunk.end = end + size
        count += size
        return UnsafeMutableRawBufferPointer(start: chunk.bytes + end, count: size)
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

    /// Forgets the oldest `dropped` bytes, in however many pieces they lie.
    /// - Precondition: `dropped` is at most `count`.
    mutating func discardFirst(_ dropped: Int, pool: ChunkPool) {
        var left = dropped
        while left > 0 {
            let piece = min(left, front.count)
            removeFirst(piece, pool: pool)
            left -= piece
        }
    }

    /// Forgets ranges of bytes, counted from the oldest. Copies everything else: for rare use.
    /// - Precondition: the ranges are in order, do not overlap, and end within `count`.
    mutating func remove(_ ranges: [Range<Int>], pool: ChunkPool) {
        var kept = SendBuffer()
        var position = 0
        for range in ranges {
            move(range.lowerBound - position, to: &kept, pool: pool)
            discardFirst(range.count, pool: pool)
            position = range.upperBound
        }
        move(count, to: &kept, pool: pool)
        self = kept
    }

    private mutating func move(_ moved: Int, to other: inout SendBuffer, pool: ChunkPool) {
        var left = moved
        while left > 0 {
            let piece = UnsafeRawBufferPointer(rebasing: front[..<min(left, front.count)])
            other.append(piece, pool: pool)
            removeFirst(piece.count, pool: pool)
            left -= piece.count
        }
    }

    /// Forgets everything and gives all chunks back.
    mutating func removeAll(into pool: ChunkPool) {
        while !isEmpty { removeFirst(front.count, pool: pool) }
    }

    /// Copies everything out, for a connection that leaves the shard, and gives all chunks back.
    mutating func takeAll(into pool: ChunkPool) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count)
        while !isEmpty {
            bytes += front
            removeFirst(front.count, pool: pool)
        }
        return bytes
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
