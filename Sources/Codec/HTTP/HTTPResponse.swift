// A response as a value, and how it is written (RFC 9112 §4, RFC 9110 §6.4). HTTPResponseParser
// parses responses, which only clients need. There is no clock here: a caller that wants a Date
// field appends it.
//
// Invariant: the end of a written response is known to its reader: by Content-Length, or because
// its status has no body.

/// One HTTP response, complete with its body.
public struct HTTPResponse: Sendable {
    /// The status code. 100…599 when received.
    public var status: Int
    /// The fields. For writing: without Content-Length and Connection, which `write` adds.
    public var fields: HTTPFields
    /// The body, without chunk framing.
    public var body: [UInt8]

    /// Creates a response.
    public init(status: Int, fields: HTTPFields = HTTPFields(), body: [UInt8] = []) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    /// Creates a response of plain text, for example for an error.
    public init(status: Int, text: String) {
        self.init(status: status, body: Array(text.utf8))
        fields.append("Content-Type", "text/plain; charset=utf-8")
    }

    /// The interim response that lets a waiting client send its body (RFC 9110 §15.2.1).
    public static let continueHead: StaticString = "HTTP/1.1 100 Continue\r\n\r\n"

    /// Writes the response.
    /// - Parameters:
    ///   - method: the request's method. HEAD gets the same head as GET, and no body.
    ///   - keepAlive: whether the connection stays open for another request.
    public func write(
        answering method: HTTPMethod, keepAlive: Bool, into writer: inout ByteWriter
    ) {
        HTTPResponseHead.write(
            status: status, headers: fields, contentLength: body.count, keepAlive: keepAlive,
            into: &writer)
        guard method != .head && HTTPResponseHead.hasBody(status: status) else { return }
        body.withUnsafeBytes { writer.append($0) }
    }
}

/// Writes the heads of responses whose bodies the caller writes itself.
public enum HTTPResponseHead {
    /// Whether a response with this status may have a body (RFC 9112 §6.3).
    public static func hasBody(status: Int) -> Bool {
        status >= 200 && status != 204 && status != 304
    }

    /// Writes a head, including its final empty line.
    /// - Parameters:
    ///   - headers: without Content-Length and Connection.
    ///   - contentLength: bytes of the body that follows, or, for HEAD, that would follow a GET.
    ///     Not written where the status has no body (RFC 9110 §8.6).
    ///   - keepAlive: whether the connection stays open for another request. Always written,
    ///     because HTTP/1.0 and HTTP/1.1 have opposite defaults.
    public static func write(
        status: Int, headers: HTTPFields, contentLength: Int, keepAlive: Bool,
        into writer: inout ByteWriter
    ) {
        writeStatusLine(status, into: &writer)
        writeFields(headers, into: &writer)
        if hasBody(status: status) {
            writer.append("Content-Length: ")
            writer.append(String(contentLength))
            writer.append("\r\n")
        }
        writer.append(keepAlive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n")
    }

    /// Writes the head of a body whose length is not known yet, including its final empty line.
    /// - Parameters:
    ///   - headers: without Transfer-Encoding and Connection.
    ///   - isChunked: whether the body is sent in chunks (`writeChunk`). Otherwise closing the
    ///     connection ends it, as in HTTP/1.0 (RFC 9112 §6.3).
    ///   - keepAlive: whether the connection stays open for another request.
    /// - Precondition: if `keepAlive`, then `isChunked`.
    public static func writeStream(
        status: Int, headers: HTTPFields, isChunked: Bool, keepAlive: Bool,
        into writer: inout ByteWriter
    ) {
        precondition(isChunked || !keepAlive)
        writeStatusLine(status, into: &writer)
        writeFields(headers, into: &writer)
        if isChunked { writer.append("Transfer-Encoding: chunked\r\n") }
        writer.append(keepAlive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n")
    }

    /// Writes one chunk of a body (RFC 9112 §7.1). Empty input writes nothing, because an empty
    /// chunk would end the body.
    public static func writeChunk(_ bytes: UnsafeRawBufferPointer, into writer: inout ByteWriter) {
        guard !bytes.isEmpty else { return }
        writer.append(String(bytes.count, radix: 16))
        writer.append("\r\n")
        writer.append(bytes)
        writer.append("\r\n")
    }

    /// The last, empty chunk, which ends a chunked body.
    public static let lastChunk: StaticString = "0\r\n\r\n"

    static func writeStatusLine(_ status: Int, into writer: inout ByteWriter) {
        writer.append("HTTP/1.1 ")
        writer.append(String(status))
        writer.append(" ")
        writer.append(reasonPhrase(of: status))
        writer.append("\r\n")
    }

    /// Writes fields, each on a line of its own.
    public static func writeFields(_ fields: HTTPFields, into writer: inout ByteWriter) {
        for (name, value) in fields {
            writer.append(name)
            writer.append(": ")
            writer.append(value)
            writer.append("\r\n")
        }
    }

    /// The standard phrase of a status that Parley sends (RFC 9110 §15); empty for others, which is
    /// allowed (RFC 9112 §4).
    public static func reasonPhrase(of status: Int) -> StaticString {
        switch status {
        case 100: "Continue"
        case 101: "Switching Protocols"
        case 200: "OK"
        case 204: "No Content"
        case 301: "Moved Permanently"
        case 302: "Found"
        case 304: "Not Modified"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 408: "Request Timeout"
        case 413: "Content Too Large"
        case 414: "URI Too Long"
        case 417: "Expectation Failed"
        case 421: "Misdirected Request"
        case 426: "Upgrade Required"
        case 429: "Too Many Requests"
        case 431: "Request Header Fields Too Large"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 502: "Bad Gateway"
        case 503: "Service Unavailable"
        case 504: "Gateway Timeout"
        case 505: "HTTP Version Not Supported"
        default: ""
        }
    }
}
