// Resumption with a ticket, and the effects of a reload of the files.

import COpenSSL
import Session
import Simulation
import Testing

@testable import Server

@Suite struct TLSTicketTests {
    /// A client that has been served, with its session for resumption.
    private func visit(
        _ world: TLSWorld, _ version: Int32, _ session: TLSClientSession? = nil,
        certificate: TestCertificate? = nil
    ) throws -> SimulatedTLSClient {
        let client = world.connect {
            $0.version = version
            $0.session = session
            $0.certificate = certificate
        }
        world.settle(client)
        client.send(healthRequest)
        world.settle(client)
        try #require(client.received.starts(with: Array("HTTP/1.1 200".utf8)))
        client.finishWriting()
        world.settle(client)
        return client
    }

    @Test(arguments: tlsVersions)
    func opensTicketsForTwoPeriodsAndNoLonger(version: Int32) throws {
        let world = try TLSWorld { $0.tls.ticketPeriod = .seconds(3_600) }
        // A client uses a ticket of TLS 1.3 only once.
        let sessions = try (0..<3).map { _ in
            let first = try visit(world, version)
            #expect(!first.isResumed)
            return try #require(first.session)
        }
        #expect(try visit(world, version, sessions[0]).isResumed)
        world.server.run(for: .seconds(3_700))
        let later = try visit(world, version, sessions[1])
        #expect(later.isResumed, "the key before is still good")
        world.server.run(for: .seconds(3_600))
        #expect(try !visit(world, version, sessions[2]).isResumed)
        // The ticket that replaced the old one.
        #expect(try visit(world, version, later.session).isResumed)
        #expect(world.server.metrics.total(of: .tlsHandshakesResumed) == 3)
    }

    @Test func forgetsKeysWithoutConnections() throws {
        let world = try TLSWorld { $0.tls.ticketPeriod = .seconds(60) }
        let session = try visit(world, TLS1_3_VERSION).session
        world.server.run(for: .seconds(10 * 60))
        #expect(try !visit(world, TLS1_3_VERSION, session).isResumed)
    }

    @Test(arguments: tlsVersions)
    func opensTicketsOfOtherShards(version: Int32) throws {
        let world = try TLSWorld()
        let context = try #require(world.server.shard.fixtures.wire?.context)
        let neighbour = try SimulatedServer(tls: context)
        let session = try visit(world, version).session
        var options = TLSClientOptions()
        options.version = version
        options.session = session
        let client = SimulatedTLSClient(neighbour.connect(), options)
        for _ in 0..<10 {
            client.poll()
            neighbour.run()
        }
        #expect(client.isResumed)
    }

    private func context(
        _ certificate: TestCertificate, _ world: TLSWorld, clientCA: TestAuthority? = nil
    ) throws -> TLSContext {
        try TLSContext(
            certificate.material(clientCA: clientCA), clients: .required, tickets: world.tickets,
            at: world.server.io.now)
    }

    @Test func aReloadServesTheNewCertificateAndLeavesOpenConnectionsAlone() throws {
        let world = try TLSWorld()
        let open = world.connect()
        try world.openEcho(open)
        let session = try visit(world, TLS1_3_VERSION).session
        let halfway = world.connect()
        halfway.poll()
        world.server.run()
        world.server.shard.renewTLS(try context(world.authority.issue(), world))
        world.server.run()
        let new = world.connect()
        world.settle(open, halfway, new)
        #expect(open.serverSerial == 2 && halfway.serverSerial == 2 && new.serverSerial == 3)
        #expect(halfway.isEstablished)
        open.sendMessage([1, 2, 3])
        world.settle(open)
        #expect(open.takeMessages() == [[1, 2, 3]])
        #expect(try visit(world, TLS1_3_VERSION, session).isResumed)
    }

    @Test(arguments: tlsVersions)
    func aTicketIsNoGoodUnderOtherAuthorities(version: Int32) throws {
        let (old, new) = (TestAuthority(name: "Old"), TestAuthority(name: "New"))
        let world = try TLSWorld(clientCA: old)
        let own = old.issue()
        let sessions = try (0..<2).map { _ in try visit(world, version, certificate: own).session }
        #expect(try visit(world, version, sessions[0], certificate: own).isResumed)
        world.server.shard.renewTLS(try context(world.certificate, world, clientCA: new))
        world.server.run()
        let client = world.connect {
            $0.version = version
            $0.session = sessions[1]
            $0.certificate = own
        }
        world.settle(client)
        if client.failure == nil { client.send(healthRequest) }
        world.settle(client)
        #expect(client.received.isEmpty && client.failure != nil)
    }
}

@Suite struct TLSStapleTests {
    @Test(arguments: tlsVersions)
    func staplesForClientsThatAsk(version: Int32) throws {
        let world = try TLSWorld(stapleLifetime: 3_600)
        let asking = world.connect {
            $0.version = version
            $0.asksForStaple = true
        }
        let other = world.connect { $0.version = version }
        world.settle(asking, other)
        #expect(asking.isEstablished && other.isEstablished)
        #expect(!asking.staple.isEmpty && other.staple.isEmpty)
    }

    @Test func staplesNothingThatHasExpired() throws {
        let world = try TLSWorld(stapleLifetime: 600)
        for (seconds, isStapled) in [(0, true), (500, true), (200, false)] {
            world.server.run(for: .seconds(seconds))
            let client = world.connect { $0.asksForStaple = true }
            world.settle(client)
            #expect(client.isEstablished && client.staple.isEmpty != isStapled)
        }
    }
}
