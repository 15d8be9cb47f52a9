// Errors that a peer can make on a WebSocket, and the close code that answers each. There is one
// case per broken rule of RFC 6455 and RFC 7692, so that tests, logs and metrics name the rule.
// WebSocketHandshake has the errors of the opening handshake, which are answered with an HTTP
// status. Only this file maps errors to close codes.

/// The status code of a Close frame (RFC 6455 §7.4).
public struct WebSocketCloseCode: RawRepresentable, Hashable, Sendable {
    /// The code as on the wire.
    public let rawValue: UInt16

    /// Wraps any code, valid on the wire or not: see `isAllowedOnWire`.
    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// 1000: the purpose is fulfilled.
    public static let normalClosure = WebSocketCloseCode(rawValue: 1000)
    /// 1001: the endpoint is going away, such as a server that stops or a page that is left.
    public static let goingAway = WebSocketCloseCode(rawValue: 1001)
    /// 1002: the peer broke a rule of RFC 6455.
    public static let protocolError = WebSocketCloseCode(rawValue: 1002)
    /// 1003: a kind of message that the endpoint does not accept, such as binary where only text is
    /// known.
    public static let unsupportedData = WebSocketCloseCode(rawValue: 1003)
    /// 1007: a text message that is not UTF-8, or content that contradicts its type.
    public static let invalidPayload = WebSocketCloseCode(rawValue: 1007)
    /// 1008: a message that breaks a policy of the endpoint.
    public static let policyViolation = WebSocketCloseCode(rawValue: 1008)
    /// 1009: a message too big to process.
    public static let messageTooBig = WebSocketCloseCode(rawValue: 1009)
    /// 1011: an unexpected condition in the server.
    public static let internalError = WebSocketCloseCode(rawValue: 1011)
    /// 1012: the server restarts; the client may reconnect after a short random delay.
    public static let serviceRestart = WebSocketCloseCode(rawValue: 1012)
    /// 1013: the server is overloaded; the client should reconnect later.
    public static let tryAgainLater = WebSocketCloseCode(rawValue: 1013)

    /// 4409, of Parley's own: the session goes on at another connection, which has resumed it. The
    /// number is that of HTTP's 409 Conflict.
    public static let takenOver = WebSocketCloseCode(rawValue: 4409)

    /// Whether a Close frame may carry this code: 1000…1003, 1007…1014 (RFC 6455 §7.4.1 and the
    /// IANA registry), 3000…4999 (§7.4.2). 1004 is undefined; 1005, 1006 and 1015 are for local
    /// use.
    public var isAllowedOnWire: Bool {
        switch rawValue {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }
}

/// A rule of RFC 6455 or RFC 7692 that the peer broke, or a limit that it exceeded. The connection
/// must close.
public enum WebSocketError: Error, Hashable, Sendable, CaseIterable {
    /// A reserved bit is set where no extension defines it (RFC 6455 §5.2, RFC 7692 §6.1: RSV1 only
    /// on the first frame of a message).
    case reservedBitSet
    /// An opcode of 3…7 or B…F (RFC 6455 §5.2).
    case reservedOpcode
    /// A client sent a frame without a mask (RFC 6455 §5.1).
    case unmaskedClientFrame
    /// A server sent a frame with a mask (RFC 6455 §5.1).
    case maskedServerFrame
    /// A Close, Ping or Pong without FIN (RFC 6455 §5.5).
    case fragmentedControlFrame
    /// A Close, Ping or Pong with more than 125 bytes of payload (RFC 6455 §5.5).
    case controlFrameTooLong
    /// A length that uses more bytes than needed (RFC 6455 §5.2).
    case nonMinimalLength
    /// A 64-bit length with its top bit set (RFC 6455 §5.2).
    case lengthTopBitSet
    /// A continuation frame while no message is in progress (RFC 6455 §5.4).
    case unexpectedContinuation
    /// A new text or binary frame inside a fragmented message (RFC 6455 §5.4).
    case interruptedMessage
    /// A text message that is not UTF-8 (RFC 6455 §8.1).
    case invalidUTF8
    /// A Close frame with one byte of payload, too short for a code (RFC 6455 §5.5.1).
    case truncatedCloseCode
    /// A Close frame with a code that must not be sent (RFC 6455 §7.4).
    case invalidCloseCode
    /// A Close frame whose reason is not UTF-8 (RFC 6455 §5.5.1).
    case invalidCloseReason
    /// More than `WebSocketLimits.maxMessageBytes` in one message.
    case messageTooBig
    /// More than `WebSocketLimits.maxFramesPerMessage` frames in one message, with too few bytes on
    /// average.
    case tooManyFrames
    /// A compressed message that is not valid deflate data (RFC 7692 §7.2.2).
    case invalidDeflate
    /// A message that inflates to more than `InflationLimits.maxRatio` times its size.
    case inflationRatioTooHigh
    /// More deflate blocks than `InflationLimits` allow, with too few bytes on average.
    case tooManyBlocks

    /// The code to close the connection with.
    public var closeCode: WebSocketCloseCode {
        switch self {
        case .reservedBitSet, .reservedOpcode, .unmaskedClientFrame, .maskedServerFrame,
            .fragmentedControlFrame, .controlFrameTooLong, .nonMinimalLength, .lengthTopBitSet,
            .unexpectedContinuation, .interruptedMessage, .truncatedCloseCode, .invalidCloseCode:
            .protocolError
        case .invalidUTF8, .invalidCloseReason, .invalidDeflate: .invalidPayload
        case .messageTooBig, .inflationRatioTooHigh: .messageTooBig
        case .tooManyFrames, .tooManyBlocks: .policyViolation
        }
    }
}
