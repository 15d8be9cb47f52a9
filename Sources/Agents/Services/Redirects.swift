// Redirects of services that the operator has configured, and addresses as they may stand in a log.
//
// A redirect that keeps the method (307, 308; RFC 9110 §15.4.8) is followed on the same origin: a
// server that wants a slash at the end answers so. To another origin no request goes: its header
// fields have keys. Those of URLs that clients have named are never followed (MCPStreamableHTTP).

import Session

/// An address of a service.
enum ServiceAddress {
    /// Most redirects of one request. 3: more is a loop.
    static let maxRedirects = 3
    /// The shortest part of a path that may be a key: some servers have theirs in the path.
    private static let minKeyCharacters = 24

    /// The address without credentials, query and fragment, and without what may be a key in its
    /// path.
    static func shown(_ url: String) -> String {
        let (origin, path) = split(url)
        let parts = path.split(separator: "/", omittingEmptySubsequences: false).map { part in
            isKey(part) ? "…" : part
        }
        return withoutCredentials(origin) + parts.joined(separator: "/")
    }

    private static func isKey(_ part: Substring) -> Bool {
        part.count >= minKeyCharacters && part.contains { $0.isNumber }
            && part.contains { $0.isLetter }
    }

    /// Where a `Location` points, as an absolute URL (RFC 3986 §5.2, without the removal of dots);
    /// nil where it is no URL of HTTP.
    static func target(of location: String, from url: String) -> String? {
        let lowercased = location.lowercased()
        if lowercased.hasPrefix("http://") || lowercased.hasPrefix("https://") { return location }
        let (origin, path) = split(url)
        guard !location.isEmpty, !origin.isEmpty else { return nil }
        if location.hasPrefix("//") { return scheme(of: origin) + ":" + location }
        if location.hasPrefix("/") { return origin + location }
        if location.hasPrefix("?") { return origin + path + location }
        // Any other scheme, such as file: or ftp:.
        if location.prefix(while: { $0 != "/" }).contains(":") { return nil }
        let folder = path.lastIndex(of: "/").map { path[...$0] } ?? "/"
        return origin + folder + location
    }

    /// Whether two URLs have the same scheme, host and port (RFC 6454 §4).
    static func areOfOneOrigin(_ url: String, _ other: String) -> Bool {
        origin(of: url) == origin(of: other)
    }

    private static func origin(of url: String) -> String {
        let origin = withoutCredentials(split(url).origin).lowercased()
        if origin.hasPrefix("http://"), origin.hasSuffix(":80") {
            return String(origin.dropLast(3))
        }
        if origin.hasPrefix("https://"), origin.hasSuffix(":443") {
            return String(origin.dropLast(4))
        }
        return origin
    }

    /// Scheme and authority, and the path without query and fragment.
    private static func split(_ url: String) -> (origin: String, path: String) {
        guard let mark = url.firstRange(of: "://") else { return ("", url) }
        let rest = url[mark.upperBound...]
        let authority = rest.prefix { !"/?#".contains($0) }
        let path = rest[authority.endIndex...].prefix { $0 != "?" && $0 != "#" }
        return (String(url[..<mark.upperBound]) + authority, String(path))
    }

    private static func scheme(of origin: String) -> String {
        String(origin.prefix { $0 != ":" })
    }

    private static func withoutCredentials(_ origin: String) -> String {
        guard let at = origin.lastIndex(of: "@"), let mark = origin.firstRange(of: "://") else {
            return origin
        }
        return String(origin[..<mark.upperBound] + origin[origin.index(after: at)...])
    }
}

extension AgentHost {
    /// Sends a request to one of the operator's services, and follows redirects on its origin that
    /// keep the method.
    /// - Parameter service: the operator's name for it, for the log. Empty where it has none.
    func sendFollowing(
        _ request: UpstreamRequest, to service: String
    ) async throws -> any UpstreamResponse {
        try await followed(send(request), of: request, to: service)
    }

    /// The answer to a request, after redirects. Apart from `send`, because a function that waits
    /// for an answer takes memory for each of them, and few are redirects.
    @inline(never)
    func followed(
        _ response: any UpstreamResponse, of request: UpstreamRequest, to service: String
    ) async throws -> any UpstreamResponse {
        var response = response
        var request = request
        var redirects = 0
        while response.status == 307 || response.status == 308 {
            guard redirects < ServiceAddress.maxRedirects, let location = response.location,
                let target = ServiceAddress.target(of: location, from: request.url),
                ServiceAddress.areOfOneOrigin(target, request.url)
            else { break }
            redirects += 1
            if !service.isEmpty {
                report(.redirect(of: service, from: request.url, to: target, response.status))
            }
            request.url = target
            response = try await send(request)
        }
        return response
    }
}
