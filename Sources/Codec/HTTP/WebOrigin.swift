// The values of Host and Origin fields: host and port (RFC 3986 §3.2), with a scheme in front (RFC
// 6454 §6.2). They are normalised, so that equal values mean the same place. Server decides which
// ones it accepts.
//
// Invariant: a name is lower case, without a trailing dot or an empty label. An address is an
// `.address`, however it was written.

/// A host as browsers send it.
public enum WebHost: Hashable, Sendable {
    /// A name: letters, digits, `-`, `_` and dots, in lower case. Never an address.
    case name(String)
    /// An IPv4 address, or an IPv6 address, which is written in brackets.
    case address(NetworkAddress)

    /// Maximum bytes of a DNS name as text (RFC 1035 §2.3.4).
    static let maxNameBytes = 253

    /// Parses a name or an address. One trailing dot is dropped: it means the same name.
    init?(_ text: ArraySlice<UInt8>) {
        if text.first == UInt8(ascii: "[") {
            let inner = String(decoding: text.dropFirst().dropLast(), as: UTF8.self)
            guard text.count > 2, text.last == UInt8(ascii: "]"),
                inner.utf8.contains(UInt8(ascii: ":")), let address = NetworkAddress(inner)
            else { return nil }
            self = .address(address)
            return
        }
        let name = text.last == UInt8(ascii: ".") ? text.dropLast() : text
        guard !name.isEmpty, name.count <= WebHost.maxNameBytes,
            name.allSatisfy(WebHost.isNameCharacter)
        else { return nil }
        let labels = name.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard labels.allSatisfy({ !$0.isEmpty }) else { return nil }
        let lowercased = String(decoding: name.map(HTTPCharacter.lowercased), as: UTF8.self)
        self = NetworkAddress(lowercased).map(WebHost.address) ?? .name(lowercased)
    }

    private static func isNameCharacter(_ byte: UInt8) -> Bool {
        byte.isASCIIAlphanumeric || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".")
            || byte == UInt8(ascii: "_")
    }

    /// The text; an IPv6 address is in brackets.
    var text: String {
        switch self {
        case .name(let name): name
        case .address(let address): address.v4 == nil ? "[\(address)]" : "\(address)"
        }
    }
}

/// `host` or `host:port`, as in a Host field.
public struct WebAuthority: Hashable, Sendable {
    /// The host.
    public let host: WebHost
    /// The port, 1…65535; nil for the scheme's standard port.
    public let port: Int?

    /// Creates an authority from its parts.
    public init(host: WebHost, port: Int?) {
        self.host = host
        self.port = port
    }
}

extension WebAuthority: LosslessStringConvertible {
    /// Parses a Host value. Nil for user names, percent signs, ports out of range, and other text
    /// that no browser sends. An empty port counts as none (RFC 3986 §3.2.3).
    public init?(_ description: String) {
        let bytes = Array(description.utf8)
        let hostEnd: Int
        if bytes.first == UInt8(ascii: "[") {
            guard let close = bytes.firstIndex(of: UInt8(ascii: "]")) else { return nil }
            hostEnd = close + 1
        } else {
            hostEnd = bytes.firstIndex(of: UInt8(ascii: ":")) ?? bytes.count
        }
        guard let host = WebHost(bytes[..<hostEnd]) else { return nil }
        let rest = bytes[hostEnd...]
        guard rest.isEmpty || rest.first == UInt8(ascii: ":") else { return nil }
        let digits = rest.dropFirst()
        self.init(host: host, port: NetworkAddress.decimal(digits, atMost: 65_535))
        guard digits.isEmpty || (port ?? 0) > 0 else { return nil }
    }

    /// Text that parses back as the same value.
    public var description: String { port.map { "\(host.text):\($0)" } ?? host.text }
}

/// The origin of a web page: scheme, host and port. An opaque origin (`null`) cannot be expressed.
public struct WebOrigin: Hashable, Sendable {
    /// In lower case: `https`.
    public let scheme: String
    /// The host.
    public let host: WebHost
    /// The port, by default the scheme's standard port; nil where neither is known.
    public let port: Int?

    /// Creates an origin from its parts.
    public init(scheme: String, authority: WebAuthority) {
        self.scheme = scheme
        host = authority.host
        port = authority.port ?? WebOrigin.standardPort(of: scheme)
    }

    /// The standard port of a scheme, or nil.
    public static func standardPort(of scheme: String) -> Int? {
        switch scheme {
        case "http", "ws": 80
        case "https", "wss": 443
        default: nil
        }
    }
}

extension WebOrigin: LosslessStringConvertible {
    /// Parses exactly `scheme://host` or `scheme://host:port`: no path, no list, not `null`.
    public init?(_ description: String) {
        let scheme = description.prefix { $0 != ":" }
        let rest = description.dropFirst(scheme.count)
        guard rest.hasPrefix("://"), let first = scheme.utf8.first,
            first.isASCIILetter, scheme.utf8.allSatisfy(WebOrigin.isSchemeCharacter),
            let authority = WebAuthority(String(rest.dropFirst(3)))
        else { return nil }
        self.init(scheme: scheme.lowercased(), authority: authority)
    }

    /// RFC 3986 §3.1.
    private static func isSchemeCharacter(_ byte: UInt8) -> Bool {
        byte.isASCIIAlphanumeric || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "-")
            || byte == UInt8(ascii: ".")
    }

    /// The text that a browser would send: without the scheme's standard port.
    public var description: String {
        let shown = port == WebOrigin.standardPort(of: scheme) ? nil : port
        return "\(scheme)://\(WebAuthority(host: host, port: shown))"
    }
}
