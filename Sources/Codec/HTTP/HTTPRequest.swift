// A request as a value: method, target, fields, body (RFC 9110, RFC 9112 §3). HTTPRequestParser
// creates it; Server routes it.
//
// Invariant: the parser has checked the target's form, that there is one valid Host, and every
// character.

/// One HTTP request, complete with its body.
public struct HTTPRequest: Sendable {
    /// The method.
    public let method: HTTPMethod
    /// The target's path as on the wire, still percent-encoded: `/v1/realtime`. `*` for `OPTIONS
    /// *`.
    public let path: String
    /// The text after the `?`, as on the wire; nil without one.
    public let query: String?
    /// The host and port of the request: from an absolute target, which takes precedence (RFC 9112
    /// §3.2.2), otherwise from Host. Empty only in HTTP/1.0, which requires neither.
    public let host: String
    /// The version.
    public let version: HTTPVersion
    /// The fields in the order received.
    public let fields: HTTPFields
    /// The body, without chunk framing.
    public internal(set) var body: [UInt8] = []

    /// The value of a field; see the subscript of `HTTPFields`.
    public func header(_ name: String) -> String? { fields[name] }

    /// Whether the client wants to send another request on this connection (RFC 9112 §9.3).
    public var wantsKeepAlive: Bool {
        if fields.contains(token: "close", in: "Connection") { return false }
        return version == .http11 || fields.contains(token: "keep-alive", in: "Connection")
    }

    /// The first value of a query parameter, decoded like a form (WHATWG URL §5.1): `+` is a space,
    /// `%41` is `A`, a `%` without two digits stays, invalid UTF-8 is replaced. Nil if the
    /// parameter does not occur.
    public func queryValue(_ name: String) -> String? {
        guard let query else { return nil }
        for pair in query.utf8.split(separator: UInt8(ascii: "&")) {
            let parts = pair.split(
                separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            if Self.formDecoded(parts[0]) == name {
                return parts.count > 1 ? Self.formDecoded(parts[1]) : ""
            }
        }
        return nil
    }

    /// A piece of a path as text (RFC 3986 §2.1): `%41` is `A`, a `%` without two digits stays. Nil
    /// if the bytes are not UTF-8.
    public static func percentDecoded(_ piece: Substring) -> String? {
        String(validating: decoded(piece.utf8, plusIsSpace: false), as: UTF8.self)
    }

    private static func formDecoded(_ text: Substring.UTF8View) -> String {
        String(decoding: decoded(text, plusIsSpace: true), as: UTF8.self)
    }

    private static func decoded(_ text: Substring.UTF8View, plusIsSpace: Bool) -> [UInt8] {
        var decoded: [UInt8] = []
        var rest = text[...]
        while let byte = rest.popFirst() {
            if plusIsSpace, byte == UInt8(ascii: "+") {
                decoded.append(UInt8(ascii: " "))
            } else if byte == UInt8(ascii: "%"),
                let high = rest.first.flatMap(HTTPCharacter.hexadecimalDigit),
                let low = rest.dropFirst().first.flatMap(HTTPCharacter.hexadecimalDigit)
            {
                decoded.append(UInt8(high << 4 | low))
                rest = rest.dropFirst(2)
            } else {
                decoded.append(byte)
            }
        }
        return decoded
    }
}
