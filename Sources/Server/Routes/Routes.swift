// The server's paths as a table: one `Route` a path, with its methods, the credential and the web
// pages that may use it, and the service that answers. OpenAPIDocument is made from the same table.
// Pure: ShardHTTP sends the answers, RequestGate decides whether a request may use a route.
//
// Errors have the body of OpenAI's API, {"error":{"message","type","code","param"}}, which clients
// of that API show to their users. A RouteFailure never contains text that the peer has sent.

import Codec
import Session
import Synchronization

/// The service that answers the messages of a WebSocket.
enum WebSocketService: Sendable {
    /// A session of the model that the request's query names, or a running one (`call_id`).
    case session
    /// A telephone call, in the protocol of its carrier.
    case call(TelephoneCarrier)
    /// A session that begins at once, in the protocol of the front that this makes.
    case front(FrontMaker)
    /// The server as an operator watches it.
    case administration
    /// Each message is sent back unchanged, for conformance tests and measurements.
    case echo
}

/// The kind of session that a client wants (`intent` of the query).
enum SessionIntent: String, CaseIterable {
    case conversation, transcription

    /// Nil for an intent that is not known.
    init?(of request: HTTPRequest) {
        let intent = request.queryValue("intent") ?? ""
        self.init(rawValue: intent.isEmpty ? Self.conversation.rawValue : intent)
    }
}

/// The service that answers the requests of a route.
enum RouteService: Sendable {
    /// A value, in the same tick.
    case value(@Sendable (_ request: HTTPRequest, _ routes: Routes) -> HTTPResponse)
    /// A client secret.
    case clientSecret(ClientSecretForm)
    /// The facts that the conversation page needs before a session.
    case pageSetup
    /// The sessions of all shards, once each shard has answered.
    case survey
    /// Ended sessions, once what keeps them has answered.
    case records
    /// A session ends, once its shard was found.
    case hangUp
    /// Whether something is at this node, for another one.
    case find
    /// The connection becomes a WebSocket.
    case webSocket(WebSocketService)
    /// A model's reply, later and perhaps in pieces.
    case text(TextFront)
}

/// One path of the server.
struct Route: Sendable {
    /// The path as on the wire. A segment in braces matches any segment that is not empty:
    /// `/chats/{id}`.
    let path: String
    /// The methods it takes; a GET whose answer is a value also takes HEAD.
    let methods: [HTTPMethod]
    /// The credential that it needs.
    let access: RouteAccess
    /// The web pages that may use it; requests of all others are answered with 403.
    let pages: PageAccess
    /// One sentence for the documentation.
    let summary: String
    /// The service behind it.
    let service: RouteService
    /// Whether the segment in braces, the last one, matches the whole rest: an id may have slashes,
    /// which clients do not always encode.
    var takesRest = false
    /// The content of its requests and answers, for the documentation.
    var content: @Sendable () -> RouteContent = { RouteContent() }

    /// Whether answers carry the fields of CORS, for pages of `allowed-origins`.
    var servesOtherOrigins: Bool {
        if case .webSocket = service { return false }
        return pages == .allowedOrigins
    }

    /// Every method that is answered, in the order of the Allow field (RFC 9110 §10.2.1).
    var allowedMethods: [HTTPMethod] {
        var allowed = methods
        if case .value = service, allowed.contains(.get) { allowed.append(.head) }
        // A browser sends OPTIONS before a request of another origin (Fetch §3.2.2), and a balancer to
        // see whether the server is there.
        if servesOtherOrigins || Routes.isProbe(path, .options) { allowed.append(.options) }
        return allowed
    }

    /// The answer to a method that is not served here, or nil.
    func objection(to method: HTTPMethod) -> RouteFailure? {
        let allowed = allowedMethods
        if allowed.contains(method) { return nil }
        let names = allowed.map(\.name).joined(separator: ", ")
        return RouteFailure(
            status: 405, code: "method_not_allowed", message: "This path takes \(names) only.",
            headers: [("Allow", names)])
    }

    /// The value of the segment in braces, percent-decoded; nil where the path has none, or it is
    /// not UTF-8.
    func parameter(of path: String) -> String? {
        let own = self.path.split(separator: "/")
        let other = path.split(separator: "/", maxSplits: takesRest ? own.count - 1 : .max)
        return zip(own, other).first { $0.0.hasPrefix("{") }
            .flatMap { HTTPRequest.percentDecoded($0.1) }
    }

    /// Whether a path matches this route, whose path has braces.
    fileprivate func matches(_ path: String) -> Bool {
        let own = self.path.split(separator: "/", omittingEmptySubsequences: false)
        let other = path.split(
            separator: "/", maxSplits: takesRest ? own.count - 1 : .max,
            omittingEmptySubsequences: false)
        return own.count == other.count
            && zip(own, other).allSatisfy { $0.hasPrefix("{") ? !$1.isEmpty : $0 == $1 }
    }
}

/// The server's paths, and the values that their answers are made of.
struct Routes: Sendable {
    /// Every path, in the order of the documentation.
    let all: [Route]
    private let byPath: [String: Route]
    private let withParameters: [Route]
    let configuration: ServerConfiguration
    private let metrics: ServerMetrics
    private let openAPIDocument = KeptDocument()
    private let asyncAPIDocument = KeptDocument()
    private let publicKeys: (@Sendable () -> [UInt8])?

    init(
        configuration: ServerConfiguration, metrics: ServerMetrics,
        publicKeys: (@Sendable () -> [UInt8])? = nil, added: [Route] = []
    ) {
        self.configuration = configuration
        self.metrics = metrics
        self.publicKeys = publicKeys
        all = Self.table(configuration) + added
        byPath = Dictionary(uniqueKeysWithValues: all.map { ($0.path, $0) })
        withParameters = all.filter { $0.path.contains("{") }
    }

    /// Whether a path is a health probe, which monitors ask for with any Host.
    static func isProbe(_ path: String, _ method: HTTPMethod = .get) -> Bool {
        path == "/healthz" || path == "/readyz" || method == .options && path == "/"
    }

    /// The route of a path, or nil where nothing is served there. Clients that join a base address
    /// with a path write slashes twice or at the end. On a path for applications these extra
    /// slashes mean nothing.
    func route(at path: String) -> Route? {
        if let route = byPath[path] ?? withParameters.first(where: { $0.matches(path) }) {
            return route
        }
        let words = path.split(separator: "/")
        let plain = "/" + words.joined(separator: "/")
        guard plain != path, let first = words.first, ["v1", "api"].contains(first) else {
            return nil
        }
        return byPath[plain] ?? withParameters.first { $0.matches(plain) }
    }

    /// The path of a request for a log, without a secret that is a part of it. A path that only resembles
    /// one with a secret is a mistyped one, so nothing behind the carrier's name is shown.
    func shownPath(of request: HTTPRequest) -> String {
        let first = request.path.split(separator: "/").first
            .flatMap { HTTPRequest.percentDecoded($0) }?.lowercased()
        let meant = withParameters.first { route in
            route.hasSecretPath && route.path.split(separator: "/").first.map(String.init) == first
        }
        guard let meant, request.path.dropFirst().contains("/") else { return request.path }
        return meant.path
    }

    static func table(_ configuration: ServerConfiguration) -> [Route] {
        var table = applications + probes
        if configuration.debugEcho {
            table.append(
                Route(
                    path: "/debug/echo", methods: [.get], access: .session,
                    pages: .allowedOrigins,
                    summary: "A WebSocket that sends every message back.",
                    service: .webSocket(.echo),
                    content: {
                        RouteContent(answers: [RouteAnswer(status: 101, "It is a WebSocket now.")])
                    }))
        }
        return table + Route.calls + Route.telephone(configuration) + Route.administration
            + Route.records + Route.nodes + [pageSetup] + StaticFile.all.map(\.route)
    }

    private static let pageSetup = Route(
        path: "/page/setup.json", methods: [.get], access: .open, pages: .sameOrigin,
        summary: "What the conversation page must know before a session.",
        service: .pageSetup, content: { .pageSetup })

    /// The routes for applications.
    private static let applications = [
        Route(
            path: "/v1/realtime", methods: [.get], access: .session, pages: .allowedOrigins,
            summary: "A voice session over WebSocket, in the OpenAI Realtime protocol.",
            service: .webSocket(.session), content: { .realtime }),
        .agentSession,
        Route(
            path: "/v1/realtime/client_secrets", methods: [.post], access: .key,
            pages: .sameOrigin,
            summary: "A short-lived credential for a browser, with the session that it opens.",
            service: .clientSecret(.current), content: { .clientSecret }),
        Route(
            path: "/v1/realtime/sessions", methods: [.post], access: .key, pages: .sameOrigin,
            summary: "A client secret in the form of the beta: a session with client_secret.",
            service: .clientSecret(.betaSession), content: { .betaSecret }),
        Route(
            path: "/v1/realtime/transcription_sessions", methods: [.post], access: .key,
            pages: .sameOrigin,
            summary: "A client secret of a transcription session in the form of the beta.",
            service: .clientSecret(.betaTranscription), content: { .betaTranscriptionSecret }),
        Route(
            path: "/v1/realtime/translations/client_secrets", methods: [.post], access: .key,
            pages: .sameOrigin,
            summary: "Refused: translation sessions are not supported.",
            service: .value { _, _ in RouteFailure.translation.response },
            content: { .refusal }),
        Route(
            path: "/v1/chat/completions", methods: [.post], access: .session,
            pages: .allowedOrigins,
            summary: "A reply to a conversation, streamed or whole, as OpenAI's API has it.",
            service: .text(.chatCompletions), content: { .chatCompletions }),
        .agentCompletions,
        Route(
            path: "/api/chat", methods: [.post], access: .session, pages: .allowedOrigins,
            summary: "A reply as the UI message stream of the Vercel AI SDK.",
            service: .text(.uiMessages), content: { .uiMessages }),
        Route(
            path: "/api/chat/{id}/stream", methods: [.get, .delete], access: .session,
            pages: .allowedOrigins,
            summary: "The reply of a chat that is on its way, again; with DELETE, its end.",
            service: .text(.uiMessagesResumed), content: { .uiMessagesResumed }),
        Route(
            path: "/v1/models", methods: [.get], access: .session, pages: .allowedOrigins,
            summary: "The model that answers, as OpenAI's API lists models.",
            service: .value { $1.models() }, content: { .models }),
        Route(
            path: "/v1/models/{id}", methods: [.get], access: .session, pages: .allowedOrigins,
            summary: "A model of that list.",
            service: .value { $1.model(for: $0) }, takesRest: true, content: { .model }),
    ]

    /// The routes that describe the server and its state.
    private static let probes = [
        Route(
            path: "/healthz", methods: [.get], access: .open,
            pages: .anyPage(because: "It shows only that the process serves."),
            summary: "200 while the process serves at all.",
            service: .value { _, _ in HTTPResponse(status: 200, text: "ok\n").readableByAll },
            content: { .value("The process serves.", "text/plain") }),
        Route(
            path: "/readyz", methods: [.get], access: .open,
            pages: .anyPage(because: "It shows only whether there is a place."),
            summary: "200 while there is a place for a session; 503 when full or draining.",
            service: .value { $1.readiness(to: $0).readableByAll }, content: { .readiness }),
        Route(
            path: "/metrics", methods: [.get], access: .operator, pages: .sameOrigin,
            summary: "Numbers of the server in Prometheus's text format.",
            service: .value { $1.exposition() },
            content: { .value("The numbers.", "text/plain; version=0.0.4") }),
        Route(
            path: "/openapi.json", methods: [.get], access: .open, pages: .allowedOrigins,
            summary: "This description of the HTTP routes.",
            service: .value { $1.openAPI() },
            content: { .value("OpenAPI 3.1.", "application/json", .anyObject) }),
        Route(
            path: "/asyncapi.json", methods: [.get], access: .open, pages: .allowedOrigins,
            summary: "A description of the WebSocket and its messages.",
            service: .value { $1.asyncAPI() },
            content: { .value("AsyncAPI 3.0.", "application/json", .anyObject) }),
        Route(
            path: "/.well-known/jwks.json", methods: [.get], access: .open,
            pages: .anyPage(because: "Public keys are for everyone."),
            summary: "The keys that check the signatures of requests to agents (JWKS).",
            service: .value { $1.signatureKeys().readableByAll },
            content: { .signatureKeys }),
    ]

    /// The answer to an upgrade that the route does not serve: the request is no upgrade, or wants
    /// a session of an unknown kind. Nil where the upgrade may go on.
    func objection(toUpgrading request: HTTPRequest, to service: WebSocketService) -> RouteFailure?
    {
        guard WebSocketHandshake.isRequested(by: request) else { return .upgradeRequired }
        guard case .session = service else { return nil }
        // A session that is joined has its kind and its place.
        if SidebandQuery.sessionID(of: request) != nil { return nil }
        return SessionIntent(of: request) == nil ? .unknownIntent : nil
    }

    /// The session that a request asks for.
    func session(for request: HTTPRequest) -> SessionParameters {
        let model = request.queryValue("model") ?? ""
        switch SessionIntent(of: request) {
        case .transcription: return .transcription(model: model.isEmpty ? nil : model)
        case .conversation, nil:
            return SessionParameters(model: model.isEmpty ? configuration.defaultModel : model)
        }
    }

    /// Whether every place has a session that is used: those that wait for their clients give theirs.
    private var isFull: Bool {
        metrics.sessions.load(ordering: .relaxed) - metrics.detached.load(ordering: .relaxed)
            >= configuration.admission.maxSessions
    }

    /// The answer once the server takes no new session. Load balancers see it at `/readyz` first.
    var stopping: RouteFailure {
        .unavailable(
            "server_stopping", "The server is stopping.",
            retryAfterSeconds: configuration.admission.retryAfterSeconds)
    }

    /// The answer when every place for a session is taken.
    var full: RouteFailure {
        .unavailable(
            "server_full", "The server has no place for another session.",
            retryAfterSeconds: configuration.admission.retryAfterSeconds)
    }

    /// The answer to a client whose session another version of the server has saved.
    var otherVersion: RouteFailure {
        .unavailable(
            "session_version", "Another version of the server has saved this session.",
            retryAfterSeconds: configuration.admission.retryAfterSeconds)
    }

    /// The answer while the store of sessions does not answer every shard.
    private var storeAway: RouteFailure {
        let cause = RedisTrouble.allCases.first { metrics.total(of: $0.storeMetric) > 0 }
        let name = cause.map { " (\($0))" } ?? ""
        return .unavailable(
            "store_unavailable", "The store of sessions is of no use\(name).",
            retryAfterSeconds: configuration.admission.retryAfterSeconds)
    }

    private var isStoreAway: Bool {
        configuration.store.address != nil
            && metrics.total(of: .storeConnected) < metrics.shards.count
    }

    private func readiness(to request: HTTPRequest) -> HTTPResponse {
        if metrics.isDraining.load(ordering: .relaxed) { return stopping.response }
        if metrics.isShortOfMemory.load(ordering: .relaxed) { return shortOfMemory.response }
        if request.queryValue("store") != nil, isStoreAway { return storeAway.response }
        return isFull ? full.response : HTTPResponse(status: 200, text: "ready\n")
    }

    private func exposition() -> HTTPResponse {
        var text = ByteWriter(capacity: 16 * 1024)
        metrics.write(into: &text, isFull: isFull)
        var fields = HTTPFields()
        fields.append("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        return HTTPResponse(status: 200, fields: fields, body: text.copiedBytes)
    }

    private func openAPI() -> HTTPResponse {
        .json(
            openAPIDocument.bytes {
                let document = OpenAPIDocument(configuration: configuration)
                return document.write(into: ByteWriter(capacity: 16 * 1024)).copiedBytes
            })
    }

    private func asyncAPI() -> HTTPResponse {
        .json(
            asyncAPIDocument.bytes {
                let document = AsyncAPIDocument(configuration: configuration)
                return document.write(into: ByteWriter(capacity: 64 * 1024)).copiedBytes
            })
    }

    /// Agents may keep the keys for a while, as a key is published before it signs.
    private func signatureKeys() -> HTTPResponse {
        guard let publicKeys else { return RouteFailure.requestsUnsigned.response }
        var fields = HTTPFields()
        fields.append("Cache-Control", "max-age=\(AgentSet.publicKeysAge)")
        return .json(publicKeys(), fields: fields)
    }

    /// A session may name any model, and the name goes to the model server. The list has the
    /// default.
    private func models() -> HTTPResponse {
        var json = JSONWriter(ByteWriter(capacity: 256))
        json.object { json in
            json.member("object", "list")
            json.array("data") { json in json.object { writeDefaultModel(to: &$0) } }
        }
        return .json(json.finish())
    }

    /// One model of the list.
    private func model(for request: HTTPRequest) -> HTTPResponse {
        let id = route(at: request.path)?.parameter(of: request.path)
        guard id == configuration.defaultModel else { return RouteFailure.modelUnlisted.response }
        var json = JSONWriter(ByteWriter(capacity: 256))
        json.object { writeDefaultModel(to: &$0) }
        return .json(json.finish())
    }

    private func writeDefaultModel(to json: inout JSONWriter) {
        json.member("id", configuration.defaultModel)
        json.member("object", "model")
        json.member("created", 0)
        json.member("owned_by", "parley")
    }
}

extension Route {
    /// The answer to OPTIONS: to a preflight, where pages of other origins may use the route. `*` stands
    /// for every field but Authorization, which must be named.
    var preflight: HTTPResponse {
        let methods = allowedMethods.map(\.name).joined(separator: ", ")
        var fields = HTTPFields()
        fields.append("Allow", methods)
        guard servesOtherOrigins else { return HTTPResponse(status: 204, fields: fields) }
        fields.append("Access-Control-Allow-Methods", methods)
        fields.append("Access-Control-Allow-Headers", "Authorization, Content-Type, *")
        fields.append("Access-Control-Max-Age", "\(CrossOrigin.maxAgeSeconds)")
        return HTTPResponse(status: 204, fields: fields)
    }
}
