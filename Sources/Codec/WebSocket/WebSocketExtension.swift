// The grammar of Sec-WebSocket-Extensions (RFC 6455 §9.1): which extensions a header names, with
// which parameters. What they mean is PerMessageDeflate's.
//
//   extension       = token *( ";" extension-param )
//   extension-param = token [ "=" (token | quoted-string) ]
//
// Invariant: work is linear in the header, which HTTPLimits bounds, and every value is a token, as
// the RFC demands of quoted ones too.

/// One element of a Sec-WebSocket-Extensions list.
public struct WebSocketExtension: Hashable, Sendable {
    /// A parameter; the value is nil where there is no `=`.
    public struct Parameter: Hashable, Sendable {
        /// As received: parameters of permessage-deflate are compared exactly.
        public let name: String
        /// Without the quotes that it may have come in.
        public let value: String?
    }

    /// The extension's token.
    public let name: String
    /// In the order received, duplicates included.
    public let parameters: [Parameter]

    /// Reads all lines of the header; empty without one, and where it is empty: a proxy that
    /// disables extensions may leave that.
    /// - Throws: `.invalidExtensions` for what is not in the grammar. Such a handshake must fail
    ///   (RFC 6455 §9.1), whereas an offer that is merely unacceptable is declined.
    public static func list(
        in fields: HTTPFields
    ) throws(WebSocketHandshakeError) -> [WebSocketExtension] {
        guard let header = fields["Sec-WebSocket-Extensions"] else { return [] }
        var reader = ExtensionReader(Array(header.utf8))
        var extensions: [WebSocketExtension] = []
        while !reader.isAtEnd {
            // Empty elements of a list are passed over (RFC 9110 §5.6.1.2).
            if reader.take(",") { continue }
            extensions.append(try reader.takeExtension())
            guard reader.isAtEnd || reader.take(",") else { throw .invalidExtensions }
        }
        return extensions
    }
}

/// Takes one lexical element after another, with the white space behind each.
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
            // Whatever is escaped must be a token's character as well (RFC 6455 §9.1).
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
