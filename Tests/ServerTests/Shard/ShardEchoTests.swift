// The echo endpoint: every message comes back as it was sent, however long it is. For a client that
// does not read, the server buffers no more than the soft limit and one message.

import Codec
import Simulation
import Testing

@testable import Server

@Suite struct ShardEchoTests {
    private func openEcho(
        _ configuration: ServerConfiguration, faults: SimulatedFaults = SimulatedFaults()
    ) throws -> (SimulatedServer, SimulatedClient) {
        var configuration = configuration
        configuration.debugEcho = true
        let server = try SimulatedServer(configuration: configuration, faults: faults)
        let client = server.openClient("/debug/echo", subprotocols: [])
        #expect(server.run())
        try #require(client.isOpen)
        return (server, client)
    }

    @Test func echoesAMessageThatIsLongerThanTheOutputLimit() throws {
        var configuration = ServerConfiguration()
        configuration.connection.maxQueuedOutputBytes = 1 << 20
        configuration.connection.softQueuedOutputBytes = 64 << 10
        let (server, client) = try openEcho(configuration)
        let message = [UInt8](repeating: 7, count: 3 << 20)
        client.send(.binary, message)
        client.send("after")
        client.close()
        #expect(server.run())
        #expect(client.messages == [.binary(message), .text("after"), .close(1000, "")])
        #expect(server.metrics.total(of: .outputLimitCloses) == 0)
    }

    @Test func readsNoMoreFromAClientThatDoesNotRead() throws {
        var configuration = ServerConfiguration()
        configuration.connection.softQueuedOutputBytes = 64 << 10
        configuration.loop.readBufferBytes = 16 << 10
        let (server, client) = try openEcho(configuration)
        client.isReading = false
        client.peer.window = 10_000
        let messages = (0..<3000).map { String(repeating: "x", count: 100 + $0 % 7) }
        for message in messages { client.send(message) }
        #expect(server.run())
        let held = server.metrics.total(of: .bytesReceived)
        #expect(held < 150_000, "reading must stop while the echo waits")
        let waits = server.io.waits
        #expect(server.run(for: .seconds(1)))
        #expect(server.io.waits - waits < 10, "an echo that is paused must not be polled")
        for _ in 0..<5_000 where client.messages.count < messages.count {
            client.poll()
            #expect(server.run())
        }
        #expect(client.texts == messages)
        #expect(server.metrics.total(of: .outputLimitCloses) == 0)
    }

    @Test func aPausedEchoStillCloses() throws {
        var configuration = ServerConfiguration()
        configuration.connection.softQueuedOutputBytes = 16 << 10
        let (server, client) = try openEcho(configuration, faults: .harsh)
        client.isReading = false
        client.peer.window = 5_000
        for _ in 0..<20 { client.send(String(repeating: "x", count: 5_000)) }
        client.close(.goingAway)
        #expect(server.run())
        #expect(client.closeCode == nil && !client.peer.isClosed)
        for _ in 0..<5_000 where client.closeCode == nil {
            client.poll()
            #expect(server.run())
        }
        #expect(client.texts.count == 20 && client.closeCode == 1001)
        #expect(server.run(for: .seconds(6)))
        #expect(server.io.openHandles == 0)
    }
}
