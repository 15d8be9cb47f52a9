// Finds the credential of a request: `Authorization: Bearer …` (RFC 6750 §2.1), or one of the
// subprotocols that it offers, because a browser cannot set a header on a WebSocket. Server checks
// the credential.
//
// A credential in the query is not accepted: URLs end up in logs, histories and Referer fields (RFC
// 6750 §5.3).

/// The credential that a request carries.
public enum RequestCredential: Equatable, Sendable {
    /// No credential.
    case none
    /// A key or a token: 1…`maxBytes` visible ASCII characters.
    case bearer(String)
    /// Several credentials of one kind, a scheme other than Bearer, or a credential that is empty,
    /// too long or has other characters.
    case malformed

    /// Maximum bytes of a credential. 8 KiB: a token with many claims, and half of a head.
    public static let maxBytes = 8 * 1024

    /// Prefix with which a browser turns its key into a subprotocol, as OpenAI's clients do.
    public static let subprotocolPrefix = "openai-insecure-api-key."

    private static let scheme = "bearer "

    /// Reads the credential from the fields of a request. A header takes precedence over a
    /// subprotocol, because only programs can set it.
    public init(_ fields: HTTPFields) {
        switch fields.count(of: "Authorization") {
        case 0: self = Self.ofSubprotocols(fields)
        case 1: self = Self.ofHeader(fields["Authorization"] ?? "")
        default: self = .malformed
        }
    }

    /// The password of `Authorization: Basic …` (RFC 7617 §2) as a credential, for clients that can
    /// send no other scheme. Nil where the request has no such field.
    public static func password(in fields: HTTPFields) -> RequestCredential? {
        let scheme = "basic "
        guard fields.count(of: "Authorization") == 1, let value = fields["Authorization"],
            value.prefix(scheme.count).lowercased() == scheme
        else { return nil }
        let text = value.dropFirst(scheme.count).drop { $0 == " " }
        guard let pair = decoded(text) else { return .malformed }
        let parts = pair.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        return parts.count == 2 ? checked(parts[1]) : .malformed
    }

    private static func decoded(_ base64: Substring) -> String? {
        var text = ByteWriter(capacity: max(1, base64.utf8.count))
        var base64 = base64
        let isValid = base64.withUTF8 { bytes in
            (try? Base64.decode(UnsafeRawBufferPointer(bytes), into: &text)) != nil
        }
        return isValid ? String(decoding: text.copiedBytes, as: UTF8.self) : nil
    }

    private static func ofHeader(_ value: String) -> RequestCredential {
        // The scheme ignores case, and one or more spaces follow it (RFC 9110 §11.4).
        guard value.utf8.count > scheme.utf8.count,
            value.prefix(scheme.count).lowercased() == scheme
        else { return .malformed }
        return checked(value.dropFirst(scheme.count).drop { $0 == " " })
    }

    private static func ofSubprotocols(_ fields: HTTPFields) -> RequestCredential {
        let offered = fields.elements(of: "Sec-WebSocket-Protocol")
            .filter { $0.hasPrefix(subprotocolPrefix) }
        guard let only = offered.first else { return .none }
        return offered.count == 1 ? checked(only.dropFirst(subprotocolPrefix.count)) : .malformed
    }

    private static func checked(_ text: Substring) -> RequestCredential {
        guard (1...maxBytes).contains(text.utf8.count),
            text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { return .malformed }
        return .bearer(String(text))
    }
}
