// The rules of requests over the whole table of routes: which pages may use a route, with which
// media type, and in which order a request is judged. The same on a real shard, where a request is
// judged before its long body as well.

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
        configuration.allowedHosts = [HostPattern("voice.example.com")!]
        configuration.allowedOrigins = [OriginPattern(listed)!]
        return configuration
    }()

    private static let routes = Routes(
        configuration: configuration,
        metrics: ServerMetrics(shards: 1, workers: { WorkerCounts() }))

    /// Every route with every method that it answers.
    private static let operations = routes.all.flatMap { route in
        route.allowedMethods.map { (route, $0) }
    }

    /// What the gate makes of a request, as a word.
    private func verdict(
        _ method: HTTPMethod, _ path: String, _ fields: [(String, String)],
        host: String = "voice.example.com", _ configuration: ServerConfiguration = configuration
    ) throws -> String {
        var text = "\(method.name) \(path) HTTP/1.1\r\nHost: \(host)\r\n"
        for (name, value) in fields { text += "\(name): \(value)\r\n" }
        var parser = HTTPRequestParser()
        let bytes = Array((text + "\r\n").utf8)
        let (request, _) = try #require(try bytes.withUnsafeBytes { try parser.parse($0) })
        let source = RequestSource(client: .unspecified, host: request.host)
        switch RequestGate.verdict(
            on: request, from: source, policy: RequestPolicy(configuration), routes: Self.routes)
        {
        case .refused(let reason): return "\(reason)"
        case .failed(let failure, _): return "\(failure.status)"
        case .preflight, .passed: return "passed"
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
                "/healthz", "/readyz", "/", "/style.css", "/app.js", "/audio.js", "/capture.js",
            ])
        for route in open {
            guard case .anyPage(let reason) = route.pages else { continue }
            #expect(reason.utf8CodeUnitCount > 20, "\(route.path) does not say why")
            #expect(route.access == .open && route.methods == [.get])
        }
    }

    @Test func whatAdministersIsForTheServersOwnPages() {
        for route in Self.routes.all where route.access >= .key {
            #expect(route.pages == .sameOrigin, "\(route.path)")
        }
    }

    @Test func everyBodyIsJSON() {
        for route in Self.routes.all {
            #expect(Set(route.methods).isSubset(of: [.get, .post]), "\(route.path)")
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
            // The user has followed a link; a frame is still another page's.
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
        configuration.allowedOrigins = [.any]
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

    @Test func theFirstRuleInTheWayAnswers() throws {
        let page = [("Origin", Self.foreign), ("Content-Type", "text/plain")]
        let secrets = "/v1/realtime/client_secrets"
        #expect(try verdict(.post, secrets, page, host: "evil.example") == "host")
        #expect(try verdict(.get, "/healthz", page, host: "evil.example") == "passed")
        #expect(try verdict(.post, "/nothing", page) == "404")
        #expect(try verdict(.delete, secrets, page) == "origin")
        #expect(try verdict(.options, secrets, page) == "origin")
        #expect(try verdict(.delete, secrets, [("Origin", Self.own)]) == "405")
        #expect(try verdict(.options, secrets, [("Origin", Self.own)]) == "405")
        #expect(try verdict(.post, secrets, [("Origin", Self.own)]) == "415")
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

    @Test(arguments: ["/metrics", "/admin/sessions", "/admin/sessions/sess_1"])
    func aForeignPageIsToldNothing(path: String) throws {
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
