// Client secrets on two nodes: real shards on simulated kernels, with tables of their own and one store
// between them that answers when the test wants it to.

import Codec
import Session
import Simulation
import Testing

@testable import Server

/// A store of secrets without a network.
private final class StoreDouble: SharedSecrets {
    var isReady = true
    var records: [SHA256Digest: [UInt8]] = [:]
    private(set) var lifetimes: [Duration] = []
    private(set) var asked: [SHA256Digest] = []
    /// Questions without an answer; nil: each is answered at once.
    var waiting: [() -> Void]?
    /// What a question gets instead of an answer.
    var failure: RedisError?

    func share(_ record: [UInt8], of secret: SHA256Digest, for lifetime: Duration) {
        records[secret] = record
        lifetimes.append(lifetime)
    }

    func find(
        _ secret: SHA256Digest, then: @escaping (Result<[UInt8], RedisError>) -> Void
    ) {
        asked.append(secret)
        let answer = { [self] in
            then(failure.map { .failure($0) } ?? .success(records[secret] ?? []))
        }
        if waiting == nil { answer() } else { waiting?.append(answer) }
    }

    /// Answers what waits.
    func answer() {
        let questions = waiting ?? []
        waiting = []
        for question in questions { question() }
    }
}

@Suite struct SharedSecretTests {
    private static let key = "sk-key-0123456789abcdef"
    private static let other = "sk-other-0123456789abcdef"
    private static let stranger = "192.0.2.7"
    /// Of the right form, and made by nobody.
    private static let guess = "ek_" + String(repeating: "A", count: 43)

    private let store = StoreDouble()

    private func node(
        keys: [String] = [key, other], seed: UInt64 = 1,
        _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws -> SimulatedServer {
        var list = APIKeys()
        let text = keys.joined(separator: "\n")
        if !keys.isEmpty {
            try list.add(
                ConfiguredFile(option: "api-keys-file", path: "k", bytes: Array(text.utf8)))
        }
        var configuration = ServerConfiguration()
        change(&configuration)
        let server = try SimulatedServer(
            configuration: configuration, seed: seed, credentials: CredentialRules(keys: list))
        server.shard.returning.store.secrets = store
        return server
    }

    private func post(
        _ server: SimulatedServer, _ body: String, key: String? = key,
        to path: String = "/v1/realtime/client_secrets"
    ) throws -> HTTPResponse {
        let peer = server.connect()
        peer.send(
            "POST \(path) HTTP/1.1\r\nHost: localhost\r\n"
                + (key.map { "Authorization: Bearer \($0)\r\n" } ?? "")
                + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
        #expect(server.run(for: .milliseconds(100)))
        let (responses, _) = try parseResponses(peer.receive(), answering: [.post])
        return try #require(responses.first)
    }

    private func secret(
        _ server: SimulatedServer, _ body: String = "{}", key: String? = key
    ) throws -> String {
        let answer = try JSONParser().parse(try post(server, body, key: key).body)
        return try #require(answer["value"]?.string)
    }

    private func open(
        _ server: SimulatedServer, _ key: String, from: String = "127.0.0.1"
    ) -> SimulatedClient {
        let client = server.openClient("/v1/realtime", key: key, from: from)
        #expect(server.run())
        return client
    }

    private func session(_ client: SimulatedClient) throws -> JSONValue {
        let created = try JSONParser().parse(try #require(client.texts.first))
        return try #require(created["session"])
    }

    // MARK: On every node

    @Test func aSecretOpensItsSessionAtAnotherNodeUntilItsEnd() throws {
        let (one, two) = (try node(), try node())
        let value = try secret(
            one,
            #"{"session":{"type":"realtime","model":"bound","instructions":"Be brief."},"#
                + #""expires_after":{"seconds":60}}"#)
        #expect(store.lifetimes == [.seconds(60)])
        let second = try session(open(two, value))
        #expect(second["model"]?.string == "bound")
        #expect(second["instructions"]?.string == "Be brief.")
        #expect(open(two, value).isOpen)
        #expect(store.asked.count == 1, "from then on the node knows it")
        two.run(for: .milliseconds(59_900))
        #expect(open(two, value).isOpen)
        store.records = [:]
        two.run(for: .milliseconds(200))
        #expect(open(two, value).answer?.status == 401)
        #expect(two.metrics.total(of: .secretsFound) == 1)
        #expect(two.metrics.total(of: .secretsMissing) == 1)
    }

    @Test func aSecretCountsForItsKeyAtEveryNode() throws {
        let one = try node()
        let two = try node { $0.credentials.maxSessionsPerKey = 1 }
        let value = try secret(one)
        #expect(open(two, Self.key).isOpen)
        #expect(open(two, value).answer?.status == 429)
        #expect(try post(two, "{}", key: value).status == 403, "it makes no other secret")
    }

    @Test func theBetasFormsAreKept() throws {
        let (one, two) = (try node(), try node())
        let response = try post(
            one, #"{"model":"bound","instructions":"Be brief."}"#, to: "/v1/realtime/sessions")
        let answer = try JSONParser().parse(response.body)
        let value = try #require(answer["client_secret"]?["value"]?.string)
        let session = try session(open(two, value))
        #expect(session["model"]?.string == "bound")
        #expect(session["instructions"]?.string == "Be brief.")
    }

    @Test func withoutCredentialsTheSessionIsBoundToo() throws {
        let (one, two) = (try node(keys: []), try node(keys: []))
        let value = try secret(one, #"{"session":{"type":"realtime","model":"bound"}}"#, key: nil)
        #expect(try session(open(two, value))["model"]?.string == "bound")
        #expect(try session(open(two, Self.guess))["model"]?.string == "parley")
    }

    @Test func aKeyThatANodeDoesNotHaveOpensNothingThere() throws {
        let (one, two) = (try node(), try node(keys: [Self.other]))
        #expect(open(two, try secret(one)).answer?.status == 401)
        let open = try node(keys: [])
        let unbound = try secret(open, key: nil)
        #expect(self.open(two, unbound).answer?.status == 401)
    }

    @Test func withoutRoomForItASecretIsAskedForAtEachRequest() throws {
        let one = try node()
        let two = try node(seed: 2) { $0.credentials.maxClientSecrets = 2 }
        _ = try secret(two)
        let value = try secret(one)
        for _ in 0..<2 { #expect(open(two, value).isOpen) }
        #expect(store.asked.count == 2)
    }

    // MARK: Waiting

    @Test func aRequestWaitsAndItsFirstMessagesWithIt() throws {
        let (one, two) = (try node(), try node())
        let value = try secret(one)
        store.waiting = []
        let client = open(two, value)
        two.run(for: .milliseconds(500))
        #expect(client.answer == nil)
        store.answer()
        #expect(two.run())
        #expect(client.isOpen)
        client.send(
            #"{"type":"session.update","session":{"type":"realtime","instructions":"new"}}"#)
        #expect(two.run())
        #expect(client.eventTypes == ["session.created", "session.updated"])
    }

    @Test func requestsBehindAWaitingOneAreAnsweredInOrder() throws {
        let (one, two) = (try node(), try node())
        let value = try secret(one)
        store.waiting = []
        let peer = two.connect()
        func get(_ path: String) -> String {
            "GET \(path) HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(value)\r\n\r\n"
        }
        peer.send(get("/v1/models") + get("/healthz"))
        #expect(two.run())
        #expect(peer.receive().isEmpty)
        store.answer()
        // The second is answered in the tick after the first.
        for _ in 0..<2 { #expect(two.run()) }
        let (responses, _) = try parseResponses(peer.receive(), answering: [.get, .get])
        try #require(responses.count == 2)
        #expect(responses.map(\.status) == [200, 200])
        #expect(text(responses[1]) == "ok\n")
    }

    @Test func aLongBodyIsReadOnlyOnceItsSenderIsKnown() throws {
        let (one, two) = (try node(), try node())
        let value = try secret(one)
        store.waiting = []
        func ask(_ key: String) -> SimulatedPeer {
            let peer = two.connect()
            peer.send(
                "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                    + "Authorization: Bearer \(key)\r\nContent-Type: application/json\r\n"
                    + "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            #expect(two.run())
            return peer
        }
        func answer(_ peer: SimulatedPeer) -> String {
            String(decoding: peer.receive(), as: UTF8.self)
        }
        let (good, bad) = (ask(value), ask(Self.guess))
        #expect(answer(good) + answer(bad) == "")
        store.answer()
        #expect(two.run())
        #expect(answer(bad).hasPrefix("HTTP/1.1 401"))
        #expect(answer(good) == "HTTP/1.1 100 Continue\r\n\r\n")
        good.send("{}")
        #expect(two.run())
        #expect(answer(good).hasPrefix("HTTP/1.1 400"), "its body has no messages")
    }

    @Test func aClientThatLeavesIsForgottenAndItsSecretIsNot() throws {
        let (one, two) = (try node(), try node())
        let value = try secret(one)
        store.waiting = []
        let peer = two.connect()
        peer.send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n")
        peer.send("Authorization: Bearer \(value)\r\n\r\n")
        #expect(two.run())
        peer.reset()
        #expect(two.run())
        store.answer()
        #expect(two.run())
        #expect(two.metrics.total(of: .connectionsOpen) == 0)
        #expect(open(two, value).isOpen)
        #expect(store.asked.count == 1)
    }

    @Test func aClientThatHasFinishedItsSideIsAnswered() throws {
        let (one, two) = (try node(), try node())
        let value = try secret(one)
        store.waiting = []
        let peer = two.connect()
        peer.send(
            "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(value)\r\n\r\n")
        peer.finishWriting()
        #expect(two.run())
        store.answer()
        #expect(two.run())
        let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
        #expect(responses.map(\.status) == [200] && peer.isEnded)
    }

    // MARK: Guessing

    @Test func questionsUnderWayCountAsFailedAttempts() throws {
        let server = try node { $0.credentials.authFailuresPerMinutePerAddress = 3 }
        store.waiting = []
        let guesses = (0..<3).map { _ in open(server, Self.guess, from: Self.stranger) }
        let refused = open(server, Self.guess, from: Self.stranger)
        #expect(refused.answer?.status == 429)
        #expect(store.asked.count == 3)
        store.answer()
        #expect(server.run())
        #expect(guesses.allSatisfy { $0.answer?.status == 401 })
        #expect(open(server, Self.key, from: Self.stranger).answer?.status == 429)
        #expect(server.metrics.total(of: .authUnknown) == 3)
    }

    @Test func withoutCredentialsTheStoreIsAskedNoMoreOften() throws {
        let server = try node(keys: []) { $0.credentials.authFailuresPerMinutePerAddress = 3 }
        for _ in 0..<5 { #expect(open(server, Self.guess, from: Self.stranger).isOpen) }
        #expect(store.asked.count == 3)
    }

    @Test func aSecretThatIsFoundIsNoFailedAttempt() throws {
        let one = try node()
        let two = try node { $0.credentials.authFailuresPerMinutePerAddress = 1 }
        for _ in 0..<3 {
            #expect(open(two, try secret(one), from: Self.stranger).isOpen)
        }
        #expect(open(two, "wrong", from: Self.stranger).answer?.status == 401)
        #expect(open(two, "wrong", from: Self.stranger).answer?.status == 429)
    }

    @Test(arguments: ["ek_short", "ek_" + String(repeating: "*", count: 43), "sk-wrong", key])
    func theStoreIsAskedForNothingElse(credential: String) throws {
        let server = try node()
        _ = open(server, credential)
        #expect(store.asked.isEmpty)
    }

    @Test func noMoreQuestionsAreUnderWayThanMayBe() throws {
        let server = try node()
        store.waiting = []
        let most = SecretLookups.maxLookups
        let clients = (0..<most).map { _ in
            server.openClient("/v1/realtime", key: Self.guess)
        }
        #expect(server.run())
        let refused = open(server, Self.guess)
        #expect(refused.answer?.status == 503 && refused.answer?.fields["Retry-After"] == "1")
        #expect(store.asked.count == most)
        store.answer()
        #expect(server.run())
        #expect(clients.allSatisfy { $0.answer?.status == 401 })
    }

    // MARK: The store

    @Test func whileTheStoreIsAwayASecretIsGoodAtItsOwnNode() throws {
        let (one, two) = (try node(), try node())
        store.isReady = false
        let value = try secret(one)
        #expect(open(one, value).isOpen)
        #expect(open(two, value).answer?.status == 401)
        #expect(store.asked.isEmpty)
        store.isReady = true
        store.failure = .timedOut
        #expect(open(two, value).answer?.status == 401)
        #expect(two.metrics.total(of: .secretsFailed) == 1)
        store.failure = nil
        #expect(open(two, value).isOpen)
    }

    @Test func whatTheStoreSaysIsNotTrusted() throws {
        let server = try node()
        let digest = SHA256Digest(of: Self.guess)
        let key = SHA256Digest(of: Self.key).hexadecimal()
        let end = SimulatedServer.firstSecond + 60
        let head = #"{"version":1,"form":"current","key":"\#(key)","end":\#(end)}"#
        let bad = [
            "x", "\n", "{}\n{}", "[]\n", head, head + "\n[]", head + "\n{\"session\":7}",
            head.replacing("1,", with: "2,") + "\n{}",
            head.replacing("current", with: "none") + "\n{}",
            head.replacing(key, with: "00") + "\n{}",
            head.replacing(key, with: SHA256Digest(of: "sk-none").hexadecimal()) + "\n{}",
            head.replacing("\(end)", with: "\(Int.min)") + "\n{}",
            head.replacing("\(end)", with: "1") + "\n{}",
            head.replacing(#""key":"\#(key)""#, with: #""address":"127.0.0.1""#) + "\n{}",
            head.replacing(#""key":"\#(key)""#, with: #""address":"here""#) + "\n{}",
            head + "\n" + String(repeating: " ", count: SecretRecord.maxBytes),
        ]
        for record in bad {
            store.records[digest] = Array(record.utf8)
            #expect(open(server, Self.guess).answer?.status == 401, "\(record.prefix(200))")
        }
        #expect(store.asked.count == bad.count)
        // No node lets a secret live longer than was asked for.
        store.records[digest] = Array(
            (head.replacing("\(end)", with: "\(Int.max)")
                + #"\#n{"expires_after":{"seconds":10}}"#).utf8)
        #expect(open(server, Self.guess).isOpen)
        store.records = [:]
        server.run(for: .seconds(10))
        #expect(open(server, Self.guess).answer?.status == 401)
    }

    @Test(arguments: [ClientSecretForm.current, .betaSession, .betaTranscription])
    func aRecordReadsBack(form: ClientSecretForm) throws {
        let owners = [
            SecretOwner.principal(SHA256Digest(of: "k")),
            .address(try #require(NetworkAddress("2001:db8::").map(\.subscriber))),
        ]
        for owner in owners {
            let record = SecretRecord(form: form, owner: owner, end: 7, body: Array("{\n}".utf8))
            #expect(
                SecretRecord(try #require(record.bytes), parser: JSONParser()) == record)
        }
        let long = [UInt8](repeating: 0x20, count: SecretRecord.maxBytes)
        #expect(SecretRecord(form: form, owner: owners[0], end: 7, body: long).bytes == nil)
    }
}
