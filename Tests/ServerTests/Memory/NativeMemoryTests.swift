// Memory of OpenSSL and libcurl is charged to the owner that they work for, to the byte, and nothing
// of it is left when the owner is gone: blocks by themselves, TLS connections on the simulated kernel with
// every way in which a handshake ends, transfers to a scripted service.

import COpenSSL
import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct NativeMemoryTests {
    private func allocate(_ count: Int) -> UnsafeMutableRawPointer? {
        CRYPTO_malloc(count, #file, #line)
    }

    private func release(_ block: UnsafeMutableRawPointer?) { CRYPTO_free(block, #file, #line) }

    // MARK: Blocks

    @Test func aBlockIsChargedToTheAccountOfTheThread() {
        #expect(NativeMemory.countsOpenSSL)
        let one = NativeAccount()
        let other = NativeAccount()
        let mine = one.charge { allocate(1_000) }
        let (before, size) = (one.bytes, one.bytes)
        #expect((1_016...1_040).contains(size))
        let theirs = other.charge { allocate(50) }
        let shared = allocate(100_000)
        let (mineAfter, theirsAfter) = (one.bytes, other.bytes)
        #expect(mineAfter == before && (64...96).contains(theirsAfter))
        // Whichever account is charged then, the one that was charged for it is credited.
        other.charge { release(mine) }
        release(theirs)
        one.charge { release(shared) }
        let (mineLeft, theirsLeft) = (one.bytes, other.bytes)
        #expect(mineLeft == 0 && theirsLeft == 0)
    }

    @Test func aBlockThatGrowsStaysOnItsAccount() {
        let one = NativeAccount()
        let other = NativeAccount()
        var block = one.charge { allocate(10) }
        block = other.charge { CRYPTO_realloc(block, 5_000, #file, #line) }
        let (grown, none) = (one.bytes, other.bytes)
        #expect((5_008...5_056).contains(grown) && none == 0)
        block = CRYPTO_realloc(block, 20, #file, #line)
        let shrunk = one.bytes
        #expect((32...64).contains(shrunk))
        release(block)
        let left = one.bytes
        #expect(left == 0)
    }

    @Test func aBlockThatOutlivesItsAccountIsShared() {
        let block: UnsafeMutableRawPointer?
        let shared: Int
        do {
            let account = NativeAccount()
            block = account.charge { allocate(50_000_000) }
            shared = NativeMemory.sharedBytes
        }
        // Other tests allocate meanwhile, but not as much.
        #expect(NativeMemory.sharedBytes - shared > 40_000_000)
        release(block)
        #expect(NativeMemory.sharedBytes - shared < 10_000_000)
    }

    @Test func otherThreadsCreditTheAccountThatWasCharged() async {
        let account = TestAccount()
        let blocks = account.allocate(count: 1_000)
        await withTaskGroup(of: Void.self) { group in
            for part in 0..<4 {
                group.addTask {
                    for index in stride(from: part, to: blocks.count, by: 4) {
                        CRYPTO_free(
                            UnsafeMutableRawPointer(bitPattern: blocks[index]), #file, #line)
                    }
                }
            }
        }
        #expect(account.bytes == 0)
    }

    // MARK: TLS

    /// Every way in which a handshake, or what follows it, ends; the sessions are to be resumed.
    private func visitInEveryWay(
        _ world: TLSWorld, resuming session: inout TLSClientSession?, _ version: Int32
    ) throws {
        let echo = world.connect {
            $0.version = version
            $0.session = session
        }
        try world.openEcho(echo)
        echo.sendMessage([UInt8](repeating: 7, count: 20_000))
        world.settle(echo)
        let held = world.tlsConnections.map(\.heldBytes)
        #expect(held.count == 1 && held.allSatisfy { (8_000..<24_000).contains($0) }, "\(held)")
        session = echo.session
        echo.finishWriting()
        world.settle(echo)
        let foreign = world.connect { $0.protocols = Array("\u{2}h2".utf8) }
        world.settle(foreign)
        let plain = world.server.connect()
        plain.send(healthRequest)
        let noise = world.server.connect()
        noise.send([UInt8](repeating: 0xA5, count: 500))
        let early = world.server.connect()
        early.send(world.connect { $0.version = version }.takeHello())
        let half = world.server.connect()
        half.send(Array(world.connect { $0.version = version }.takeHello().prefix(40)))
        world.server.run()
        for peer in [plain, noise, early, half] { peer.reset() }
        world.server.run()
        world.server.run(for: .seconds(60))
    }

    @Test(arguments: tlsVersions)
    func aConnectionLeavesNothingBehindHoweverItEnds(version: Int32) throws {
        let world = try TLSWorld()
        var session: TLSClientSession?
        // The first ones fill OpenSSL's caches.
        try visitInEveryWay(world, resuming: &session, version)
        try visitInEveryWay(world, resuming: &session, version)
        let context = try #require(world.server.shard.fixtures.wire?.context)
        let outlived = context.outlivedBytes
        #expect(outlived < 64 << 10)
        for _ in 0..<3 { try visitInEveryWay(world, resuming: &session, version) }
        #expect(context.outlivedBytes == outlived)
        #expect(world.tlsConnections.isEmpty)
        #expect(world.server.metrics.total(of: .tlsHandshakesResumed) >= 2)
    }

    // MARK: Transfers

    @Test func aTransferIsChargedToItsSessionWhileItLasts() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let session = EventToken(.connection, index: 7, generation: 1)
        let url = world.url
        // The first ever makes libcurl set itself up.
        let first = world.start { try await $0.send(UpstreamRequest(url: url)) }.outcome
        try world.run { world.connections.count == 1 && world.connections[0].requestCount == 1 }
        world.connections[0].close()
        try world.run { first.isKnown }
        #expect(world.client.heldBytes(of: session) == 0)
        let outcomes = (0..<2).map { _ in
            world.start { client in
                try await client.send(
                    UpstreamRequest(url: url, body: Array("hi".utf8)), for: session)
            }.outcome
        }
        try world.run { world.connections.count { $0.requestCount == 1 } == 3 }
        let both = world.client.heldBytes(of: session)
        #expect((16_000...40_000).contains(both), "\(both)")
        let other = EventToken(.connection, index: 8, generation: 1)
        #expect(world.client.heldBytes(of: other) == 0)
        for connection in world.connections.dropFirst() {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n")
        }
        try world.run { outcomes.allSatisfy(\.isKnown) }
        // What waits for a slow reader is charged, too.
        let waiting = [UInt8](repeating: 7, count: 30_000)
        #expect(world.connections[1].send(waiting) == waiting.count)
        world.settle()
        #expect(world.client.heldBytes(of: session) >= both + 29_000)
        world.client.shutdown()
        #expect(world.client.heldBytes(of: session) == 0)
        #expect(world.client.activeTransfers == 0)
    }

    @Test func aKeptConnectionIsSharedUntilTheNextRequest() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let url = world.url
        var held: [Int] = []
        for index in 0..<3 {
            let session = EventToken(.connection, index: index, generation: 1)
            let outcome = world.start { client in
                try await client.send(UpstreamRequest(url: url), for: session).nextChunk()
            }.outcome
            try world.run { world.connections.last?.requestCount == index + 1 }
            held.append(world.client.heldBytes(of: session))
            world.connections[0].send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            try world.run { outcome.isKnown }
            world.settle()
            #expect(world.client.heldBytes(of: session) == 0)
        }
        #expect(world.connections.count == 1)
        // The first has made the connection. Blocks of the same request may differ by what the
        // allocator could not split off.
        #expect(held[0] > held[1] + 10_000 && abs(held[1] - held[2]) < 128, "\(held)")
    }
}

/// An account that a test may carry to other threads.
private final class TestAccount: @unchecked Sendable {
    private let account = NativeAccount()

    var bytes: Int { account.bytes }

    func allocate(count: Int) -> [UInt] {
        account.charge {
            (0..<count).map { UInt(bitPattern: CRYPTO_malloc(100 + $0, #file, #line)) }
        }
    }
}

extension TLSWorld {
    /// What the server's connections have of TLS.
    fileprivate var tlsConnections: [TLSConnection] {
        var found: [TLSConnection] = []
        server.shard.connections.forEach { if let tls = $0.tls { found.append(tls) } }
        return found
    }
}
