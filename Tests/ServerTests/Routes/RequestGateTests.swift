// The rules of requests over the whole table of routes: the pages that may use a route, media
// types, credentials, and the order of the rules. The same on a real shard, where a request is also
// judged before its long body.

import Codec
import Simulation
import Testing

@testable import Server

@Suite struct RequestGateTests {
    private static let own = "http://voice.example.com"
    private static let listed = "https://app.example"
    private static let foreign = "https://evil.example"

    private static let configuration = {
        var configuration = ServerConfiguration()
        configuration.debugEcho = true
        configuration.admission.allowedHosts = [HostPattern("voice.example.com")!]
        configuration.admission.allowedOrigins = [OriginPattern(listed)!]
        return configuration
    }()

    private static let routes = Routes(
        configuration: configuration,
        metrics: ServerMetrics(shards: 1, workers: { WorkerCounts() }))

    /// Every route with every method that it answers.
    private static let operations = routes.all.flatMap { route in
        route.allowedMethods.map { (route, $0) }
    }

    /// The sender of a request, as far as the gate asks.
    private enum Sender {
        case caller(RouteAccess)
        case unknown(RefusalReason)
        /// The holder of a client secret that another node may have made.
        case secret(SHA256Digest)
        /// A rule before the credential answers.
        case notAsked
    }

    /// The gate's verdict on a request, as a word.
    private func verdict(
        _ method: HTTPMethod, _ path: String, _ fields: [(String, String)],
        host: String = "voice.example.com", _ configuration: ServerConfiguration = configuration,
        isBodyDue: Bool = false, by sender: Sender = .caller(.operator)
    ) throws -> String {
        var text = "\(method.name) \(path) HTTP/1.1\r\nHost: \(host)\r\n"
        for (name, value) in fields { text += "\(name): \(value)\r\n" }
        var parser = HTTPRequestParser()
        let bytes = Array((text + "\r\n").utf8)
        let (request, _) = try #require(try bytes.withUnsafeBytes { try parser.parse($0) })
        let source = RequestSource(client: .unspecified, host: request.host)
        let verdict = RequestGate.judge(
            request, from: source, isBodyDue: isBodyDue,
            policy: RequestPolicy(
                host: configuration.listener.host, hosts: configuration.admission.allowedHosts,
                origins: configuration.admission.allowedOrigins),
            routes: Self.routes
        ) { _ throws(RefusalReason) in
            switch sender {
            case .caller(let access): return .known(Caller(access: access))
            case .secret(let digest): return .unknownSecret(digest)
            case .unknown(let reason): throw reason
            case .notAsked:
                Issue.record("The credential was looked at.")
                throw .noCredential
            }
        }
        switch verdict {
        case .refused(let reason): return "\(reason)"
        case .failed(let failure, _): return "\(failure.status)"
        case .denied(let reason, _): return "\(reason)"
        case .undecided: return "undecided"
        case .preflight, .admitted: return "passed"
        }
    }

    private static func path(_ route: Route) -> String {
        route.path.replacing("{id}", with: "x")
    }

    // MARK: The table

    /// A path that any page may use is a decision: it is listed here as well.
    @Test func onlyProbesAndFilesAreForEveryPage() {
        let open = Self.routes.all.filter { $0.pages == .anyPage(because: "") }
        #expect(
            open.map(\.path) == [
                "/healthz", "/readyz", "/.well-known/jwks.json", "/", "/base.css", "/style.css",
                "/app.js", "/page/hops.js", "/page/log.js", "/page/lost.js",
                "/page/settings.js", "/page/setup.js", "/page/tools.js", "/page/values.js",
                "/page/wave.js", "/admin", "/admin.css", "/admin.js", "/admin/card.js",
                "/admin/charts.js", "/admin/failures.js", "/admin/format.js", "/admin/live.js",
                "/admin/player.js", "/admin/record.js", "/admin/records.js", "/admin/rows.js",
                "/admin/server.js",
                "/admin/table.js", "/admin/waterfall.js", "/parley.js", "/parley.d.ts",
                "/parley/connection.js", "/parley/conversation.js",
                "/parley/diagnosis.js", "/parley/errors.js", "/parley/liveness.js",
                "/parley/microphone.js", "/parley/sound.js", "/parley/worklet.js",
            ])
        for route in open {
            guard case .anyPage(let reason) = route.pages else { continue }
            #expect(reason.utf8CodeUnitCount > 20, "\(route.path) does not say why")
            #expect(route.access == .open && route.methods == [.get])
        }
    }

    @Test func administrationIsForTheServersOwnPages() {
        for route in Self.routes.all where route.access >= .key {
            #expect(route.pages == .sameOrigin, "\(route.path)")
        }
    }

    @Test func everyBodyIsJSON() {
        for route in Self.routes.all {
            #expect(Set(route.methods).isSubset(of: [.get, .post, .delete]), "\(route.path)")
            guard let request = route.content().request else { continue }
            #expect(request.mediaType == RequestGate.bodyMediaType, "\(route.path)")
        }
    }

    // MARK: Pages

    @Test func everyRouteJudgesThePageThatAsks() throws {
        for (route, method) in Self.operations {
            let path = Self.path(route)
            let takes = ("Content-Type", "application/json")
            let isOpen = route.pages == .anyPage(because: "")
            for (origin, isAllowed) in [
                (Self.own, true), (Self.listed, route.pages == .allowedOrigins),
                (Self.foreign, false), ("null", false), ("http://voice.example.com:1", false),
            ] {
                let answer = try verdict(method, path, [("Origin", origin), takes])
                let expected = isAllowed || isOpen ? "passed" : "origin"
                #expect(answer == expected, "\(method) \(path) from \(origin)")
            }
            #expect(try verdict(method, path, []) == "passed", "\(method) \(path) of a program")
        }
    }

    /// An image or a script of another page comes without an Origin.
    @Test func everyRouteJudgesThePageThatSendsNoOrigin() throws {
        for (route, method) in Self.operations {
            let path = Self.path(route)
            let takes = ("Content-Type", "application/json")
            let isOpen = route.pages == .anyPage(because: "")
            for (site, isAllowed) in [
                ("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false),
                ("", false), ("other", false),
            ] {
                let fields = [("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", "no-cors"), takes]
                let expected = isAllowed || isOpen ? "passed" : "origin"
                #expect(try verdict(method, path, fields) == expected, "\(method) \(path) \(site)")
            }
            // The user has followed a link; a frame still belongs to another page.
            let isRead = method == .get || method == .head
            for (destination, isAllowed) in [("document", isRead), ("iframe", false)] {
                let fields = [
                    ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"),
                    ("Sec-Fetch-Dest", destination), takes,
                ]
                let expected = isAllowed || isOpen ? "passed" : "origin"
                #expect(try verdict(method, path, fields) == expected, "\(path) \(destination)")
            }
        }
    }

    @Test func aStarAdmitsEveryPageWhereListedOnesAreAdmitted() throws {
        var configuration = Self.configuration
        configuration.admission.allowedOrigins = [.any]
        for (route, method) in Self.operations {
            let takes = ("Content-Type", "application/json")
            for page in [("Origin", Self.foreign), ("Sec-Fetch-Site", "cross-site")] {
                let answer = try verdict(method, Self.path(route), [page, takes], configuration)
                #expect(answer == (route.pages == .sameOrigin ? "origin" : "passed"))
            }
        }
    }

    // MARK: Bodies

    @Test func everyRouteRefusesWhatAPageMaySendUnasked() throws {
        for (route, method) in Self.operations where method == .post {
            let path = Self.path(route)
            let pages = [("Origin", Self.own), ("Sec-Fetch-Site", "same-origin")]
            for type in [
                "text/plain", "text/plain;charset=UTF-8", "multipart/form-data; boundary=x",
                "application/x-www-form-urlencoded", "application/jsonp", "",
                "text/plain; application/json", "application/json text/plain",
            ] {
                for page in pages {
                    let answer = try verdict(.post, path, [page, ("Content-Type", type)])
                    #expect(answer == "415", "\(path) \(type)")
                }
                #expect(
                    try verdict(.post, path, [("Content-Type", type)]) == "passed", "of a program")
            }
            for page in pages {
                #expect(try verdict(.post, path, [page]) == "415", "a Blob without a type")
                for type in ["application/json", "Application/JSON ; charset=utf-8"] {
                    #expect(try verdict(.post, path, [page, ("Content-Type", type)]) == "passed")
                }
                let twice = [("Content-Type", "application/json"), ("Content-Type", "text/plain")]
                #expect(try verdict(.post, path, [page] + twice) == "415")
            }
        }
    }

    // MARK: The order

    /// A request that breaks a rule, and all the rules behind that one.
    private struct BadRequest: CustomTestStringConvertible {
        let rule: String
        let method: HTTPMethod
        var path = "/v1/realtime/client_secrets"
        var host = "voice.example.com"
        var origin = RequestGateTests.foreign
        var type = "text/plain"
        var sender = Sender.notAsked
        let verdict: String

        var testDescription: String { "\(rule): \(method) \(path) → \(verdict)" }

        static let own = RequestGateTests.own
        static let all = [
            BadRequest(rule: "host", method: .post, host: "evil.example", verdict: "host"),
            BadRequest(
                rule: "host", method: .post, path: "/nothing", host: "evil.example",
                verdict: "host"),
            BadRequest(
                rule: "no host for a probe", method: .get, path: "/healthz", host: "evil.example",
                verdict: "passed"),
            BadRequest(rule: "route", method: .post, path: "/nothing", verdict: "404"),
            BadRequest(rule: "origin", method: .delete, verdict: "origin"),
            BadRequest(rule: "origin", method: .options, verdict: "origin"),
            BadRequest(rule: "origin", method: .post, verdict: "origin"),
            BadRequest(rule: "method", method: .delete, origin: own, verdict: "405"),
            BadRequest(rule: "method", method: .options, origin: own, verdict: "405"),
            BadRequest(
                rule: "none for a preflight", method: .options, path: "/v1/chat/completions",
                origin: RequestGateTests.listed, verdict: "passed"),
            BadRequest(rule: "body", method: .post, origin: own, verdict: "415"),
            BadRequest(
                rule: "credential", method: .post, origin: own, type: "application/json",
                sender: .unknown(.noCredential), verdict: "noCredential"),
            BadRequest(
                rule: "credential", method: .post, origin: own, type: "application/json",
                sender: .unknown(.failedAttempts), verdict: "failedAttempts"),
            BadRequest(
                rule: "credential", method: .post, origin: own, type: "application/json",
                sender: .caller(.session), verdict: "insufficientCredential"),
            BadRequest(
                rule: "credential", method: .post, origin: own, type: "application/json",
                sender: .secret(SHA256Digest(of: "ek_")), verdict: "undecided"),
            BadRequest(
                rule: "none", method: .post, origin: own, type: "application/json",
                sender: .caller(.key), verdict: "passed"),
            BadRequest(
                rule: "none for an open route", method: .get, path: "/openapi.json", origin: own,
                verdict: "passed"),
        ]
    }

    @Test(arguments: BadRequest.all)
    private func theFirstBrokenRuleAnswers(_ request: BadRequest) throws {
        let fields = [("Origin", request.origin), ("Content-Type", request.type)]
        let answer = try verdict(
            request.method, request.path, fields, host: request.host, by: request.sender)
        #expect(answer == request.verdict)
    }

    @Test func everyRouteAsksForItsAccess() throws {
        for (route, method) in Self.operations where method != .options {
            let levels: [RouteAccess] = [.open, .session, .key, .operator]
            for access in levels {
                let expected =
                    route.access == .open || access >= route.access
                    ? "passed" : "insufficientCredential"
                let sender = route.access == .open ? Sender.notAsked : .caller(access)
                let answer = try verdict(method, Self.path(route), [], by: sender)
                #expect(answer == expected, "\(method) \(route.path) for \(access)")
            }
        }
    }

    /// A long body is only read for a caller with a credential.
    @Test func openRoutesTakeNoLongBody() throws {
        for (route, method) in Self.operations where method != .options {
            let isOpen = route.access == .open
            let answer = try verdict(
                method, Self.path(route), [], isBodyDue: true,
                by: isOpen ? .notAsked : .caller(.operator))
            #expect(answer == (isOpen ? "413" : "passed"), "\(method) \(route.path)")
        }
    }

    // MARK: On a shard

    private func answer(_ text: String) throws -> HTTPResponse {
        let server = try SimulatedServer(configuration: Self.configuration)
        let peer = server.connect()
        peer.send(text)
        #expect(server.run())
        return try #require(try parseResponses(peer.receive(), answering: [.get]).responses.first)
    }

    @Test func aPageIsRefusedBeforeItsLongBodyIsRead() throws {
        for (route, method) in Self.operations where method == .post {
            let head =
                "POST \(Self.path(route)) HTTP/1.1\r\nHost: voice.example.com\r\n"
                + "Content-Length: 500000\r\n"
            let body = String(repeating: "x", count: HTTPServerConnection.maxUnjudgedBytes)
            for (fields, status) in [
                ("Origin: \(Self.foreign)\r\nContent-Type: application/json\r\n", 403),
                ("Origin: \(Self.own)\r\nContent-Type: text/plain\r\n", 415),
            ] {
                let response = try answer(head + fields + "\r\n" + body)
                #expect(response.status == status, "\(route.path)")
            }
        }
    }

    @Test(arguments: [
        "/metrics", "/admin/sessions", "/admin/sessions/sess_1", "/admin/records/sess_1",
    ])
    func aForeignPageLearnsNothing(path: String) throws {
        let head = "GET \(path) HTTP/1.1\r\nHost: voice.example.com\r\n"
        for page in ["Origin: \(Self.foreign)", "Origin: null", "Sec-Fetch-Site: cross-site"] {
            let response = try answer(head + page + "\r\n\r\n")
            #expect(response.status == 403)
            #expect(text(response).contains("origin_not_allowed"))
            #expect(response.fields["Access-Control-Allow-Origin"] == nil)
        }
    }

    @Test func aForeignPageMakesNoClientSecret() throws {
        let server = try SimulatedServer(configuration: Self.configuration)
        for page in ["Origin: \(Self.foreign)", "Sec-Fetch-Site: same-site"] {
            let peer = server.connect()
            peer.send(
                "POST /v1/realtime/client_secrets HTTP/1.1\r\nHost: voice.example.com\r\n\(page)"
                    + "\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")
            #expect(server.run())
            let (responses, _) = try parseResponses(peer.receive(), answering: [.post])
            #expect(responses.first?.status == 403)
        }
        #expect(server.authenticator.secrets.count == 0)
        #expect(server.metrics.total(of: .refusedOrigin) == 2)
    }
}
