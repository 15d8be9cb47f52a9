// Parses bytes into requests, the server's side of RFC 9112. It is strict: input that two parsers
// could understand differently is refused, because such differences make request smuggling
// possible. The parser keeps no input. The caller keeps it, passes it again when it has grown, and
// drops the bytes of each parsed request.
//
// Invariant: a byte that has been searched is not searched again.

/// Parses requests, pipelined ones too. After an error the connection must close.
public struct HTTPRequestParser: Sendable {
    /// The parsed start line.
    private struct StartLine {
        let method: HTTPMethod
        let path: String
        let query: String?
        let authority: String?
        let version: HTTPVersion
    }

    /// Longer than any registered method.
    private static let maxMethodBytes = 32

    private let limits: HTTPLimits
    private var headParser: HTTPHeadParser
    private var startLine: StartLine?
    /// The request whose body is still incomplete.
    private var pending: (request: HTTPRequest, body: HTTPBodyParser)?

    /// Whether the client waits for an interim `100 Continue` before it sends the body (RFC 9110
    /// §10.1.1). True after the call of `parse` that completed the head. The caller may then answer
    /// with `HTTPResponse.continueHead`, once per request.
    public private(set) var awaitsContinue = false

    /// Whether a request's head has been parsed and its body is incomplete.
    public var isInBody: Bool { pending != nil }

    /// The request whose body is incomplete, without its body; nil if there is none.
    public var requestInBody: HTTPRequest? { pending?.request }

    /// Creates a parser at the start of a connection.
    public init(limits: HTTPLimits = HTTPLimits()) {
        self.limits = limits
        headParser = HTTPHeadParser(start: 0, limits: limits)
    }

    /// Parses the request at the front of `input`.
    /// - Parameter input: all bytes received since the end of the last request. On the next call it
    ///   begins with the same bytes, unless this call returned a request.
    /// - Returns: the request and its byte count, or nil when more bytes are needed. Drop that
    ///   many bytes and call again, because another request may follow.
    public mutating func parse(
        _ input: UnsafeRawBufferPointer
    ) throws(HTTPError) -> (request: HTTPRequest, consumed: Int)? {
        if pending == nil {
            let limits = self.limits
            var startLine = self.startLine
            let head = try headParser.parse(input) { (line) throws(HTTPError) in
                startLine = try Self.parseStartLine(
                    UnsafeRawBufferPointer(rebasing: input[line]))
            }
            self.startLine = startLine
            guard let head, let startLine else { return nil }
            let framing = try Self.framing(of: head.fields, version: startLine.version)
            let host = try Self.host(of: head.fields, startLine)
            let body = try HTTPBodyParser(framing: framing, start: head.end, limits: limits)
            try checkExpectation(head.fields, startLine.version, framing)
            let request = HTTPRequest(
                method: startLine.method, path: startLine.path, query: startLine.query, host: host,
                version: startLine.version, fields: head.fields)
            pending = (request, body)
        }
        guard let (body, end) = try pending?.body.parse(input), var request = pending?.request
        else { return nil }
        request.body = body
        pending = nil
        startLine = nil
        awaitsContinue = false
        headParser = HTTPHeadParser(start: 0, limits: limits)
        return (request, end)
    }

    // MARK: The start line

    /// Reads `method SP target SP version` (RFC 9112 §3), single spaces only.
    private static func parseStartLine(
        _ line: UnsafeRawBufferPointer
    ) throws(HTTPError) -> StartLine {
        guard let methodEnd = line.firstIndex(of: 0x20),
            let targetEnd = line.lastIndex(of: 0x20), targetEnd > methodEnd,
            methodEnd > 0, line[..<methodEnd].allSatisfy(HTTPCharacter.isToken),
            !line[(methodEnd + 1)..<targetEnd].contains(0x20)
        else { throw .malformedStartLine }
        let version = try parseVersion(line[(targetEnd + 1)...])
        guard methodEnd <= maxMethodBytes else { throw .unsupportedMethod }
        let method = HTTPMethod(String(decoding: line[..<methodEnd], as: UTF8.self))
        guard method != .other("CONNECT") else { throw .unsupportedMethod }
        let targetBytes = line[(methodEnd + 1)..<targetEnd]
        guard !targetBytes.isEmpty, targetBytes.allSatisfy(HTTPCharacter.isTarget) else {
            throw .invalidTarget
        }
        let target = String(decoding: targetBytes, as: UTF8.self)
        let (authority, local) = try splitTarget(target, method)
        let pathEnd = local.utf8.firstIndex(of: UInt8(ascii: "?"))
        let path = local[..<(pathEnd ?? local.endIndex)]
        return StartLine(
            method: method, path: path.isEmpty ? "/" : String(path),
            query: pathEnd.map { String(local[local.utf8.index(after: $0)...]) },
            authority: authority, version: version)
    }

    /// Distinguishes the forms of a target (RFC 9112 §3.2).
    /// - Returns: the authority of an absolute target, and the path with the query.
    private static func splitTarget(
        _ target: String, _ method: HTTPMethod
    ) throws(HTTPError) -> (authority: String?, local: Substring) {
        if target.utf8.first == UInt8(ascii: "/") { return (nil, target[...]) }
        if target == "*" && method == .options { return (nil, target[...]) }
        let scheme = target.prefix { $0 != ":" }.lowercased()
        guard scheme == "http" || scheme == "https" else { throw .invalidTarget }
        let rest = target.dropFirst(scheme.utf8.count)
        guard rest.hasPrefix("://") else { throw .invalidTarget }
        let authority = rest.dropFirst(3).prefix { $0 != "/" && $0 != "?" }
        guard isAuthority(authority.utf8) else { throw .invalidTarget }
        return (String(authority), target[authority.endIndex...])
    }

    /// Reads `HTTP/1.1` (RFC 9112 §2.3).
    static func parseVersion(
        _ text: Slice<UnsafeRawBufferPointer>
    ) throws(HTTPError) -> HTTPVersion {
        let (major, minor) = (text.startIndex + 5, text.startIndex + 7)
        guard text.count == 8, text.prefix(5).elementsEqual("HTTP/".utf8),
            text[major].isASCIIDigit, text[major + 1] == UInt8(ascii: "."), text[minor].isASCIIDigit
        else { throw .malformedVersion }
        guard text[major] == UInt8(ascii: "1") else { throw .unsupportedVersion }
        return text[minor] == UInt8(ascii: "0") ? .http10 : .http11
    }

    // MARK: The fields

    /// Checks Host (RFC 9112 §3.2). An empty one means that the target has no authority. Targets of
    /// http and https must have one (RFC 9110 §4.2.1, RFC 9112 §3.3), so it is refused as invalid.
    private static func host(
        of fields: HTTPFields, _ startLine: StartLine
    ) throws(HTTPError) -> String {
        let lines = fields.count(of: "Host")
        guard lines <= 1 else { throw .duplicateHost }
        guard lines == 1 || startLine.version == .http10 else { throw .missingHost }
        guard let host = fields["Host"] else { return startLine.authority ?? "" }
        guard isAuthority(host.utf8) else { throw .invalidHost }
        return startLine.authority ?? host
    }

    /// Whether bytes are `host` or `host:port` with a host that is not empty (RFC 3986 §3.2.2,
    /// §3.2.3). The host is a name, an IPv4 address, or an address in brackets; the port is any
    /// number of digits, or none. Whether the host exists is not checked.
    private static func isAuthority(_ bytes: some BidirectionalCollection<UInt8>) -> Bool {
        let isLiteral = bytes.first == UInt8(ascii: "[")
        let end = UInt8(ascii: isLiteral ? "]" : ":")
        let host = bytes.dropFirst(isLiteral ? 1 : 0).prefix { $0 != end }
        var rest = bytes[host.endIndex...]
        if isLiteral, rest.popFirst() == nil { return false }
        guard !host.isEmpty, host.allSatisfy(HTTPCharacter.isHost) else { return false }
        guard let colon = rest.popFirst() else { return true }
        return colon == UInt8(ascii: ":") && rest.allSatisfy(\.isASCIIDigit)
    }

    /// How a request's body ends (RFC 9112 §6.3). It never ends by closing the connection.
    private static func framing(
        of fields: HTTPFields, version: HTTPVersion
    ) throws(HTTPError) -> HTTPBodyFraming {
        if try HTTPBodyFraming.isChunked(fields, version: version) { return .chunked }
        return .length(try HTTPBodyFraming.contentLength(of: fields) ?? 0)
    }

    private mutating func checkExpectation(
        _ fields: HTTPFields, _ version: HTTPVersion, _ framing: HTTPBodyFraming
    ) throws(HTTPError) {
        // HTTP/1.0 does not define Expect, so it is ignored there (RFC 9110 §10.1.1).
        guard version == .http11, let expectation = fields["Expect"] else { return }
        guard expectation.lowercased() == "100-continue" else { throw .unsupportedExpectation }
        awaitsContinue = framing != .length(0)
    }
}
