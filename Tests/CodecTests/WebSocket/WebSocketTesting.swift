// Helpers for the WebSocket tests: frames built by hand, as in RFC 6455 §5.2 and independently of
// WebSocketFrame, and a record of everything that a connection reports.

import Codec

/// Everything that a connection can report, as values that outlive the read buffer.
enum Received: Equatable {
    case text(String)
    case binary([UInt8])
    case ping([UInt8])
    case pong([UInt8])
    case close(UInt16?, String)
    /// A message that was not inflated.
    case compressed(isText: Bool, [UInt8])
    case failed(WebSocketError)

    init(_ event: WebSocketEvent) {
        switch event {
        case .text(let payload): self = .text(String(decoding: payload, as: UTF8.self))
        case .binary(let payload): self = .binary(Array(payload))
        case .compressed(let message):
            self = .compressed(isText: message.isText, Array(message.payload))
        case .ping(let payload): self = .ping(Array(payload))
        case .pong(let payload): self = .pong(Array(payload))
        case .close(let code, let reason):
            self = .close(code?.rawValue, String(decoding: reason, as: UTF8.self))
        }
    }
}

/// The inflater and the buffer of a test.
struct Inflation {
    let inflater: MessageInflater
    let output = CompressionBuffer()
    var limits = InflationLimits()

    init(windowBits: Int = 15, keepsContext: Bool = false) {
        inflater = MessageInflater(windowBits: windowBits, keepsContext: keepsContext)
    }
}

/// Feeds one read to a connection until all is consumed, as the server's loop does.
/// - Parameter inflation: inflates compressed messages; without it they are recorded compressed.
func feed(
    _ connection: inout WebSocketConnection, _ read: [UInt8], inflation: Inflation? = nil
) -> [Received] {
    var received: [Received] = []
    var read = read
    read.withUnsafeMutableBytes { buffer in
        var input = buffer
        do throws(WebSocketError) {
            while var event = try connection.next(&input) {
                if case .compressed(let message) = event, let inflation {
                    event = try connection.inflate(
                        message, with: inflation.inflater, limits: inflation.limits,
                        into: inflation.output)
                }
                received.append(Received(event))
            }
        } catch {
            received.append(.failed(error))
        }
        // A real read buffer is overwritten by the next read, so nothing may still point into it.
        for index in buffer.indices { buffer[index] = 0xEE }
    }
    return received
}

/// Feeds all pieces to a new connection with compression.
func receiveCompressed(
    _ pieces: [[UInt8]], limits: WebSocketLimits = WebSocketLimits(),
    inflation: Inflation = Inflation()
) -> [Received] {
    var connection = WebSocketConnection(role: .server, limits: limits, takesCompressed: true)
    return pieces.flatMap { feed(&connection, $0, inflation: inflation) }
}

/// Feeds all pieces to a new connection.
func receive(
    _ pieces: [[UInt8]], role: WebSocketRole = .server, limits: WebSocketLimits = WebSocketLimits()
) -> [Received] {
    var connection = WebSocketConnection(role: role, limits: limits)
    return pieces.flatMap { feed(&connection, $0) }
}

/// The mask of hand-built client frames. All four bytes differ, so that a wrong offset shows.
let testMask: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]

/// A frame with a given first byte (FIN, RSV and opcode) and the shortest form of length.
func frame(_ first: UInt8, _ payload: [UInt8], mask: [UInt8]? = testMask) -> [UInt8] {
    let count = payload.count
    let length: [UInt8] =
        if count < 126 {
            [UInt8(count)]
        } else if count <= 0xFFFF {
            [126, UInt8(count >> 8), UInt8(count & 0xFF)]
        } else {
            [127] + (0..<8).reversed().map { UInt8(truncatingIfNeeded: count >> ($0 * 8)) }
        }
    return frame(first, length: length, payload, mask: mask)
}

/// A frame with any length bytes, valid or not.
func frame(
    _ first: UInt8, length: [UInt8], _ payload: [UInt8] = [], mask: [UInt8]? = testMask
) -> [UInt8] {
    guard let mask else { return [first] + length + payload }
    let masked = payload.enumerated().map { $1 ^ mask[$0 % 4] }
    return [first, length[0] | 0x80] + length.dropFirst() + mask + masked
}

/// The payload of a Close frame.
func closePayload(_ code: UInt16, _ reason: String = "") -> [UInt8] {
    [UInt8(code >> 8), UInt8(code & 0xFF)] + Array(reason.utf8)
}
