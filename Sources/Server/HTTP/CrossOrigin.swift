// What pages of other origins are told by the routes that serve them (Fetch, "CORS protocol"):
// whether a page may send a request, and read its answer. Which origins is RequestPolicy's.
//
// Cookies are nobody's business here (no Access-Control-Allow-Credentials): a client brings its key
// in a field of its own, which no foreign page can make a browser add.

import Codec

/// The fields of CORS.
struct CrossOrigin {
    /// For how long a browser may remember a preflight's answer. 10 min: a conversation's requests
    /// ask once, and a change of `allowed-origins` is seen soon enough.
    private static let maxAgeSeconds = 600

    /// Whether every page is let in, so that answers need not depend on who asks.
    private let allowsAny: Bool

    init(_ configuration: ServerConfiguration) {
        allowsAny = configuration.allowedOrigins.contains(.any)
    }

    /// Lets the page that asked read the answer; its Origin, if it has one, is known to be allowed.
    /// Caches must not give it to another page.
    func permit(_ request: HTTPRequest, in fields: inout HTTPFields) {
        if allowsAny {
            fields.append("Access-Control-Allow-Origin", "*")
        } else {
            fields.append("Vary", "Origin")
            guard request.fields.count(of: "Origin") == 1, let origin = request.header("Origin"),
                WebOrigin(origin) != nil
            else { return }
            fields.append("Access-Control-Allow-Origin", origin)
        }
        fields.append("Access-Control-Expose-Headers", "Retry-After")
    }

    /// The answer to a browser that asks whether it may send another origin's request. `*` is any
    /// field but Authorization, which has to be named.
    static func preflight(of route: Route) -> HTTPResponse {
        let methods = route.allowedMethods.map(\.name).joined(separator: ", ")
        var fields = HTTPFields()
        fields.append("Allow", methods)
        fields.append("Access-Control-Allow-Methods", methods)
        fields.append("Access-Control-Allow-Headers", "Authorization, Content-Type, *")
        fields.append("Access-Control-Max-Age", "\(maxAgeSeconds)")
        return HTTPResponse(status: 204, fields: fields)
    }
}
