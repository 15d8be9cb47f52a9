// The sessions of a server as an operator sees them: every shard is asked, none is waited for, and
// a client without access gets nothing.

import Codec
import Session
import Simulation
import Synchronization
import Testing

@testable import Server

/// A row of an answer, as far as the tests look at it.
private struct Row: Equatable {
    let id: String
    let shard: Int
    let state: String
}

@Suite struct SurveyTests {
    /// Says a word after 120 ms, and nothing more for 10 s.
    private static func makeModel() -> ClosureModel {
        ClosureModel { _, host, reply in
            try await host.sleep(for: .milliseconds(120))
            try await reply(.text("Hello"))
            try await host.sleep(for: .seconds(10))
        }
    }

    private static let agents = AgentSet(model: makeModel())

    private func get(
        _ path: String, from server: SimulatedServer, with others: [SimulatedServer] = [],
        fields: String = "", address: String = "127.0.0.1"
    ) throws -> HTTPResponse {
        let peer = server.connect(from: address)
        peer.send("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n")
        server.run()
        for other in others { other.run() }
        server.run()
        let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
        return try #require(responses.first, "no answer")
    }

    private func rows(_ response: HTTPResponse) throws -> [Row] {
        let body = try JSONParser().parse(response.body)
        return try #require(body["data"]?.elements).map { row in
            Row(
                id: try #require(row["id"]?.string), shard: try #require(row["shard"]?.int),
                state: try #require(row["state"]?.string))
        }
    }

    private func ids(_ server: SimulatedServer, _ query: String) throws -> [String] {
        try rows(try get("/admin/sessions" + query, from: server)).map(\.id)
    }

    private func ask(_ client: SimulatedClient) {
        client.send(
            #"{"type":"session.update","session":{"type":"realtime","#
                + #""output_modalities":["text"]}}"#)
        client.send(
            #"{"type":"conversation.item.create","item":{"type":"message","role":"user","#
                + #""content":[{"type":"input_text","text":"Hi"}]}}"#)
        client.send(#"{"type":"response.create"}"#)
    }

    // MARK: What is shown

    @Test func theSessionsOfAllShardsAreShown() throws {
        let first = try SimulatedServer(agents: Self.agents, seed: 1, shards: 2)
        let second = try SimulatedServer(agents: Self.agents, seed: 2, besides: first)
        let clients = (0..<2).map { _ in first.openClient() }
        _ = second.openClient()
        first.run()
        second.run()
        ask(clients[1])
        first.run()
        let post = TextWorld.post(
            "/v1/chat/completions",
            #"{"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true}"#)
        second.connect().send(post)
        second.run()
        let response = try get("/admin/sessions", from: first, with: [second])
        #expect(response.status == 200)
        #expect(response.fields["Cache-Control"] == "no-store")
        let shown = try rows(response)
        #expect(shown.filter { $0.shard == 0 }.map(\.state).sorted() == ["idle", "replying"])
        #expect(shown.filter { $0.shard == 1 }.map(\.state).sorted() == ["idle", "replying"])
        let body = try JSONParser().parse(response.body)
        #expect(body["shards"]?.int == 2 && body["shards_answered"]?.int == 2)
        #expect(body["connections"]?.int == 5)
        #expect(body["states"]?["idle"]?.int == 2 && body["states"]?["replying"]?.int == 2)
        // The one that asks, and the one that a text request came by.
        #expect(body["states"]?["connection"]?.int == 2)
        #expect(body["has_more"]?.bool == false)
    }

    @Test func aTurnIsCountedAndMeasured() throws {
        let server = try SimulatedServer(agents: Self.agents)
        let client = server.openClient("/v1/realtime?model=m")
        server.run(for: .seconds(3))
        ask(client)
        server.run(for: .milliseconds(500))
        let body = try JSONParser().parse(try get("/admin/sessions", from: server).body)
        let row = try #require(body["data"]?.elements?.first { _ in true })
        #expect(row["turns"]?.int == 1 && row["model"]?.string == "m")
        #expect(row["client"]?.string == "127.0.0.1")
        #expect(row["age_ms"]?.int == 3_500 && row["idle_ms"]?.int == 380)
        #expect(row["last_turn"]?["first_token_ms"]?.int == 120)
        #expect(row["last_turn"]?["transcript_ms"]?.isNull == true)
        #expect((row["bytes"]?.int ?? 0) > 0)
    }

    @Test func aSessionBeforeItsFirstTurnHasNone() throws {
        let server = try SimulatedServer()
        _ = server.openClient()
        server.run()
        let body = try JSONParser().parse(try get("/admin/sessions", from: server).body)
        let row = try #require(body["data"]?.elements?.first { _ in true })
        #expect(row["turns"]?.int == 0 && row["last_turn"]?.isNull == true)
    }

    @Test func sessionsComeInTheOrderThatWasAskedFor() throws {
        let server = try SimulatedServer(agents: Self.agents)
        var clients: [SimulatedClient] = []
        for _ in 0..<3 {
            clients.append(server.openClient())
            server.run(for: .seconds(1))
        }
        ask(clients[1])
        server.run()
        let byAge = try ids(server, "?order=age")
        #expect(try ids(server, "").first == byAge[1], "the one that replies holds most")
        #expect(try ids(server, "?order=id") == byAge.sorted())
        #expect(try ids(server, "?order=age&limit=2") == Array(byAge.prefix(2)))
        #expect(try ids(server, "?state=replying") == [byAge[1]])
        #expect(try ids(server, "?state=speaking").isEmpty)
        #expect(try ids(server, "?state=connection").allSatisfy { $0.hasPrefix("conn_0_") })
        let response = try get("/admin/sessions?limit=2", from: server)
        #expect(try JSONParser().parse(response.body)["has_more"]?.bool == true)
    }

    @Test func oneSessionIsShownWithItsParts() throws {
        let server = try SimulatedServer()
        _ = server.openClient()
        server.run()
        let id = try #require(try ids(server, "").first)
        let response = try get("/admin/sessions/\(id)", from: server)
        let body = try JSONParser().parse(response.body)
        #expect(response.status == 200 && body["id"]?.string == id)
        let parts = try #require(body["parts"]?.members)
        #expect(parts.map(\.key) == MemoryPart.allCases.map(\.rawValue))
        #expect(RouteContent.sessionParts.fields.map { "\($0.name)" } == parts.map(\.key))
        #expect(parts.reduce(0) { $0 + ($1.value.int ?? -1) } == body["bytes"]?.int)
        #expect(try get("/admin/sessions/sess_0000000000", from: server).status == 404)
        #expect(try get("/admin/sessions/%FF", from: server).status == 404)
    }

    @Test(arguments: [
        ("limit=0", "limit"), ("limit=1001", "limit"), ("limit=x", "limit"), ("limit=", "limit"),
        ("limit=99999999999999999999", "limit"), ("order=size", "order"), ("order=", "order"),
        ("state=busy", "state"), ("limit=5&state=Idle", "state"),
    ])
    func valuesThatMeanNothingAreRefused(query: String, name: String) throws {
        let response = try get("/admin/sessions?" + query, from: try SimulatedServer())
        #expect(response.status == 400)
        let error = try #require(try JSONParser().parse(response.body)["error"])
        #expect(error["param"]?.string == name)
    }

    // MARK: Waiting

    @Test func aShardThatSaysNothingIsNotWaitedForLongerThanASecond() throws {
        let first = try SimulatedServer(shards: 2)
        let second = try SimulatedServer(besides: first)
        _ = second.openClient()
        second.run()
        let peer = first.connect()
        peer.send("GET /admin/sessions HTTP/1.1\r\nHost: localhost\r\n\r\n")
        first.run(for: .milliseconds(999))
        #expect(peer.unreadBytes == 0)
        first.run(for: .milliseconds(1))
        let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
        let body = try JSONParser().parse(try #require(responses.first).body)
        #expect(body["shards"]?.int == 2 && body["shards_answered"]?.int == 1)
        // Its answer comes too late, and is ignored.
        second.run()
        #expect(first.run(for: .seconds(2)))
    }

    @Test func whatWasNotFoundForWantOfAnAnswerMayExist() throws {
        let first = try SimulatedServer(shards: 2)
        let second = try SimulatedServer(besides: first)
        let peer = first.connect()
        peer.send("GET /admin/sessions/sess_0000000000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        first.run(for: .seconds(1))
        let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
        #expect(responses.first?.status == 503)
        #expect(second.run())
    }

    @Test func requestsBehindItWaitForTheAnswer() throws {
        let first = try SimulatedServer(shards: 2)
        let second = try SimulatedServer(besides: first)
        let peer = first.connect()
        let survey = "GET /admin/sessions HTTP/1.1\r\nHost: localhost\r\n\r\n"
        peer.send(survey + "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + survey)
        for _ in 0..<5 {
            first.run()
            second.run()
        }
        let (responses, rest) = try parseResponses(
            peer.receive(), answering: [.get, .get, .get])
        #expect(responses.map(\.status) == [200, 200, 200] && rest.isEmpty)
        #expect(responses.count == 3 && text(responses[1]) == "ok\n")
    }

    @Test(arguments: [true, false])
    func aClientThatLeavesMeanwhileCostsNothing(resets: Bool) throws {
        let first = try SimulatedServer(shards: 2)
        let second = try SimulatedServer(besides: first)
        let peer = first.connect()
        peer.send("GET /admin/sessions HTTP/1.1\r\nHost: localhost\r\n\r\n")
        first.run()
        if resets { peer.reset() } else { peer.finishWriting() }
        first.run()
        second.run()
        #expect(first.run(for: .seconds(30)))
        // Who only sends no more still reads.
        let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
        #expect(responses.map(\.status) == (resets ? [] : [200]))
        #expect(first.io.openHandles == 0)
    }

    @Test func surveysAreFew() throws {
        let first = try SimulatedServer(shards: 2)
        let second = try SimulatedServer(besides: first)
        let peers = (0...SurveyTable.maxSurveys).map { _ in first.connect() }
        for peer in peers {
            peer.send("GET /admin/sessions HTTP/1.1\r\nHost: localhost\r\n\r\n")
        }
        first.run()
        #expect(peers.count { $0.unreadBytes > 0 } == 1)
        second.run()
        first.run()
        let statuses = try peers.map {
            try parseResponses($0.receive(), answering: [.get]).responses.first?.status
        }
        #expect(statuses.count { $0 == 200 } == SurveyTable.maxSurveys)
        #expect(statuses.count { $0 == 503 } == 1)
    }

    /// Operators ask again every second. A shard that cannot keep up does not fall back further.
    @Test func aScanThatNobodyWaitsForIsDropped() throws {
        let server = try SimulatedServer()
        let answers = Mutex(0)
        let question = SurveyQuestion(query: SessionQuery()) { _ in
            answers.withLock { $0 += 1 }
        }
        for _ in 0..<3 {
            server.shard.questions.surveys.begin(question, at: server.io.now + .seconds(-1))
        }
        #expect(server.run())
        #expect(!server.shard.questions.surveys.isScanning && answers.withLock { $0 } == 0)
        server.shard.questions.surveys.begin(question, at: server.io.now)
        #expect(server.run())
        #expect(answers.withLock { $0 } == 1)
    }

    /// A tick looks at 1,024 slots, so that no client waits for a long scan.
    @Test func aLongScanTakesSeveralTicks() throws {
        var configuration = ServerConfiguration()
        configuration.connection.http.headerTimeout = .seconds(600)
        let server = try SimulatedServer(configuration: configuration)
        for _ in 0..<3 * SessionScan.slotsPerTick { _ = server.connect() }
        server.run()
        let before = server.io.waits
        let response = try get("/admin/sessions?state=connection&limit=5", from: server)
        #expect((4...8).contains(server.io.waits - before))
        let body = try JSONParser().parse(response.body)
        #expect(body["states"]?["connection"]?.int == 3 * SessionScan.slotsPerTick + 1)
        #expect(try rows(response).count == 5 && body["has_more"]?.bool == true)
    }

    @Test func theFirstOfManyAreKept() {
        var generator = SeededGenerator(seed: 7)
        for limit in [1, 2, 7, 100] {
            var ranking = SessionRanking(limit: limit)
            var all: [SessionRank] = []
            for index in 0..<60 {
                let rank = SessionRank(
                    value: Int.random(in: 0..<9, using: &generator), id: "sess_\(index)")
                all.append(rank)
                let token = EventToken(.connection, index: index, generation: 0)
                guard ranking.mayTake(rank.value) else { continue }
                ranking.offer(SessionCandidate(rank: rank, token: token))
            }
            #expect(ranking.sorted.map(\.rank) == Array(all.sorted().prefix(limit)))
            #expect(ranking.counted == 60)
        }
    }

    // MARK: Who may ask

    @Test(arguments: ["/admin/sessions", "/admin/sessions/sess_0000000000"])
    func withCredentialsOnlyAnOperatorMayAsk(path: String) throws {
        var keys = APIKeys()
        let lines = "sk-key-0123456789abcdef\nsk-operator-0123456789abcdef operator\n"
        try keys.add(
            ConfiguredFile(option: "api-keys-file", path: "keys", bytes: Array(lines.utf8)))
        let server = try SimulatedServer(credentials: CredentialRules(keys: keys))
        func status(_ key: String?, _ address: String = "203.0.113.9") throws -> Int {
            let fields = key.map { "Authorization: Bearer \($0)\r\n" } ?? ""
            return try get(path, from: server, fields: fields, address: address).status
        }
        #expect(try status(nil) == 401)
        #expect(try status("sk-key-0123456789abcdef") == 403)
        let isList = path == "/admin/sessions"
        #expect(try status("sk-operator-0123456789abcdef") == (isList ? 200 : 404))
        #expect(try status(nil, "127.0.0.1") == 401)
    }

    @Test(arguments: [
        ("127.0.0.1", "", 200), ("::1", "", 200), ("203.0.113.9", "", 403),
        ("127.0.0.1", "X-Forwarded-For: 203.0.113.9\r\n", 403),
        ("127.0.0.1", "X-Forwarded-For: 127.0.0.1\r\n", 403),
        ("127.0.0.1", "Forwarded: for=203.0.113.9\r\n", 403),
    ])
    func withoutCredentialsOnlyThisMachineMayAsk(
        address: String, fields: String, status: Int
    ) throws {
        let server = try SimulatedServer()
        let response = try get(
            "/admin/sessions", from: server, fields: fields, address: address)
        #expect(response.status == status)
    }

    @Test func aTrustedProxyNamesTheClient() throws {
        var configuration = ServerConfiguration()
        configuration.admission.trustedProxies = [try #require(AddressRange("127.0.0.1"))]
        let server = try SimulatedServer(configuration: configuration)
        for (client, status) in [("203.0.113.9", 403), ("127.0.0.1", 200)] {
            let response = try get(
                "/admin/sessions", from: server, fields: "X-Forwarded-For: \(client)\r\n")
            #expect(response.status == status, "\(client)")
        }
    }

    /// A proxy that is not trusted is known by what it adds; one that is must name its client.
    @Test func aProxyOnThisMachineDoesNotMakeItsClientsLocal() throws {
        var trusting = ServerConfiguration()
        trusting.admission.trustedProxies = [try #require(AddressRange("127.0.0.1"))]
        for configuration in [ServerConfiguration(), trusting] {
            let server = try SimulatedServer(configuration: configuration)
            for field in ["Via: 1.1 a", "X-Real-IP: 127.0.0.1", "Forwarded: for=127.0.0.1"] {
                let response = try get("/admin/sessions", from: server, fields: field + "\r\n")
                #expect(response.status == 403, "\(field)")
            }
        }
    }
}

@Suite struct SessionStateTests {
    @Test func aTextTurnIsAReplyUntilItIsOver() throws {
        let server = try SimulatedServer(
            agents: AgentSet(model: ClosureModel(words: ["Hi"])))
        let client = server.openClient()
        server.run()
        let session = try #require(
            server.shard.connections[slot: 0]?.live?.session, "the first slot is the client's")
        #expect(session.state == .idle)
        client.send(#"{"type":"response.create","response":{"output_modalities":["text"]}}"#)
        server.run()
        #expect(session.state == .idle)
        #expect(client.eventTypes.contains("response.done"))
    }
}
