// The hosts that this server answers to, and the origins whose pages may use it. The rules protect
// a user whose browser shows another site's page. A page that points its own name at this machine
// (DNS rebinding) is recognised by its Host. A page that opens a WebSocket or sends a request
// across origins, which CORS does not stop, is recognised by its Origin (RFC 6455 §10.2). Pure:
// Admission reads the fields of proxies, RequestGate applies the rules to routes.
//
// Other clients than browsers send no Origin, and could send any: the rules authenticate no client.

import Codec

/// One entry of `allowed-hosts`.
public enum HostPattern: Hashable, Sendable {
    /// `*`
    case any
    /// `voice.example.com` with any port, or `voice.example.com:8443`.
    case host(WebAuthority)
    /// `*.example.com`, at any depth, but not `example.com`.
    case subdomains(WebAuthority)
    /// `192.168.0.0/16`, with any port.
    case addresses(AddressRange)

    /// Whether a Host matches.
    func matches(_ authority: WebAuthority) -> Bool {
        switch self {
        case .any: true
        case .host(let pattern):
            pattern.host == authority.host
                && (pattern.port == nil || pattern.port == authority.port)
        case .subdomains(let pattern):
            authority.host.isSubdomain(of: pattern.host)
                && (pattern.port == nil || pattern.port == authority.port)
        case .addresses(let range):
            if case .address(let address) = authority.host {
                range.contains(address)
            } else {
                false
            }
        }
    }
}

extension HostPattern: LosslessStringConvertible {
    /// Reads one of the forms above; nil for anything else.
    public init?(_ description: String) {
        if description == "*" {
            self = .any
        } else if let range = AddressRange(description) {
            self = .addresses(range)
        } else if description.hasPrefix("*.") {
            guard let parent = WebAuthority(String(description.dropFirst(2))),
                case .name = parent.host
            else { return nil }
            self = .subdomains(parent)
        } else {
            guard let authority = WebAuthority(description) else { return nil }
            self = .host(authority)
        }
    }

    /// The text that reads back as the same.
    public var description: String {
        switch self {
        case .any: "*"
        case .host(let authority): "\(authority)"
        case .subdomains(let parent): "*.\(parent)"
        case .addresses(let range): "\(range)"
        }
    }
}

/// One entry of `allowed-origins`.
public enum OriginPattern: Hashable, Sendable {
    /// `*`: every page of the web, `null` too.
    case any
    /// `https://app.example.com`, and nothing else.
    case origin(WebOrigin)
    /// `https://*.example.com`, at any depth, but not `https://example.com`.
    case subdomains(WebOrigin)

    /// Whether an origin matches. Scheme and port are always compared.
    func matches(_ origin: WebOrigin) -> Bool {
        switch self {
        case .any: true
        case .origin(let pattern): pattern == origin
        case .subdomains(let pattern):
            pattern.scheme == origin.scheme && pattern.port == origin.port
                && origin.host.isSubdomain(of: pattern.host)
        }
    }
}

extension OriginPattern: LosslessStringConvertible {
    /// Reads one of the forms above. Nil for anything else, also for `null`: any page can have that
    /// origin, so that it would mean `*`.
    public init?(_ description: String) {
        if description == "*" {
            self = .any
            return
        }
        let pieces = description.split(separator: "://*.", maxSplits: 1)
        if pieces.count == 2, let parent = WebOrigin("\(pieces[0])://\(pieces[1])"),
            case .name = parent.host
        {
            self = .subdomains(parent)
        } else if let origin = WebOrigin(description) {
            self = .origin(origin)
        } else {
            return nil
        }
    }

    /// The text that reads back as the same.
    public var description: String {
        switch self {
        case .any: "*"
        case .origin(let origin): "\(origin)"
        case .subdomains(let parent):
            "\(parent)".split(separator: "://", maxSplits: 1).joined(separator: "://*.")
        }
    }
}

extension WebHost {
    /// Whether this is a name below the other: `a.b` below `b`.
    fileprivate func isSubdomain(of parent: WebHost) -> Bool {
        guard case .name(let name) = self, case .name(let suffix) = parent else { return false }
        return name.utf8.count > suffix.utf8.count + 1 && name.hasSuffix("." + suffix)
    }
}

/// The rules of one server.
struct RequestPolicy {
    /// The hosts that are answered; with `*` every host is.
    private let hosts: [HostPattern]
    private let origins: [OriginPattern]

    init(_ configuration: ServerConfiguration) {
        origins = configuration.allowedOrigins
        hosts =
            configuration.allowedHosts.isEmpty
            ? RequestPolicy.standardHosts(of: configuration.host) : configuration.allowedHosts
    }

    /// The hosts where the operator names none. A server on a loopback address is only reached by
    /// the machine's own names, so that another name in Host means a page of another site. On any
    /// other address the server cannot know its names, and takes every Host.
    private static func standardHosts(of host: String) -> [HostPattern] {
        let bare = NetworkAddress(host).map { WebAuthority(host: .address($0), port: nil) }
        guard let listened = bare ?? WebAuthority(host) else { return [.any] }
        let own = WebAuthority("localhost").map { [HostPattern.host($0), .subdomains($0)] } ?? []
        let isLoopback =
            if case .address(let address) = listened.host { address.isLoopback } else {
                own.contains { $0.matches(listened) }
            }
        guard isLoopback else { return [.any] }
        return own + AddressRange.loopback.map(HostPattern.addresses)
    }

    /// Whether a request is for one of this server's hosts. The host is empty only in a request of
    /// HTTP/1.0 without Host, which no browser sends.
    func allowsHost(_ host: String) -> Bool {
        if host.isEmpty || hosts.contains(.any) { return true }
        guard let authority = WebAuthority(host) else { return false }
        return hosts.contains { $0.matches(authority) }
    }

    /// Whether every page may use the routes for pages of `allowed-origins`.
    var allowsAnyOrigin: Bool { origins.contains(.any) }

    /// Whether the page in a request's Origin may use a route.
    /// - Parameters:
    ///   - host: the Host in the browser's request.
    ///   - isSecure: whether the browser is known to use TLS.
    ///   - includesListed: whether the pages of `allowed-origins` may, beside this server's own.
    func allowsOrigin(
        of fields: HTTPFields, host: String, isSecure: Bool, includesListed: Bool = true
    ) -> Bool {
        let lines = fields.count(of: "Origin")
        // Every browser sends it with the request for a WebSocket (RFC 6455 §4.1, 8).
        if lines == 0 || (includesListed && allowsAnyOrigin) { return true }
        // Several lines, a list, `null` and other values that are not one origin are refused.
        guard lines == 1, let origin = fields["Origin"].flatMap(WebOrigin.init) else {
            return false
        }
        return isSameOrigin(origin, as: host, isSecure: isSecure)
            || (includesListed && origins.contains { $0.matches(origin) })
    }

    /// Whether a page is this server's own. The scheme is compared only where it is known, from our
    /// own TLS or from a trusted proxy: an unknown proxy may end TLS in front of us.
    private func isSameOrigin(
        _ origin: WebOrigin, as host: String, isSecure: Bool
    ) -> Bool {
        guard origin.scheme == "https" || (origin.scheme == "http" && !isSecure),
            let authority = WebAuthority(host)
        else { return false }
        return WebOrigin(scheme: origin.scheme, authority: authority) == origin
    }
}
