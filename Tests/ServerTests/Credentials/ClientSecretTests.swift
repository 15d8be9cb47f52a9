// Client secrets and the limits of credentials through a real shard: the sessions that a secret
// opens, its lifetime, and the limits of its holder.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct ClientSecretTests {
    private static let key = "sk-key-0123456789abcdef"
    private static let other = "sk-other-0123456789abcdef"
    private static let stranger = "192.0.2.7"

    private func makeServer(
        _ line: String = "", _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws -> SimulatedServer {
        var keys = APIKeys()
        let text = "\(Self.key) \(line)\n\(Self.other)\n"
        try keys.add(ConfiguredFile(option: "api-keys-file", path: "k", bytes: Array(text.utf8)))
        var configuration = ServerConfiguration()
        change(&configuration)
        return try SimulatedServer(
            configuration: configuration, credentials: CredentialRules(keys: keys))
    }

    private func post(
        _ server: SimulatedServer, _ body: String, key: String = Self.key
    ) throws -> HTTPResponse {
        let peer = server.connect()
        peer.send(
            "POST /v1/realtime/client_secrets HTTP/1.1\r\nHost: localhost\r\n"
                + "Authorization: Bearer \(key)\r\nContent-Type: application/json\r\n"
                + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
        #expect(server.run())
        let (responses, _) = try parseResponses(peer.receive(), answering: [.post])
        return try #require(responses.first)
    }

    private func secret(
        _ server: SimulatedServer, _ body: String = "{}", key: String = Self.key
    ) throws -> String {
        let answer = try JSONParser().parse(try post(server, body, key: key).body)
        return try #require(answer["value"]?.string)
    }

    private func open(
        _ server: SimulatedServer, _ key: String, _ target: String = "/v1/realtime",
        from: String = "127.0.0.1"
    ) -> SimulatedClient {
        let client = server.openClient(target, key: key, from: from)
        #expect(server.run())
        return client
    }

    private func session(_ client: SimulatedClient) throws -> JSONValue {
        let created = try JSONParser().parse(try #require(client.texts.first))
        return try #require(created["session"])
    }

    // MARK: Sessions

    @Test func aSecretOpensTheSessionThatIsBoundToIt() throws {
        let server = try makeServer()
        let response = try post(
            server,
            #"{"session":{"type":"realtime","model":"bound","instructions":"Be brief.","#
                + #""output_modalities":["text"]},"expires_after":{"seconds":60}}"#)
        #expect(response.status == 200)
        #expect(response.fields["Cache-Control"] == "no-store")
        let answer = try JSONParser().parse(response.body)
        #expect(answer["expires_at"]?.int == SimulatedServer.firstSecond + 60)
        #expect(answer["session"]?["model"]?.string == "bound")
        let value = try #require(answer["value"]?.string)
        // Any number of times, whatever the URL contains.
        for target in ["/v1/realtime", "/v1/realtime?model=other"] {
            let session = try self.session(open(server, value, target))
            #expect(session["model"]?.string == "bound")
            #expect(session["instructions"]?.string == "Be brief.")
            #expect(session["output_modalities"]?.elements?.count == 1)
        }
        #expect(server.metrics.total(of: .clientSecretsIssued) == 1)
    }

    @Test func withoutAModelTheConnectionChooses() throws {
        let server = try makeServer()
        let value = try secret(server, #"{"session":{"type":"realtime","instructions":"x"}}"#)
        let session = try self.session(open(server, value, "/v1/realtime?model=mine"))
        #expect(session["model"]?.string == "mine" && session["instructions"]?.string == "x")
        let other = try self.session(open(server, value))
        #expect(other["model"]?.string == "parley")
    }

    @Test func aTranscriptionSessionIsBoundToo() throws {
        let server = try makeServer()
        let value = try secret(
            server,
            #"{"session":{"type":"transcription","audio":{"input":{"transcription":"#
                + #"{"model":"m","language":"de"}}}}}"#)
        let session = try self.session(open(server, value, "/v1/realtime?model=other"))
        #expect(session["type"]?.string == "transcription")
        let transcription = session["audio"]?["input"]?["transcription"]
        #expect(transcription?["model"]?.string == "m")
        #expect(transcription?["language"]?.string == "de")
    }

    @Test func theClientMayStillChangeItsSession() throws {
        let server = try makeServer()
        let client = open(server, try secret(server))
        client.send(
            #"{"type":"session.update","session":{"type":"realtime","instructions":"new"}}"#)
        #expect(server.run())
        #expect(client.eventTypes == ["session.created", "session.updated"])
    }

    @Test func aSecretExpires() throws {
        let server = try makeServer()
        let value = try secret(server, #"{"expires_after":{"seconds":10}}"#)
        let client = open(server, value)
        server.run(for: .milliseconds(9_999))
        #expect(open(server, value).isOpen)
        server.run(for: .milliseconds(1))
        #expect(open(server, value).answer?.status == 401)
        #expect(client.closeCode == nil, "the session that it opened goes on")
    }

    @Test func aSecretMakesNoOther() throws {
        let server = try makeServer()
        let value = try secret(server)
        #expect(try post(server, "{}", key: value).status == 403)
        #expect(server.metrics.total(of: .authInsufficient) == 1)
    }

    @Test func aKeyFillsItsShareAndLeavesTheOthersTheirs() throws {
        let server = try makeServer { $0.credentials.maxClientSecrets = 8 }
        let values = try (0..<4).map { _ in try secret(server) }
        #expect(Set(values).count == 4)
        for _ in 0..<3 {
            let refused = try post(server, "{}")
            #expect(refused.status == 429 && refused.fields["Retry-After"] == "60")
            #expect(text(refused).contains("rate_limit_exceeded"))
        }
        for _ in 0..<2 { _ = try secret(server, key: Self.other) }
        #expect(server.metrics.total(of: .refusedClientSecrets) == 3)
        server.run(for: .seconds(590))
        #expect(try post(server, "{}").fields["Retry-After"] == "10")
        server.run(for: .seconds(10))
        #expect(try post(server, "{}").status == 200)
    }

    @Test func withoutCredentialsAnAddressHasTheShare() throws {
        var configuration = ServerConfiguration()
        configuration.credentials.maxClientSecrets = 4
        let server = try SimulatedServer(
            configuration: configuration, credentials: CredentialRules())
        func status(from address: String) throws -> Int? {
            let peer = server.connect(from: address)
            peer.send(
                "POST /v1/realtime/client_secrets HTTP/1.1\r\nHost: localhost\r\n"
                    + "Content-Length: 2\r\n\r\n{}")
            #expect(server.run())
            return try parseResponses(peer.receive(), answering: [.post]).responses.first?.status
        }
        #expect(try (0..<3).map { _ in try status(from: "192.0.2.7") } == [200, 200, 429])
        #expect(try status(from: "192.0.2.8") == 200)
    }

    @Test(arguments: [
        (#"{"session":{"type":"realtime","tools":7}}"#, "invalid_type", "session.tools"),
        (#"{"expires_after":{"seconds":7201}}"#, "invalid_value", "expires_after.seconds"),
        ("{\"", "invalid_json", nil),
    ])
    func aBadBodyIsNamed(body: String, code: String, param: String?) throws {
        let response = try post(try makeServer(), body)
        #expect(response.status == 400)
        let answer = try JSONParser().parse(response.body)
        let error = try #require(answer["error"])
        #expect(error["code"]?.string == code && error["param"]?.string == param)
        #expect(error["type"]?.string == "invalid_request_error")
    }

    @Test func aBodyOverTheLimitIsRefused() throws {
        let server = try makeServer { $0.connection.http.maxBodyBytes = 1_000 }
        let text = String(repeating: "x", count: 1_000)
        let body = #"{"session":{"type":"realtime","instructions":"\#(text)"}}"#
        #expect(try post(server, body).status == 413)
    }

    @Test func translationSessionsAreRefusedByName() throws {
        let server = try makeServer()
        let peer = server.connect()
        peer.send(
            "POST /v1/realtime/translations/client_secrets HTTP/1.1\r\nHost: localhost\r\n"
                + "Authorization: Bearer \(Self.key)\r\nContent-Length: 2\r\n\r\n{}")
        #expect(server.run())
        let (responses, _) = try parseResponses(peer.receive(), answering: [.post])
        #expect(responses.first?.status == 400)
        let answer = text(try #require(responses.first))
        #expect(answer.contains("unsupported_session_type"))
    }

    @Test func aSecretAlsoOpensTextRequestsOfItsModelOnly() throws {
        let server = try makeServer("models=bound")
        let body = #"{"model":"other","messages":[{"role":"user","content":"Hi"}]}"#
        func status(_ key: String) throws -> Int? {
            let peer = server.connect()
            peer.send(
                "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                    + "Authorization: Bearer \(key)\r\nContent-Type: application/json\r\n"
                    + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
            #expect(server.run(for: .seconds(1)))
            return try parseResponses(peer.receive(), answering: [.post]).responses.first?.status
        }
        #expect(try status("wrong") == 401)
        #expect(try status(Self.key) == 403)
        let bound = try secret(server, #"{"session":{"type":"realtime","model":"bound"}}"#)
        #expect(try status(bound) == 200)
        let hearing = try secret(server, #"{"session":{"type":"transcription"}}"#)
        #expect(try status(hearing) == 403)
        #expect(server.authenticator.places.count == 0)
    }

    // MARK: Limits of a credential

    @Test func aKeyHasItsSessionsAndThoseOfItsSecretsTogether() throws {
        let server = try makeServer("max-sessions=2")
        let value = try secret(server)
        let first = open(server, Self.key)
        #expect(first.isOpen)
        #expect(open(server, value).isOpen)
        let refused = open(server, value)
        #expect(refused.answer?.status == 429 && refused.answer?.fields["Retry-After"] == "5")
        #expect(open(server, Self.key).answer?.status == 429)
        #expect(open(server, Self.other).isOpen, "another key has its own")
        first.close()
        #expect(server.run(for: .seconds(1)))
        #expect(open(server, value).isOpen)
        #expect(server.metrics.total(of: .refusedCredentialSessions) == 2)
    }

    @Test func everySessionsPlaceIsGivenBack() throws {
        let server = try makeServer("max-sessions=5")
        for round in 0..<4 {
            let clients = (0..<5).map { _ in open(server, Self.key) }
            #expect(clients.filter(\.isOpen).count == 5)
            for (index, client) in clients.enumerated() {
                if (index + round).isMultiple(of: 2) { client.close() } else { client.peer.reset() }
            }
            #expect(server.run(for: .seconds(10)))
            #expect(server.authenticator.places.count == 0)
        }
        // An upgrade that failed for another reason.
        let full = try makeServer("max-sessions=5") { $0.admission.maxSessions = 1 }
        #expect(open(full, Self.key).isOpen)
        #expect(!open(full, Self.key).isOpen)
        let peer = full.connect()
        peer.send(
            "GET /v1/realtime HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                + "Authorization: Bearer \(Self.key)\r\n\r\n")
        #expect(full.run())
        full.shard.stop(.goingAway)
        #expect(full.run(for: .seconds(10)))
        #expect(full.authenticator.places.count == 0)
    }

    @Test func theDefaultCountsForKeysWithoutALimit() throws {
        let server = try makeServer("max-sessions=2") { $0.credentials.maxSessionsPerKey = 1 }
        #expect(open(server, Self.other).isOpen)
        #expect(!open(server, Self.other).isOpen)
        for _ in 0..<2 { #expect(open(server, Self.key).isOpen) }
    }

    @Test func aSessionEndsWhenItsTimeIsOver() throws {
        let server = try makeServer("max-session-seconds=60")
        let client = open(server, try secret(server))
        let other = open(server, Self.other)
        server.run(for: .milliseconds(59_999))
        #expect(client.closeCode == nil)
        server.run(for: .milliseconds(1))
        #expect(client.eventTypes == ["session.created", "error"])
        #expect(client.texts.last?.contains("session_expired") == true)
        #expect(client.closeCode == 1001)
        #expect(other.closeCode == nil)
        #expect(server.metrics.total(of: .sessionsExpired) == 1)
        #expect(server.metrics.total(of: .sessionsOpen) == 1)
    }

    @Test func aSessionSaysWhenItEnds() throws {
        let server = try makeServer("max-session-seconds=60")
        server.run(for: .milliseconds(1_500))
        let client = open(server, try secret(server))
        server.run(for: .milliseconds(1_700))
        client.send(#"{"type":"session.update","session":{"type":"realtime"}}"#)
        #expect(server.run())
        let ends = try client.texts.map {
            try JSONParser().parse($0)["session"]?["expires_at"]?.int
        }
        let end = SimulatedServer.firstSecond + 61
        #expect(ends == [end, end], "both events name the same second")
        let endless = open(server, Self.other)
        #expect(endless.texts.first?.contains("expires_at") == false)
    }

    @Test func onlyTheModelsOfACredentialAreThere() throws {
        let server = try makeServer("models=a,b")
        #expect(open(server, Self.key, "/v1/realtime?model=a").isOpen)
        #expect(open(server, Self.key, "/v1/realtime?model=c").answer?.status == 403)
        #expect(open(server, Self.key).answer?.status == 403, "the default model is none of them")
        #expect(
            try post(server, #"{"session":{"type":"realtime","model":"c"}}"#).status == 403)
        let value = try secret(server, #"{"session":{"type":"realtime","model":"b"}}"#)
        #expect(open(server, value, "/v1/realtime?model=c").isOpen, "the bound one counts")
        let unbound = try secret(server)
        #expect(open(server, unbound, "/v1/realtime?model=c").answer?.status == 403)
        #expect(server.metrics.total(of: .refusedModel) == 4)
    }

    // MARK: Guessing

    @Test func aGuessingClientMustWaitEvenForARightKey() throws {
        let server = try makeServer { $0.credentials.authFailuresPerMinutePerAddress = 3 }
        for _ in 0..<3 {
            #expect(open(server, "wrong", from: Self.stranger).answer?.status == 401)
        }
        let refused = open(server, Self.key, from: Self.stranger)
        #expect(refused.answer?.status == 429 && refused.answer?.fields["Retry-After"] == "5")
        #expect(open(server, Self.key, from: "192.0.2.8").isOpen)
        server.run(for: .seconds(20))
        #expect(open(server, Self.key, from: Self.stranger).isOpen)
        #expect(server.metrics.total(of: .authLimited) == 1)
        // This machine's own addresses are not limited.
        for _ in 0..<10 { #expect(open(server, "wrong").answer?.status == 401) }
    }

    @Test func aRequestWithoutAKeyIsNoGuess() throws {
        let server = try makeServer { $0.credentials.authFailuresPerMinutePerAddress = 1 }
        for _ in 0..<5 {
            let peer = server.connect(from: Self.stranger)
            peer.send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(server.run())
        }
        #expect(open(server, Self.key, from: Self.stranger).isOpen)
    }
}
