// The hosts that this server answers to, and the origins whose pages may use it. The rules protect
// a user whose browser shows another site's page. A page that points its own name at this machine
// (DNS rebinding) is recognised by its Host. A page that opens a WebSocket or sends a request
// across origins, which CORS does not stop, is recognised by its Origin (RFC 6455 §10.2). Pure:
// Admission reads the fields of proxies, RequestGate applies the rules to routes.
//
// Other clients than browsers send no Origin, and could send any: the rules authenticate no client.

import Codec

/// The rules of one server.
struct RequestPolicy {
    /// The hosts that are answered; with `*` every host is.
    private let hosts: [HostPattern]
    private let origins: [OriginPattern]

    /// - Parameters:
    ///   - host: where the server listens.
    ///   - hosts: those that the operator names.
    init(host: String, hosts: [HostPattern], origins: [OriginPattern]) {
        self.origins = origins
        self.hosts = hosts.isEmpty ? RequestPolicy.standardHosts(of: host) : hosts
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
