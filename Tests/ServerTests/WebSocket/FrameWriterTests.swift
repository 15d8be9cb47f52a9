// Frames on their way into a send buffer, in one piece and in two.

import Codec
import Testing

@testable import Server

@Suite struct FrameWriterTests {
    /// Payloads that begin at any place in a chunk, and longer ones than a chunk.
    @Test(arguments: [0, 1, 125, 126, 5_000, 65_535, 65_536, 100_000])
    func framesAreTheSameHoweverTheyLieInChunks(bytes: Int) throws {
        var frames = FrameWriter()
        let pool = ChunkPool()
        let payload = (0..<bytes).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        var expected = ByteWriter(capacity: 16)
        WebSocketFrame.writeHeader(
            .binary, payloadBytes: bytes, isCompressed: true, into: &expected)
        payload.withUnsafeBytes { expected.append($0) }
        for room in [0, 1, 3, 9, 200, ChunkPool.chunkBytes - 5] {
            var output = SendBuffer()
            [UInt8](repeating: 9, count: room).withUnsafeBytes { output.append($0, pool: pool) }
            payload.withUnsafeBytes {
                frames.append(.binary, $0, isCompressed: true, to: &output, pool: pool)
            }
            var written: [UInt8] = []
            while !output.isEmpty {
                written += Array(output.front)
                output.removeFirst(output.front.count, pool: pool)
            }
            #expect(Array(written.dropFirst(room)) == expected.copiedBytes)
        }
        #expect(pool.chunksInUse == 0)
    }
}
