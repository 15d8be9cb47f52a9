// The grammar of Sec-WebSocket-Extensions (RFC 6455 §9.1): the extensions in a header and their
// parameters. PerMessageDeflate interprets them.
//
//   extension       = token *( ";" extension-param )
//   extension-param = token [ "=" (token | quoted-string) ]
//
// Invariant: work is linear in the header, which HTTPLimits bounds. Every value is a token; the RFC
// requires this of quoted values too.

/// One element of a Sec-WebSocket-Extensions list.
public struct WebSocketExtension: Hashable, Sendable {
    /// A parameter; the value is nil without `=`.
    public struct Parameter: Hashable, Sendable {
        /// The name as received: names of permessage-deflate are case-sensitive.
        public let name: String
        /// The value, without quotes.
        public let value: String?
    }

    /// The extension's token.
    public let name: String
    /// The parameters in the order received, duplicates included.
    public let parameters: [Parameter]

    /// Parses all lines of the header. Empty if the header is absent or empty; a proxy that
    /// disables extensions may leave an empty one.
    /// - Throws: `.invalidExtensions` for text that breaks the grammar. The handshake must then
    ///   fail (RFC 6455 §9.1). An offer that is only unacceptable is declined instead.
    public static func list(
        in fields: HTTPFields
    ) throws(WebSocketHandshakeError) -> [WebSocketExtension] {
        guard let header = fields["Sec-WebSocket-Extensions"] else { return [] }
        var reader = ExtensionReader(Array(header.utf8))
        var extensions: [WebSocketExtension] = []
        while !reader.isAtEnd {
            // Empty elements of a list are ignored (RFC 9110 §5.6.1.2).
            if reader.take(",") { continue }
            extensions.append(try reader.takeExtension())
            guard reader.isAtEnd || reader.take(",") else { throw .invalidExtensions }
        }
        return extensions
    }
}

/// Reads one lexical element after another, each with the white space after it.
private struct ExtensionReader {
    private let bytes: [UInt8]
    private var index = 0

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        skipWhitespace()
    }

    var isAtEnd: Bool { index == bytes.count }

    mutating func take(_ delimiter: Unicode.Scalar) -> Bool {
        guard index < bytes.count, bytes[index] == UInt8(ascii: delimiter) else { return false }
        index += 1
        skipWhitespace()
        return true
    }

    mutating func takeExtension() throws(WebSocketHandshakeError) -> WebSocketExtension {
        let name = try takeToken()
        var parameters: [WebSocketExtension.Parameter] = []
        while take(";") {
            let parameter = try takeToken()
            let value = take("=") ? try takeValue() : nil
            parameters.append(WebSocketExtension.Parameter(name: parameter, value: value))
        }
        return WebSocketExtension(name: name, parameters: parameters)
    }

    private mutating func takeToken() throws(WebSocketHandshakeError) -> String {
        let start = index
        while index < bytes.count, HTTPCharacter.isToken(bytes[index]) { index += 1 }
        guard index > start else { throw .invalidExtensions }
        defer { skipWhitespace() }
        return String(decoding: bytes[start..<index], as: UTF8.self)
    }

    private mutating func takeValue() throws(WebSocketHandshakeError) -> String {
        guard index < bytes.count, bytes[index] == UInt8(ascii: "\"") else {
            return try takeToken()
        }
        index += 1
        var value: [UInt8] = []
        while index < bytes.count, bytes[index] != UInt8(ascii: "\"") {
            // Escaped characters must be token characters as well (RFC 6455 §9.1).
            if bytes[index] == UInt8(ascii: "\\") { index += 1 }
            guard index < bytes.count, HTTPCharacter.isToken(bytes[index]) else {
                throw .invalidExtensions
            }
            value.append(bytes[index])
            index += 1
        }
        guard index < bytes.count else { throw .invalidExtensions }
        index += 1
        skipWhitespace()
        guard !value.isEmpty else { throw .invalidExtensions }
        return String(decoding: value, as: UTF8.self)
    }

    private mutating func skipWhitespace() {
        while index < bytes.count, HTTPCharacter.isWhitespace(bytes[index]) { index += 1 }
    }
}
