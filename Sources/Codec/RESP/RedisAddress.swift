// The URL of a Redis or Valkey server: `redis[s]://[user:password@]host[:6379][/database]`. It names
// a server; RedisLink connects to it.
//
// Invariant: the description never contains a credential.

/// Where a server is, and how to log in.
public struct RedisAddress: Hashable, Sendable, CustomStringConvertible {
    /// Whether the connection is encrypted (`rediss`).
    public let isSecure: Bool
    /// A name, an IPv4 address, or an IPv6 address without its brackets.
    public let host: String
    /// 1…65,535; 6379 unless it is given.
    public let port: Int
    /// The user's name, or nil for the server's default user.
    public let user: String?
    /// The password, where the server asks for one.
    public let password: String?
    /// 0 unless it is given.
    public let database: Int

    /// Reads a URL; nil for any other text.
    public init?(_ text: String) {
        guard let scheme = text.firstRange(of: "://") else { return nil }
        switch text[..<scheme.lowerBound].lowercased() {
        case "redis": isSecure = false
        case "rediss": isSecure = true
        default: return nil
        }
        var rest = text[scheme.upperBound...]
        guard rest.utf8.allSatisfy({ $0 > 32 && $0 < 127 }) else { return nil }
        if rest.contains(where: { $0 == "?" || $0 == "#" }) { return nil }
        if let slash = rest.firstIndex(of: "/") {
            let path = rest[rest.index(after: slash)...]
            guard path.isEmpty || path.utf8.allSatisfy(\.isASCIIDigit),
                let number = path.isEmpty ? 0 : Int(path)
            else { return nil }
            database = number
            rest = rest[..<slash]
        } else {
            database = 0
        }
        var login: (user: String?, password: String?) = (nil, nil)
        if let at = rest.lastIndex(of: "@") {
            guard let read = Self.login(rest[..<at]) else { return nil }
            login = read
            rest = rest[rest.index(after: at)...]
        }
        (user, password) = login
        guard let (host, port) = Self.endpoint(rest) else { return nil }
        (self.host, self.port) = (host, port)
    }

    /// The URL without its credentials.
    public var description: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return "\(isSecure ? "rediss" : "redis")://\(name):\(port)/\(database)"
    }

    /// `user:password`, `:password` or `password@` as some write it; percent signs are decoded.
    private static func login(_ text: Substring) -> (user: String?, password: String?)? {
        let pieces = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard pieces.count == 2, let user = HTTPRequest.percentDecoded(pieces[0]),
            let password = HTTPRequest.percentDecoded(pieces[1]), !password.isEmpty
        else { return nil }
        return (user.isEmpty ? nil : user, password)
    }

    private static func endpoint(_ text: Substring) -> (host: String, port: Int)? {
        var host = text
        var port: Substring?
        if text.first == "[" {
            guard let end = text.firstIndex(of: "]") else { return nil }
            host = text[text.index(after: text.startIndex)..<end]
            let rest = text[text.index(after: end)...]
            guard rest.isEmpty || rest.first == ":" else { return nil }
            if !rest.isEmpty { port = rest.dropFirst() }
            guard NetworkAddress(String(host)) != nil else { return nil }
        } else {
            if let colon = text.firstIndex(of: ":") {
                host = text[..<colon]
                port = text[text.index(after: colon)...]
            }
            let isName = host.utf8.allSatisfy {
                $0.isASCIIAlphanumeric || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-")
                    || $0 == UInt8(ascii: "_")
            }
            guard isName else { return nil }
        }
        guard !host.isEmpty else { return nil }
        guard let port else { return (String(host), 6_379) }
        guard port.utf8.allSatisfy(\.isASCIIDigit), let number = Int(port),
            (1...65_535).contains(number)
        else { return nil }
        return (String(host), number)
    }
}
