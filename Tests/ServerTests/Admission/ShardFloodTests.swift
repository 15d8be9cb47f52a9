// Floods of input that costs a client next to nothing: bounded, and far above ordinary use.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct ShardFloodTests {
    /// The input that is sent in excess.
    enum Flood: CaseIterable, Sendable {
        case pings, pongs, tinyFragments, emptyContinuations, emptyMessages, malformedEvents
        case refusedEvents, badPackets

        func send(_ number: Int, to client: SimulatedClient) {
            switch self {
            case .pings: client.send(.ping, [UInt8(number & 0xFF)])
            case .pongs: client.send(.pong, [])
            case .tinyFragments, .emptyContinuations:
                let payload = [UInt8](repeating: 32, count: self == .tinyFragments ? 5 : 0)
                client.send(number == 0 ? .text : .continuation, payload, isFinal: false)
            case .emptyMessages: client.send(.binary, [])
            case .malformedEvents: client.send("{")
            case .refusedEvents: client.send(#"{"type":"response.cancel"}"#)
            case .badPackets: client.send(.binary, [0])
            }
        }
    }

    private func open(
        _ target: String = "/v1/realtime", _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws -> (SimulatedServer, SimulatedClient) {
        var configuration = ServerConfiguration()
        configuration.debugEcho = true
        change(&configuration)
        let server = try SimulatedServer(configuration: configuration)
        let client = server.openClient(target)
        #expect(server.run())
        try #require(client.isOpen)
        return (server, client)
    }

    @Test(arguments: Flood.allCases)
    func endsAFlood(flood: Flood) throws {
        let (server, client) = try open { $0.connection.webSocket.maxFramesPerMessage = 1_000_000 }
        let other = server.openClient()
        #expect(server.run())
        for number in 0..<2_200 { flood.send(number, to: client) }
        #expect(server.run())
        #expect(client.closeCode == 1008)
        #expect(server.metrics.total(of: .floodCloses) == 1)
        #expect(server.metrics.total(of: .sessionsOpen) == 1 && !other.peer.isEnded)
        #expect(client.messages.count <= 2_010)
        #expect(server.run(for: .seconds(6)))
        #expect(client.peer.isClosed && server.io.openHandles == 1)
    }

    @Test(arguments: Flood.allCases)
    func acceptsTheSameAtAModestRate(flood: Flood) throws {
        let (server, client) = try open {
            $0.connection.webSocket.maxFramesPerMessage = 1_000_000
            $0.connection.webSocket.messageGrace = .seconds(3_600)
        }
        for number in 0..<2_500 {
            flood.send(number, to: client)
            #expect(server.run(for: .milliseconds(20)))
        }
        #expect(client.closeCode == nil)
        #expect(server.metrics.total(of: .floodCloses) == 0)
    }

    /// The smallest fragments and the most messages of the Autobahn suite (9.3.1, 9.7, 2.10).
    @Test func doesNotMeetTheConformanceSuite() throws {
        let (server, client) = try open("/debug/echo") {
            $0.connection.webSocket.maxFramesPerMessage = 1_000_000
        }
        let fragment = [UInt8](repeating: 42, count: 64)
        client.send(.text, fragment, isFinal: false)
        for _ in 0..<65_534 { client.send(.continuation, fragment, isFinal: false) }
        client.send(.continuation, fragment)
        for _ in 0..<1_000 { client.send(.text, []) }
        #expect(server.run())
        for _ in 0..<10 { client.send(.ping, [1]) }
        for _ in 0..<20_000 { client.send(.binary, [1]) }
        #expect(server.run(for: .seconds(1)))
        #expect(client.closeCode == nil)
        #expect(client.messages.count == 1 + 1_000 + 10 + 20_000)
    }
}
