// Admission through a real shard on a simulated kernel: limits per address, proxies' headers, Host
// and Origin, a process without descriptors.

import CLinux
import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct ShardAdmissionTests {
    private let probe = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    private let one = "192.0.2.1"
    private let two = "192.0.2.2"

    private func makeServer(
        log: LogRecord = LogRecord(), seed: UInt64 = 1, faults: SimulatedFaults = .init(),
        _ change: (inout ServerConfiguration) -> Void
    ) throws -> SimulatedServer {
        var configuration = ServerConfiguration()
        configuration.debugEcho = true
        change(&configuration)
        #expect(configuration.objection == nil)
        return try SimulatedServer(
            configuration: configuration, seed: seed, faults: faults, log: log)
    }

    private func trust(_ ranges: String...) -> [AddressRange] {
        ranges.compactMap(AddressRange.init)
    }

    private func upgrade(_ fields: String = "", to path: String = "/debug/echo") -> String {
        "GET \(path) HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
            + fields + "\r\n"
    }

    /// Runs, and returns the first answer.
    private func answer(_ server: SimulatedServer, _ peer: SimulatedPeer) throws -> HTTPResponse? {
        #expect(server.run())
        return try parseResponses(peer.receive(), answering: [.get]).responses.first
    }

    private func status(
        _ server: SimulatedServer, _ peer: SimulatedPeer, _ request: String
    ) throws -> Int? {
        peer.send(request)
        return try answer(server, peer)?.status
    }

    // MARK: Limits per address

    @Test func connectionsOfOneAddressAreLimited() throws {
        let log = LogRecord()
        let server = try makeServer(log: log) { $0.admission.maxConnectionsPerAddress = 2 }
        let peers = (0..<4).map { _ in server.connect(from: one) }
        for peer in peers.suffix(2) { peer.send(probe) }
        let other = server.connect(from: two)
        #expect(server.run())
        #expect(peers.map(\.isClosed) == [false, false, true, true] && !other.isClosed)
        let refusal = try #require(try answer(server, peers[2]))
        #expect(refusal.status == 429 && refusal.fields["Retry-After"] == "5")
        #expect(text(refusal).contains(#""code":"too_many_connections""#))
        #expect(!peers[2].isReset, "a reset might destroy the answer")
        #expect(server.metrics.total(of: .refusedAddressConnections) == 2)
        #expect(server.metrics.connections.load(ordering: .relaxed) == 3)
        let line = "notice refused count=1 peer=192.0.2.1 reason=max-connections-per-address"
        #expect(log.lines == [line], "a flood is one line")
        peers[0].reset()
        #expect(server.run())
        let next = server.connect(from: one)
        #expect(server.run())
        #expect(!next.isClosed)
    }

    @Test func aFloodOfRefusalsIsALineNowAndThen() throws {
        let log = LogRecord()
        let server = try makeServer(log: log) { $0.admission.maxConnectionsPerAddress = 1 }
        for _ in 0..<1_000 {
            _ = server.connect(from: one)
            #expect(server.run(for: .milliseconds(25)))
        }
        // The first has the place for 10 s, and so has each that follows it.
        let lines = log.lines.filter { $0.contains("refused") }
        #expect((3...4).contains(lines.count), "\(lines)")
        #expect(
            lines.last?.contains("count=39") == true || lines.last?.contains("count=40") == true)
        #expect(server.metrics.total(of: .refusedAddressConnections) > 900)
    }

    @Test func newConnectionsOfOneAddressHaveARate() throws {
        let server = try makeServer {
            $0.admission.handshakesPerSecondPerAddress = 2
            $0.admission.handshakeBurstPerAddress = 3
        }
        let statuses = try (0..<5).map { _ in
            try status(server, server.connect(from: one), probe)
        }
        #expect(statuses == [200, 200, 200, 429, 429])
        #expect(try status(server, server.connect(from: two), probe) == 200)
        #expect(server.metrics.total(of: .refusedAddressRate) == 2)
        #expect(server.run(for: .milliseconds(500)))
        #expect(try status(server, server.connect(from: one), probe) == 200)
        #expect(try status(server, server.connect(from: one), probe) == 429)
    }

    @Test func newConnectionsOfAllHaveARate() throws {
        let server = try makeServer { $0.admission.handshakesPerSecond = 2 }
        let statuses = try [one, two, "192.0.2.3"].map {
            try status(server, server.connect(from: $0), probe)
        }
        #expect(statuses == [200, 200, 503])
        #expect(server.metrics.total(of: .refusedTotalRate) == 1)
    }

    @Test func loopbackAndTrustedProxiesAreNotCounted() throws {
        let server = try makeServer {
            $0.admission.maxConnectionsPerAddress = 1
            $0.admission.handshakesPerSecondPerAddress = 1
            $0.admission.handshakeBurstPerAddress = 1
            $0.admission.handshakesPerSecond = 1
            $0.admission.trustedProxies = trust("192.0.2.1")
        }
        for address in ["127.0.0.1", "::1", one] {
            for _ in 0..<5 {
                #expect(try status(server, server.connect(from: address), probe) == 200)
            }
        }
        #expect(try status(server, server.connect(from: two), probe) == 200)
        #expect(try status(server, server.connect(from: two), probe) == 429)
    }

    @Test func theDefaultsLetTenThousandOfThisMachineIn() throws {
        let server = try makeServer { $0.loop.maxAcceptsPerTick = 10_000 }
        let peers = (0..<10_000).map { _ in server.connect() }
        #expect(server.run())
        #expect(peers.allSatisfy { !$0.isClosed })
    }

    @Test func theShardsOfAServerShareOneTable() throws {
        var settings = AdmissionSettings()
        settings.maxConnectionsPerAddress = 1
        let limits = AddressLimits(settings)
        let address = try #require(NetworkAddress(one))
        let admissions = (0..<2).map { _ in Admission(settings, host: "::1", limits: limits) }
        #expect(admissions[0].admit(address, at: .milliseconds(0)) != .admitted(.none))
        #expect(
            admissions[1].admit(address, at: .milliseconds(0)) == .refused(.addressConnections))
    }

    // MARK: The PROXY protocol

    private func header(_ source: String, family: UInt8 = 0x11) throws -> [UInt8] {
        let address = try #require(NetworkAddress(source)?.v4)
        return [13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10, 0x21, family, 0, 12]
            + (0..<4).map { UInt8(truncatingIfNeeded: address >> (24 - 8 * $0)) }
            + [127, 0, 0, 1, 0, 1, 0, 2]
    }

    private func makeProxiedServer(
        log: LogRecord = LogRecord(), seed: UInt64 = 1, faults: SimulatedFaults = .init()
    ) throws -> SimulatedServer {
        try makeServer(log: log, seed: seed, faults: faults) {
            $0.admission.trustedProxies = trust("10.0.0.0/8")
            $0.admission.proxyProtocol = .required
            $0.admission.maxConnectionsPerAddress = 1
        }
    }

    @Test func aProxysHeaderNamesTheClient() throws {
        for seed in UInt64(0)..<20 {
            let log = LogRecord()
            let server = try makeProxiedServer(log: log, seed: seed, faults: .harsh)
            let peer = server.connect(from: "10.0.0.1")
            for byte in try header(one) + Array(probe.utf8) {
                peer.send([byte])
                if seed % 2 == 0 { #expect(server.run()) }
            }
            #expect(try answer(server, peer)?.status == 200)
            #expect(log.lines.contains { $0.hasPrefix("debug request") && $0.contains(one) })
        }
    }

    @Test func limitsCountTheClientThatTheProxyNames() throws {
        let server = try makeProxiedServer()
        let first = server.connect(from: "10.0.0.1")
        first.send(try header(one) + Array(probe.utf8))
        #expect(try answer(server, first)?.status == 200)
        let second = server.connect(from: "10.0.0.1")
        second.send(try header(one) + Array(probe.utf8))
        #expect(try answer(server, second)?.status == 429)
        #expect(second.isEnded && !second.isReset)
        let direct = server.connect(from: one)
        #expect(server.run())
        #expect(direct.isClosed, "the same address on its own way")
        let third = server.connect(from: "10.0.0.1")
        third.send(try header(two) + Array(probe.utf8))
        #expect(try answer(server, third)?.status == 200)
        first.reset()
        #expect(server.run())
        let fourth = server.connect(from: "10.0.0.1")
        fourth.send(try header(one) + Array(probe.utf8))
        #expect(try answer(server, fourth)?.status == 200)
    }

    @Test func aProxysOwnConnectionIsServedAsItsOwn() throws {
        let server = try makeProxiedServer()
        for _ in 0..<3 {
            let peer = server.connect(from: "10.0.0.1")
            var local = try header(one)
            local[12] = 0x20
            peer.send(local + Array(probe.utf8))
            #expect(try answer(server, peer)?.status == 200)
        }
    }

    @Test(arguments: ["GET /healthz HTTP/1.1\r\n", "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n", "\u{16}"])
    func aTrustedProxyWithoutItsHeaderIsRefused(bytes: String) throws {
        let log = LogRecord()
        let server = try makeProxiedServer(log: log)
        let peer = server.connect(from: "10.0.0.1")
        #expect(try status(server, peer, bytes) == 400)
        #expect(peer.isEnded && !peer.isReset)
        #expect(server.metrics.total(of: .refusedProxyHeader) == 1)
        #expect(log.lines.contains("notice refused count=1 peer=10.0.0.1 reason=proxy-protocol"))
    }

    @Test func aHeaderFromAnotherPeerIsNoRequest() throws {
        for server in [
            try makeProxiedServer(), try makeServer { $0.admission.trustedProxies = [] },
        ] {
            let peer = server.connect(from: two)
            peer.send(try header(one) + Array(probe.utf8))
            #expect(try answer(server, peer)?.status == 400)
            #expect(server.metrics.total(of: .protocolErrors) == 1)
        }
    }

    @Test func aHeaderThatNeverComesEndsTheConnectionWithoutAnAnswer() throws {
        let server = try makeProxiedServer()
        let peers = (0..<4).map { _ in server.connect(from: "10.0.0.1") }
        let bytes = try header(one)
        peers[1].send(Array(bytes[..<20]))
        peers[2].finishWriting()
        #expect(server.run())
        #expect(peers.map(\.isClosed) == [false, false, true, false])
        peers[3].reset()
        #expect(server.run(for: .seconds(11)))
        #expect(peers.allSatisfy { $0.isClosed && $0.unreadBytes == 0 })
        #expect(server.io.openHandles == 0)
    }

    @Test func aStopEndsConnectionsWhoseHeaderIsDue() throws {
        let server = try makeProxiedServer()
        let peer = server.connect(from: "10.0.0.1")
        #expect(server.run())
        server.shard.stop(.goingAway)
        #expect(server.run())
        #expect(peer.isClosed && server.hasStopped)
    }

    // MARK: X-Forwarded-For

    private func makeForwardingServer(log: LogRecord = LogRecord()) throws -> SimulatedServer {
        try makeServer(log: log) {
            $0.admission.trustedProxies = trust("10.0.0.0/8")
            $0.admission.maxConnectionsPerAddress = 1
        }
    }

    @Test func anUpgradeCountsForTheClientThatTheProxyNames() throws {
        let server = try makeForwardingServer()
        let field = "X-Forwarded-For: 6.6.6.6, \(one), 10.0.0.2\r\n"
        let first = server.connect(from: "10.0.0.1")
        #expect(try status(server, first, upgrade(field)) == 101)
        let second = server.connect(from: "10.0.0.1")
        let refusal = upgrade(field)
        #expect(try status(server, second, refusal) == 429)
        #expect(!second.isEnded, "the connection is the proxy's, and serves others")
        #expect(try status(server, second, upgrade("X-Forwarded-For: \(two)\r\n")) == 101)
        #expect(server.connect(from: one).isClosed == false)
        #expect(server.run())
        first.reset()
        #expect(server.run())
        let third = server.connect(from: "10.0.0.1")
        #expect(try status(server, third, upgrade(field)) == 101)
        #expect(server.metrics.total(of: .refusedAddressConnections) >= 1)
    }

    @Test func anUpgradeThatFailsCountsForNoAddress() throws {
        let server = try makeForwardingServer()
        let peer = server.connect(from: "10.0.0.1")
        let field = "X-Forwarded-For: \(one)\r\n"
        let bad = upgrade(field).split(separator: "Sec-WebSocket-Version: 13\r\n").joined()
        for _ in 0..<3 { #expect(try status(server, peer, bad) == 426) }
        let other = server.connect(from: "10.0.0.1")
        #expect(try status(server, other, upgrade(field)) == 101)
    }

    @Test func fieldsOfOtherPeersAreIgnored() throws {
        let log = LogRecord()
        let server = try makeForwardingServer(log: log)
        let peer = server.connect(from: two)
        let fields =
            "X-Forwarded-For: \(one)\r\nX-Forwarded-Host: voice.example.com\r\n"
            + "X-Forwarded-Proto: https\r\nOrigin: https://voice.example.com\r\n"
        #expect(try status(server, peer, upgrade(fields)) == 403)
        #expect(!log.lines.contains { $0.contains("peer=\(one)") })
        let direct = server.connect(from: one)
        #expect(try status(server, direct, upgrade(fields)) == 403)
        #expect(try status(server, direct, upgrade()) == 101)
    }

    @Test func behindATrustedProxyTheOriginIsComparedWithTheForwardedHost() throws {
        let server = try makeForwardingServer()
        let fields = "X-Forwarded-Host: voice.example.com\r\nX-Forwarded-Proto: https\r\n"
        for (origin, expected) in [
            ("https://voice.example.com", 101), ("http://voice.example.com", 403),
            ("https://evil.example", 403), ("http://localhost", 403),
        ] {
            let peer = server.connect(from: "10.0.0.1")
            let request = upgrade(fields + "Origin: \(origin)\r\n")
            #expect(try status(server, peer, request) == expected, "\(origin)")
        }
    }

    // MARK: Host and Origin

    @Test func aForeignHostIsMisdirectedExceptForProbes() throws {
        let log = LogRecord()
        let server = try makeServer(log: log) { _ in }
        let peer = server.connect()
        for (path, expected) in [
            ("/", 421), ("/metrics", 421), ("/nothing", 421), ("/v1/realtime", 421),
            ("/debug/echo", 421), ("/healthz", 200), ("/readyz", 200),
        ] {
            let request = "GET \(path) HTTP/1.1\r\nHost: evil.example:8080\r\n\r\n"
            #expect(try status(server, peer, request) == expected, "\(path)")
        }
        #expect(server.metrics.total(of: .refusedHost) == 5)
        let line =
            "notice refused count=1 host=evil.example:8080 peer=127.0.0.1 reason=allowed-hosts"
        #expect(log.lines.filter { $0.contains("allowed-hosts") } == [line])
        #expect(try status(server, peer, "GET / HTTP/1.1\r\nHost: localhost:1\r\n\r\n") == 200)
        let target = "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n"
        #expect(try status(server, peer, target) == 421, "the target takes precedence over Host")
        #expect(try status(server, peer, "GET / HTTP/1.0\r\n\r\n") == 200, "no browser")
    }

    @Test func aProxysFieldForTheHostDoesNotAdmitAForeignHost() throws {
        let server = try makeServer { $0.admission.trustedProxies = AddressRange.loopback }
        let request = "GET / HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: localhost\r\n\r\n"
        #expect(try status(server, server.connect(), request) == 421)
    }

    @Test(arguments: ["/debug/echo", "/v1/realtime"])
    func aForeignOriginTakesNoPlaceOfASession(path: String) throws {
        let server = try makeServer { $0.admission.maxSessions = 1 }
        let foreign = server.connect()
        for origin in ["https://evil.example", "null", "http://localhost:8080"] {
            let request = upgrade("Origin: \(origin)\r\n", to: path)
            foreign.send(request)
            let answer = try #require(try answer(server, foreign))
            #expect(answer.status == 403)
            #expect(text(answer).contains(#""code":"origin_not_allowed""#))
        }
        #expect(server.metrics.total(of: .refusedOrigin) == 3)
        #expect(server.metrics.sessions.load(ordering: .relaxed) == 0)
        let own = upgrade("Origin: http://localhost\r\n", to: path)
        #expect(try status(server, foreign, own) == 101)
    }

    @Test func theServersFilesAreForEveryPage() throws {
        let server = try makeServer { _ in }
        let request = "GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n"
        #expect(try status(server, server.connect(), request) == 200)
    }

    // MARK: Without descriptors

    @Test func withoutDescriptorsWaitingClientsAreRefusedAndNothingSpins() throws {
        let log = LogRecord()
        let server = try makeServer(log: log) { $0.loop.maxAcceptsPerTick = 4 }
        server.io.handleLimit = 2
        let first = (0..<2).map { _ in server.connect() }
        let others = (0..<10).map { _ in server.connect() }
        for peer in others { peer.send(probe) }
        #expect(server.run(for: .milliseconds(50)))
        #expect(server.io.waits < 10)
        #expect(others.prefix(4).allSatisfy { $0.isClosed })
        #expect(!others[4].isClosed, "a bounded number each time")
        #expect(server.run(for: .milliseconds(300)))
        #expect(server.io.waits < 30)
        for peer in others {
            let answer = try #require(
                try parseResponses(peer.receive(), answering: [.get]).responses.first)
            #expect(answer.status == 503 && answer.fields["Retry-After"] == "5")
            #expect(peer.isClosed && !peer.isReset)
        }
        #expect(server.metrics.total(of: .refusedDescriptors) == 10)
        #expect(server.io.openHandles == 2 && first.allSatisfy { !$0.isClosed })
        first[0].reset()
        #expect(server.run(for: .milliseconds(200)))
        #expect(try status(server, server.connect(), probe) == 200)
        #expect(log.lines.filter { $0.contains("accepting paused") }.count == 1)
    }
}
