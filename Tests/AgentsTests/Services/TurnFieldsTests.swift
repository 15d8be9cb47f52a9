// What an agent learns of the turn that it is asked for: header fields, members of the body, and a
// signature that it can check.

import Codec
import Session
import Synchronization
import Testing

@testable import Agents

@Suite struct TurnFieldsTests {
    private static let turn = TurnIdentity(
        sessionID: "sess_1", responseID: "resp_1", subject: "shop")

    private func service(_ change: (inout ModelService) -> Void = { _ in }) -> ModelService {
        var service = ModelService(baseURL: "http://agent/v1", apiKey: "k")
        change(&service)
        return service
    }

    private func request(heard: HeardReply? = nil) -> ModelRequest {
        var request = ModelRequest(model: "m", messages: [.user("Hi")])
        request.turn = Self.turn
        request.heard = heard
        return request
    }

    private func fields(
        of request: ModelRequest, for service: ModelService
    ) -> [String: String] {
        Dictionary(
            uniqueKeysWithValues: TurnFields.fields(of: request, for: service)
                .map { ($0.name, $0.value) })
    }

    @Test func aRequestNamesItsTurn() {
        let fields = fields(of: request(), for: service { $0.totalTimeout = .seconds(5) })
        #expect(fields["X-Parley-Session"] == "sess_1" && fields["X-Parley-Turn"] == "resp_1")
        #expect(fields["Idempotency-Key"] == "resp_1")
        #expect(fields["X-Parley-Deadline-Ms"] == "5000")
        // The first bytes of SHA-256 of the ids, as `sha256sum` prints them.
        #expect(
            fields["traceparent"] == "00-8ac3c66dc34f8a4c3d25dd9a8abb2917-7a8babb8a11671df-01")
        #expect(fields.count == 5, "nothing was cut, and nothing is signed")
    }

    @Test func withoutASessionThereIsNothingToName() {
        let bare = ModelRequest(model: "m", messages: [])
        #expect(TurnFields.fields(of: bare, for: service()).isEmpty)
    }

    @Test(arguments: [
        ("item_1", #""item_1";characters=57"#), ("a\"b", nil), ("a\r\nX: y", nil), ("ä", nil),
    ])
    func anAgentIsToldWhatWasHeard(itemID: String, field: String?) {
        let heard = HeardReply(itemID: itemID, characters: 57)
        #expect(fields(of: request(heard: heard), for: service())["X-Parley-Heard"] == field)
    }

    @Test func everyAttemptHasTheSameKeyAndASignatureOfItsOwn() async throws {
        let names = Mutex(0)
        let made = RequestSigner(wallSeconds: { 1_000 }) {
            "token-\(names.withLock { $0 += 1; return $0 })"
        }
        let signer = try #require(made)
        let model = ModelServiceKind.chat.model(
            at: service {
                $0.signer = signer
                $0.audience = "brain"
                $0.retries = RetryPolicy(maxRetries: 1)
            })
        let host = ScriptedAgentHost(answers: [
            .init(status: 503),
            .init(chunks: [
                Array("data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n".utf8)
            ]),
        ])
        _ = try? await model.deltas(for: request(), on: host)
        let sent = host.requests.map { request in
            Dictionary(uniqueKeysWithValues: request.headers.map { ($0.name, $0.value) })
        }
        #expect(sent.count == 2)
        #expect(sent.map { $0["Idempotency-Key"] } == ["resp_1", "resp_1"])
        let keys = try JSONWebKeySet(json: signer.publicKeys())
        for (number, fields) in sent.enumerated() {
            let token = try JSONWebToken(try #require(fields["X-Parley-Signature"]))
            let claims = try token.claims(signedBy: keys)
            #expect(claims.issuer == "parley" && claims.audiences == ["brain"])
            #expect(claims.subject == "shop" && claims.issuedAt == 1_000)
            #expect(claims.expiry == 1_060)
            let text = try Self.payload(of: try #require(fields["X-Parley-Signature"]))
            #expect(text["sid"]?.string == "sess_1" && text["turn"]?.string == "resp_1")
            #expect(text["jti"]?.string == "token-\(number + 1)")
        }
    }

    private static func payload(of token: String) throws -> JSONValue {
        let part = try #require(token.utf8.split(separator: UInt8(ascii: ".")).dropFirst().first)
        return try JSONParser().parse(try #require(Base64URL.decode(part)))
    }

    @Test func aKeyIsPublishedBeforeItSignsAndAfterIt() throws {
        let clock = Mutex(0)
        let made = RequestSigner(
            wallSeconds: { clock.withLock { $0 } }, makeTokenID: { "t" })
        let signer = try #require(made)
        func published() throws -> [String] {
            let keys = try JSONParser().parse(signer.publicKeys())["keys"]?.elements
            return try #require(keys).compactMap { $0["kid"]?.string }
        }
        func signing() throws -> String? {
            try JSONWebToken(try #require(signer.token(for: Self.turn, audience: "a"))).keyID
        }
        let first = try published()
        #expect(first.count == 2)
        #expect(try signing() == first[0])
        clock.withLock { $0 = RequestSigner.rotationSeconds - 1 }
        #expect(try published() == first)
        clock.withLock { $0 += 1 }
        let second = try published()
        #expect(second.count == 3 && second[0] == first[1] && second[2] == first[0])
        #expect(try signing() == first[1])
        clock.withLock { $0 += 10 * RequestSigner.rotationSeconds }
        let third = try published()
        #expect(third[0] == second[1] && third[2] == second[0] && !third.contains(first[0]))
    }

    @Test func aNewKeySignsWhenAgentsKnowItAndTheOldOneStaysPublishedForAWhile() throws {
        let clock = Mutex(1_000)
        let made = try (0..<4).map { _ in try #require(SigningKey()) }
        let ids = made.map(\.id)
        let signer = RequestSigner(
            keys: [made[0], made[1]], wallSeconds: { clock.withLock { $0 } },
            makeTokenID: { "t" })
        func pass(_ seconds: Int) { clock.withLock { $0 += seconds } }
        func published() throws -> [String] {
            let keys = try JSONParser().parse(signer.publicKeys())["keys"]?.elements
            return try #require(keys).compactMap { $0["kid"]?.string }
        }
        func signing() throws -> String? {
            try JSONWebToken(try #require(signer.token(for: Self.turn, audience: "a"))).keyID
        }
        // A key that was published from the start signs at once.
        signer.replace(with: [made[1], made[0]])
        #expect(try signing() == ids[1])
        // A new one waits until no agent keeps a set without it. The file has no old key any more.
        signer.replace(with: [made[2]])
        #expect(try published() == [ids[2], ids[1], ids[0]] && signing() == ids[1])
        pass(AgentSet.publicKeysAge - 1)
        // The same file again changes nothing.
        signer.replace(with: [made[2]])
        #expect(try signing() == ids[1])
        pass(1)
        #expect(try signing() == ids[2])
        #expect(try published() == [ids[2], ids[0], ids[1]])
        pass(RequestSigner.publishedSeconds - 1)
        #expect(try published() == [ids[2], ids[1]])
        pass(1)
        #expect(try published() == [ids[2]])
        // A key that is added at the end signs as soon as it comes to the front.
        signer.replace(with: [made[2], made[3]])
        pass(AgentSet.publicKeysAge)
        signer.replace(with: [made[3], made[2]])
        #expect(try signing() == ids[3] && published() == [ids[3], ids[2]])
        // Another file before the first key has signed: the key in use goes on.
        signer.replace(with: [made[0]])
        signer.replace(with: [made[1]])
        #expect(try signing() == ids[3])
        // However often the key changes, the set is bounded.
        for _ in 0..<2 * RequestSigner.maxReplaced {
            signer.replace(with: [try #require(SigningKey()), try #require(SigningKey())])
            pass(AgentSet.publicKeysAge / 10)
        }
        #expect(try published().count <= 3 + RequestSigner.maxReplaced)
    }

    @Test(arguments: [ModelServiceKind.chat, .responses])
    func theBodyNamesTheUserWhereItIsWanted(_ kind: ModelServiceKind) async throws {
        for isWanted in [false, true] {
            let host = ScriptedAgentHost(answers: [.init()])
            let model = kind.model(at: service { $0.namesUser = isWanted })
            _ = try? await model.deltas(for: request(), on: host)
            let body = try JSONParser().parse(try #require(host.requests.first).body)
            #expect(body["user"]?.string == (isWanted ? "shop" : nil))
            #expect(
                body["metadata"]?["parley_session"]?.string == (isWanted ? "sess_1" : nil))
            #expect(body["metadata"]?["parley_turn"]?.string == (isWanted ? "resp_1" : nil))
        }
    }
}
