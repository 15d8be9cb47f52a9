// The send buffer alone: bytes come out as they went in, and the chunks go back.

import Simulation
import Testing

@testable import Server

@Suite struct SendBufferTests {
    @Test func givesBackWhatItTookInAnyPieces() {
        var generator = SeededGenerator(seed: 3)
        let pool = ChunkPool()
        var buffer = SendBuffer()
        var expected: [UInt8] = []
        var received: [UInt8] = []
        for round in 0..<400 {
            let count = Int.random(in: 0...40_000, using: &generator) / (round % 5 + 1)
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ round) }
            bytes.withUnsafeBytes { buffer.append($0, pool: pool) }
            expected += bytes
            for _ in 0..<Int.random(in: 0...6, using: &generator) where !buffer.isEmpty {
                let taken = Int.random(in: 1...buffer.front.count, using: &generator)
                received += buffer.front[..<taken]
                buffer.removeFirst(taken, pool: pool)
            }
            #expect(buffer.count == expected.count - received.count)
        }
        while !buffer.isEmpty {
            received += buffer.front
            buffer.removeFirst(buffer.front.count, pool: pool)
        }
        #expect(received == expected)
        #expect(pool.chunksInUse == 0)
        #expect(buffer.front.isEmpty)
    }

    @Test func movesItsBytesToAnotherPool() {
        let (pool, other) = (ChunkPool(), ChunkPool())
        var (buffer, moved) = (SendBuffer(), SendBuffer())
        let bytes = (0..<3 * ChunkPool.chunkBytes).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        bytes.withUnsafeBytes { buffer.append($0, pool: pool) }
        buffer.removeFirst(10, pool: pool)
        let taken = buffer.takeAll(into: pool)
        #expect(taken.elementsEqual(bytes[10...]))
        #expect(buffer.isEmpty && pool.chunksInUse == 0)
        taken.withUnsafeBytes { moved.append($0, pool: other) }
        #expect(moved.count == taken.count && other.chunksInUse > 0)
        moved.removeAll(into: other)
    }

    @Test func reusesChunksOnceItIsEmpty() {
        let pool = ChunkPool(maxIdleChunks: 2)
        var buffer = SendBuffer()
        let bytes = [UInt8](repeating: 1, count: ChunkPool.chunkBytes)
        var held: Set<Int> = []
        for _ in 0..<100 {
            bytes.withUnsafeBytes { buffer.append($0, pool: pool) }
            #expect(pool.chunksInUse == 1)
            held.insert(pool.heldBytes)
            buffer.removeFirst(bytes.count, pool: pool)
        }
        // One chunk served all rounds.
        #expect(held == [ChunkPool.blockBytes])
    }

    @Test func keepsNoMoreIdleChunksThanItsLimit() {
        let pool = ChunkPool(maxIdleChunks: 2)
        var buffer = SendBuffer()
        let bytes = [UInt8](repeating: 1, count: 5 * ChunkPool.chunkBytes)
        bytes.withUnsafeBytes { buffer.append($0, pool: pool) }
        #expect(pool.chunksInUse == 5)
        buffer.removeAll(into: pool)
        #expect(buffer.isEmpty)
        #expect(pool.heldBytes == 2 * ChunkPool.blockBytes)
    }
}
