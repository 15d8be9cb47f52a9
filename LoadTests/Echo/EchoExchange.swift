// The bytes of the echo benchmark: what a connection sends in one go, and what must come back.
// Every message carries the numbers of its connection and of its turn, so that an answer that is
// late, lost or another's is not taken for the right one. No socket here.

import Codec

/// What a peer of the benchmark speaks.
enum EchoWire: Equatable {
    /// Bytes, as they came.
    case raw
    /// WebSocket messages, at this path.
    case webSocket(path: String)
}

/// `depth` messages that are sent at once and the answers to them. Owns both buffers.
final class EchoExchange {
    /// Fixed: a random key per message would cost the generator and tells nothing.
    private static let mask: UInt32 = 0x37FA_213D

    /// What a connection sends.
    let request: UnsafeMutableRawBufferPointer
    /// What it must receive.
    let reply: UnsafeMutableRawBufferPointer
    /// Messages in one go.
    let depth: Int
    /// From a message's beginning to its stamp, and to the next message.
    private let requestHeader: Int, requestStride: Int
    private let replyHeader: Int, replyStride: Int
    private let requestKey: UInt64, replyKey: UInt64

    /// Makes the buffers.
    /// - Precondition: `payloadBytes` has room for the stamp, 8 bytes.
    init(wire: EchoWire, payloadBytes: Int, depth: Int) {
        precondition(payloadBytes >= 8 && depth > 0)
        let payload = (0..<payloadBytes).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ 7) }
        let question = EchoExchange.message(payload, mask: EchoExchange.mask)
        // The raw echo gets the same bytes, but cannot unmask them.
        let answer = wire == .raw ? question : EchoExchange.message(payload, mask: nil)
        self.depth = depth
        request = EchoExchange.repeated(question, depth)
        reply = EchoExchange.repeated(answer, depth)
        (requestHeader, requestStride) = (question.count - payloadBytes, question.count)
        (replyHeader, replyStride) = (answer.count - payloadBytes, answer.count)
        requestKey = UInt64(EchoExchange.mask) << 32 | UInt64(EchoExchange.mask)
        replyKey = wire == .raw ? requestKey : 0
    }

    deinit {
        request.deallocate()
        reply.deallocate()
    }

    /// Writes the numbers of a connection and its turn into the request.
    @inline(__always)
    func stampRequest(connection: Int, turn: UInt32) {
        let stamp = (UInt64(turn) << 32 | UInt64(connection)) ^ requestKey
        for index in 0..<depth {
            request.storeBytes(
                of: stamp, toByteOffset: index * requestStride + requestHeader, as: UInt64.self)
        }
    }

    /// Writes the same into what is expected back.
    @inline(__always)
    func stampReply(connection: Int, turn: UInt32) {
        let stamp = (UInt64(turn) << 32 | UInt64(connection)) ^ replyKey
        for index in 0..<depth {
            reply.storeBytes(
                of: stamp, toByteOffset: index * replyStride + replyHeader, as: UInt64.self)
        }
    }

    /// Whether an offset into the reply is where a message begins.
    func isBoundary(_ offset: Int) -> Bool { offset % replyStride == 0 }

    private static func message(_ payload: [UInt8], mask: UInt32?) -> [UInt8] {
        var writer = ByteWriter(capacity: payload.count + WebSocketFrame.maxHeaderBytes)
        payload.withUnsafeBytes {
            WebSocketFrame.write(.binary, payload: $0, mask: mask, into: &writer)
        }
        return writer.copiedBytes
    }

    private static func repeated(_ bytes: [UInt8], _ times: Int) -> UnsafeMutableRawBufferPointer {
        let all = UnsafeMutableRawBufferPointer.allocate(
            byteCount: bytes.count * times, alignment: 16)
        for index in 0..<times {
            UnsafeMutableRawBufferPointer(rebasing: all[(index * bytes.count)...])
                .copyBytes(from: bytes)
        }
        return all
    }
}
