// Refusals of requests, and the access that a route asks of their callers. Errors have the body of OpenAI's
// API, {"error":{"message","type","code","param"}}, which clients of that API show to their users. A
// RouteFailure never contains text that the peer has sent.

import Codec
import Session

/// The refusal of a request.
struct RouteFailure {
    let status: Int
    /// A stable word for programs.
    let code: StaticString
    /// A sentence for a person.
    let message: String
    var headers: [(name: String, value: String)] = []

    /// The answer to the client.
    var response: HTTPResponse {
        var response = HTTPResponse.error(
            code: "\(code)", message: message, isRequestError: status < 500, status: status)
        for header in headers { response.fields.append(header.name, header.value) }
        return response
    }

    /// The answer to bytes that are no request. The log names the broken rule; the peer gets the
    /// status alone.
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
    static let upgradeRequired = RouteFailure(
        status: 426, code: "upgrade_required",
        message: "This path takes WebSocket connections only.",
        headers: [("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")])

    static let translation = RouteFailure(
        status: 400, code: "unsupported_session_type",
        message: "A session of type 'translation' is not supported.")
    static let callsUnsupported = RouteFailure(
        status: 404, code: "calls_not_supported",
        message: "Calls over WebRTC or SIP are not supported: connect a WebSocket to /v1/realtime.")
    static let requestsUnsigned = RouteFailure(
        status: 404, code: "requests_not_signed",
        message: "This server does not sign its requests to agents (sign-requests).")
    static let modelUnlisted = RouteFailure(
        status: 404, code: "model_not_found",
        message: "The list of models (/v1/models) does not have this model.")
    static let unknownIntent = RouteFailure(
        status: 400, code: "unsupported_intent",
        message: "The only intent that is known is transcription.")

    /// The answer at a path where nothing is served. A path of the protocol has a reason of its
    /// own.
    static func nothing(at path: String) -> RouteFailure {
        func isBelow(_ root: String) -> Bool { path == root || path.hasPrefix(root + "/") }
        if isBelow("/v1/realtime/calls") { return callsUnsupported }
        if isBelow("/v1/realtime/translations") { return translation }
        return notFound
    }

    static func unavailable(
        _ code: StaticString, _ message: String, retryAfterSeconds: Int
    ) -> RouteFailure {
        RouteFailure(
            status: 503, code: code, message: message,
            headers: [("Retry-After", "\(retryAfterSeconds)")])
    }
}

/// The access that a route needs, and that a credential gives. Each level includes those before it.
enum RouteAccess: Int, Comparable, Sendable {
    /// Every client that can reach the server: probes, and pages without secrets.
    case open
    /// A client that may open a session: it has a client secret, a token or a key.
    case session
    /// An application: it has a key, and may make client secrets.
    case key
    /// An operator of the server.
    case `operator`

    static func < (left: RouteAccess, right: RouteAccess) -> Bool {
        left.rawValue < right.rawValue
    }
}

extension HTTPResponse {
    /// The answer, which every page may read: one that cannot connect finds out why.
    var readableByAll: HTTPResponse {
        var response = self
        CrossOrigin.permitAll(in: &response.fields)
        return response
    }

    /// An answer in JSON.
    /// - Parameter fields: the fields that it gets beside its type.
    static func json(
        _ body: consuming ByteWriter, status: Int = 200, fields: HTTPFields = HTTPFields()
    ) -> HTTPResponse {
        .json(body.copiedBytes, status: status, fields: fields)
    }

    /// An answer in JSON that is kept as bytes.
    static func json(
        _ body: [UInt8], status: Int = 200, fields: HTTPFields = HTTPFields()
    ) -> HTTPResponse {
        var fields = fields
        fields.append("Content-Type", "application/json")
        return HTTPResponse(status: status, fields: fields, body: body)
    }

    /// An error in the format of OpenAI's API.
    static func error(
        code: String, message: String, isRequestError: Bool, param: String? = nil, status: Int
    ) -> HTTPResponse {
        var body = ByteWriter(capacity: 512)
        ChatCompletionWriter.error(
            code: code, message: message, isRequestError: isRequestError, param: param,
            into: &body)
        return .json(body, status: status)
    }

    /// 400, with the error in the request's body. It may quote a value of the body, as the `error`
    /// events of a session do.
    init(badRequest error: ClientEventError) {
        let isRequestError = error.kind == .invalidRequest
        self = .error(
            code: error.code, message: error.message, isRequestError: isRequestError,
            param: error.param, status: isRequestError ? 400 : 500)
    }
}
