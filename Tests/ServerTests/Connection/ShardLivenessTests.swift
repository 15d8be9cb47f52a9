// Peers that are slow or silent, and a shard that is: who loses patience with whom, and when.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct ShardLivenessTests {
    private func openServer(
        _ configuration: ServerConfiguration = ServerConfiguration()
    ) throws -> (SimulatedServer, SimulatedClient) {
        let server = try SimulatedServer(configuration: configuration)
        let client = server.openClient()
        #expect(server.run())
        try #require(client.isOpen)
        return (server, client)
    }

    private func status(_ peer: SimulatedPeer) throws -> [Int] {
        try parseResponses(peer.receive(), answering: [.get]).responses.map(\.status)
    }

    // MARK: Requests

    @Test func aRequestThatTricklesLosesItsPlaceBeforeTheHeaderTimeout() throws {
        let server = try SimulatedServer()
        let peer = server.connect()
        #expect(server.run(for: .seconds(2)))
        for byte in "GET /healt".utf8 where !peer.isEnded {
            peer.send([byte])
            #expect(server.run(for: .milliseconds(600)))
        }
        #expect(try status(peer) == [408])
        #expect(server.io.now < .milliseconds(7_700))
        #expect(server.metrics.total(of: .slowRequestCloses) == 1)
    }

    /// One request of 200 bytes on a bad network: nothing for 7 s, then half of it, then the rest.
    @Test func aRequestOnABadNetworkArrives() throws {
        let server = try SimulatedServer()
        let peer = server.connect()
        let request =
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "
            + String(repeating: "a", count: 148) + "\r\n\r\n"
        #expect(server.run(for: .seconds(7)))
        peer.send(Array(request.utf8.prefix(100)))
        #expect(server.run(for: .milliseconds(2_900)))
        peer.send(Array(request.utf8.dropFirst(100)))
        #expect(server.run())
        #expect(try status(peer) == [200])
    }

    @Test(arguments: [(700, 404), (400, 408)])
    func aBodyKeepsThePaceOfARequest(bytesPerSecond: Int, answer: Int) throws {
        let server = try SimulatedServer()
        let peer = server.connect()
        let count = 20_000
        peer.send("POST /none HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(count)\r\n\r\n")
        var sent = 0
        while sent < count, !peer.isEnded {
            peer.send([UInt8](repeating: 1, count: min(bytesPerSecond, count - sent)))
            sent += bytesPerSecond
            #expect(server.run(for: .seconds(1)))
        }
        #expect(try status(peer) == [answer])
    }

    // MARK: Messages

    @Test func aMessageThatTricklesHoldsNoMemoryForEver() throws {
        let (server, client) = try openServer()
        client.send(.text, [UInt8](repeating: 32, count: 1_000), isFinal: false)
        var seconds = 0
        while client.closeCode == nil, seconds < 1_000 {
            client.send(.continuation, [32], isFinal: false)
            // Pings between the fragments of a message are no progress.
            client.send(.ping, [])
            #expect(server.run(for: .seconds(20)))
            seconds += 20
        }
        #expect((60...80).contains(seconds))
        #expect(client.closeCode == 1008)
        #expect(server.metrics.total(of: .slowMessageCloses) == 1)
    }

    @Test func aLargeMessageOverASlowUplinkArrives() throws {
        let (server, client) = try openServer()
        // 21 MiB less a little, at 160 kbit/s: 18 minutes.
        let piece = [UInt8](repeating: 32, count: 20_000)
        client.send(.text, piece, isFinal: false)
        for _ in 0..<1_080 {
            client.send(.continuation, piece, isFinal: false)
            #expect(server.run(for: .seconds(1)))
        }
        client.send(.continuation, Array("{}".utf8))
        #expect(server.run())
        #expect(client.closeCode == nil)
        #expect(client.eventTypes.last == "error", "it came whole, and is no event")
        // The next one has its own time.
        client.send(.text, piece, isFinal: false)
        #expect(server.run(for: .seconds(50)))
        #expect(client.closeCode == nil)
        #expect(server.run(for: .seconds(30)))
        #expect(client.closeCode == 1008)
    }

    @Test func closesAnIdlePeerOnlyWhereAnOptionSaysSo() throws {
        for limit in [Duration.zero, .seconds(300)] {
            var configuration = ServerConfiguration()
            configuration.connection.webSocket.messageIdleTimeout = limit
            let (server, client) = try openServer(configuration)
            #expect(server.run(for: .seconds(200)))
            client.send(#"{"type":"input_audio_buffer.clear"}"#)
            #expect(server.run(for: .seconds(290)))
            #expect(client.closeCode == nil)
            #expect(server.run(for: .seconds(20)))
            #expect(client.closeCode == (limit == .zero ? nil : 1001))
            #expect(server.metrics.total(of: .messageIdleCloses) == (limit == .zero ? 0 : 1))
        }
    }

    @Test func aPingOfTheClientIsAnsweredAndIsNoMessage() throws {
        var configuration = ServerConfiguration()
        configuration.connection.webSocket.messageIdleTimeout = .seconds(300)
        let (server, client) = try openServer(configuration)
        let types = client.eventTypes.count
        for _ in 0..<29 {
            client.send(#"{"type":"parley.ping","event_id":"mine"}"#)
            #expect(server.run(for: .seconds(10)))
        }
        #expect(
            Array(client.eventTypes.dropFirst(types)) == Array(repeating: "parley.pong", count: 29))
        #expect(client.closeCode == nil)
        client.send(#"{"type":"parley.ping"}"#)
        #expect(server.run(for: .seconds(20)))
        #expect(client.closeCode == 1001)
    }

    // MARK: The shard's own lag

    /// The process is stopped for ten minutes, in every second of its peers' silence.
    @Test func aStoppedProcessClosesNoPeer() throws {
        for second in stride(from: 0, to: 90, by: 7) {
            let (server, client) = try openServer()
            let idle = server.connect()
            idle.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(server.run(for: .seconds(second)))
            let slow = server.connect()
            slow.send("GET /hea")
            #expect(server.run(for: .seconds(1)))
            server.io.suspend(for: .seconds(600))
            // A client that heard nothing and has nothing to say.
            #expect(server.run(for: .seconds(1)))
            #expect(client.closeCode == nil && !client.peer.isEnded)
            #expect(idle.isEnded == (second > 72))
            slow.send("lthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(server.run())
            #expect(try status(slow) == [200])
            #expect(server.metrics.total(of: .absentMilliseconds) > 500_000)
            // It still is found out when it is gone.
            client.isPolite = false
            #expect(server.run(for: .seconds(77)))
            #expect(client.closeCode == 1001)
        }
    }

    @Test func aPongThatWaitedForAStoppedProcessCounts() throws {
        let (server, client) = try openServer()
        client.isPolite = false
        #expect(server.run(for: .seconds(26)))
        #expect(client.messages.contains(.ping([])))
        client.send(.pong, [])
        server.io.suspend(for: .seconds(3_600))
        #expect(server.run(for: .seconds(20)))
        #expect(client.closeCode == nil)
    }

    /// More peers than a wait reports: those it did not report have their bytes looked for.
    @Test func bytesThatWaitBehindOthersCount() throws {
        let (server, client) = try openServer()
        client.isPolite = false
        #expect(server.run(for: .seconds(74)))
        client.send(.pong, [])
        server.io.hidesReadiness = true
        #expect(server.run(for: .seconds(2)))
        #expect(client.closeCode == nil)
        server.io.hidesReadiness = false
        #expect(server.run(for: .seconds(10)))
        #expect(client.closeCode == nil)
    }

    /// A busy shard, every tick of which takes a while, still times its peers out.
    @Test func aBusyShardStillLosesPatience() throws {
        let (server, client) = try openServer()
        client.isPolite = false
        for _ in 0..<400 {
            #expect(server.run())
            server.io.suspend(for: .milliseconds(240))
        }
        #expect(server.run())
        #expect(client.closeCode == 1001)
    }
}
