// Errors that a peer can make in HTTP/1.1, and the status that answers each (RFC 9110 §15, RFC
// 9112). There is one case per broken rule, so that tests, logs and metrics name the rule. Server
// has the statuses that depend on the route (404, 405), WebSocketHandshake those of the upgrade.
// After any of these errors the connection must close, because the start of the next message is
// unknown.

/// A rule of HTTP that the peer broke, or a limit that it exceeded.
public enum HTTPError: Error, Hashable, Sendable, CaseIterable {
    /// A line that does not end in CR LF. RFC 9112 §2.2 allows a lenient reading, but two parsers
    /// that disagree about line ends make request smuggling possible.
    case bareLineFeed
    /// A request line that is not `method SP target SP version`, or a status line that is not
    /// `version SP status SP reason` (RFC 9112 §3, §4).
    case malformedStartLine
    /// A version that is not `HTTP/` digit `.` digit (RFC 9112 §2.3).
    case malformedVersion
    /// A major version other than 1 (RFC 9110 §15.6.6).
    case unsupportedVersion
    /// A method longer than any registered one (RFC 9112 §3), or CONNECT, which only a proxy
    /// serves.
    case unsupportedMethod
    /// A target that is neither `/path`, `http://…` nor, with OPTIONS, `*` (RFC 9112 §3.2).
    case invalidTarget
    /// A start line over `HTTPLimits.maxStartLineBytes`. Its target is what makes it long.
    case targetTooLong
    /// A head over `HTTPLimits.maxHeaderBytes`.
    case headTooLarge
    /// More fields than `HTTPLimits.maxHeaderFields`.
    case tooManyFields
    /// A field line that begins with white space and so continues the previous one (RFC 9112 §5.2).
    case obsoleteLineFolding
    /// A field line without a colon (RFC 9112 §5).
    case missingColon
    /// White space between a field's name and its colon (RFC 9112 §5.1).
    case whitespaceBeforeColon
    /// A field name that is empty or not a token (RFC 9110 §5.1).
    case invalidFieldName
    /// A control character in a field's value, a bare CR among them (RFC 9110 §5.5).
    case invalidFieldValue
    /// An HTTP/1.1 request without Host (RFC 9112 §3.2).
    case missingHost
    /// More than one Host (RFC 9112 §3.2).
    case duplicateHost
    /// A Host that is not `host` or `host:port`, or whose host is empty (RFC 9112 §3.2).
    case invalidHost
    /// More than one Content-Length, equal or not (RFC 9112 §6.3).
    case duplicateContentLength
    /// A Content-Length that is not a number (RFC 9112 §6.3).
    case invalidContentLength
    /// Content-Length together with Transfer-Encoding, a common means of smuggling (RFC 9112 §6.3).
    case conflictingFraming
    /// Transfer-Encoding in HTTP/1.0, which does not define it (RFC 9112 §6.1).
    case transferCodingInHTTP10
    /// A Transfer-Encoding that does not end in chunked, or is empty (RFC 9112 §6.3).
    case unframedTransferCoding
    /// A transfer coding other than chunked (RFC 9112 §6.1).
    case unsupportedTransferCoding
    /// A chunk size that is not a hexadecimal number, or chunk extensions that are too long (RFC
    /// 9112 §7.1).
    case invalidChunkSize
    /// A chunk's data not followed by CR LF (RFC 9112 §7.1).
    case invalidChunkEnd
    /// A body over `HTTPLimits.maxBodyBytes`.
    case bodyTooLarge
    /// An Expect other than 100-continue (RFC 9110 §10.1.1).
    case unsupportedExpectation
    /// Responses only: more interim (1xx) responses than `HTTPResponseParser` accepts.
    case tooManyInterimResponses
    /// Responses only: the connection closed before the response was complete (RFC 9112 §8).
    case truncatedMessage

    /// The status of the response that reports the error to the client.
    public var status: Int {
        switch self {
        case .bareLineFeed, .malformedStartLine, .malformedVersion, .invalidTarget,
            .obsoleteLineFolding, .missingColon, .whitespaceBeforeColon, .invalidFieldName,
            .invalidFieldValue, .missingHost, .duplicateHost, .invalidHost,
            .duplicateContentLength, .invalidContentLength, .conflictingFraming,
            .transferCodingInHTTP10, .unframedTransferCoding, .invalidChunkSize, .invalidChunkEnd,
            .tooManyInterimResponses, .truncatedMessage:
            400
        case .bodyTooLarge: 413
        case .targetTooLong: 414
        case .unsupportedExpectation: 417
        case .headTooLarge, .tooManyFields: 431
        case .unsupportedMethod, .unsupportedTransferCoding: 501
        case .unsupportedVersion: 505
        }
    }
}
