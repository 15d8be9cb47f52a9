// Which sessions of a shard are recorded: by the server's rule, by that of a credential, and by the
// user's consent. What is in a recording is tested in SessionTests and RecordsTests.

import Codec
import Session
import Simulation
import Synchronization
import Testing

@testable import Server

@Suite struct ShardRecordingTests {
    /// Keeps chunks in memory.
    private final class Keeper: RecordingKeeper {
        let chunks = Mutex<[RecordingChunk]>([])
        func keep(_ chunk: RecordingChunk) { chunks.withLock { $0.append(chunk) } }
        var counts: RecordingCounts { RecordingCounts() }
        func shutdown() {}

        var userBytes: Int { chunks.withLock { $0.reduce(0) { $0 + $1.user.bytes.count } } }
        var sequels: [String] { chunks.withLock { $0.map { "\($0.sequel)" } } }
        var areContinued: Set<Bool> { chunks.withLock { Set($0.map(\.isContinued)) } }
    }

    private static let key = "sk-key-0123456789abcdef"
    private static let agreed =
        #"{"type":"session.update","session":{"type":"realtime","recording":{"consent":true}}}"#
    private static let withdrawn =
        #"{"type":"session.update","session":{"type":"realtime","recording":{"consent":false}}}"#

    private let keeper = Keeper()
    private let store = SimulatedStore()

    private func makeServer(
        _ rule: RecordingRule, key: String? = nil, hasKeeper: Bool = true
    ) throws -> SimulatedServer {
        var configuration = ServerConfiguration()
        configuration.recordings.rule = rule
        var keys = APIKeys()
        if let key {
            let text = "\(Self.key) \(key)\n"
            try keys.add(
                ConfiguredFile(option: "api-keys-file", path: "keys", bytes: Array(text.utf8)))
        }
        return try SimulatedServer(
            configuration: configuration, credentials: CredentialRules(keys: keys)
        ) { if hasKeeper { $0.recordings = keeper } }
    }

    /// Sends half a second of audio.
    private func speak(_ client: SimulatedClient, _ server: SimulatedServer) {
        for _ in 0..<25 {
            client.send(.binary, [UInt8](repeating: 0, count: 960))
            #expect(server.run(for: .milliseconds(20)))
        }
    }

    /// The value of the last `parley.recording.updated`; nil: there was none.
    private func told(_ client: SimulatedClient) throws -> Bool? {
        try client.texts.map { try JSONParser().parse($0) }
            .last { $0["type"]?.string == "parley.recording.updated" }?["active"]?.bool
    }

    private static let cases: [(RecordingRule, String?, Bool)] = [
        (.none, nil, false), (.asked, nil, true), (.all, nil, true),
        (.none, "recording=asked", true), (.all, "recording=none", false),
        (.none, "recording=all", true), (.asked, "name=shop", true),
    ]

    @Test(arguments: cases)
    func theRuleAndTheConsentDecide(
        rule: RecordingRule, key: String?, isRecorded: Bool
    ) throws {
        let server = try makeServer(rule, key: key)
        let client = server.openClient(key: key == nil ? nil : Self.key)
        #expect(server.run())
        client.send(Self.agreed)
        #expect(server.run())
        #expect(try told(client) == isRecorded)
        speak(client, server)
        client.close()
        #expect(server.run(for: .seconds(1)))
        #expect((keeper.userBytes == 25 * 960) == isRecorded)
        #expect((keeper.sequels.last == "end") == isRecorded)
    }

    @Test func withoutConsentNoByteIsKept() throws {
        let server = try makeServer(.asked)
        let client = server.openClient()
        #expect(server.run())
        speak(client, server)
        client.close()
        #expect(server.run(for: .seconds(2)))
        #expect(keeper.sequels.isEmpty)
        #expect(try told(client) == nil)
    }

    @Test func aRecordingThatAllGetNeedsNoWordOfTheClient() throws {
        let server = try makeServer(.all)
        let client = server.openClient()
        #expect(server.run())
        speak(client, server)
        client.send(Self.withdrawn)
        speak(client, server)
        #expect(try told(client) == true)
        client.close()
        #expect(server.run(for: .seconds(2)))
        #expect(keeper.userBytes == 50 * 960)
    }

    @Test func aConsentThatIsWithdrawnDiscardsTheRecording() throws {
        let server = try makeServer(.asked)
        let client = server.openClient()
        client.send(Self.agreed)
        #expect(server.run())
        speak(client, server)
        client.send(Self.withdrawn)
        #expect(server.run())
        #expect(try told(client) == false)
        #expect(keeper.sequels.last == "discard")
        let bytes = keeper.userBytes
        speak(client, server)
        client.close()
        #expect(server.run(for: .seconds(2)))
        #expect(keeper.userBytes == bytes && keeper.sequels.last == "discard")
    }

    // MARK: Elsewhere

    /// Two servers with one store; the second one has another rule.
    private func makeWorlds(
        _ rule: RecordingRule, _ other: Keeper
    ) throws -> (first: ResumeWorld, second: ResumeWorld) {
        return (
            try ResumeWorld(seed: 1, store: store, recordings: keeper) {
                $0.recordings.rule = .asked
            },
            try ResumeWorld(seed: 2, store: store, recordings: other) { $0.recordings.rule = rule }
        )
    }

    /// Nothing more is written of the first server's session.
    private func kill(
        _ first: ResumeWorld, _ client: SimulatedClient, comingBackTo second: ResumeWorld
    ) throws -> SimulatedClient {
        store.mood = .away
        first.cut(client)
        store.mood = .quick
        return try second.comeBack(from: client, at: client.offsets.last)
    }

    @Test(arguments: [(RecordingRule.asked, nil), (.all, nil), (.none, false)] as [(_, Bool?)])
    func theConsentGoesWithTheSession(rule: RecordingRule, answer: Bool?) throws {
        let other = Keeper()
        let (first, second) = try makeWorlds(rule, other)
        let client = first.open()
        client.send(Self.agreed)
        #expect(first.server.run(for: .seconds(1)))
        speak(client, first.server)
        first.server.shard.stop(.goingAway)
        #expect(first.server.run() && second.server.run())
        let again = try second.comeBack(from: client, at: client.offsets.last)
        #expect(again.eventTypes.first == "parley.resumed")
        #expect(try told(again) == answer)
        speak(again, second.server)
        again.close()
        #expect(second.server.run(for: .seconds(1)))
        let isRecorded = rule != .none
        #expect((other.userBytes == 25 * 960) == isRecorded)
        #expect((other.sequels.last == "end") == isRecorded)
        // The second server's file has another name than the first one's.
        #expect(keeper.areContinued == [false])
        #expect(other.areContinued == (isRecorded ? [true] : []))
    }

    @Test func aConsentThatIsWithdrawnDoesNotGoWithTheSession() throws {
        let other = Keeper()
        let (first, second) = try makeWorlds(.asked, other)
        let client = first.open()
        client.send(Self.agreed)
        #expect(first.server.run(for: .seconds(1)))
        client.send(Self.withdrawn)
        // Written at once, not with the session's next change.
        #expect(first.server.run(for: .milliseconds(100)))
        let again = try kill(first, client, comingBackTo: second)
        #expect(again.eventTypes.first == "parley.resumed")
        speak(again, second.server)
        #expect(other.sequels.isEmpty)
    }

    @Test func aKilledServersConsentCounts() throws {
        let other = Keeper()
        let (first, second) = try makeWorlds(.asked, other)
        let client = first.open()
        #expect(first.server.run(for: .seconds(1)))
        client.send(Self.agreed)
        #expect(first.server.run(for: .milliseconds(100)))
        let again = try kill(first, client, comingBackTo: second)
        speak(again, second.server)
        #expect(second.server.run(for: .seconds(2)))
        #expect(other.userBytes == 25 * 960)
    }

    // MARK: Client secrets and the beta

    private func secret(_ server: SimulatedServer, _ session: String) throws -> String {
        let body = #"{"session":{"type":"realtime"\#(session)}}"#
        let peer = server.connect()
        peer.send(
            "POST /v1/realtime/client_secrets HTTP/1.1\r\nHost: localhost\r\n"
                + "Authorization: Bearer \(Self.key)\r\n"
                + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
        #expect(server.run(for: .milliseconds(100)))
        let (responses, _) = try parseResponses(peer.receive(), answering: [.post])
        let answer = try JSONParser().parse(try #require(responses.first).body)
        return try #require(answer["value"]?.string)
    }

    @Test(arguments: [
        (RecordingRule.asked, #","recording":{"consent":true}"#, true), (.asked, "", false),
        (.asked, #","recording":{"consent":false}"#, false),
        (.none, #","recording":{"consent":true}"#, false), (.all, "", true),
    ])
    func aClientSecretHasTheConsent(
        rule: RecordingRule, field: String, isRecorded: Bool
    ) throws {
        let server = try makeServer(rule, key: "name=shop")
        let value = try secret(server, field)
        let client = server.openClient(key: value)
        #expect(server.run())
        #expect(client.eventTypes == ["session.created"])
        speak(client, server)
        client.close()
        #expect(server.run(for: .seconds(1)))
        #expect((keeper.userBytes == 25 * 960) == isRecorded)
    }

    @Test func aConsentOfAClientSecretMayBeWithdrawn() throws {
        let server = try makeServer(.asked, key: "name=shop")
        let value = try secret(server, #","recording":{"consent":true}"#)
        let client = server.openClient(key: value)
        #expect(server.run())
        speak(client, server)
        client.send(Self.withdrawn)
        #expect(server.run())
        #expect(try told(client) == false)
        #expect(keeper.sequels.last == "discard")
    }

    @Test func theBetaHasTheFieldToo() throws {
        let server = try makeServer(.asked)
        let client = server.openClient(beta: "realtime=v1")
        client.send(#"{"type":"session.update","session":{"recording":{"consent":true}}}"#)
        #expect(server.run())
        #expect(try told(client) == true)
        client.send(#"{"type":"session.update","session":{"recording":{"consent":1}}}"#)
        #expect(server.run())
        let error = try JSONParser().parse(try #require(client.texts.last))["error"]
        #expect(error?["param"]?.string == "session.recording.consent")
        speak(client, server)
        client.close()
        #expect(server.run(for: .seconds(1)))
        #expect(keeper.userBytes == 25 * 960)
    }

    @Test func withoutAKeeperNothingIsRecorded() throws {
        let server = try makeServer(.all, hasKeeper: false)
        let client = server.openClient()
        client.send(Self.agreed)
        #expect(server.run())
        speak(client, server)
        #expect(try told(client) == false)
    }

    @Test func aChunkLeavesEachSecond() throws {
        let server = try makeServer(.all)
        let client = server.openClient()
        #expect(server.run())
        for _ in 0..<8 { speak(client, server) }
        // Nothing more comes, and what has come leaves nevertheless.
        #expect(server.run(for: .seconds(2)))
        #expect((4...5).contains(keeper.sequels.count))
        #expect(keeper.userBytes == 200 * 960)
    }
}
