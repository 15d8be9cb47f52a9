// Whether a request is answered: the one place where that is decided, for whole requests and for
// those whose body is still due. Pure: Admission knows where a request comes from, ShardCredentials
// who sends it, and ShardAdmission counts and answers.
//
// The order of the rules. The first rule that is broken gives the answer:
//
//   host        the Host is one of this server's                        421  refused(.host)
//   route       something is served at the path                         404  failed
//   origin      the web page that sends it may use the route            403  refused(.origin)
//   method      the route takes the method                              405  failed
//   body        from a browser, a body is JSON                          415  failed
//   credential  the sender is known, and may use the route    401, 403, 429  denied
//   long body   only a credential opens a route for a long body         413  failed
//
// A page that may not use a route learns nothing else about it, neither its methods nor whether its
// credential is good. A preflight is answered before the body and the credential, which it has not.
//
// Invariant: a request that a web page has sent passes only where the route's declaration
// (`Route.pages`) admits that page. Clients that are no browsers send neither Origin nor
// Sec-Fetch-Site; they are judged by their credential alone.

import Codec

/// The web pages that may use a route. Every route declares it: there is no default.
enum PageAccess: Equatable, Sendable {
    /// Pages of any origin, as the path neither changes nor shows anything worth protecting; the
    /// text says why.
    case anyPage(because: StaticString)
    /// Pages of this server and of `allowed-origins`. Those are answered with the fields of CORS,
    /// except on a WebSocket, which has none.
    case allowedOrigins
    /// Pages of this server only: `allowed-origins` names pages that may talk, not those that may
    /// administer.
    case sameOrigin

    static func == (left: PageAccess, right: PageAccess) -> Bool {
        switch (left, right) {
        case (.anyPage, .anyPage), (.allowedOrigins, .allowedOrigins), (.sameOrigin, .sameOrigin):
            true
        default: false
        }
    }
}

/// The outcome for a request.
enum RequestVerdict {
    /// A rule that the operator has set is broken: `.host` or `.origin`, which are counted.
    case refused(RefusalReason)
    /// The request is for a path or in a way that is not served. The route is given where the page
    /// that asks may use it.
    case failed(RouteFailure, Route?)
    /// A browser asks whether a page may send a request.
    case preflight(Route)
    /// Its credential does not open the route.
    case denied(RefusalReason, Route)
    /// Its credential may be a client secret of another node, with this hash: its sender must be
    /// known before it is judged again.
    case undecided(SHA256Digest, Route)
    /// The route's service answers it, for the caller.
    case admitted(Route, Caller)
}

/// The sender of a request.
enum RequestSender {
    case known(Caller)
    /// The holder of a client secret that another node may have made.
    case unknownSecret(SHA256Digest)
}

/// The rules of requests.
enum RequestGate {
    /// The media type of every request body.
    static let bodyMediaType = "application/json"

    /// Judges a request by its head.
    /// - Parameters:
    ///   - source: where it comes from, as far as proxies are to be believed.
    ///   - isBodyDue: whether the client waits for the verdict before it sends a long body.
    ///   - identify: finds out who sends it to a route. Asked last, and only for a route that is not open: a
    ///     wrong credential counts as a failed attempt.
    static func judge(
        _ request: HTTPRequest, from source: RequestSource, isBodyDue: Bool = false,
        policy: RequestPolicy, routes: Routes,
        identify: (Route) throws(RefusalReason) -> RequestSender
    ) -> RequestVerdict {
        // The request's own Host, not a proxy's field for it: a page that was rebound to the
        // proxy's machine could send any value in that field. Health probes come with any Host.
        // `OPTIONS *` asks the server as a whole (RFC 9110 §9.3.7), so the rule of its page counts.
        let path = request.method == .options && request.path == "*" ? "/" : request.path
        guard Routes.isProbe(path, request.method) || policy.allowsHost(request.host) else {
            return .refused(.host)
        }
        guard let route = routes.route(at: path) else {
            return .failed(.nothing(at: request.path), nil)
        }
        guard policy.allowsPage(of: request, from: source, to: route.pages) else {
            return .refused(.origin)
        }
        if let objection = route.objection(to: request.method) { return .failed(objection, route) }
        if request.method == .options { return .preflight(route) }
        if let objection = objection(toBodyOf: request) { return .failed(objection, route) }
        if route.access == .open {
            // A client without a credential must not make the server buffer megabytes.
            return isBodyDue
                ? .failed(RouteFailure(HTTPError.bodyTooLarge), route) : .admitted(route, .visitor)
        }
        do throws(RefusalReason) {
            switch try identify(route) {
            case .unknownSecret(let digest): return .undecided(digest, route)
            case .known(let caller):
                guard caller.access >= route.access else { throw .insufficientCredential }
                return .admitted(route, caller)
            }
        } catch {
            return .denied(error, route)
        }
    }

    /// The refusal of a body that is not JSON and comes from a browser. A page sends `text/plain`,
    /// forms and bodies without a type to any server without a preflight (Fetch, "CORS-safelisted
    /// request-header"). Programs may leave the type out, or send curl's.
    private static func objection(toBodyOf request: HTTPRequest) -> RouteFailure? {
        // Only a POST can do without a preflight, among the methods with a body.
        guard request.method == .post, request.isFromBrowser else { return nil }
        let type = request.header("Content-Type")?.prefix { $0 != ";" } ?? ""
        let words = type.split { $0 == " " || $0 == "\t" }
        guard request.fields.count(of: "Content-Type") == 1, words.count == 1,
            words[0].lowercased() == bodyMediaType
        else { return .unsupportedMediaType }
        return nil
    }
}

extension HTTPRequest {
    /// Whether a browser has sent it. Each browser adds an Origin to a page's request with a body
    /// (Fetch, "origin header"); current ones mark every request to a trustworthy origin (Fetch
    /// Metadata).
    var isFromBrowser: Bool {
        fields.count(of: "Origin") > 0 || fields.count(of: "Sec-Fetch-Site") > 0
    }
}

extension RequestPolicy {
    /// Whether the page that sent a request, if one did, may use a route.
    func allowsPage(
        of request: HTTPRequest, from source: RequestSource, to pages: PageAccess
    ) -> Bool {
        switch pages {
        case .anyPage: return true
        case .allowedOrigins, .sameOrigin: break
        }
        let isListed = pages == .allowedOrigins
        if request.fields.count(of: "Origin") > 0 {
            return allowsOrigin(
                of: request.fields, host: source.host, isSecure: source.isSecure,
                includesListed: isListed)
        }
        return (isListed && allowsAnyOrigin) || !isSentByForeignPage(request)
    }

    /// Whether a request without an Origin comes from a page of another origin, as requests for
    /// images and scripts do, which a page may send but not read. A page that the user opens by a
    /// link does not count: the page with the link cannot read it.
    private func isSentByForeignPage(_ request: HTTPRequest) -> Bool {
        guard let site = request.header("Sec-Fetch-Site") else { return false }
        if site == "same-origin" || site == "none" { return false }
        let isNavigation =
            request.header("Sec-Fetch-Mode") == "navigate"
            && request.header("Sec-Fetch-Dest") == "document"
        return !(isNavigation && (request.method == .get || request.method == .head))
    }
}

extension RouteFailure {
    fileprivate static let unsupportedMediaType = RouteFailure(
        status: 415, code: "unsupported_media_type",
        message: "From a web page this path takes application/json only.",
        headers: [("Accept", RequestGate.bodyMediaType)])
}
