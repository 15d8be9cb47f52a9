// The tick of a shard: accepting, stale reports, fairness, stopping.

import CLinux
import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct ShardTests {
    private let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

    @Test func pausesAcceptingWithoutDescriptorsAndRecovers() throws {
        let server = try SimulatedServer()
        server.io.acceptFailures = [EMFILE, EMFILE]
        let peer = server.connect()
        peer.send(request)
        #expect(server.run(for: .milliseconds(50)))
        #expect(peer.unreadBytes == 0)
        #expect(server.io.waits < 10, "it must not spin on a listener that stays readable")
        #expect(server.run(for: .milliseconds(300)))
        #expect(peer.unreadBytes > 0)
        #expect(server.metrics.total(of: .acceptFailures) == 2)
    }

    @Test func tellsOfEachTimeWithoutDescriptorsOnce() throws {
        let log = LogRecord()
        let server = try SimulatedServer(log: log)
        let paused = "warning accepting paused reason=Too many open files"
        for episode in 1...2 {
            // Long at the limit, then to and fro: each client that leaves makes room for one.
            server.io.acceptFailures = [Int32](repeating: EMFILE, count: 20)
            for _ in 0..<10 {
                let peer = server.connect()
                #expect(server.run(for: .seconds(3)))
                peer.reset()
                server.io.acceptFailures.append(EMFILE)
            }
            server.io.acceptFailures = []
            #expect(log.lines.last == paused)
            #expect(server.run(for: .seconds(10)))
            _ = server.connect()
            #expect(server.run())
            #expect(log.lines.count == 2 * episode)
            #expect(log.lines.last == "info accepting again")
        }
    }

    @Test func skipsPeersThatLeftBeforeTheyWereAccepted() throws {
        let server = try SimulatedServer()
        server.io.acceptFailures = [ECONNABORTED]
        let peer = server.connect()
        peer.send(request)
        #expect(server.run())
        #expect(peer.unreadBytes > 0)
    }

    @Test func acceptsABoundedNumberPerTick() throws {
        var configuration = ServerConfiguration()
        configuration.loop.maxAcceptsPerTick = 3
        let server = try SimulatedServer(configuration: configuration)
        let peers = (0..<10).map { _ in server.connect() }
        _ = server.shard.tick()
        #expect(server.metrics.total(of: .connectionsOpen) == 3)
        #expect(server.run())
        #expect(server.metrics.total(of: .connectionsOpen) == peers.count)
    }

    @Test func closesConnectionsBeyondTheLimit() throws {
        var configuration = ServerConfiguration()
        configuration.admission.maxConnections = 2
        let log = LogRecord()
        let server = try SimulatedServer(configuration: configuration, log: log)
        let peers = (0..<3).map { _ in server.connect() }
        peers[2].send(request)
        #expect(server.run())
        #expect(peers.map(\.isClosed) == [false, false, true])
        #expect(server.metrics.total(of: .connectionsRefused) == 1)
        #expect(log.lines == ["notice refused count=1 peer=127.0.0.1 reason=max-connections"])
        let (responses, rest) = try parseResponses(peers[2].receive(), answering: [.get])
        #expect(responses.map(\.status) == [503] && rest.isEmpty)
        #expect(responses.first?.fields["Retry-After"] == "5")
        #expect(responses.first?.fields["Connection"] == "close")
        #expect(!peers[2].isReset, "a reset might destroy the answer")
        peers[0].reset()
        #expect(server.run())
        let next = server.connect()
        #expect(server.run())
        #expect(!next.isClosed)
    }

    @Test func dropsReportsForAConnectionThatIsGone() throws {
        let server = try SimulatedServer()
        let first = server.connect()
        #expect(server.run())
        first.reset()
        #expect(server.run())
        // The second takes over the slot and the handle of the first, with another generation.
        let second = server.connect()
        #expect(server.run())
        server.io.injectedReports = [0, 7].map { generation in
            Readiness(
                token: EventToken(.connection, index: 0, generation: generation),
                isReadable: true, isWritable: true, hasFailed: true)
        }
        #expect(server.run())
        #expect(!second.isClosed)
        second.send(request)
        #expect(server.run())
        #expect(second.unreadBytes > 0)
    }

    @Test func writesAtMostItsShareToOneConnectionPerTick() throws {
        var configuration = ServerConfiguration()
        configuration.loop.maxWriteBytesPerTick = 1_000
        let server = try SimulatedServer(configuration: configuration)
        let greedy = server.connect()
        greedy.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        let modest = server.connect()
        modest.send(request)
        // One tick accepts; within the next, both are read and both are written to.
        _ = server.shard.tick()
        _ = server.shard.tick()
        #expect(greedy.unreadBytes == 1_000)
        #expect(modest.unreadBytes > 0)
        #expect(server.run())
        let (responses, rest) = try parseResponses(greedy.receive(), answering: [.get])
        #expect(responses.map(\.status) == [200] && rest.isEmpty)
    }

    @Test func stopsInOrder() throws {
        let server = try SimulatedServer()
        let clients = (0..<3).map { _ in server.openClient() }
        let idle = server.connect()
        #expect(server.run())
        server.shard.stop(.goingAway)
        #expect(server.run())
        #expect(clients.map(\.closeCode) == [1001, 1001, 1001])
        #expect(idle.isClosed && server.hasStopped)
        #expect(server.connect().isReset, "the listener is closed")
        #expect(server.io.openHandles == 0)
        #expect(server.metrics.sessions.load(ordering: .relaxed) == 0)
        #expect(server.metrics.connections.load(ordering: .relaxed) == 0)
    }

    @Test func tokensKeepTheirParts() {
        for kind in [EventToken.Kind.connection, .listener, .upstream] {
            for index in [0, 1, 65_535, EventToken.maxIndex] {
                for generation in [0, 1, UInt32.max] {
                    let token = EventToken(kind, index: index, generation: generation)
                    #expect(EventToken(rawValue: token.rawValue) == token)
                    #expect(token.kind == kind && token.index == index)
                    #expect(token.generation == generation)
                }
            }
        }
        #expect(EventToken(rawValue: .max).kind == nil)
    }
}
