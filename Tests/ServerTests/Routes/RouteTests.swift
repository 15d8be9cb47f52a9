// The table of routes through a real shard: methods, paths with a parameter, and the answers to
// pages of other origins.

import Codec
import Simulation
import Testing

@testable import Server

@Suite struct RouteTests {
    private func answer(
        _ method: String, _ path: String, _ fields: String = "", origins: [String] = []
    ) throws -> HTTPResponse {
        var configuration = ServerConfiguration()
        configuration.admission.allowedOrigins = try origins.map { try #require(OriginPattern($0)) }
        let server = try SimulatedServer(configuration: configuration)
        let peer = server.connect()
        peer.send("\(method) \(path) HTTP/1.1\r\nHost: localhost:8080\r\n\(fields)\r\n")
        #expect(server.run())
        let (responses, _) = try parseResponses(peer.receive(), answering: [HTTPMethod(method)])
        return try #require(responses.first)
    }

    @Test(arguments: [
        ("POST", "/healthz", "GET, HEAD, OPTIONS"), ("POST", "/v1/realtime", "GET"),
        ("HEAD", "/v1/realtime", "GET"), ("OPTIONS", "/v1/realtime", "GET"),
        ("OPTIONS", "/metrics", "GET, HEAD"),
        ("DELETE", "/v1/models", "GET, HEAD, OPTIONS"),
    ])
    func aMethodThatIsNotServedIsAnsweredWithThoseThatAre(
        method: String, path: String, allowed: String
    ) throws {
        let response = try answer(method, path)
        #expect(response.status == 405)
        #expect(response.fields["Allow"] == allowed)
    }

    /// HAProxy's `option httpchk` sends `OPTIONS /` without a Host.
    @Test(arguments: ["/", "*", "/healthz", "/readyz"])
    func aBalancerMayAskWithOptions(path: String) throws {
        for head in [
            "OPTIONS \(path) HTTP/1.0\r\n\r\n", "OPTIONS \(path) HTTP/1.1\r\nHost: x\r\n\r\n",
        ] {
            let server = try SimulatedServer(configuration: ServerConfiguration())
            let peer = server.connect()
            peer.send(head)
            #expect(server.run())
            let (responses, _) = try parseResponses(peer.receive(), answering: [.options])
            let response = try #require(responses.first)
            #expect(response.status == 204 && response.fields["Allow"] == "GET, HEAD, OPTIONS")
            #expect(response.fields["Access-Control-Allow-Methods"] == nil)
        }
    }

    @Test func everyPathIsListedOnceAndSaysWhatItIs() {
        let routes = Routes(
            configuration: ServerConfiguration(),
            metrics: ServerMetrics(shards: 1, workers: { WorkerCounts() }))
        #expect(routes.all.count > 8)
        for route in routes.all {
            #expect(route.path.hasPrefix("/") && !route.methods.isEmpty)
            #expect(route.summary.hasSuffix("."))
            #expect(!route.content().answers.isEmpty, "\(route.path) is not documented")
            #expect(routes.route(at: route.path)?.path == route.path)
        }
    }

    @Test(arguments: [
        ("/a/{id}/b", "/a/x/b", "x"), ("/a/{id}/b", "/a/%C3%BC%2F/b", "ü/"),
        ("/a/{id}/b", "/a/%FF/b", nil), ("/a/{id}", "/a/a+b", "a+b"), ("/a/b", "/a/b", nil),
    ])
    func aSegmentInBracesIsAParameter(pattern: String, path: String, value: String?) {
        let route = Route(
            path: pattern, methods: [.get], access: .open, pages: .sameOrigin, summary: "",
            service: .webSocket(.echo))
        #expect(route.parameter(of: path) == value)
    }

    @Test func modelsAreListed() throws {
        let response = try answer("GET", "/v1/models")
        #expect(response.status == 200)
        #expect(
            text(response)
                == #"{"object":"list","data":[{"id":"parley","object":"model","created":0,"#
                + #""owned_by":"parley"}]}"#)
    }

    @Test(arguments: [
        ("/v1/models/parley", 200), ("/v1//models/parley", 200), ("/v1/models/m/one%3A7b", 404),
        ("/v1/models/", 200), ("/v1//models", 200), ("//v1/models", 200), ("/models", 404),
        ("//healthz", 404), ("/v1/models/parley/more", 404), ("//", 404),
    ])
    func aModelIsFoundByItsNameAndSlashesMeanNothing(path: String, status: Int) throws {
        #expect(try answer("GET", path).status == status)
    }

    @Test func aModelWithSlashesIsFoundHoweverTheyAreWritten() throws {
        var configuration = ServerConfiguration()
        configuration.defaultModel = "m/one:7b"
        for path in ["/v1/models/m/one:7b", "/v1/models/m%2Fone%3A7b"] {
            let server = try SimulatedServer(configuration: configuration)
            let peer = server.connect()
            peer.send("GET \(path) HTTP/1.1\r\nHost: localhost:8080\r\n\r\n")
            #expect(server.run())
            let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
            #expect(
                responses.map { text($0) } == [
                    #"{"id":"m/one:7b","object":"model","created":0,"owned_by":"parley"}"#
                ])
        }
    }

    @Test func anyPageMayReadWhyItIsRefusedAndWhetherThereIsAPlace() throws {
        let origin = "Origin: https://evil.example\r\n"
        let refused = try answer("GET", "/v1/models", origin)
        #expect(refused.status == 403 && refused.fields["Access-Control-Allow-Origin"] == "*")
        #expect(text(refused).contains("origin_not_allowed"))
        for path in ["/readyz", "/healthz", "/.well-known/jwks.json"] {
            let response = try answer("GET", path, origin)
            #expect(response.fields["Access-Control-Allow-Origin"] == "*", "\(path)")
        }
        // A request with a credential is asked for first, and that is refused.
        let preflight = try answer(
            "OPTIONS", "/v1/models", origin + "Access-Control-Request-Method: GET\r\n")
        #expect(preflight.status == 403)
        #expect(preflight.fields["Access-Control-Allow-Headers"] == nil)
    }

    @Test func aPageOfAnAllowedOriginMayAsk() throws {
        let origin = "Origin: https://app.example\r\n"
        let preflight = try answer(
            "OPTIONS", "/v1/models", origin + "Access-Control-Request-Method: GET\r\n",
            origins: ["https://app.example"])
        #expect(preflight.status == 204)
        #expect(preflight.fields["Access-Control-Allow-Origin"] == "https://app.example")
        #expect(preflight.fields["Access-Control-Allow-Methods"] == "GET, HEAD, OPTIONS")
        #expect(preflight.fields["Access-Control-Allow-Headers"]?.contains("Authorization") == true)
        let response = try answer("GET", "/v1/models", origin, origins: ["https://app.example"])
        #expect(response.status == 200)
        #expect(response.fields["Access-Control-Allow-Origin"] == "https://app.example")
        #expect(response.fields["Vary"] == "Origin")
    }

    @Test(arguments: ["OPTIONS", "GET"])
    func aPageOfAnotherOriginIsRefused(method: String) throws {
        let response = try answer(
            method, "/v1/models", "Origin: https://evil.example\r\n",
            origins: ["https://app.example"])
        #expect(response.status == 403)
        #expect(response.fields["Access-Control-Allow-Origin"] != "https://evil.example")
    }

    @Test func theServersOwnPageAndClientsThatAreNoBrowsersPass() throws {
        let own = try answer("GET", "/v1/models", "Origin: http://localhost:8080\r\n")
        #expect(own.status == 200)
        let program = try answer("GET", "/v1/models")
        #expect(program.status == 200)
        #expect(program.fields["Access-Control-Allow-Origin"] == nil)
    }

    @Test func whereEveryOriginIsAllowedNoneIsNamed() throws {
        let response = try answer(
            "GET", "/v1/models", "Origin: rubbish\r\n", origins: ["*"])
        #expect(response.status == 200)
        #expect(response.fields["Access-Control-Allow-Origin"] == "*")
    }

    @Test func routesForThisOriginOnlyRefuseAllowedOriginsToo() throws {
        let response = try answer(
            "GET", "/metrics", "Origin: https://app.example\r\n", origins: ["https://app.example"])
        #expect(response.status == 403)
        #expect(response.fields["Access-Control-Allow-Origin"] == nil)
        let own = try answer("GET", "/metrics", "Origin: http://localhost:8080\r\n")
        #expect(own.status == 200)
        #expect(own.fields["Access-Control-Allow-Origin"] == nil)
    }
}
