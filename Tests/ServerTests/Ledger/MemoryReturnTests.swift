// When memory is given back: once, after much was freed and no more clients leave; not for a few
// clients, and not for memory that is taken again at once.

import Session
import Simulation
import Testing

@testable import Server

@Suite struct MemoryReturnTests {
    private static let much = 8 * MemoryReturn.leastBytes

    @Test func givesBackOnceWhenMuchWasFreed() {
        var memory = MemoryReturn()
        let looks = [Self.much, 1_000, 900].map { memory.note(held: $0) }
        // One look is arranged; while it is, no other.
        #expect(looks == [false, true, false])
        let step = memory.review(held: 1_000)
        #expect(step == .giveBack)
        memory.handleGivenBack(held: 1_000)
        let isArranged = memory.note(held: 0)
        let next = memory.review(held: 0)
        #expect(!isArranged && next == .nothing)
    }

    @Test func looksAgainWhereEveryWorkerWasBusy() {
        var memory = MemoryReturn()
        _ = [Self.much, 1_000].map { memory.note(held: $0) }
        let first = memory.review(held: 1_000)
        memory.handleRefused(held: 1_000)
        let second = memory.review(held: 1_000)
        #expect(first == .giveBack && second == .giveBack)
    }

    @Test func waitsUntilNoMoreClientsLeaveButNotForEver() {
        var memory = MemoryReturn()
        _ = memory.note(held: Self.much)
        var held = Self.much / 4
        let isArranged = memory.note(held: held)
        var looks = 0
        var step = MemoryReturn.Step.lookAgain
        while step == .lookAgain {
            held -= 1_000
            looks += 1
            step = memory.review(held: held)
        }
        #expect(isArranged && step == .giveBack && looks == 11)
    }

    @Test func doesNotPayForAFewNorForWhatIsTakenAgain() {
        var memory = MemoryReturn()
        // Of the second, more is held than was let go.
        let looks = [Self.much, Self.much * 2 / 3, Self.much / 3].map { memory.note(held: $0) }
        let step = memory.review(held: Self.much)
        #expect(looks == [false, false, true] && step == .nothing)
        var small = MemoryReturn()
        let few = [MemoryReturn.leastBytes - 1, 0].map { small.note(held: $0) }
        #expect(few == [false, false])
    }

    @Test func aShardGivesBackAfterManyHaveLeft() throws {
        var configuration = ServerConfiguration()
        configuration.admission.maxConnectionsPerAddress = 0
        configuration.admission.handshakesPerSecondPerAddress = 0
        let server = try SimulatedServer(configuration: configuration)
        let peers = (0..<7_000).map { _ in server.connect() }
        server.run()
        #expect(server.metrics.total(of: .connectionsOpen) == 7_000)
        for peer in peers.dropLast(6_000) { peer.reset() }
        server.run(for: .seconds(3))
        #expect(server.metrics.total(of: .memoryReturns) == 0)
        for peer in peers { peer.reset() }
        server.run(for: .seconds(3))
        #expect(server.metrics.total(of: .memoryReturns) == 1)
        // What the pool of chunks kept has gone, too.
        #expect(server.metrics.total(of: .sendBufferBytes) == 0)
    }
}
