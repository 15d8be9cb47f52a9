// Quotas that several servers share, with a simulated common bucket: what is reported, what a report
// changes, and what a server allows alone.

import Codec
import Session
import Synchronization
import Testing

@testable import Server

private let start = Instant.milliseconds(1_000_000)
private let subject = QuotaSubject.principal(SHA256Digest(of: "key"))

private func account(_ quotas: String...) -> [QuotaAccount] {
    [QuotaAccount(subject: subject, quotas: quotas.compactMap(Quota.init))]
}

@Suite("Quotas of several servers")
struct SharedQuotaTableTests {
    @Test("what is taken, charged and given back is reported as one sum for each quota")
    func reports() throws {
        let table = SharedQuotaTable()
        let quotas = account("turns=60/minute", "turns=100/day", "tokens=1000/day")
        #expect(try table.take(5, of: .turns, from: quotas, at: start) == 5)
        table.charge(2, of: .turns, to: quotas, at: start)
        table.refund(1, of: .turns, to: quotas)
        table.charge(10, of: .tokens, to: quotas, at: start)
        let report = table.takeReport()
        #expect(
            report.map { "\($0.use.quota) \($0.use.count)" } == [
                "turns=60/minute 6", "turns=100/day 6", "tokens=1000/day 10",
            ])
        #expect(table.takeReport().isEmpty && !table.hasUses)
        table.putBack(report)
        #expect(table.takeReport().count == 3)
    }

    @Test("only the first use asks for a report")
    func wake() throws {
        let table = SharedQuotaTable()
        let quotas = account("turns=60/minute", "turns=100/day")
        let wakes = Wakes()
        table.onUse { wakes.count.withLock { $0 += 1 } }
        for _ in 0..<3 { _ = try table.take(1, of: .turns, from: quotas, at: start) }
        #expect(wakes.count.withLock { $0 } == 1)
        _ = table.takeReport()
        _ = try table.take(1, of: .turns, from: quotas, at: start)
        #expect(wakes.count.withLock { $0 } == 2)
    }

    private final class Wakes: Sendable {
        let count = Mutex(0)
    }

    @Test("what others have used is gone here, and what was used since the report counts as well")
    func apply() throws {
        let table = SharedQuotaTable()
        let quotas = account("turns=60/minute")
        _ = try table.take(10, of: .turns, from: quotas, at: start)
        let report = table.takeReport()
        _ = try table.take(3, of: .turns, from: quotas, at: start)
        // All servers together have used 40, which takes 40 s.
        table.apply([.seconds(40)], of: report, at: start)
        #expect(table.balance(of: .turns, in: quotas, at: start)?.remaining == 17)
        // One that was full when it was reported is full again.
        table.refund(3, of: .turns, to: quotas)
        table.apply([.zero], of: table.takeReport(), at: start)
        #expect(table.balance(of: .turns, in: quotas, at: start)?.remaining == 60)
    }

    @Test("a quota that others have used up is refused, with the time until it is there again")
    func exhausted() throws {
        let table = SharedQuotaTable()
        let quotas = account("turns=60/minute")
        _ = try table.take(1, of: .turns, from: quotas, at: start)
        table.apply([.seconds(90)], of: table.takeReport(), at: start)
        do {
            _ = try table.take(1, of: .turns, from: quotas, at: start)
            Issue.record("it is allowed")
        } catch {
            #expect(error.exhausted.wait == .seconds(31))
        }
        #expect(try table.take(1, of: .turns, from: quotas, at: start + .seconds(31)) == 1)
    }

    @Test("alone a server has its share, and all of it when the others are back")
    func alone() throws {
        let table = SharedQuotaTable()
        let quotas = account("turns=60/minute")
        table.noteServers(3)
        #expect(try table.take(1, of: .turns, from: quotas, at: start) == 1)
        table.noteReachable(false)
        #expect(try table.take(60, of: .turns, from: quotas, at: start) == 19)
        #expect(table.exhausted(.turns, in: quotas, at: start) != nil)
        table.noteReachable(true)
        #expect(
            table.takeReport().first?.use
                == SharedUse(quota: Quota(.turns, 60, per: .minute), count: 20, surcharge: 38))
    }

    @Test("what a server knows of a bucket has what was used alone at its true price")
    func knownAlone() throws {
        let table = SharedQuotaTable()
        let quotas = account("turns=60/minute")
        table.noteServers(3)
        _ = try table.take(5, of: .turns, from: quotas, at: start)
        table.noteReachable(false)
        _ = try table.take(4, of: .turns, from: quotas, at: start)
        table.refund(1, of: .turns, to: quotas)
        let (bucket, use) = try #require(table.takeReport().first)
        let later = start + .seconds(2)
        #expect(table.missing(in: bucket, after: use, at: start) == 8_000_000)
        #expect(table.missing(in: bucket, after: use, at: later) == 6_000_000)
        #expect(table.missing(in: bucket, after: use, at: start + .seconds(60)) == 0)
        // A peer's greatest numbers are no reason to stop.
        let greatest = SharedUse(quota: use.quota, count: 1, surcharge: .max)
        #expect(table.missing(in: bucket, after: greatest, at: start) == 0)
        var sum = greatest
        sum.add(greatest)
        #expect(sum == greatest)
    }
}

@Suite(
    "Quotas in Redis", .enabled(if: RedisServerProcess.isInstalled, "redis-server is not installed")
)
struct QuotaReportTests {
    /// A server with its table.
    private final class Node {
        let world = RedisWorld()
        let table = SharedQuotaTable()
        let link: StoreLink
        let reports: QuotaReports

        init(_ url: String) throws {
            link = StoreLink(
                client: world.client, address: try #require(RedisAddress(url)),
                metrics: ShardMetrics())
            reports = QuotaReports(over: link, table: table) { start }
            link.open()
            try world.run { link.isReady }
        }

        func report() throws {
            reports.send()
            try world.run { link.pending == 0 }
        }

        func remaining(_ quotas: [QuotaAccount]) -> Int? {
            table.balance(of: .turns, in: quotas, at: start)?.remaining
        }
    }

    @Test("two servers use one quota")
    func shared() throws {
        let server = try RedisServerProcess()
        let (one, two) = (try Node(server.url), try Node(server.url))
        // A day: what fills up during the test is less than one.
        let quotas = account("turns=100/day")
        #expect(try one.table.take(30, of: .turns, from: quotas, at: start) == 30)
        #expect(try two.table.take(50, of: .turns, from: quotas, at: start) == 50)
        try one.report()
        #expect(one.remaining(quotas) == 70)
        try two.report()
        #expect(two.remaining(quotas) == 20)
        two.table.refund(10, of: .turns, to: quotas)
        try two.report()
        _ = try one.table.take(1, of: .turns, from: quotas, at: start)
        try one.report()
        #expect(one.remaining(quotas) == 29)
        // More than there is: a debt that both have.
        one.table.charge(60, of: .turns, to: quotas, at: start)
        try one.report()
        two.table.charge(1, of: .turns, to: quotas, at: start)
        try two.report()
        #expect(two.table.exhausted(.turns, in: quotas, at: start) != nil)
        let link = try one.world.link(server.url)
        let keys = try one.world.reply(to: RedisCommand("KEYS", "*"), over: link).get()
        #expect(keys.array?.first?.text?.hasSuffix(":turns:day") == true)
        let left = try one.world.reply(
            to: RedisCommand("PTTL", keys.array?.first?.text ?? ""), over: link
        ).get().integer
        #expect((86_400_000...2 * 86_400_000).contains(left ?? 0))
    }

    @Test("uses wait while Redis is away, and are reported when it is back")
    func away() throws {
        let server = try RedisServerProcess()
        let (one, two) = (try Node(server.url), try Node(server.url))
        let quotas = account("turns=100/day")
        server.kill()
        for node in [one, two] { try node.world.run { !node.link.isReady } }
        _ = try one.table.take(30, of: .turns, from: quotas, at: start)
        try one.report()
        #expect(one.table.hasUses)
        try server.start()
        for node in [one, two] { try node.world.run { node.link.isReady } }
        try one.report()
        #expect(!one.table.hasUses)
        _ = try two.table.take(1, of: .turns, from: quotas, at: start)
        try two.report()
        #expect(two.remaining(quotas) == 69)
    }

    @Test("two servers count the sessions of a key together, and those of a dead server are free")
    func places() throws {
        let server = try RedisServerProcess()
        let (one, two) = (try Node(server.url), try Node(server.url))
        let key = SHA256Digest(of: "key")
        let places = [SessionPlaces(), SessionPlaces()]
        let reports = [
            PlaceReports(over: one.link, places: places[0], node: "one"),
            PlaceReports(over: two.link, places: places[1], node: "two"),
        ]
        for places in places { places.share {} }
        let report = { (index: Int) in
            reports[index].send()
            let node = [one, two][index]
            try node.world.run { node.link.pending == 0 }
        }
        let alive = RedisCommand("SET", "parley:node:one", "{}")
        _ = try one.world.reply(to: alive, over: try one.world.link(server.url))
        for _ in 0..<2 { #expect(places[0].take(key, atMost: 3)) }
        try report(0)
        // The first one is allowed before this server knows of the others.
        #expect(places[1].take(key, atMost: 3))
        try report(1)
        #expect(!places[1].take(key, atMost: 3))
        places[0].release(key)
        try report(0)
        places[1].renew()
        try report(1)
        #expect(places[1].take(key, atMost: 3))
        try report(1)
        #expect(!places[1].take(key, atMost: 3))
        let dead = RedisCommand("DEL", "parley:node:one")
        _ = try one.world.reply(to: dead, over: try one.world.link(server.url))
        places[1].renew()
        try report(1)
        #expect(places[1].take(key, atMost: 3))
        for _ in 0..<3 { places[1].release(key) }
        try report(1)
        #expect(places[1].count == 0 && !places[1].hasChanges)
        // Without a session here, the key is still asked about.
        _ = try one.world.reply(to: alive, over: try one.world.link(server.url))
        places[0].renew()
        try report(0)
        for _ in 0..<2 { #expect(places[0].take(key, atMost: 3)) }
        try report(0)
        reports[1].handleHeartbeat(isReachable: true)
        try report(1)
        #expect(!places[1].take(key, atMost: 3))
        server.kill()
        reports[1].handleHeartbeat(isReachable: false)
        #expect(places[1].take(key, atMost: 3))
    }

    @Test("common buckets that are lost come back with what a server knows of them")
    func emptied() throws {
        let server = try RedisServerProcess()
        let (one, two) = (try Node(server.url), try Node(server.url))
        let quotas = account("turns=100/day")
        for (node, count) in [(one, 30), (two, 50)] {
            _ = try node.table.take(count, of: .turns, from: quotas, at: start)
            try node.report()
        }
        let link = try one.world.link(server.url)
        _ = try one.world.reply(to: RedisCommand("FLUSHALL"), over: link).get()
        _ = try two.table.take(1, of: .turns, from: quotas, at: start)
        try two.report()
        #expect(two.remaining(quotas) == 19)
        _ = try one.table.take(1, of: .turns, from: quotas, at: start)
        try one.report()
        #expect(one.remaining(quotas) == 18)
    }

    /// Values of a bucket, and what is left after one more turn of 100: what the server knows where
    /// the value is no time, otherwise what the value says, within the bucket.
    @Test(
        "a bucket that something else has damaged is what the server knows, or full, or empty",
        arguments: [("text", 98), ("", 98), ("nan", 98), ("-1e300", 99), ("1e300", 0)])
    func damaged(value: String, left: Int) throws {
        let server = try RedisServerProcess()
        let one = try Node(server.url)
        let quotas = account("turns=100/day")
        let link = try one.world.link(server.url)
        _ = try one.table.take(1, of: .turns, from: quotas, at: start)
        try one.report()
        let key = try #require(
            try one.world.reply(to: RedisCommand("KEYS", "*"), over: link).get().array?.first?.text)
        _ = try one.world.reply(to: RedisCommand("SET", key, value), over: link).get()
        one.table.charge(1, of: .turns, to: quotas, at: start)
        try one.report()
        #expect(one.remaining(quotas) == left)
        let isExhausted = one.table.exhausted(.turns, in: quotas, at: start) != nil
        #expect(isExhausted == (left == 0))
    }
}
