// The world of BadInputTests: a real shard on a simulated kernel, with the session of a good client
// and a hostile peer. Whatever the peer does, the session is served, the shard does not spin, and at
// the end no memory is left.

import Codec
import Session
import Simulation
import Testing

@testable import Server

/// A server, and a session whose owner means well.
final class BadInputWorld {
    let server: SimulatedServer
    private let bystander: SimulatedClient
    private var updates = 0

    /// The limit of a message, unless a test sets another.
    static let maxMessageBytes = 1 << 20

    init(_ change: (inout ServerConfiguration) -> Void = { _ in }) throws {
        var configuration = ServerConfiguration()
        configuration.debugEcho = true
        configuration.connection.webSocket.maxMessageBytes = Self.maxMessageBytes
        change(&configuration)
        #expect(configuration.objection == nil)
        server = try SimulatedServer(configuration: configuration)
        bystander = server.openClient()
        #expect(server.run())
        try #require(bystander.isOpen)
    }

    /// Bytes of incomplete input and of output, of all connections.
    var heldBytes: Int {
        var sum = 0
        server.shard.connections.forEach {
            sum += $0.pending.capacity + $0.output.count + ($0.webSocket?.heldBytes ?? 0)
            sum += $0.http?.pending.capacity ?? 0
        }
        return sum
    }

    /// A hostile WebSocket.
    func attack(
        _ target: String = "/debug/echo", offer: PerMessageDeflateOffer? = nil
    ) throws -> SimulatedClient {
        let client = server.openClient(target, offer: offer)
        // It goes on after a Close.
        client.isPolite = false
        #expect(server.run())
        try #require(client.isOpen)
        return client
    }

    /// The status of the answer to bytes on a new connection.
    func status(of bytes: [UInt8], from address: String = "127.0.0.1") throws -> Int? {
        let peer = server.connect(from: address)
        peer.send(bytes)
        #expect(server.run())
        let answer = try parseResponses(peer.receive(), answering: [.get]).responses.first
        peer.reset()
        return answer?.status
    }

    /// The other session is served as before.
    func expectService() {
        bystander.send(#"{"type":"session.update","session":{"type":"realtime"}}"#)
        updates += 1
        #expect(server.run())
        let answers = bystander.eventTypes.filter { $0 == "session.updated" }
        #expect(answers.count == updates && bystander.closeCode == nil)
    }

    /// The other session is served, and once it has left nothing is left at all.
    func expectNoHarm() {
        expectService()
        bystander.close()
        let waits = server.io.waits
        #expect(server.run(for: .seconds(300)))
        #expect(server.io.waits - waits < 1_000, "it spins")
        #expect(server.io.openHandles == 0 && heldBytes == 0)
        #expect(server.shard.fixtures.chunks.chunksInUse == 0)
        #expect(server.shard.fixtures.compression.heldBytes < 300_000)
        let metrics = server.metrics
        for metric in [ShardMetric.sessionsOpen, .ledgerBytes, .connectionsOpen] {
            #expect(metrics.total(of: metric) == 0)
        }
        #expect(metrics.connections.load(ordering: .relaxed) == 0)
        #expect(metrics.sessions.load(ordering: .relaxed) == 0)
    }
}
