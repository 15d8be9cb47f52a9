// Credentials through a real shard on a simulated kernel: accepted and refused credentials, client
// secrets and the sessions that they open, limits of a credential.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct ShardCredentialTests {
    private static let key = "sk-key-0123456789abcdef"
    private static let operatorKey = "sk-operator-0123456789abcdef"
    private static let path = "/v1/realtime/client_secrets"

    private func rules(_ line: String = "", tokens: Bool = false) throws -> CredentialRules {
        var keys = APIKeys()
        let text = "\(Self.key) \(line)\n\(Self.operatorKey) operator\n"
        try keys.add(
            ConfiguredFile(option: "api-keys-file", path: "keys", bytes: Array(text.utf8)))
        let key = try #require(JSONWebKey(secret: Array(TestToken.secret.utf8)))
        return CredentialRules(
            keys: keys, tokens: tokens ? TokenPolicy(keys: JSONWebKeySet([key])) : nil)
    }

    private func makeServer(
        _ credentials: CredentialRules? = nil, log: LogRecord = LogRecord(),
        _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws -> SimulatedServer {
        var configuration = ServerConfiguration()
        change(&configuration)
        return try SimulatedServer(
            configuration: configuration, log: log,
            credentials: try credentials ?? rules(tokens: true))
    }

    private func answer(
        _ server: SimulatedServer, _ method: String, _ path: String, key: String? = nil,
        body: String = "", from address: String = "127.0.0.1"
    ) throws -> HTTPResponse {
        let peer = server.connect(from: address)
        let authorization = key.map { "Authorization: Bearer \($0)\r\n" } ?? ""
        peer.send(
            "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\n\(authorization)"
                + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
        #expect(server.run())
        let (responses, _) = try parseResponses(peer.receive(), answering: [HTTPMethod(method)])
        return try #require(responses.first)
    }

    /// Asks for a secret, and returns it.
    private func secret(
        _ server: SimulatedServer, key: String? = Self.key, _ body: String = "{}"
    ) throws -> String {
        let response = try answer(server, "POST", Self.path, key: key, body: body)
        #expect(response.status == 200)
        let answer = try JSONParser().parse(response.body)
        return try #require(answer["value"]?.string)
    }

    private func status(_ server: SimulatedServer, key: String?) -> Int? {
        let client = server.openClient(key: key)
        #expect(server.run())
        return client.answer?.status
    }

    // MARK: Access

    @Test func withoutKeysEveryCredentialIsAccepted() throws {
        let server = try makeServer(CredentialRules())
        for key in [nil, "sk-anything", "ek_anything", TestToken.make("{}")] {
            #expect(status(server, key: key) == 101)
        }
        #expect(try answer(server, "GET", "/metrics").status == 200)
        _ = try secret(server, key: nil)
    }

    @Test func withKeysAllOtherCredentialsAreRefused() throws {
        let server = try makeServer()
        for key in [Self.key, Self.operatorKey] { #expect(status(server, key: key) == 101) }
        for key in [
            nil, "sk-other", Self.key + "x", String(Self.key.dropLast()), Self.key.uppercased(),
            "ek_0123456789012345678901234567890123456789abc", "a.b.c",
        ] {
            #expect(status(server, key: key) == 401, "\(key ?? "none")")
        }
        #expect(server.metrics.total(of: .authMissing) == 1)
        #expect(server.metrics.total(of: .authUnknown) == 5)
        #expect(server.metrics.total(of: .authMalformed) == 1)
        #expect(server.metrics.total(of: .sessionsStarted) == 2)
    }

    @Test func aRefusalSaysHowToSendACredential() throws {
        let server = try makeServer()
        for (key, challenge) in [
            (nil, #"Bearer realm="parley""#),
            (
                "wrong",
                #"Bearer realm="parley", error="invalid_token", "#
                    + #"error_description="The key or token is not valid""#
            ),
        ] {
            let response = try answer(server, "POST", Self.path, key: key)
            #expect(response.status == 401)
            #expect(response.fields["WWW-Authenticate"] == challenge)
            let answer = try JSONParser().parse(response.body)
            let error = try #require(answer["error"])
            #expect(error["code"]?.string == "invalid_api_key")
            #expect(error["type"]?.string == "invalid_request_error")
            #expect(error["message"]?.string?.isEmpty == false)
        }
    }

    @Test func probesAndPagesStayOpenAndMetricsAreTheOperators() throws {
        let server = try makeServer()
        for path in ["/healthz", "/readyz", "/", "/app.js"] {
            #expect(try answer(server, "GET", path).status == 200, "\(path)")
        }
        #expect(try answer(server, "GET", "/metrics").status == 401)
        #expect(try answer(server, "GET", "/metrics", key: Self.key).status == 403)
        #expect(try answer(server, "GET", "/metrics", key: Self.operatorKey).status == 200)
        #expect(try answer(server, "GET", "/v1/models").status == 401)
        #expect(try answer(server, "GET", "/v1/models", key: Self.key).status == 200)
    }

    @Test func aBrowserShowsItsKeyAsASubprotocol() throws {
        let server = try makeServer()
        let client = server.openClient(
            subprotocols: ["realtime", "openai-insecure-api-key.\(Self.key)"])
        let wrong = server.openClient(subprotocols: ["realtime", "openai-insecure-api-key.wrong"])
        #expect(server.run())
        #expect(client.isOpen && client.subprotocol == "realtime")
        #expect(wrong.answer?.status == 401)
    }

    @Test func tokensOpenSessionsAndNothingElse() throws {
        let server = try makeServer()
        let first = SimulatedServer.firstSecond
        let token = TestToken.make(#"{"sub":"ann","exp":\#(first + 60)}"#)
        #expect(status(server, key: token) == 101)
        #expect(try answer(server, "POST", Self.path, key: token).status == 403)
        #expect(try answer(server, "GET", "/metrics", key: token).status == 403)
        let old = TestToken.make(#"{"sub":"ann","exp":\#(first - 31)}"#)
        let response = try answer(server, "GET", "/v1/models", key: old)
        #expect(response.status == 401)
        #expect(text(response).contains("expired"))
        #expect(status(server, key: TestToken.make(#"{"exp":\#(first + 60),"aud":"x"}"#)) == 401)
        server.run(for: .seconds(91))
        #expect(status(server, key: token) == 401)
        #expect(server.metrics.total(of: .authExpired) == 2)
        #expect(server.metrics.total(of: .authClaims) == 1)
    }

    @Test func removedKeysAndTheirSecretsOpenNothing() throws {
        let server = try makeServer()
        let secret = try secret(server)
        let client = server.openClient(key: Self.key)
        #expect(server.run())
        server.authenticator.replace(CredentialRules())
        for key in [Self.key, secret] { #expect(status(server, key: key) == 401) }
        #expect(client.closeCode == nil, "open sessions go on")
        server.authenticator.replace(try rules())
        for key in [Self.key, secret] { #expect(status(server, key: key) == 101) }
    }

    @Test func noCredentialIsEverInTheLogOrInAnAnswer() throws {
        let log = LogRecord()
        let server = try makeServer(log: log)
        let token = TestToken.make(#"{"exp":1}"#)
        let made = try secret(server)
        for key in [Self.key, "sk-wrong-and-secret", token, made] {
            _ = status(server, key: key)
            let response = try answer(server, "GET", "/metrics", key: key)
            let told = text(response) + response.fields.map { $0.value }.joined()
            #expect(!told.contains(key))
        }
        _ = server.openClient(subprotocols: ["realtime", "openai-insecure-api-key.\(made)"])
        #expect(server.run())
        #expect(log.lines.contains { $0.contains("refused") })
        for line in log.lines {
            for key in [Self.key, "sk-wrong", token, made] { #expect(!line.contains(key)) }
        }
    }
}
