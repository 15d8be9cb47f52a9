// Whether a request may be answered, as far as its head tells and before its credential is looked
// at. One place for whole requests and for those whose body is still on its way. Pure: where a
// request comes from is Admission's, counting and answering are ShardAdmission's.
//
// The order: host, path, page, method, media type. A page that may not use a route learns nothing
// else about it, neither its methods nor whether its credential is good.
//
// Invariant: a request that a web page has sent passes only where the route's declaration
// (`Route.pages`) admits that page. Clients that are no browsers send neither Origin nor
// Sec-Fetch-Site; they are judged by their credential alone.

import Codec

/// Which web pages may use a route. Every route declares it: there is no default.
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

/// What a request's head comes to.
enum RequestVerdict {
    /// A rule of the operator's is against it: `.host` or `.origin`, which are counted.
    case refused(RefusalReason)
    /// It asks for what is not there, or in a way that is not served. The route is known where its
    /// page may use it.
    case failed(RouteFailure, Route?)
    /// A browser asks whether a page may send a request.
    case preflight(Route)
    /// Its credential decides.
    case passed(Route)
}

/// The rules of requests.
enum RequestGate {
    /// The media type of every request body.
    static let bodyMediaType = "application/json"

    /// Judges a request by its head.
    /// - Parameter source: where it comes from, as far as proxies are to be believed.
    static func verdict(
        on request: HTTPRequest, from source: RequestSource, policy: RequestPolicy, routes: Routes
    ) -> RequestVerdict {
        // The Host as it came, not what a proxy says of it: a page that was rebound to a proxy's
        // own machine could say anything in the other fields. Probes of health come with any Host.
        guard Routes.isProbe(request.path) || policy.allowsHost(request.host) else {
            return .refused(.host)
        }
        guard let route = routes.route(at: request.path) else {
            return .failed(.nothing(at: request.path), nil)
        }
        guard policy.allowsPage(of: request, from: source, to: route.pages) else {
            return .refused(.origin)
        }
        if let objection = route.objection(to: request.method) { return .failed(objection, route) }
        if request.method == .options { return .preflight(route) }
        if let objection = objection(toBodyOf: request) { return .failed(objection, route) }
        return .passed(route)
    }

    /// A page sends `text/plain` and forms, or a body without a type, to any server without asking
    /// it (Fetch, "CORS-safelisted request-header"): from a browser a body is JSON, or refused.
    /// Programs may leave the type out, or send curl's.
    private static func objection(toBodyOf request: HTTPRequest) -> RouteFailure? {
        guard request.method != .get, request.method != .head, request.isFromBrowser else {
            return nil
        }
        let type = request.header("Content-Type")?.prefix { $0 != ";" } ?? ""
        let words = type.split { $0 == " " || $0 == "\t" }
        guard request.fields.count(of: "Content-Type") == 1, words.count == 1,
            words[0].lowercased() == bodyMediaType
        else { return .unsupportedMediaType }
        return nil
    }
}

extension HTTPRequest {
    /// Whether a browser has sent it: each says so of what a page sends with a body (Fetch, "origin
    /// header"), and current ones of every request to a trustworthy origin (Fetch Metadata).
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

    /// Whether a request without an Origin comes from a page of another origin all the same, as
    /// images, scripts and other requests do that may be sent but not read. A page that the user
    /// opens by a link is none: the page with the link cannot read it.
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
