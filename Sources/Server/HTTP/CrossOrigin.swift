// The fields of CORS (Fetch, "CORS protocol") for pages of other origins: whether a page may send a
// request, and read its answer. RequestPolicy decides which origins.
//
// Cookies are not used (no Access-Control-Allow-Credentials): a client sends its key in a field of
// its own, which a foreign page cannot make a browser add.

import Codec

/// The fields of CORS.
struct CrossOrigin {
    /// How long a browser may cache a preflight's answer. 10 min: the requests of a conversation
    /// share one preflight, and a change of `allowed-origins` takes effect soon enough.
    static let maxAgeSeconds = 600

    /// Whether every page is allowed; answers are then the same for each origin.
    private let allowsAny: Bool

    init(origins: [OriginPattern]) {
        allowsAny = origins.contains(.any)
    }

    /// Lets the page that sent the request read the answer; its Origin, if it has one, has been
    /// allowed. Caches must not give the answer to another page.
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

    /// Lets every page read the answer.
    static func permitAll(in fields: inout HTTPFields) {
        fields.append("Access-Control-Allow-Origin", "*")
        fields.append("Access-Control-Expose-Headers", "Retry-After")
    }
}
