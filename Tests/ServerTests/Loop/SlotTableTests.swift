// The table of connections, or sessions, and the index of addresses beside it, when there are many.

import Codec
import Session
import Simulation
import Synchronization
import Testing

@testable import Server

@Suite struct SlotTableTests {
    private func insert(into table: inout SlotTable<Connection>) throws -> Connection {
        let reserved = table.reserveToken()
        let token = try #require(reserved)
        let connection = Connection(token: token, handle: 1, at: Instant(nanoseconds: 0))
        table.insert(connection)
        return connection
    }

    /// A table that was long begins anew when it is empty; a late report for one of the first
    /// connections must not reach one of the second.
    @Test func tokensMeanNothingOnceTheTableHasBegunAnew() throws {
        var table = SlotTable<Connection>(of: .connection, capacity: 10)
        var old: [EventToken] = []
        for _ in 0..<3 {
            var connections: [Connection] = []
            for _ in 0..<SlotTable<Connection>.longCount {
                connections.append(try insert(into: &table))
            }
            #expect(old.allSatisfy { table[$0] == nil })
            #expect(connections.allSatisfy { table[$0.token] === $0 })
            // Some slots are used more often than others.
            for connection in connections.prefix(5) {
                table.remove(connection)
                old.append(connection.token)
                old.append(try insert(into: &table).token)
            }
            for slot in 0..<table.slotCount { table[slot: slot].map { table.remove($0) } }
            old += connections.map(\.token)
            #expect(table.count == 0 && table.slotCount == 0)
        }
        #expect(old.allSatisfy { table[$0] == nil })
    }

    /// Tokens of two tables may agree in slot and use, and must not be taken for each other.
    @Test func aTokenOfAnotherKindMeansNothing() throws {
        var table = SlotTable<Connection>(of: .connection)
        let connection = try insert(into: &table)
        let (slot, use) = (connection.token.index, connection.token.generation)
        #expect(table[EventToken(.session, index: slot, generation: use)] == nil)
        #expect(table.reference(to: EventToken(.session, index: slot, generation: use)) == nil)
        #expect(table.reference(to: connection.token) != nil)
        #expect(table.reference(to: EventToken(.connection, index: 7, generation: 0)) == nil)
    }

    private func clear(_ client: SimulatedClient, times: Int) {
        for _ in 0..<times { client.send(#"{"type":"input_audio_buffer.clear"}"#) }
    }

    /// Messages are pending for the next tick, and their connection is the last that ends in this one.
    @Test func aQueuedConnectionMayBeGoneWithTheTable() throws {
        let server = try SimulatedServer()
        server.shard.connections = SlotTable(of: .connection, longCount: 3)
        let peers = (0..<3).map { _ in server.connect() }
        let client = server.openClient()
        #expect(server.run())
        clear(client, times: LoopSettings().maxMessagesPerTick * 4)
        #expect(server.shard.tick())
        #expect(server.shard.tickWork.unfinished.slots == [3])
        for peer in peers { peer.reset() }
        client.peer.reset()
        #expect(server.shard.tick())
        #expect(
            server.shard.tickWork.unfinished.slots == [3] && server.shard.connections.slotCount == 0
        )
        let gone = Connection(
            token: EventToken(.connection, index: 3, generation: 0), handle: 1, at: .milliseconds(0)
        )
        server.shard.output.schedule(gone)
        server.shard.memory.ledgers.touch(gone)
        #expect(server.run())
        #expect(server.io.openHandles == 0 && server.shard.tickWork.unfinished.isEmpty)
    }

    /// An operator's question is under way while all clients leave.
    @Test func aScanEndsWhereTheTableHasBegunAnew() throws {
        let server = try SimulatedServer()
        server.shard.connections = SlotTable(of: .connection, longCount: 3)
        let peers = (0..<6).map { _ in server.connect() }
        #expect(server.run())
        let answers = Mutex<[SurveyReport]>([])
        server.shard.questions.surveys.begin(
            SurveyQuestion(query: SessionQuery()) { report in
                answers.withLock { $0.append(report) }
            }, at: server.io.now)
        let begun = server.shard.questions.surveys.takeScan()
        var scan = try #require(begun)
        scan.nextSlot = 5
        for peer in peers { peer.reset() }
        #expect(server.shard.tick())
        #expect(server.shard.connections.slotCount == 0)
        server.shard.questions.surveys.giveBack(scan)
        #expect(server.run())
        #expect(answers.withLock { $0.map(\.connections) } == [0])
    }

    @Test func theIndexOfAddressesIsADictionary() {
        var generator = SeededGenerator(seed: 3)
        var index = AddressIndex()
        var model: [NetworkAddress: UInt32] = [:]
        for step in 0..<20_000 {
            let address = NetworkAddress(
                high: .random(in: 0..<3, using: &generator),
                low: .random(in: 0..<2_000, using: &generator))
            if step % 3 == 0 {
                index[address] = nil
                model[address] = nil
            } else {
                index[address] = UInt32(step)
                model[address] = UInt32(step)
            }
            #expect(index.count == model.count)
        }
        for (address, place) in model { #expect(index[address] == place) }
        for address in model.keys { index[address] = nil }
        #expect(index.count == 0)
    }
}
