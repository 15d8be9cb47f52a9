// Which answer belongs to which request. Pure: a request and the server's state in, a response or
// an upgrade out; sending either is ShardHTTP's.
// Errors have the body of OpenAI's API, {"error":{"message","type","code","param"}}, which clients
// of that API show to their users. Nothing that a peer sent is ever echoed in one.

import Codec
import Synchronization

/// A request that is refused, and how.
struct RouteFailure {
    let status: Int
    /// A stable word for programs.
    let code: StaticString
    /// A sentence for a person; without a character that JSON escapes.
    let message: String
    var headers: [(name: String, value: String)] = []

    /// The answer to the client.
    var response: HTTPResponse {
        let type = status >= 500 ? "server_error" : "invalid_request_error"
        let text =
            #"{"error":{"message":"\#(message)","type":"\#(type)","code":"\#(code)","#
            + #""param":null}}"#
        var fields = HTTPFields()
        fields.append("Content-Type", "application/json")
        for header in headers { fields.append(header.name, header.value) }
        return HTTPResponse(status: status, fields: fields, body: Array(text.utf8))
    }

    /// The answer to bytes that are no request. The parser's rule is in the logs; the status is
    /// enough for the peer.
    init(_ error: HTTPError) {
        status = error.status
        code = "bad_request"
        message = "The request breaks a rule of HTTP, or is too large."
    }

    init(
        status: Int, code: StaticString, message: String,
        headers: [(name: String, value: String)] = []
    ) {
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers
    }

    /// The answer to a bad opening handshake, with the fields that its status requires.
    static func response(to error: WebSocketHandshakeError) -> HTTPResponse {
        let plain = WebSocketHandshake.refusal(of: error)
        let headers = plain.fields.filter { $0.name != "Content-Type" }
        return RouteFailure(
            status: plain.status, code: "bad_handshake", message: error.explanation,
            headers: headers
        ).response
    }

    static let timeout = RouteFailure(
        status: 408, code: "request_timeout", message: "The request took too long to arrive.")
    static let notFound = RouteFailure(
        status: 404, code: "not_found", message: "There is nothing at this path.")
    static let notAllowed = RouteFailure(
        status: 405, code: "method_not_allowed", message: "Only GET and HEAD are served here.",
        headers: [("Allow", "GET, HEAD")])
    static let upgradeRequired = RouteFailure(
        status: 426, code: "upgrade_required",
        message: "This path takes WebSocket connections only.",
        headers: [("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")])

    static func unavailable(
        _ code: StaticString, _ message: String, retryAfterSeconds: Int
    ) -> RouteFailure {
        RouteFailure(
            status: 503, code: code, message: message,
            headers: [("Retry-After", "\(retryAfterSeconds)")])
    }
}

/// What answers the messages of a WebSocket.
enum WebSocketService {
    /// A session of this model.
    case session(model: String)
    /// Every message goes back as it came: for tests of conformance and measurements.
    case echo
}

/// What is to be done about a request.
enum RouteDecision {
    case respond(HTTPResponse)
    /// Become a WebSocket.
    case upgrade(WebSocketService)
}

/// The server's paths.
struct Routes {
    private let configuration: ServerConfiguration
    private let metrics: ServerMetrics

    init(configuration: ServerConfiguration, metrics: ServerMetrics) {
        self.configuration = configuration
        self.metrics = metrics
    }

    /// Whether a path is asked for by those who watch over the server, under whatever name.
    static func isProbe(_ path: String) -> Bool { path == "/healthz" || path == "/readyz" }

    /// Decides about a request.
    func decide(_ request: HTTPRequest) -> RouteDecision {
        if request.path == "/v1/realtime" { return decideRealtime(request) }
        if configuration.debugEcho, request.path == "/debug/echo" {
            return objection(toUpgrading: request) ?? .upgrade(.echo)
        }
        guard let answer = answer(at: request.path) else {
            return .respond(RouteFailure.notFound.response)
        }
        guard request.method == .get || request.method == .head else {
            return .respond(RouteFailure.notAllowed.response)
        }
        return .respond(answer())
    }

    /// What lives at a path, or nil. Made only when it is asked for.
    private func answer(at path: String) -> (() -> HTTPResponse)? {
        switch path {
        case "/healthz": return { .text("ok\n") }
        case "/readyz": return readiness
        case "/metrics": return exposition
        default:
            guard let file = StaticFile.all[path] else { return nil }
            return { file.response }
        }
    }

    private func decideRealtime(_ request: HTTPRequest) -> RouteDecision {
        if let objection = objection(toUpgrading: request) { return objection }
        if isFull { return .respond(full.response) }
        let model = request.queryValue("model") ?? ""
        return .upgrade(.session(model: model.isEmpty ? configuration.defaultModel : model))
    }

    /// The answer to a request that asks for no WebSocket, where there is nothing else; or nil.
    private func objection(toUpgrading request: HTTPRequest) -> RouteDecision? {
        guard request.method == .get else {
            var failure = RouteFailure.notAllowed
            failure.headers = [("Allow", "GET")]
            return .respond(failure.response)
        }
        guard WebSocketHandshake.isRequested(by: request) else {
            return .respond(RouteFailure.upgradeRequired.response)
        }
        return nil
    }

    private var isFull: Bool {
        metrics.sessions.load(ordering: .relaxed) >= configuration.maxSessions
    }

    /// The answer once no session is taken any more. A balancer is told so by `/readyz` before.
    var stopping: RouteFailure {
        .unavailable(
            "server_stopping", "The server is stopping.",
            retryAfterSeconds: configuration.retryAfterSeconds)
    }

    /// The answer when the last place was taken.
    var full: RouteFailure {
        .unavailable(
            "server_full", "The server has no place for another session.",
            retryAfterSeconds: configuration.retryAfterSeconds)
    }

    private func readiness() -> HTTPResponse {
        if metrics.isDraining.load(ordering: .relaxed) { return stopping.response }
        return isFull ? full.response : .text("ready\n")
    }

    private func exposition() -> HTTPResponse {
        var text = ByteWriter(capacity: 16 * 1024)
        metrics.write(into: &text)
        var fields = HTTPFields()
        fields.append("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        return HTTPResponse(status: 200, fields: fields, body: text.copiedBytes)
    }
}

/// A file that is part of the binary.
struct StaticFile: Sendable {
    let mediaType: String
    let bytes: [UInt8]

    /// The files by path. Add a line for every file in Resources.
    static let all: [String: StaticFile] = [
        "/": StaticFile(mediaType: html, bytes: PackageResources.index_html),
        "/style.css": StaticFile(mediaType: css, bytes: PackageResources.style_css),
        "/app.js": StaticFile(mediaType: script, bytes: PackageResources.app_js),
        "/audio.js": StaticFile(mediaType: script, bytes: PackageResources.audio_js),
        "/capture.js": StaticFile(mediaType: script, bytes: PackageResources.capture_js),
    ]

    private static let html = "text/html; charset=utf-8"
    private static let css = "text/css; charset=utf-8"
    private static let script = "text/javascript; charset=utf-8"

    /// Scripts, styles and connections of this server only; nothing may frame the page.
    private static let policy =
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        + "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

    /// The answer with it. The next build may differ under the same name, so it is not cached.
    var response: HTTPResponse {
        var fields = HTTPFields()
        fields.append("Content-Type", mediaType)
        fields.append("Cache-Control", "no-cache")
        fields.append("X-Content-Type-Options", "nosniff")
        fields.append("Content-Security-Policy", StaticFile.policy)
        return HTTPResponse(status: 200, fields: fields, body: bytes)
    }
}

extension HTTPResponse {
    /// A line of plain text.
    fileprivate static func text(_ text: String) -> HTTPResponse {
        HTTPResponse(status: 200, text: text)
    }
}
