// Puts WebSocket frames into a send buffer. Where the buffer's last chunk has room, which is the
// usual case, header and payload are one piece. Otherwise the payload follows the header.
//
// Not here: limits of the buffer, compression, and when it is flushed.

import Codec

/// Writes frames of one shard's connections.
struct FrameWriter: ~Copyable {
    /// A header on its way into a buffer without room for the whole frame.
    private var header = ByteWriter(capacity: WebSocketFrame.maxHeaderBytes)

    /// Appends an unmasked, final frame.
    @inline(__always)
    mutating func append(
        _ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer, isCompressed: Bool,
        to output: inout SendBuffer, pool: ChunkPool
    ) {
        let headerSize = WebSocketFrame.headerSize(payloadBytes: payload.count, masked: false)
        let size = headerSize + payload.count
        if let frame = output.append(inOnePiece: size, pool: pool) {
            WebSocketFrame.writeHeader(
                opcode, payloadBytes: payload.count, isCompressed: isCompressed, to: frame)
            UnsafeMutableRawBufferPointer(rebasing: frame[headerSize...]).copyMemory(from: payload)
        } else {
            appendInPieces(opcode, payload, isCompressed: isCompressed, to: &output, pool: pool)
        }
    }

    @inline(never)
    private mutating func appendInPieces(
        _ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer, isCompressed: Bool,
        to output: inout SendBuffer, pool: ChunkPool
    ) {
        header.removeAll()
        WebSocketFrame.writeHeader(
            opcode, payloadBytes: payload.count, isCompressed: isCompressed, into: &header)
        header.withUnsafeBytes { output.append($0, pool: pool) }
        output.append(payload, pool: pool)
    }
}
