// What a shard's connections are charged: the objects' real sizes, parts that come and go, limits,
// and that everything is given back.

import CLinux
import Codec
import Session
import Simulation
import Synchronization
import Testing

@testable import Server

/// Bytes of an object's block, the allocator's header included. The allocator gives up to 16 bytes
/// more, where what is left over would be no block.
private func block(of object: AnyObject) -> Int {
    Int(malloc_usable_size(Unmanaged.passUnretained(object).toOpaque())) + 8
}

@Suite struct ShardLedgerTests {
    private func question(_ text: String) -> String {
        #"{"type":"conversation.item.create","item":{"type":"message","role":"user","#
            + #""content":[{"type":"input_text","text":"\#(text)"}]}}"#
    }

    /// What HTTP keeps of a request whose end has not come.
    private func incompleteRequest() -> HTTPServerConnection.IncompleteRequest? {
        let http = HTTPServerConnection(at: .milliseconds(0))
        var bytes = Array("GET / HTTP".utf8)
        bytes.withUnsafeMutableBytes {
            var input = $0
            let event = http.nextEvent(
                in: &input, hasOutput: false, at: .milliseconds(0), HTTPSettings())
            #expect(event == nil)
        }
        if case .receiving(let request) = http.phase { return request }
        return nil
    }

    /// The objects of a connection with a session, and of one that makes requests. The sizes are
    /// derived; the figures are here so that none grows unnoticed.
    ///
    /// Where this fails after a property was added: an idle session pays for it for as long as it
    /// lasts, a million of them a million times. Put it into padding, into an object that an idle
    /// session does not have, or into the shard. If it is worth its bytes, write the new figure
    /// here, run `make bench-memory` and put its result into LoadTests/RESULTS.md.
    @Test func objectsAreAsLargeAsTheBudgetOfAnIdleSessionSays() throws {
        let server = try SimulatedServer()
        let client = server.openClient(offer: PerMessageDeflateOffer())
        #expect(server.run())
        let connection = try #require(server.shard.connections[slot: 0])
        let live = try #require(connection.live)
        let contexts = try #require(connection.contexts)
        let http = HTTPServerConnection(at: .milliseconds(0))
        let bytes = Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        var parser = HTTPRequestParser()
        let request = try #require(try bytes.withUnsafeBytes { try parser.parse($0) }).request
        let incomplete = try #require(incompleteRequest())
        let log = ReplyLog(messageID: "msg_1", review: {})
        let answer = TextAnswer(
            log: log, reader: ReplyReader(shard: 0, token: connection.token), chat: nil,
            style: .whole(.init(id: "chatcmpl-1", created: 0, model: "m")), fields: HTTPFields(),
            answering: request, keepAlive: true, at: .milliseconds(0))
        let textRequest = TextRequest(
            live: live, log: log, chat: nil, client: .unspecified, at: .milliseconds(0))
        let textRequestBytes = TextRequest.objectBytes - TextRequest.placeBytes
        // The object, what ledgers charge for it, and the size of its class.
        let sizes: [(AnyObject, charged: Int, size: Int)] = [
            (connection, Connection.objectBytes, 328), (live, LiveSession.objectBytes, 120),
            (http, HTTPServerConnection.objectBytes, 72),
            (incomplete, HTTPServerConnection.IncompleteRequest.objectBytes, 416),
            (OutputBacklog(), OutputBacklog.objectBytes, 88),
            (contexts, CompressionContexts.objectBytes, 40), (log, ReplyLog.objectBytes, 88),
            (answer, TextAnswer.objectBytes, 232), (textRequest, textRequestBytes, 256),
        ]
        for (object, charged, size) in sizes {
            #expect(charged == HeapBlock.bytes(size), "\(type(of: object))")
            #expect((0...16).contains(block(of: object) - charged), "\(type(of: object))")
        }
        #expect(client.isOpen)
    }

    @Test func theShardsSumIsThatOfItsConnections() throws {
        let server = try SimulatedServer()
        let clients = (0..<10).map { _ in server.openClient() }
        #expect(server.run())
        for (index, client) in clients.enumerated() {
            client.send(question(String(repeating: "x", count: 1_000 * (index + 1))))
        }
        #expect(server.run())
        #expect(server.shard.isBalanced)
        var sum = 0
        server.shard.connections.forEach { sum += server.shard.ledger(of: $0).total }
        #expect(sum == server.shard.ledgerBytes)
        #expect(server.metrics.total(of: .ledgerBytes) == sum)
        #expect((55_000..<80_000).contains(sum), "\(sum)")
        let idle = server.metrics.shards[0].ledgers(of: .idle)
        #expect(idle.counts.reduce(0, +) == 10 && idle.sum == sum)
        for client in clients { client.close() }
        #expect(server.run(for: .seconds(10)))
        #expect(server.shard.ledgerBytes == 0 && server.shard.isBalanced)
        #expect(server.metrics.total(of: .ledgerBytes) == 0)
    }

    @Test func anUnfinishedMessageIsReceived() throws {
        let server = try SimulatedServer()
        let client = server.openClient()
        #expect(server.run())
        let token = try #require(server.shard.connections[slot: 0]).token
        let before = try #require(server.shard.ledger(ofConnection: token))
        #expect(before.receive == 0)
        // The head of a masked text frame of 100,000 bytes, and half of what it announces.
        var head: [UInt8] = [0x81, 0xFF, 0, 0, 0, 0, 0, 1, 0x86, 0xA0, 0, 0, 0, 0]
        head += [UInt8](repeating: 32, count: 50_000)
        client.peer.send(head)
        #expect(server.run())
        let ledger = try #require(server.shard.ledger(ofConnection: token))
        #expect((50_000...110_000).contains(ledger.receive), "\(ledger.receive)")
        #expect(server.shard.isBalanced)
    }

    @Test func aSlowReaderIsChargedItsQueuedOutput() throws {
        let server = try SimulatedServer()
        let client = server.openClient("/v1/realtime")
        #expect(server.run())
        let token = try #require(server.shard.connections[slot: 0]).token
        client.peer.window = 0
        client.isReading = false
        for index in 0..<40 { client.send(question(String(repeating: "\(index)", count: 1_000))) }
        #expect(server.run())
        let ledger = try #require(server.shard.ledger(ofConnection: token))
        #expect(ledger.send >= 40_000, "\(ledger.send)")
        #expect(ledger.send % ChunkPool.blockBytes < 4_096)
        #expect(server.shard.isBalanced)
    }

    @Test func contextsAreChargedOnceTheyAreInUse() throws {
        var configuration = ServerConfiguration()
        configuration.compression.contextMinBytes = 1
        let server = try SimulatedServer(configuration: configuration)
        let offer = PerMessageDeflateOffer()
        let client = server.openClient(offer: offer)
        #expect(server.run())
        let token = try #require(server.shard.connections[slot: 0]).token
        client.send(question("Hi"))
        #expect(server.run())
        let ledger = try #require(server.shard.ledger(ofConnection: token))
        #expect((30_000..<60_000).contains(ledger.compression), "\(ledger.compression)")
    }

    private static let chat =
        #"{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}"#

    private func long(_ words: Int) -> ClosureModel {
        ClosureModel(words: Array(repeating: String(repeating: "w", count: 99) + " ", count: words))
    }

    @Test func aTextRequestIsChargedAsLongAsItLasts() throws {
        let world = try TextWorld(long(2_000)) { $0.textRequests.maxUnreadReplyBytes = 30_000 }
        let peer = world.send(TextWorld.post("/v1/chat/completions", Self.chat), window: 1_000)
        let request = try #require(world.server.shard.textRequests.all.first)
        let ledger = world.server.shard.ledger(of: request)
        #expect(ledger.response > 30_000 && ledger.task > 0, "\(ledger)")
        #expect(Int(request.charge.bytes) == ledger.total)
        let replying = { world.server.metrics.shards[0].ledgers(of: .replying) }
        #expect(replying().counts.reduce(0, +) == 1 && replying().sum == ledger.total)
        #expect(world.server.shard.isBalanced)
        peer.window = 1 << 20
        #expect(world.server.run())
        #expect(replying().sum == 0 && world.server.shard.isBalanced)
        peer.finishWriting()
        world.expectNothingLeft()
    }

    @Test func aTextRequestThatHoldsTooMuchEnds() throws {
        let world = try TextWorld(long(2_000)) {
            $0.textRequests.maxUnreadReplyBytes = 1 << 20
            $0.memory.maxConnectionBytes = 130_000
        }
        let peer = world.send(TextWorld.post("/v1/chat/completions", Self.chat), window: 1_000)
        #expect(world.server.metrics.total(of: .memoryClosesConnection) == 1)
        #expect(world.model.cancelled == 1)
        peer.window = 1 << 20
        #expect(world.server.run())
        let answer = StreamedAnswer(peer.receive())
        #expect(answer.events.last?.contains("server_overloaded") == true)
        peer.finishWriting()
        world.expectNothingLeft()
    }

    // MARK: Limits

    private func limited(
        _ change: (inout ServerConfiguration) -> Void
    ) throws -> SimulatedServer {
        var configuration = ServerConfiguration()
        configuration.memory.maxBytes = 0
        change(&configuration)
        return try SimulatedServer(configuration: configuration)
    }

    @Test func aConnectionThatHoldsMoreThanAnyMayIsClosed() throws {
        let server = try limited { $0.memory.maxConnectionBytes = 100_000 }
        let modest = server.openClient()
        let greedy = server.openClient()
        #expect(server.run())
        for index in 0..<60 {
            greedy.send(question(String(repeating: "\(index % 10)", count: 1_000)))
            #expect(server.run())
        }
        #expect(greedy.isOpen)
        for _ in 0..<60 { greedy.send(question(String(repeating: "x", count: 1_000))) }
        #expect(server.run())
        #expect(greedy.closeCode == 1008)
        #expect(modest.isOpen && modest.closeCode == nil)
        #expect(server.metrics.total(of: .memoryClosesConnection) == 1)
        #expect(server.run(for: .seconds(10)))
        #expect(server.shard.ledgerBytes < 5_000)
    }

    @Test func aMessageThatNeverEndsIsEvicted() throws {
        let server = try limited { $0.memory.maxConnectionBytes = 100_000 }
        let client = server.openClient("/v1/realtime")
        #expect(server.run())
        client.peer.send([0x81, 0xFF, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0])
        for _ in 0..<20 where client.closeCode == nil {
            client.peer.send([UInt8](repeating: 32, count: 10_000))
            #expect(server.run())
        }
        #expect(client.closeCode == 1008)
        #expect(server.run(for: .seconds(10)))
        #expect(server.io.openHandles == 0 && server.shard.ledgerBytes == 0)
    }

    @Test func nearTheLimitNewSessionsAreRefused() throws {
        let server = try limited { $0.memory.maxBytes = 1 << 30 }
        let old = server.openClient()
        #expect(server.run())
        server.memory.resident.store(1 << 30, ordering: .relaxed)
        #expect(server.run(for: .seconds(2)))
        old.send(question("Hi"))
        #expect(server.run())
        // What the allocator only keeps goes back first, and the next reading judges.
        #expect(server.metrics.total(of: .memoryReturns) == 1)
        let early = server.openClient()
        #expect(server.run())
        #expect(early.isOpen)
        #expect(server.run(for: .seconds(2)))
        old.send(question("Hi"))
        #expect(server.run())
        let new = server.openClient()
        #expect(server.run())
        #expect(!new.isOpen && old.isOpen)
        #expect(server.metrics.total(of: .memoryReturns) == 1)
        #expect(new.answer?.status == 503)
        #expect(new.answer?.fields["Retry-After"] == "5")
        #expect(server.metrics.total(of: .sessionsRefused) == 1)
        // The memory is back: so are the places.
        server.memory.resident.store(1 << 20, ordering: .relaxed)
        #expect(server.run(for: .seconds(2)))
        let later = server.openClient()
        #expect(server.run())
        #expect(later.isOpen)
    }

    @Test func beyondTheLimitTheLargestGoesFirst() throws {
        let server = try limited { $0.memory.maxBytes = 300_000 }
        let clients = (0..<4).map { _ in server.openClient() }
        #expect(server.run())
        // The sum passes the limit once, by little; the third holds the most then.
        let sizes = [50, 70, 110, 60]
        for (client, size) in zip(clients, sizes) {
            for _ in 0..<size { client.send(question(String(repeating: "x", count: 1_000))) }
        }
        #expect(server.run(for: .seconds(1)))
        clients[0].send(question(String(repeating: "x", count: 30_000)))
        #expect(server.run(for: .seconds(1)))
        #expect(clients.map(\.closeCode) == [nil, nil, 1013, nil])
        #expect(server.metrics.total(of: .memoryClosesTotal) == 1)
        #expect(server.shard.ledgerBytes < 300_000)
    }

    /// Many small connections together are charged more than one large one; the large one is evicted.
    @Test func theLargestOfAllShardsGoesFirst() throws {
        var configuration = ServerConfiguration()
        configuration.memory.maxBytes = 500_000
        let first = try SimulatedServer(configuration: configuration, seed: 1, shards: 2)
        let second = try SimulatedServer(configuration: configuration, seed: 2, besides: first)
        let small = (0..<50).map { _ in first.openClient() }
        let large = second.openClient()
        first.run()
        second.run()
        for client in small { client.send(question(String(repeating: "x", count: 3_000))) }
        for _ in 0..<80 { large.send(question(String(repeating: "x", count: 1_000))) }
        first.run()
        second.run()
        #expect(first.shard.ledgerBytes > second.shard.ledgerBytes)
        #expect(second.shard.ledgerBytes > 80_000)
        // Both shards have looked by then; the sum passes the limit in the first.
        let before = first.shard.ledgerBytes + second.shard.ledgerBytes
        #expect(before < 500_000)
        for client in small {
            client.send(question(String(repeating: "x", count: (510_000 - before) / 50)))
        }
        first.run(for: .seconds(1))
        second.run(for: .seconds(1))
        first.run(for: .seconds(1))
        #expect(large.closeCode == 1013)
        #expect(small.allSatisfy { $0.isOpen && $0.closeCode == nil })
        #expect(first.metrics.total(of: .memoryClosesTotal) == 1)
    }

    /// More than one look finds: the shard goes on in its next ticks.
    @Test func manyAreEvictedOneLookAfterAnother() throws {
        let server = try limited { $0.memory.maxBytes = 1 << 20 }
        let clients = (0..<100).map { _ in server.openClient() }
        #expect(server.run())
        for client in clients { client.send(question(String(repeating: "x", count: 3_000))) }
        #expect(server.run(for: .seconds(1)))
        let held = server.shard.ledgerBytes
        server.memory.resident.store((1 << 20) + held * 8 / 10, ordering: .relaxed)
        let closed = { server.metrics.total(of: .memoryClosesTotal) }
        #expect(server.run(for: .seconds(1)))
        #expect(closed() == 0, "the allocator's pages go first")
        #expect(server.run(for: .seconds(1)))
        #expect(closed() == 64)
        #expect(server.run(for: .milliseconds(200)))
        #expect((75...85).contains(closed()), "\(closed())")
        #expect(server.run(for: .milliseconds(500)))
        #expect(clients.filter { $0.closeCode == 1013 }.count == closed())
        #expect(server.shard.isBalanced)
    }

    /// A task says what it holds while nothing else happens to its session.
    @Test func memoryThatATaskReportsIsChargedAtOnce() throws {
        let model = ClosureModel { _, host, _ in
            try await host.sleep(for: .seconds(1))
            host.charge(40_000)
            try await host.sleep(for: .seconds(1))
            host.charge(-30_000)
            try await host.sleep(for: .seconds(1))
            host.charge(90_000)
            try await host.sleep(for: .seconds(10))
        }
        var configuration = ServerConfiguration()
        configuration.memory.maxConnectionBytes = 80_000
        let server = try SimulatedServer(
            configuration: configuration, agents: AgentSet(model: model))
        let client = server.openClient()
        #expect(server.run())
        client.send(question("Hi"))
        client.send(#"{"type":"response.create","response":{"output_modalities":["text"]}}"#)
        #expect(server.run(for: .milliseconds(500)))
        let charged = { Int(server.shard.connections[slot: 0]?.charged ?? 0) }
        let before = charged()
        #expect(server.run(for: .seconds(1)))
        #expect(charged() == before + 40_000)
        #expect(server.run(for: .seconds(1)))
        #expect(charged() == before + 10_000 && client.isOpen)
        #expect(server.run(for: .seconds(1)))
        #expect(client.closeCode == 1008)
        #expect(server.run(for: .seconds(20)))
        #expect(server.shard.ledgerBytes == 0)
    }

    /// What a library keeps is on no ledger. Refusing sessions would not make it less.
    @Test func memoryOfNoClientKeepsNoClientOut() throws {
        let log = LogRecord()
        var configuration = ServerConfiguration()
        configuration.memory.maxBytes = 400_000_000
        let server = try SimulatedServer(configuration: configuration, log: log)
        let first = server.openClient()
        #expect(server.run())
        // Over nine tenths of the limit, and it stays.
        server.memory.resident.store(390_000_000, ordering: .relaxed)
        for _ in 0..<20 {
            first.send(question("Hi"))
            #expect(server.run(for: .seconds(1)))
        }
        let next = server.openClient()
        #expect(server.run())
        #expect(next.isOpen)
        #expect(server.metrics.total(of: .memoryReturns) > 0)
        #expect(!log.lines.contains { $0.contains("new sessions are refused") })
        // Of what is left, clients may hold nine tenths.
        server.memory.resident.store(399_500_000, ordering: .relaxed)
        first.send(question(String(repeating: "x", count: 60_000)))
        #expect(server.run(for: .milliseconds(100)))
        #expect(first.isOpen)
    }

    @Test func aShortageOfMemoryIsLoggedAtItsBeginningAndAtItsEnd() throws {
        let log = LogRecord()
        var configuration = ServerConfiguration()
        configuration.memory.maxBytes = 300_000
        let server = try SimulatedServer(configuration: configuration, log: log)
        let lines = { (text: String) in log.lines.filter { $0.contains(text) } }
        let clients = (0..<4).map { _ in server.openClient() }
        #expect(server.run())
        for client in clients { client.send(question(String(repeating: "x", count: 68_000))) }
        #expect(server.run(for: .seconds(1)))
        for _ in 0..<3 {
            let refused = server.openClient()
            #expect(server.run(for: .milliseconds(300)))
            #expect(refused.answer?.status == 503)
        }
        let begun = lines("new sessions are refused")
        #expect(begun.count == 1)
        #expect(begun[0].hasPrefix("warning"))
        for field in ["limit_bytes=300000", "refused_from_bytes=270000", "largest=ledgers"] {
            #expect(begun[0].contains(field), "\(begun[0])")
        }
        #expect(lines("new sessions are taken").isEmpty)
        for client in clients.dropFirst() { client.peer.reset() }
        #expect(server.run(for: .seconds(2)))
        let later = server.openClient()
        #expect(server.run(for: .seconds(1)))
        #expect(later.isOpen)
        #expect(lines("new sessions are taken").count == 1)
    }

    @Test func memoryOfNoClientClosesNone() throws {
        let server = try limited { $0.memory.maxBytes = 1 << 30 }
        let client = server.openClient()
        #expect(server.run())
        server.memory.resident.store(2 << 30, ordering: .relaxed)
        for _ in 0..<5 {
            client.send(question("Hi"))
            #expect(server.run(for: .seconds(2)))
        }
        #expect(client.isOpen && client.closeCode == nil)
    }
}
