// A response as a value, and its way to bytes (RFC 9112 §4, RFC 9110 §6.4).
// Parsing, which only clients need, is in HTTPResponseParser. No clock here: who wants a Date field
// appends it to the fields.
// Invariant: what is written can be told apart from what follows it: it has a Content-Length, or
// no body by its status.

/// One HTTP response, complete with its body.
public struct HTTPResponse: Sendable {
    /// The status code. 100…599 when received.
    public var status: Int
    /// The fields. To be written: without Content-Length and Connection, which `write` adds.
    public var fields: HTTPFields
    /// The body, unchunked.
    public var body: [UInt8]

    /// Creates a response.
    public init(status: Int, fields: HTTPFields = HTTPFields(), body: [UInt8] = []) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    /// Creates a response of plain text, as for an error.
    public init(status: Int, text: String) {
        self.init(status: status, body: Array(text.utf8))
        fields.append("Content-Type", "text/plain; charset=utf-8")
    }

    /// The interim response that asks a client for the body it holds back (RFC 9110 §15.2.1).
    public static let continueHead: StaticString = "HTTP/1.1 100 Continue\r\n\r\n"

    /// Writes the response.
    /// - Parameters:
    ///   - method: what is answered: HEAD gets the head that GET would, and no body.
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
    /// Whether a response of this status has a body at all (RFC 9112 §6.3).
    public static func hasBody(status: Int) -> Bool {
        status >= 200 && status != 204 && status != 304
    }

    /// Writes a head, its last empty line included.
    /// - Parameters:
    ///   - headers: without Content-Length and Connection.
    ///   - contentLength: the bytes of the body that follows, or, to HEAD, would follow a GET; left
    ///     out where the status has no body (RFC 9110 §8.6).
    ///   - keepAlive: whether the connection stays open for another request. It is always said, as
    ///     HTTP/1.0 clients assume the contrary of HTTP/1.1's.
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

    /// Writes the head of a body whose length nobody knows yet, its last empty line included.
    /// - Parameters:
    ///   - headers: without Transfer-Encoding and Connection.
    ///   - isChunked: whether the body comes in chunks (`writeChunk`); without, it ends with the
    ///     connection, as HTTP/1.0 has it (RFC 9112 §6.3).
    ///   - keepAlive: whether the connection stays open for another request.
    /// - Precondition: a connection that is kept is chunked.
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

    /// Writes a piece of a body in chunks (RFC 9112 §7.1). Nothing is written for no bytes, which
    /// would end the body.
    public static func writeChunk(_ bytes: UnsafeRawBufferPointer, into writer: inout ByteWriter) {
        guard !bytes.isEmpty else { return }
        writer.append(String(bytes.count, radix: 16))
        writer.append("\r\n")
        writer.append(bytes)
        writer.append("\r\n")
    }

    /// What ends a body in chunks.
    public static let lastChunk: StaticString = "0\r\n\r\n"

    static func writeStatusLine(_ status: Int, into writer: inout ByteWriter) {
        writer.append("HTTP/1.1 ")
        writer.append(String(status))
        writer.append(" ")
        writer.append(reasonPhrase(of: status))
        writer.append("\r\n")
    }

    static func writeFields(_ fields: HTTPFields, into writer: inout ByteWriter) {
        for (name, value) in fields {
            writer.append(name)
            writer.append(": ")
            writer.append(value)
            writer.append("\r\n")
        }
    }

    /// The usual name of a status that Parley sends (RFC 9110 §15); empty for others, which is
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
