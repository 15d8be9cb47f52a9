// A scan of a table of connections, in steps and without a shard.

import Session
import Testing

@testable import Server

@Suite struct SessionScanTests {
    private let clock = ShardClock(at: .milliseconds(1_000))

    /// A table with connections that are charged 0, 10, 20…
    private func table(_ count: Int) throws -> SlotTable<Connection> {
        var table = SlotTable<Connection>(of: .connection)
        for index in 0..<count {
            let reserved = table.reserveToken()
            let connection = Connection(
                token: try #require(reserved), handle: 1, at: .milliseconds(index))
            connection.charged = UInt32(10 * index)
            table.insert(connection)
        }
        return table
    }

    private func scan(_ change: (inout SessionQuery) -> Void) -> SessionScan {
        var query = SessionQuery()
        query.state = .connection
        change(&query)
        return SessionScan(SurveyQuestion(query: query) { _ in }, end: clock.now)
    }

    @Test func aScanTakesAsManyStepsAsItNeeds() throws {
        let table = try table(25)
        var scan = scan { $0.limit = 3 }
        var steps: [Int] = []
        while !scan.isOver {
            steps.append(
                scan.look(
                    through: table, SlotTable(of: .session), WaitingSessions(share: 1), atMost: 10,
                    clock: clock, shard: 2))
        }
        #expect(steps == [10, 10, 5])
        #expect(scan.ranking.counted == 25 && scan.states[SessionState.connection.index] == 25)
        #expect(scan.ranking.sorted.map(\.rank.value) == [240, 230, 220])
        #expect(
            scan.ranking.sorted.map(\.rank.id) == ["conn_2_24_0", "conn_2_23_0", "conn_2_22_0"])
    }

    @Test func theOldestComeFirstWhereAgeIsAskedFor() throws {
        let table = try table(5)
        var scan = scan {
            $0.order = .age
            $0.limit = 2
        }
        _ = scan.look(
            through: table, SlotTable(of: .session), WaitingSessions(share: 1), atMost: 100,
            clock: clock, shard: 0)
        #expect(scan.ranking.sorted.map(\.token.index) == [0, 1])
    }

    @Test func oneIsFoundByItsId() throws {
        let table = try table(5)
        let question = SurveyQuestion(query: SessionQuery(id: "conn_0_3_0")) { _ in }
        var scan = SessionScan(question, end: clock.now)
        _ = scan.look(
            through: table, SlotTable(of: .session), WaitingSessions(share: 1), atMost: 100,
            clock: clock, shard: 0)
        #expect(scan.ranking.sorted.map(\.token.index) == [3])
    }

    @Test func closedConnectionsAndFreeSlotsAreLeftOut() throws {
        var table = try table(4)
        table[slot: 1].map { table.remove($0) }
        table[slot: 2]?.state = .closed
        var scan = scan { _ in }
        _ = scan.look(
            through: table, SlotTable(of: .session), WaitingSessions(share: 1), atMost: 100,
            clock: clock, shard: 0)
        #expect(scan.ranking.counted == 2 && scan.isOver)
    }

    @Test func aTableThatWasGivenBackEndsTheScan() throws {
        var scan = scan { _ in }
        _ = scan.look(
            through: try table(20), SlotTable(of: .session), WaitingSessions(share: 1), atMost: 10,
            clock: clock, shard: 0)
        #expect(!scan.isOver)
        let slots = scan.look(
            through: SlotTable<Connection>(of: .connection), SlotTable(of: .session),
            WaitingSessions(share: 1), atMost: 10, clock: clock, shard: 0)
        #expect(slots == 1 && scan.isOver && scan.ranking.counted == 10)
    }
}
