// Pages of the session list: scans of several tables of connections, put together, against all
// connections sorted at once.

import Codec
import Session
import TestMaterial
import Testing

@testable import Server

@Suite struct SessionPageTests {
    private static let clock = ShardClock(at: .milliseconds(1_000_000))

    /// Two shards with connections, many of which are charged the same.
    private static func tables(_ count: Int) throws -> [SlotTable<Connection>] {
        var generator = SeededGenerator(seed: 11)
        return try (0..<2).map { _ in
            var table = SlotTable<Connection>(of: .connection)
            for index in 0..<count {
                let reserved = table.reserveToken()
                let connection = Connection(
                    token: try #require(reserved), handle: 1, at: .milliseconds(index))
                connection.charged = UInt32.random(in: 0..<9, using: &generator)
                table.insert(connection)
            }
            return table
        }
    }

    /// The ranks on the page of a query, and the page.
    private func page(
        _ tables: [SlotTable<Connection>], _ query: SessionQuery
    ) -> (ranks: [SessionRank], position: Int, matching: Int) {
        let reports = tables.enumerated().map { shard, table in
            let question = SurveyQuestion(query: query) { _ in }
            var scan = SessionScan(question, end: Self.clock.now)
            while !scan.isOver {
                _ = scan.look(
                    through: table, SlotTable(of: .session), WaitingSessions(share: 1), atMost: 7,
                    clock: Self.clock, shard: shard)
            }
            var report = SurveyReport(states: scan.states)
            report.matching = scan.ranking.counted
            report.preceding = scan.preceding
            report.rows = scan.ranking.sorted.map { Self.row($0.rank, shard) }
            return report
        }
        let page = SessionPage(reports, to: query)
        return (page.rows.map(\.rank), page.position, page.matching)
    }

    private static func row(_ rank: SessionRank, _ shard: Int) -> SessionRow {
        SessionRow(
            rank: rank, shard: shard, state: .connection, bytes: rank.value, age: .zero,
            idle: .zero, client: .unspecified, model: nil, turns: 0, lastTurn: nil)
    }

    @Test(
        "Pages to the end, and back to the beginning, are the sorted list",
        arguments: SessionQuery.Order.allCases, [false, true])
    func pagesAreTheList(order: SessionQuery.Order, isReversed: Bool) throws {
        let tables = try Self.tables(40)
        var query = SessionQuery()
        (query.order, query.isReversed, query.state) = (order, isReversed, .connection)
        query.limit = 80
        let all = page(tables, query).ranks
        #expect(all.count == 80 && Set(all.map(\.id)).count == 80 && all == all.sorted())
        query.limit = 7
        var seen: [SessionRank] = []
        while true {
            let next = page(tables, query)
            #expect(next.position == seen.count && next.matching == 80)
            seen += next.ranks
            guard next.ranks.count == 7, let last = seen.last else { break }
            query.start = .after(last)
        }
        #expect(seen == all)
        query.start = .last
        seen = []
        while seen.count < 80 {
            let next = page(tables, query)
            #expect(next.position == 80 - seen.count - next.ranks.count)
            seen = next.ranks + seen
            guard let first = next.ranks.first else { break }
            query.start = .before(first)
        }
        #expect(seen == all)
        #expect(page(tables, query).ranks.isEmpty)
    }

    @Test func theOtherDirectionIsTheExactOpposite() throws {
        let tables = try Self.tables(20)
        var query = SessionQuery()
        (query.state, query.limit) = (.connection, 40)
        let down = page(tables, query).ranks.map(\.id)
        query.isReversed = true
        #expect(page(tables, query).ranks.map(\.id) == down.reversed())
    }

    /// Its session may have ended since the page was shown.
    @Test func aCursorNeedsNoSession() throws {
        let tables = try Self.tables(20)
        var query = SessionQuery()
        (query.state, query.limit) = (.connection, 5)
        query.start = .after(SessionRank(value: 4, id: "zzz"))
        let after = page(tables, query)
        #expect(after.ranks.allSatisfy { $0.value < 4 } && after.ranks.count == 5)
        query.start = .before(SessionRank(value: 4, id: "zzz"))
        let before = page(tables, query)
        #expect(before.ranks.last?.value == 4 && before.ranks.count == 5)
        #expect(before.position + 5 == after.position)
    }

    @Test func aSearchCountsOnlyWhatItFinds() throws {
        let tables = try Self.tables(20)
        var query = SessionQuery()
        (query.state, query.limit) = (.connection, 40)
        query.search = Array("_1_1".utf8)
        let found = page(tables, query)
        // On the second shard, slots 1 and 10 to 19.
        #expect(found.matching == 11 && found.ranks.count == 11)
        #expect(found.ranks.allSatisfy { $0.id.hasPrefix("conn_1_1") })
        query.search = Array("nothing".utf8)
        #expect(page(tables, query).matching == 0)
    }
}
