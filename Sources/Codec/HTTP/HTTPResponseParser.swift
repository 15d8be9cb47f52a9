// Parses bytes into responses, the client's side of RFC 9112, for `parley talk` and the load
// generator. It is as strict as the request parser and shares its parsing of fields and bodies. The
// parser keeps no input. The caller keeps it and passes it again when it has grown.
//
// Invariant: interim responses are never returned, except 101, after which the connection no longer
// speaks HTTP.

/// Parses the response to one request.
public struct HTTPResponseParser: Sendable {
    /// Maximum interim responses. A server needs no more than two or three.
    private static let maxInterimResponses = 16

    private let method: HTTPMethod
    private let limits: HTTPLimits
    private var headParser: HTTPHeadParser
    private var startLine: (version: HTTPVersion, status: Int)?
    private var interimResponses = 0
    private var pending: (status: Int, fields: HTTPFields, body: HTTPBodyParser)?

    /// Creates a parser.
    /// - Parameter method: method of the request; a response to HEAD has no body.
    public init(answering method: HTTPMethod = .get, limits: HTTPLimits = HTTPLimits()) {
        self.method = method
        self.limits = limits
        headParser = HTTPHeadParser(start: 0, limits: limits)
    }

    /// Parses the response at the front of `input`.
    /// - Parameter input: all bytes received since the end of the last response. On the next call
    ///   it begins with the same bytes.
    /// - Returns: the response and its byte count, or nil when more bytes are needed. After 101
    ///   the rest belongs to the new protocol. A parser serves one response.
    public mutating func parse(
        _ input: UnsafeRawBufferPointer
    ) throws(HTTPError) -> (response: HTTPResponse, consumed: Int)? {
        while pending == nil {
            var startLine = self.startLine
            let head = try headParser.parse(input) { (line) throws(HTTPError) in
                startLine = try Self.parseStatusLine(
                    UnsafeRawBufferPointer(rebasing: input[line]))
            }
            self.startLine = startLine
            guard let head, let startLine else { return nil }
            if startLine.status < 200 && startLine.status != 101 {
                interimResponses += 1
                guard interimResponses <= Self.maxInterimResponses else {
                    throw .tooManyInterimResponses
                }
                headParser = HTTPHeadParser(start: head.end, limits: limits)
                self.startLine = nil
            } else {
                let framing = try framing(of: head.fields, startLine)
                let body = try HTTPBodyParser(framing: framing, start: head.end, limits: limits)
                pending = (startLine.status, head.fields, body)
            }
        }
        guard let (body, end) = try pending?.body.parse(input), let (status, fields, _) = pending
        else { return nil }
        return (HTTPResponse(status: status, fields: fields, body: body), end)
    }

    /// The response that ends with the connection.
    /// - Parameter input: the bytes last passed to `parse`, which returned nil.
    /// - Throws: `truncatedMessage` if the response is incomplete.
    public func finish(_ input: UnsafeRawBufferPointer) throws(HTTPError) -> HTTPResponse {
        guard let pending else { throw .truncatedMessage }
        let body = try pending.body.finish(input)
        return HTTPResponse(status: pending.status, fields: pending.fields, body: body)
    }

    /// Reads `version SP status [ SP reason ]` (RFC 9112 §4). Some servers omit the last space
    /// together with the reason. The reason is ignored.
    private static func parseStatusLine(
        _ line: UnsafeRawBufferPointer
    ) throws(HTTPError) -> (version: HTTPVersion, status: Int) {
        let parts = line.split(separator: 0x20, maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count >= 2 else { throw .malformedStartLine }
        let version = try HTTPRequestParser.parseVersion(parts[0])
        guard parts[1].count == 3, parts[1].allSatisfy(\.isASCIIDigit),
            parts.count == 2 || parts[2].allSatisfy(HTTPCharacter.isFieldValue)
        else { throw .malformedStartLine }
        let status = parts[1].reduce(0) { $0 * 10 + Int($1 - 0x30) }
        guard status >= 100 && status <= 599 else { throw .malformedStartLine }
        return (version, status)
    }

    /// How a response's body ends (RFC 9112 §6.3).
    private func framing(
        of fields: HTTPFields, _ startLine: (version: HTTPVersion, status: Int)
    ) throws(HTTPError) -> HTTPBodyFraming {
        guard method != .head && HTTPResponseHead.hasBody(status: startLine.status) else {
            return .length(0)
        }
        if try HTTPBodyFraming.isChunked(fields, version: startLine.version) { return .chunked }
        guard let length = try HTTPBodyFraming.contentLength(of: fields) else { return .untilClose }
        return .length(length)
    }
}
