// Connections that break at every stage of their life, by a reset, by half a close, or by a shard
// that stops: nothing of them may be left, and nothing may spin.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct ShardBrokenSocketTests {
    /// Where in its life a connection is.
    enum Stage: CaseIterable, Sendable {
        case justAccepted, midHead, midBody, answering, pipelining, keptAlive
        case webSocketIdle, midHeader, midFrame, midMessage, holdingMessages, replying
        case outputWaiting, echoWaitingForRoom, pongDue, closing, lingering
    }

    /// How it breaks.
    enum Ending: CaseIterable, Sendable {
        case reset, halfClose, silence, stop, halfCloseThenReset
    }

    private final class Talker: LanguageModel {
        func respond(
            to request: ModelRequest, on host: any AgentHost,
            reply: @Sendable (ModelDelta) async throws -> Void
        ) async throws {
            for _ in 0..<100_000 {
                try await host.sleep(for: .milliseconds(50))
                try await reply(.text("word "))
            }
        }
    }

    private static let cases = Stage.allCases.flatMap { stage in
        Ending.allCases.map { (stage, $0) }
    }

    private func makeServer(seed: UInt64, _ faults: SimulatedFaults) throws -> SimulatedServer {
        var configuration = ServerConfiguration()
        configuration.debugEcho = true
        configuration.connection.softQueuedOutputBytes = 64 << 10
        return try SimulatedServer(
            configuration: configuration, agents: AgentSet(model: Talker()), seed: seed,
            faults: faults)
    }

    /// Brings a connection to a stage.
    private func prepare(_ stage: Stage, on server: SimulatedServer) -> SimulatedPeer {
        switch stage {
        case .justAccepted, .midHead, .midBody, .answering, .pipelining, .keptAlive, .lingering:
            prepareHTTP(stage, on: server)
        default: prepareWebSocket(stage, on: server)
        }
    }

    private func prepareHTTP(_ stage: Stage, on server: SimulatedServer) -> SimulatedPeer {
        let peer = server.connect(window: stage == .keptAlive ? 1 << 20 : 100)
        let metrics = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
        switch stage {
        case .midHead: peer.send("GET / HTTP/1.1\r\nHos")
        case .midBody:
            peer.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n1234")
        case .answering: peer.send(metrics + "\r\n")
        case .pipelining: peer.send(String(repeating: metrics + "\r\n", count: 50))
        case .keptAlive: peer.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        case .lingering: peer.send(metrics + "Connection: close\r\n\r\n")
        default: break
        }
        return peer
    }

    private func prepareWebSocket(_ stage: Stage, on server: SimulatedServer) -> SimulatedPeer {
        let isEcho = stage == .echoWaitingForRoom || stage == .pongDue
        let client = server.openClient(isEcho ? "/debug/echo" : "/v1/realtime")
        client.isPolite = false
        _ = server.run()
        #expect(client.isOpen)
        switch stage {
        case .midHeader: client.peer.send([0x81, 0xFE, 0x10])
        case .midFrame: client.peer.send([0x82, 0x85, 1, 2, 3, 4, 9])
        case .midMessage: client.send(.text, [UInt8](repeating: 32, count: 5_000), isFinal: false)
        case .holdingMessages: for _ in 0..<900 { client.send(.ping, [1]) }
        case .replying, .outputWaiting:
            client.send(
                """
                {"type":"session.update","session":{"type":"realtime",\
                "output_modalities":["text"]}}
                """)
            client.send(#"{"type":"response.create"}"#)
            guard stage == .outputWaiting else { break }
            client.isReading = false
            client.peer.window = 100
        case .echoWaitingForRoom:
            client.isReading = false
            client.peer.window = 100
            for _ in 0..<4 { client.send(.binary, [UInt8](repeating: 1, count: 50_000)) }
        case .pongDue:
            client.isReading = false
            client.peer.window = 10
            client.send(.binary, [UInt8](repeating: 1, count: 20_000))
            _ = server.run()
            for _ in 0..<3 { client.send(.ping, [1]) }
        case .closing: client.send(.text, [0xFF])
        default: break
        }
        return client.peer
    }

    @Test(arguments: cases)
    func leavesNothingBehind(stage: Stage, ending: Ending) throws {
        for seed in UInt64(0)..<3 {
            let server = try makeServer(seed: seed, seed == 0 ? SimulatedFaults() : .harsh)
            let peer = prepare(stage, on: server)
            if stage == .holdingMessages {
                #expect(server.shard.tick())
            } else {
                #expect(server.run(for: .milliseconds(200)))
            }
            switch ending {
            case .reset: peer.reset()
            case .halfClose: peer.finishWriting()
            case .silence: break
            case .stop: server.shard.stop(.goingAway)
            case .halfCloseThenReset:
                peer.finishWriting()
                #expect(server.run(for: .milliseconds(10)))
                peer.reset()
            }
            let waits = server.io.waits
            #expect(server.run(for: .seconds(2)))
            #expect(server.io.waits - waits < 3_000, "it spins")
            // Every patience has an end: of a peer that is silent, or does not read.
            #expect(server.run(for: .seconds(200)))
            expectNothing(of: server)
        }
    }

    private func expectNothing(of server: SimulatedServer) {
        #expect(server.io.openHandles == 0)
        #expect(server.shard.connections.count == 0)
        #expect(server.shard.fixtures.chunks.chunksInUse == 0)
        #expect(server.shard.deadlines.count <= 1, "at most the end of the drain")
        #expect(server.shard.tickWork.unfinished.isEmpty && !server.shard.output.hasWork)
        let metrics = server.metrics
        #expect(metrics.connections.load(ordering: .relaxed) == 0)
        #expect(metrics.sessions.load(ordering: .relaxed) == 0)
        for metric in [ShardMetric.sessionsOpen, .ledgerBytes, .agentTasks, .connectionsOpen] {
            #expect(metrics.total(of: metric) == 0)
        }
    }
}
