// TLS handshakes on the simulated kernel: handshakes that succeed on a bad network, and all the
// ways to fail.

import COpenSSL
import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct TLSHandshakeTests {
    @Test(arguments: tlsVersions, 1...10)
    func succeedsHoweverTheBytesAreCut(version: Int32, seed: UInt64) throws {
        let world = try TLSWorld(seed: seed, faults: .harsh)
        let client = world.connect { $0.version = version }
        world.settle(client)
        client.send(healthRequest)
        world.settle(client)
        #expect(client.received.starts(with: Array("HTTP/1.1 200".utf8)))
        #expect(world.server.metrics.total(of: .tlsHandshakesFull) == 1)
        #expect(world.server.metrics.total(of: .tlsHandshakesFailed) == 0)
    }

    @Test(arguments: tlsVersions)
    func waitsForRoomInTheSocketAndGoesOn(version: Int32) throws {
        let world = try TLSWorld()
        let client = world.connect(window: 10) { $0.version = version }
        client.poll()
        world.server.run()
        #expect(client.peer.unreadBytes == 10)
        #expect(world.server.io.waits < 10, "it must not spin on a full socket")
        world.settle(client)
        #expect(client.isEstablished)
        client.send(healthRequest)
        world.settle(client)
        #expect(client.received.starts(with: Array("HTTP/1.1 200".utf8)))
    }

    @Test func choosesHTTP11AndRefusesThoseWhoWantSomethingElse() throws {
        let world = try TLSWorld()
        let both = world.connect { $0.protocols = Array("\u{2}h2\u{8}http/1.1".utf8) }
        let neither = world.connect()
        let onlyHTTP2 = world.connect { $0.protocols = Array("\u{2}h2".utf8) }
        world.settle(both, neither, onlyHTTP2)
        #expect(both.isEstablished && both.selectedProtocol == "http/1.1")
        #expect(neither.isEstablished && neither.selectedProtocol.isEmpty)
        #expect(onlyHTTP2.failure == "tlsv1 alert no application protocol")
        #expect(
            world.log.lines.contains(
                "debug TLS handshake failed reason=no application protocol"))
        #expect(world.server.metrics.total(of: .tlsHandshakesFailed) == 1)
    }

    /// Also where an authority of clients has issued the server's certificate.
    @Test(arguments: tlsVersions)
    func sendsNoCertificateBesideThoseOfItsFile(version: Int32) throws {
        let authority = TestAuthority()
        let world = try TLSWorld(authority: authority, clientCA: authority, clients: .optional)
        let client = world.connect { $0.version = version }
        world.settle(client)
        #expect(client.isEstablished && client.chainCount == 1)
    }

    @Test(arguments: tlsVersions)
    func asksForCertificatesOfClients(version: Int32) throws {
        let ours = TestAuthority(name: "Ours")
        let foreign = TestAuthority(name: "Foreign").issue()
        for clients in TLSClientAuthentication.allCases {
            let world = try TLSWorld(clientCA: ours, clients: clients)
            let known = world.connect {
                $0.version = version
                $0.certificate = ours.issue()
            }
            let silent = world.connect { $0.version = version }
            let unknown = world.connect {
                $0.version = version
                $0.certificate = foreign
            }
            let all = [known, silent, unknown]
            world.settle(all)
            // In TLS 1.3 a client has finished before the server has seen its certificate.
            for client in all where client.failure == nil { client.send(healthRequest) }
            world.settle(all)
            let served = all.map { !$0.received.isEmpty }
            #expect(served == [true, clients == .optional, false])
            #expect(unknown.failure == "tlsv1 alert unknown ca")
        }
    }

    @Test(arguments: tlsVersions)
    func survivesPeersThatLeaveAtEveryByte(version: Int32) throws {
        let world = try TLSWorld()
        let hello = world.connect { $0.version = version }.takeHello()
        for count in stride(from: 0, through: hello.count, by: 3) {
            let resetting = world.server.connect()
            resetting.send(Array(hello[..<count]))
            let ending = world.server.connect()
            ending.send(Array(hello[..<count]))
            ending.finishWriting()
            world.server.run()
            resetting.reset()
            world.server.run()
            #expect(resetting.isClosed && ending.isClosed)
        }
        // The one client that has only sent its hello is still there.
        #expect(world.server.io.openHandles == 1)
        #expect(world.server.metrics.total(of: .sendBufferBytes) < 1 << 20)
    }

    @Test func answersPlainHTTPWithAnError() throws {
        let world = try TLSWorld()
        let peer = world.server.connect()
        peer.send(healthRequest)
        world.server.run()
        let (responses, rest) = try parseResponses(peer.receive(), answering: [.get])
        #expect(responses.map(\.status) == [400] && rest.isEmpty)
        #expect(peer.isEnded)
        #expect(world.log.lines.contains("debug TLS handshake failed reason=http request"))
    }

    @Test func refusesWhatIsNoTLS() throws {
        let world = try TLSWorld()
        let peer = world.server.connect()
        peer.send([UInt8](repeating: 0xA5, count: 500))
        world.server.run()
        #expect(peer.isEnded)
        peer.finishWriting()
        world.server.run()
        #expect(peer.isClosed)
        #expect(world.server.metrics.total(of: .tlsHandshakesFailed) == 1)
    }

    @Test func endsHandshakesThatStall() throws {
        let world = try TLSWorld { $0.connection.http.headerTimeout = .seconds(2) }
        let stalled = world.server.connect()
        stalled.send(Array(world.connect().takeHello().prefix(40)))
        let silent = world.server.connect()
        world.server.run(for: .milliseconds(1_900))
        #expect(!stalled.isClosed && !silent.isClosed)
        world.server.run(for: .milliseconds(200))
        #expect(stalled.isClosed && silent.isClosed)
        // A connection that never began, such as a load balancer's probe, has not failed.
        #expect(world.server.metrics.total(of: .tlsHandshakesFailed) == 1)
        #expect(world.log.lines.contains("debug TLS handshake failed reason=not finished"))
    }

    @Test func boundsHandshakesPerTurn() throws {
        let world = try TLSWorld { $0.tls.maxHandshakesPerTick = 3 }
        let clients = (0..<10).map { _ in world.connect() }
        for client in clients { client.poll() }
        // The first tick accepts.
        _ = world.server.shard.tick()
        for turn in 1...3 {
            _ = world.server.shard.tick()
            #expect(clients.count { $0.peer.unreadBytes > 0 } == 3 * turn)
        }
        world.settle(clients)
        #expect(clients.count { $0.isEstablished } == 10)
    }

    @Test func refusesAHelloThatAnnouncesTooMuch() throws {
        let world = try TLSWorld()
        let peer = world.server.connect()
        // A record of 16 KiB that begins a ClientHello of 131,000 bytes.
        peer.send([22, 3, 1, 0x40, 0, 1, 1, 0xFF, 0xB8])
        world.server.run()
        #expect(peer.isEnded)
        #expect(
            world.log.lines.contains(
                "debug TLS handshake failed reason=oversized client hello"))
    }

    @Test(
        arguments: [
            ([22, 3, 1, 2, 0, 1, 0, 1, 0xFC], true),
            ([22, 3, 1, 0x40, 0, 1, 0, 0x3F, 0xFF], true),
            ([22, 3, 1, 0x40, 0, 1, 0, 0x40, 0], false),
            ([22, 3, 1, 0x40, 0, 1, 1, 0, 0], false),
            ([22, 3, 1, 0, 3, 1, 0, 0], false),
            ([71, 69, 84, 32, 47, 32, 72, 84, 84, 80], true),
        ] as [([UInt8], Bool)])
    func judgesAHelloByItsHeader(bytes: [UInt8], isAdmitted: Bool) {
        for chunk in 1...bytes.count {
            var hello = TLSHello()
            let verdicts = stride(from: 0, to: bytes.count, by: chunk).map { start in
                bytes[start..<min(start + chunk, bytes.count)].withUnsafeBytes {
                    hello.admits($0)
                }
            }
            #expect(verdicts.allSatisfy { $0 } == isAdmitted)
        }
    }
}
