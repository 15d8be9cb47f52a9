// Admission where connections are secure: pages must have come over TLS too, and a proxy's header
// comes before the handshake.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct TLSAdmissionTests {
    private func status(
        of world: TLSWorld, _ client: SimulatedTLSClient, origin: String
    ) throws -> Int? {
        var request = ByteWriter(capacity: 512)
        var headers = HTTPFields()
        headers.append("Origin", origin)
        WebSocketHandshake.writeRequest(
            target: "/debug/echo", host: "localhost", key: "dGhlIHNhbXBsZSBub25jZQ==",
            headers: headers, into: &request)
        world.settle(client)
        client.send(request.copiedBytes)
        world.settle(client)
        return try parseResponses(client.received, answering: [.get]).responses.first?.status
    }

    @Test(arguments: [
        ("https://localhost", 101), ("https://localhost:443", 101), ("http://localhost", 403),
        ("http://localhost:443", 403), ("https://evil.example", 403),
    ])
    func aPageOfTheServerItselfCameOverTLSToo(origin: String, expected: Int) throws {
        let world = try TLSWorld()
        #expect(try status(of: world, world.connect(), origin: origin) == expected)
    }

    /// A header of the PROXY protocol for a client of this address, 192.0.2.x.
    private func header(_ last: UInt8) -> [UInt8] {
        [13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10, 0x21, 0x11, 0, 12, 192, 0, 2, last]
            + [127, 0, 0, 1, 0, 1, 0, 2]
    }

    private func makeProxiedWorld(seed: UInt64, faults: SimulatedFaults) throws -> TLSWorld {
        try TLSWorld(seed: seed, faults: faults) {
            $0.admission.trustedProxies = [AddressRange("10.0.0.0/8")].compactMap(\.self)
            $0.admission.proxyProtocol = .required
            $0.admission.maxConnectionsPerAddress = 1
        }
    }

    @Test(arguments: 1...10 as ClosedRange<UInt64>)
    func aProxysHeaderComesBeforeTheHandshake(seed: UInt64) throws {
        let world = try makeProxiedWorld(seed: seed, faults: .harsh)
        let peer = world.server.connect(from: "10.0.0.1")
        peer.send(header(7))
        if seed % 2 == 0 { world.server.run() }
        let client = SimulatedTLSClient(peer)
        #expect(try status(of: world, client, origin: "https://localhost") == 101)
        #expect(client.failure == nil)
        #expect(world.log.lines.contains { $0.contains("peer=192.0.2.7 status=101") })
    }

    @Test func aClientBeyondItsLimitIsClosedWithoutAHandshake() throws {
        let world = try makeProxiedWorld(seed: 1, faults: SimulatedFaults())
        let peers = [UInt8(7), 7, 8].map { (last: UInt8) -> SimulatedPeer in
            let peer = world.server.connect(from: "10.0.0.1")
            peer.send(header(last))
            return peer
        }
        world.server.run()
        #expect(peers.map { $0.isClosed } == [false, true, false])
        #expect(peers[1].unreadBytes == 0)
        #expect(world.server.metrics.total(of: .refusedAddressConnections) == 1)
    }

    @Test func aProxyThatBeginsWithTheHandshakeIsClosed() throws {
        let world = try makeProxiedWorld(seed: 1, faults: SimulatedFaults())
        let peer = world.server.connect(from: "10.0.0.1")
        let client = SimulatedTLSClient(peer)
        client.poll()
        world.server.run()
        #expect(peer.isClosed && peer.unreadBytes == 0)
        #expect(world.server.metrics.total(of: .refusedProxyHeader) == 1)
    }
}
