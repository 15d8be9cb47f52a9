// The address of a realtime server, as `--url` gives it. It does not connect: RealtimeClient does.

/// A `ws://` or `wss://` URL, taken apart.
struct RealtimeURL: Equatable {
    /// Whether the connection is to be encrypted.
    let isSecure: Bool
    /// Name or address, without brackets.
    let host: String
    /// 1…65535.
    let port: Int
    /// Path and query, for the request line.
    private(set) var target: String

    /// Reads a URL and adds `?model=` where it names none. A fragment is left out, as it never
    /// reaches a server.
    /// - Throws: a `CommandFailure` of status 64: not a URL, or a scheme other than ws,
    ///   wss, http and https.
    init(_ text: String, model: String) throws(CommandFailure) {
        let halves = text.split(separator: "://", maxSplits: 1, omittingEmptySubsequences: false)
        guard halves.count == 2 else { throw Self.notAURL(text) }
        switch halves[0] {
        case "ws", "http": isSecure = false
        case "wss", "https": isSecure = true
        default:
            throw .usage("--url: \(jsonString(text)) must begin with ws:// or wss://")
        }
        let location = halves[1].prefix { $0 != "#" }
        let authority = location.prefix { $0 != "/" && $0 != "?" }
        let standardPort = isSecure ? 443 : 80
        guard let (host, port) = Self.hostAndPort(authority, standardPort: standardPort)
        else { throw Self.notAURL(text) }
        self.host = host
        self.port = port
        target = Self.target(location[authority.endIndex...], model: model)
    }

    /// Reads a URL and adds a path where it has none; no query is added.
    /// - Throws: the same errors as the other initialiser.
    init(_ text: String, path: String) throws(CommandFailure) {
        try self.init(text, model: "")
        let halves = text.split(separator: "://", maxSplits: 1)
        let location = halves[1].prefix { $0 != "#" }
        let pathAndQuery = location.drop { $0 != "/" && $0 != "?" }
        let shown = pathAndQuery.isEmpty || pathAndQuery == "/" ? path : String(pathAndQuery)
        target = Self.escaped(shown) { (0x21...0x7E).contains($0) }
    }

    private static func notAURL(_ text: String) -> CommandFailure {
        .usage("--url: \(jsonString(text)) is not a URL like ws://127.0.0.1:8080/v1/realtime")
    }

    /// Takes `host:port` apart (RFC 3986 §3.2); IPv6 addresses stand in brackets.
    private static func hostAndPort(
        _ authority: Substring, standardPort: Int
    ) -> (host: String, port: Int)? {
        let host: Substring
        if authority.first == "[" {
            guard let end = authority.firstIndex(of: "]") else { return nil }
            host = authority[..<end].dropFirst()
        } else {
            host = authority.prefix { $0 != ":" }
        }
        let isPlain = host.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "@") }
        guard !host.isEmpty, isPlain else { return nil }
        var rest = authority[host.endIndex...]
        if rest.first == "]" { rest.removeFirst() }
        if rest.isEmpty || rest == ":" { return (String(host), standardPort) }
        guard rest.first == ":", let port = Int(rest.dropFirst()), (1...65_535).contains(port)
        else { return nil }
        return (String(host), port)
    }

    /// The request target (RFC 9112 §3.2.1), with the protocol's path where none is given.
    private static func target(_ pathAndQuery: Substring, model: String) -> String {
        let path = pathAndQuery.prefix { $0 != "?" }
        let query = pathAndQuery[path.endIndex...].dropFirst()
        var fields = query.split(separator: "&").map(String.init)
        if !fields.contains(where: { $0.prefix { $0 != "=" } == "model" }) {
            fields.append("model=" + escaped(model) { unreserved.contains($0) })
        }
        let shownPath = path.isEmpty || path == "/" ? "/v1/realtime" : String(path)
        // The user's own text stays, except bytes that would break the request line.
        return escaped(shownPath + "?" + fields.joined(separator: "&")) {
            (0x21...0x7E).contains($0)
        }
    }

    /// The address with further fields in its query.
    func adding(_ fields: [(name: String, value: String)]) -> RealtimeURL {
        var url = self
        for (name, value) in fields {
            url.target += "&\(name)=" + Self.escaped(value) { Self.unreserved.contains($0) }
        }
        return url
    }

    /// Bytes that need no escape anywhere (RFC 3986 §2.3).
    private static let unreserved = Set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~".utf8)

    /// Text with bytes that are not allowed written as `%20` (RFC 3986 §2.1).
    private static func escaped(_ text: String, isAllowed: (UInt8) -> Bool) -> String {
        var result = ""
        for byte in text.utf8 {
            if isAllowed(byte) {
                result.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                result += (byte < 16 ? "%0" : "%") + String(byte, radix: 16, uppercase: true)
            }
        }
        return result
    }

    /// The `Host` header's value (RFC 9110 §7.2).
    var authority: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
