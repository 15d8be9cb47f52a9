// The bytes of the echo benchmark: the messages that a connection sends at once, and the expected
// answers. Every message contains the number of its connection and of its lap (one pass over all
// connections), so that a late or misdirected answer is detected. No socket is used here.

import Codec

/// The protocol of a peer of the benchmark.
enum EchoWire: Equatable {
    /// Bytes are echoed unchanged.
    case raw
    /// WebSocket messages, at this path.
    case webSocket(path: String)
    /// Every request is answered with 200, and the connection closed. Only for handshakes.
    case http
}

/// `depth` messages that are sent at once, and their answers. Owns both buffers.
final class EchoExchange {
    /// A fixed mask: a random one for each message would cost the generator time and test nothing
    /// more.
    private static let mask: UInt32 = 0x37FA_213D

    /// The bytes that a connection sends.
    let request: UnsafeMutableRawBufferPointer
    /// The bytes that it must receive.
    let reply: UnsafeMutableRawBufferPointer
    /// Messages that are sent at once.
    let depth: Int
    /// Bytes from a message's beginning to its stamp, and to the next message.
    private let requestHeader: Int, requestStride: Int
    private let replyHeader: Int, replyStride: Int
    private let requestKey: UInt64, replyKey: UInt64

    /// Makes the buffers.
    /// - Precondition: `payloadBytes` is at least 8, the bytes of the stamp.
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

    /// Writes the numbers of a connection and a lap into the request.
    @inline(__always)
    func stampRequest(connection: Int, lap: UInt32) {
        let stamp = (UInt64(lap) << 32 | UInt64(connection)) ^ requestKey
        for index in 0..<depth {
            request.storeBytes(
                of: stamp, toByteOffset: index * requestStride + requestHeader, as: UInt64.self)
        }
    }

    /// Writes the same numbers into the expected reply.
    @inline(__always)
    func stampReply(connection: Int, lap: UInt32) {
        let stamp = (UInt64(lap) << 32 | UInt64(connection)) ^ replyKey
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
