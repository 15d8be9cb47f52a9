// Data through TLS on the simulated kernel, and the end of the stream on both sides.

import COpenSSL
import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct TLSStreamTests {
    private func pattern(_ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 >> 8) }
    }

    @Test(arguments: tlsVersions, 1...5)
    func carriesBigMessagesHoweverTheBytesAreCut(version: Int32, seed: UInt64) throws {
        let world = try TLSWorld(seed: seed, faults: .harsh)
        let client = world.connect(window: 50_000) { $0.version = version }
        try world.openEcho(client)
        let messages = [1, 100, 16_384, 300_000].map(pattern)
        for message in messages { client.sendMessage(message) }
        world.settle(client)
        #expect(client.takeMessages() == messages)
        #expect(client.failure == nil)
    }

    @Test func keepsOutputPlainUntilTheSocketHasRoom() throws {
        let world = try TLSWorld { $0.connection.maxQueuedOutputBytes = 1 << 20 }
        let client = world.connect(window: 4_000)
        try world.openEcho(client)
        let messages = (0..<20).map { pattern(10_000 + $0) }
        for message in messages { client.sendMessage(message) }
        world.server.run()
        // At most one record is made of bytes that the socket does not take.
        #expect(client.peer.unreadBytes == 4_000)
        let connection = try #require(world.server.shard.connections[slot: 0])
        let tls = try #require(connection.tls)
        #expect(tls.unsent.count > 0 && tls.unsent.count < 17_000)
        #expect(connection.output.count > 180_000)
        world.settle(client)
        #expect(client.takeMessages() == messages)
        #expect(tls.unsent.isEmpty && connection.output.isEmpty)
    }

    @Test func cutsOffAReaderThatIsTooSlowWithoutCloseNotify() throws {
        let world = try TLSWorld {
            $0.connection.softQueuedOutputBytes = 64 << 10
            $0.connection.slowReaderTimeout = .seconds(10)
        }
        let client = world.connect(window: 4_000)
        try world.openEcho(client)
        for _ in 0..<20 { client.sendMessage(pattern(10_000)) }
        world.server.run(for: .seconds(9))
        #expect(!client.peer.isClosed)
        world.server.run(for: .seconds(2))
        #expect(client.peer.isClosed)
        client.poll()
        #expect(!client.hasEnded, "a part must not look like the whole")
    }

    @Test(arguments: tlsVersions)
    func takesThePeersCloseNotifyForTheEnd(version: Int32) throws {
        let world = try TLSWorld()
        let client = world.connect { $0.version = version }
        world.settle(client)
        client.send(healthRequest)
        client.finishWriting()
        world.settle(client)
        #expect(client.received.starts(with: Array("HTTP/1.1 200".utf8)))
        #expect(client.hasEnded && client.peer.isClosed)
        #expect(world.server.metrics.total(of: .tlsTruncations) == 0)
    }

    @Test func countsStreamsThatEndWithoutCloseNotify() throws {
        let world = try TLSWorld()
        let client = world.connect()
        try world.openEcho(client)
        client.peer.finishWriting()
        world.settle(client)
        #expect(client.peer.isClosed)
        #expect(world.server.metrics.total(of: .tlsTruncations) == 1)
        // Between two requests nothing is cut off.
        let idle = world.connect()
        world.settle(idle)
        idle.send(healthRequest)
        world.settle(idle)
        idle.peer.finishWriting()
        world.settle(idle)
        #expect(idle.peer.isClosed)
        #expect(world.server.metrics.total(of: .tlsTruncations) == 1)
    }

    @Test(arguments: tlsVersions)
    func sendsCloseNotifyAfterTheLastAnswer(version: Int32) throws {
        let world = try TLSWorld()
        let client = world.connect(window: 30) { $0.version = version }
        world.settle(client)
        client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        world.settle(client)
        #expect(String(decoding: client.received, as: UTF8.self).hasSuffix("ok\n"))
        #expect(client.hasEnded && client.peer.isEnded)
    }

    @Test func sendsCloseNotifyAfterTheClosingHandshake() throws {
        let world = try TLSWorld()
        let client = world.connect()
        try world.openEcho(client)
        client.send([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE8])
        world.settle(client)
        #expect(client.received == [0x88, 0x02, 0x03, 0xE8])
        #expect(client.hasEnded && client.peer.isEnded)
    }

    @Test func breaksOffWhenARecordIsForged() throws {
        let world = try TLSWorld()
        let client = world.connect()
        try world.openEcho(client)
        client.peer.send([23, 3, 3, 0, 40] + [UInt8](repeating: 9, count: 40))
        world.settle(client)
        #expect(client.failure == "sslv3 alert bad record mac")
        #expect(world.server.metrics.total(of: .protocolErrors) == 1)
        #expect(client.peer.isEnded)
    }

    @Test func changesKeysWhenAsked() throws {
        let world = try TLSWorld()
        let client = world.connect()
        try world.openEcho(client)
        for round in 1...40 {
            client.updateKeys()
            client.sendMessage(pattern(round))
            world.settle(client)
            #expect(client.takeMessages() == [pattern(round)])
        }
    }

    @Test func breaksOffWhenKeysAreChangedWithoutEnd() throws {
        let world = try TLSWorld()
        let client = world.connect()
        try world.openEcho(client)
        for _ in 0..<100 { client.updateKeys() }
        world.settle(client)
        #expect(client.peer.isEnded)
        #expect(world.log.lines.contains("debug TLS broken reason=too many key updates"))
    }

    @Test func closesAtOnceWhenThereIsNoPlace() throws {
        let world = try TLSWorld { $0.admission.maxConnections = 1 }
        let first = world.connect()
        world.settle(first)
        let second = world.server.connect()
        world.server.run()
        #expect(second.isClosed && second.unreadBytes == 0)
    }

    @Test func stopsWithCloseNotify() throws {
        let world = try TLSWorld()
        let client = world.connect()
        try world.openEcho(client)
        world.server.shard.stop(.goingAway)
        world.settle(client)
        #expect(client.received.starts(with: [0x88]))
        client.send([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE9])
        world.settle(client)
        #expect(client.hasEnded)
        client.peer.finishWriting()
        world.server.run()
        #expect(world.server.hasStopped)
        #expect(world.server.io.openHandles == 0)
    }
}
