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
    }

    private static let key = "sk-key-0123456789abcdef"
    private static let agreed =
        #"{"type":"session.update","session":{"type":"realtime","recording":{"consent":true}}}"#
    private static let withdrawn =
        #"{"type":"session.update","session":{"type":"realtime","recording":{"consent":false}}}"#

    private let keeper = Keeper()

    private func makeServer(
        _ rule: RecordingRule, key: String? = nil, hasKeeper: Bool = true
    ) throws -> SimulatedServer {
        var configuration = ServerConfiguration()
        configuration.recordings = rule
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
