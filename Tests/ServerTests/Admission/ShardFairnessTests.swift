// The share of a tick that one client can take: messages, audio, and output that it does not read.
// The share of the worker pool, which all shards have together, that one caller can take.

import Codec
import Session
import Simulation
import Synchronization
import Testing

@testable import Server

@Suite struct ShardFairnessTests {
    private func openServer(
        _ configuration: ServerConfiguration = ServerConfiguration(), seed: UInt64 = 1,
        faults: SimulatedFaults = SimulatedFaults(),
        model: any LanguageModel = SilentModel()
    ) throws -> (SimulatedServer, SimulatedClient) {
        let server = try SimulatedServer(
            configuration: configuration, agents: AgentSet(model: model), seed: seed,
            faults: faults)
        let client = server.openClient()
        #expect(server.run())
        try #require(client.isOpen)
        return (server, client)
    }

    private func pongs(_ client: SimulatedClient) -> [ReceivedMessage] {
        client.messages.filter { if case .pong = $0 { true } else { false } }
    }

    // MARK: Input

    @Test func handlesABoundedNumberOfMessagesPerTurn() throws {
        let (server, client) = try openServer()
        let other = server.openClient()
        #expect(server.run())
        let expected = (0..<1_000).map { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
        for payload in expected { client.send(.ping, payload) }
        other.send(.ping, [7])
        #expect(server.shard.tick())
        client.poll()
        other.poll()
        #expect(pongs(client).count == LoopSettings().maxMessagesPerTick)
        #expect(pongs(other) == [.pong([7])], "the other's turn came at once")
        #expect(server.run())
        #expect(pongs(client) == expected.map { .pong($0) }, "nothing is lost or out of order")
    }

    /// A byte of Opus stands for 60 ms: a read buffer of them for minutes.
    @Test func handlesABoundedLengthOfAudioPerTurn() throws {
        var configuration = ServerConfiguration()
        configuration.loop.maxMessagesPerTick = 1_000_000
        let (server, client) = try openServer(configuration)
        client.send(
            """
            {"type":"session.update","session":{"type":"realtime","audio":{"input":{"format":
            {"type":"audio/opus"},"turn_detection":null}}}}
            """)
        #expect(server.run())
        #expect(client.eventTypes.last == "session.updated")
        // RFC 6716 §3.1: configuration 3 (SILK, 60 ms), mono, one frame, and that of no bytes.
        for _ in 0..<500 { client.send(.binary, [3 << 3]) }
        let packet = 16 * 60
        var before = 0
        var turns = 0
        while before < 500 * packet {
            try #require(turns < 100, "audio was lost")
            #expect(server.shard.tick())
            let samples = server.metrics.total(of: \.samplesIn)
            #expect(samples - before <= 16_000 + packet)
            before = samples
            turns += 1
        }
        #expect(turns >= 500 * packet / (16_000 + packet))
        #expect(before == 500 * packet)
    }

    /// 16 clients whose messages take long. A client with one message is answered in the same tick.
    @Test func theTimeOfATickBoundsItsMessages() throws {
        let (server, first) = try openServer()
        let floods = [first] + (0..<15).map { _ in server.openClient() }
        let other = server.openClient()
        #expect(server.run())
        for client in floods {
            for number in 0..<64 { client.send(.ping, [UInt8(number)]) }
        }
        // A look at the clock comes each 16 messages of this kind, and each takes a quarter of the
        // tick's time.
        server.io.timePerLook = .nanoseconds(MessageTime.nanosecondsPerTick / 4)
        var ticks = 0
        var answered = floods.map { _ in 0 }
        while answered.contains(where: { $0 < 64 }) {
            try #require(ticks < 200, "messages were lost")
            let before = answered.reduce(0, +)
            other.send(.ping, [UInt8(ticks)])
            #expect(server.shard.tick())
            ticks += 1
            other.poll()
            #expect(pongs(other).count == ticks)
            for (index, client) in floods.enumerated() {
                client.poll()
                answered[index] = pongs(client).count
            }
            // The first tick reads all of them: the time is over with the second one's messages.
            #expect(answered.reduce(0, +) - before <= (ticks == 1 ? 64 + 16 + 14 * 2 : 64))
        }
        #expect(floods.allSatisfy { pongs($0) == (0..<64).map { .pong([UInt8($0)]) } })
    }

    /// 16 clients ask for pages that take long to make: all at once, or again as soon as they are answered.
    /// A tick answers one of them, each in its turn, and a message of another client beside it.
    @Test(arguments: [false, true])
    func theTimeOfATickBoundsItsRequests(isPipelined: Bool) throws {
        let (server, other) = try openServer()
        let peers = (0..<16).map { _ in server.connect() }
        #expect(server.run())
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for peer in peers { peer.send(String(repeating: request, count: isPipelined ? 4 : 1)) }
        server.io.timePerLook = .nanoseconds(MessageTime.nanosecondsPerTick)
        var answers = peers.map { _ in 0 }
        for tick in 0..<60 {
            other.send(.ping, [UInt8(tick)])
            #expect(server.shard.tick())
            other.poll()
            #expect(pongs(other).count == tick + 1)
            for (index, peer) in peers.enumerated() where !peer.receive().isEmpty {
                answers[index] += 1
                if !isPipelined { peer.send(request) }
            }
            // The first tick, whose time is over with its first look at the clock, answers none.
            #expect(answers.reduce(0, +) == tick)
            #expect(answers.allSatisfy { [tick / 16, (tick + 15) / 16].contains($0) })
        }
    }

    /// Requests wait for their turn when the time of their kept-alive connections is over.
    @Test func requestsThatCameInTimeAreAnswered() throws {
        let (server, _) = try openServer()
        let peers = (0..<16).map { _ in server.connect() }
        let request = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for peer in peers { peer.send(request) }
        #expect(server.run())
        for peer in peers { #expect(!peer.receive().isEmpty) }
        let limit = HTTPSettings().keepAliveTimeout
        #expect(server.run(for: limit - .milliseconds(1)))
        for peer in peers { peer.send(request) }
        server.io.timePerLook = .nanoseconds(MessageTime.nanosecondsPerTick)
        for _ in 0..<40 { #expect(server.shard.tick()) }
        for peer in peers {
            let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
            #expect(responses.map(\.status) == [200])
        }
    }

    @Test func servesFloodingClientsInTurn() throws {
        let (server, first) = try openServer()
        let clients = [first] + (0..<3).map { _ in server.openClient() }
        #expect(server.run())
        for client in clients {
            for number in 0..<500 { client.send(.ping, [UInt8(number & 0xFF)]) }
        }
        for turn in 1...5 {
            #expect(server.shard.tick())
            for client in clients { client.poll() }
            #expect(clients.map { pongs($0).count } == [Int](repeating: turn * 64, count: 4))
        }
        #expect(server.run())
        #expect(clients.allSatisfy { pongs($0).count == 500 })
    }

    /// With bytes in pieces of any size, and any end of the connection while messages wait.
    @Test(arguments: [false, true])
    func handlesPendingMessagesBeforeTheEnd(isHarsh: Bool) throws {
        for seed in UInt64(0)..<10 {
            let (server, client) = try openServer(
                seed: seed, faults: isHarsh ? .harsh : SimulatedFaults())
            for number in 0..<300 { client.send(.ping, [UInt8(number & 0xFF)]) }
            client.close()
            #expect(server.run())
            #expect(pongs(client) == (0..<300).map { .pong([UInt8($0 & 0xFF)]) })
            #expect(client.closeCode == 1000)
            #expect(server.run(for: .seconds(10)))
            #expect(client.peer.isClosed && !client.peer.isReset)
            #expect(server.io.openHandles == 0)
        }
    }

    @Test(arguments: [false, true])
    func dropsPendingMessagesOfAConnectionThatBreaks(isStopped: Bool) throws {
        let (server, client) = try openServer()
        for _ in 0..<1_000 { client.send(.ping, [1]) }
        #expect(server.shard.tick())
        if isStopped {
            server.shard.stop(.goingAway)
            #expect(server.run())
            #expect(client.closeCode == 1001)
        } else {
            client.peer.reset()
        }
        #expect(server.run(for: .seconds(10)))
        #expect(client.peer.isClosed && server.io.openHandles == 0)
        #expect(pongs(client).count < 1_000)
        #expect(server.metrics.total(of: .sessionsOpen) == 0)
    }

    // MARK: Output

    /// Writes words without a pause, and records that it has ended.
    private final class FastModel: LanguageModel {
        let words: Int
        let ended = Atomic<Int>(0)

        init(words: Int) { self.words = words }

        func respond(
            to request: ModelRequest, on host: any AgentHost,
            reply: @Sendable (ModelDelta) async throws -> Void
        ) async throws {
            defer { ended.add(1, ordering: .relaxed) }
            for number in 0..<words { try await reply(.text("\(number) ")) }
        }
    }

    private let slowReaderLimits: ServerConfiguration = {
        var configuration = ServerConfiguration()
        configuration.connection.softQueuedOutputBytes = 32 << 10
        // Less than all deltas, more than the text of the whole reply in its last events.
        configuration.connection.maxQueuedOutputBytes = 192 << 10
        configuration.loop.maxJobsPerTick = 64
        return configuration
    }()

    /// A client that has asked a fast model and reads nothing.
    private func openSlowReader(
        _ model: FastModel, _ configuration: ServerConfiguration
    ) throws -> (SimulatedServer, SimulatedClient) {
        let (server, client) = try openServer(configuration, model: model)
        client.send(
            #"{"type":"session.update","session":{"type":"realtime","output_modalities":["text"]}}"#
        )
        #expect(server.run())
        client.isReading = false
        client.peer.window = 4_096
        client.send(#"{"type":"response.create"}"#)
        #expect(server.run())
        return (server, client)
    }

    @Test func suspendsAModelThatIsFasterThanItsReader() throws {
        let model = FastModel(words: 2_000)
        let (server, client) = try openSlowReader(model, slowReaderLimits)
        #expect(!client.peer.isClosed && model.ended.load(ordering: .relaxed) == 0)
        let waits = server.io.waits
        #expect(server.run(for: .seconds(10)))
        #expect(server.io.waits - waits < 10, "waiting must cost nothing")
        client.peer.window = 64 << 10
        for _ in 0..<2_000 where server.metrics.total(of: .agentTasks) > 0 {
            client.poll()
            #expect(server.run())
            #expect(server.metrics.total(of: .sendBufferBytes) < 2 << 20)
        }
        client.isReading = true
        #expect(server.run())
        #expect(server.metrics.total(of: \.responsesCompleted) == 1)
        let written = (0..<2_000).map { "\($0) " }
        let deltas = client.texts.filter { $0.contains("response.output_text.delta") }
        #expect(deltas.count == written.count)
        #expect(zip(deltas, written).allSatisfy { $0.contains("\"delta\":\"\($1)\"") })
        #expect(server.metrics.total(of: .outputLimitCloses) == 0)
        #expect(server.metrics.total(of: .agentTasks) == 0)
    }

    /// The same without the soft limit, which shows that the test above depends on it.
    @Test func cutsOffTheReaderWhoseModelIsNotPaused() throws {
        var configuration = slowReaderLimits
        configuration.connection.softQueuedOutputBytes =
            configuration.connection.maxQueuedOutputBytes
        let (server, client) = try openSlowReader(FastModel(words: 2_000), configuration)
        #expect(client.peer.isClosed)
        #expect(server.metrics.total(of: .outputLimitCloses) == 1)
    }

    @Test(arguments: [false, true])
    func aPausedModelEndsWithItsResponse(isReset: Bool) throws {
        let model = FastModel(words: 2_000)
        let (server, client) = try openSlowReader(model, slowReaderLimits)
        #expect(server.metrics.total(of: .agentTasks) == 1)
        if isReset {
            client.peer.reset()
        } else {
            client.send(#"{"type":"response.cancel"}"#)
        }
        #expect(server.run())
        #expect(model.ended.load(ordering: .relaxed) == 1, "nothing may wait for ever")
        #expect(server.metrics.total(of: .agentTasks) == 0)
        guard !isReset else {
            #expect(server.io.openHandles == 0)
            return
        }
        // The session goes on once its reader reads again.
        client.isReading = true
        #expect(server.run())
        client.send(#"{"type":"response.create"}"#)
        #expect(server.run())
        #expect(client.eventTypes.filter { $0 == "response.done" }.count == 2)
        #expect(server.metrics.total(of: \.responsesCompleted) == 1)
    }

    // MARK: The worker pool

    /// Records the utterances of a worker, in order: the victim's is the longer one.
    private final class Scribe: SpeechRecognizer {
        let order = Mutex<[String]>([])

        func transcribe(_ utterance: Utterance, on host: any AgentHost) async throws -> Transcript {
            try await host.compute {
                let speaker = utterance.sampleCount < 4_000 ? "attacker" : "victim"
                self.order.withLock { $0.append(speaker) }
                return Transcript(speaker)
            }
        }
    }

    /// The difference between the attackers' sessions and the victim's.
    enum Distinction: CaseIterable {
        case key, clientSecret, address, network
    }

    private static let keys = ["sk-attacker-0123456789", "sk-victim-0123456789"]

    /// Opens a session that commits its turns itself.
    private func openSpeaker(
        _ server: SimulatedServer, key: String?, from address: String
    ) throws -> SimulatedClient {
        let client = server.openClient(key: key, from: address)
        #expect(server.run())
        try #require(client.isOpen)
        client.send(
            """
            {"type":"session.update","session":{"type":"realtime","audio":{"input":{"format":
            {"type":"audio/pcm","rate":24000},"turn_detection":null,
            "transcription":{"model":"scripted"}}}}}
            """)
        #expect(server.run())
        return client
    }

    private func commit(
        milliseconds: Int, from client: SimulatedClient, to server: SimulatedServer
    ) {
        client.send(.binary, [UInt8](repeating: 1, count: 48 * milliseconds))
        client.send(#"{"type":"input_audio_buffer.commit"}"#)
        #expect(server.run())
    }

    private func openSpeakers(
        _ server: SimulatedServer, toldApartBy distinction: Distinction
    ) throws -> (attackers: [SimulatedClient], victim: SimulatedClient) {
        func open(_ key: String?, _ address: String = "192.0.2.1") throws -> SimulatedClient {
            try openSpeaker(server, key: key, from: address)
        }
        let keys = Self.keys
        switch distinction {
        case .key:
            return (try (0..<3).map { _ in try open(keys[0]) }, try open(keys[1]))
        case .clientSecret:
            let secrets = try (0..<2).map { _ in try clientSecret(server, key: keys[0]) }
            return (try ([keys[0]] + secrets).map { try open($0) }, try open(keys[1]))
        case .address:
            return (try (0..<3).map { _ in try open(nil) }, try open(nil, "192.0.2.2"))
        case .network:
            let attackers = try (1...3).map { try open(nil, "2001:db8::\($0)") }
            return (attackers, try open(nil, "2001:db8:0:1::1"))
        }
    }

    private func clientSecret(_ server: SimulatedServer, key: String) throws -> String {
        let peer = server.connect()
        peer.send(
            "POST /v1/realtime/client_secrets HTTP/1.1\r\nHost: localhost\r\n"
                + "Authorization: Bearer \(key)\r\nContent-Type: application/json\r\n"
                + "Content-Length: 2\r\n\r\n{}")
        #expect(server.run())
        let (responses, _) = try parseResponses(peer.receive(), answering: [.post])
        let answer = try JSONParser().parse(try #require(responses.first).body)
        return try #require(answer["value"]?.string)
    }

    /// Three sessions of one caller fill the queue. The utterance of another caller is accepted
    /// nevertheless, and is recognised after one of theirs.
    @Test(arguments: Distinction.allCases)
    func aFullQueueTakesTheUtteranceOfAnotherCaller(_ distinction: Distinction) throws {
        var rules = APIKeys()
        if distinction == .key || distinction == .clientSecret {
            let text = Self.keys.joined(separator: "\n")
            try rules.add(
                ConfiguredFile(option: "api-keys-file", path: "k", bytes: Array(text.utf8)))
        }
        let pool = WorkerPool(threads: 1, maxQueued: 4)
        let gate = Gate()
        let scribe = Scribe()
        #expect(pool.submit { gate.pass() })
        gate.awaitWaiting(1)
        let server = try SimulatedServer(
            agents: AgentSet(model: SilentModel(), recognizer: scribe), pool: pool,
            credentials: CredentialRules(keys: rules))
        let (attackers, victim) = try openSpeakers(server, toldApartBy: distinction)
        for _ in 0..<2 {
            for attacker in attackers { commit(milliseconds: 100, from: attacker, to: server) }
        }
        #expect(pool.counts.queued == 4 && pool.counts.refused == 2)
        commit(milliseconds: 400, from: victim, to: server)
        #expect(pool.counts.queued == 4 && pool.counts.evicted == 1)
        gate.open()
        pool.shutdown()
        #expect(server.run())
        #expect(scribe.order.withLock { $0 } == ["attacker", "victim", "attacker", "attacker"])
        let (completed, failed) = (
            "conversation.item.input_audio_transcription.completed",
            "conversation.item.input_audio_transcription.failed"
        )
        #expect(victim.eventTypes.contains(completed) && !victim.eventTypes.contains(failed))
        let events = attackers.flatMap(\.eventTypes)
        #expect(events.filter { $0 == completed }.count == 3)
        #expect(events.filter { $0 == failed }.count == 3, "two refused, one evicted")
        let reasons = attackers.flatMap(\.texts).filter { $0.contains(failed) }
        #expect(reasons.allSatisfy { $0.contains(#""code":"server_overloaded""#) })
        #expect(server.metrics.total(of: .agentTasks) == 0)
    }
}
