// The jobs of one shard: whose piece is whose, how far the stream was read, and what is left of a
// Redis that was restarted.

import Codec
import Session
import Testing

@testable import Agents

@Suite struct JobBoardTests {
    private let now = Instant.milliseconds(0)
    private let limits = JobLimits(
        pickup: .milliseconds(10_000), firstPiece: nil, silence: .seconds(60), total: nil)
    private var board = JobBoard()

    /// A reply to XREAD.
    private func replies(_ entries: [(id: String, fields: [String])]) -> RedisValue {
        .array([
            .array([
                .bulk(Array("jobs:replies".utf8)),
                .array(
                    entries.map { id, fields in
                        .array([
                            .bulk(Array(id.utf8)), .array(fields.map { .bulk(Array($0.utf8)) }),
                        ])
                    }),
            ])
        ])
    }

    private func text(_ job: String, _ number: Int, _ text: String) -> [String] {
        ["job", job, "n", "\(number)", "type", "text", "text", text]
    }

    private func sights(_ last: String, _ states: String...) -> RedisValue {
        .array(([last] + states).map { .bulk(Array($0.utf8)) })
    }

    @Test mutating func eachPieceFindsItsRun() {
        board.open("a.1", limits: limits)
        board.open("b.1", limits: limits)
        board.handle(
            replies: replies([
                ("5-0", text("b.1", 1, "B")), ("6-0", text("a.1", 1, "A")),
                ("6-1", text("c.9", 1, "C")), ("7-0", ["job"]), ("x", text("a.1", 2, "!")),
                ("8-2", text("b.1", 2, "b")),
            ]), at: now)
        #expect(board.position.description == "8-2")
        let changes = board.takeChanges()
        #expect(changes.changed == ["b.1", "a.1", "b.1"] && changes.held == [])
        #expect(board.takeNews(of: "a.1", at: now).news.deltas == [.text("A")])
        #expect(board.takeNews(of: "b.1", at: now).news.deltas == [.text("B"), .text("b")])
        #expect(board.takeChanges().changed == [])
    }

    @Test mutating func aClosedRunTakesNothing() {
        board.open("a.1", limits: limits)
        #expect(board.close("a.1") != nil && board.isEmpty && board.close("a.1") == nil)
        board.handle(replies: replies([("5-0", text("a.1", 1, "A"))]), at: now)
        #expect(board.takeChanges().changed == [])
        #expect(board.takeNews(of: "a.1", at: now).news == JobNews())
        // It was read nevertheless.
        #expect(board.position.description == "5-0")
    }

    @Test mutating func aBadPieceFailsItsRunAlone() {
        board.open("a.1", limits: limits)
        board.open("b.1", limits: limits)
        board.handle(
            replies: replies([
                ("5-0", ["job", "a.1", "n", "1", "type", "song"]), ("5-1", text("b.1", 1, "B")),
            ]), at: now)
        guard case .failed? = board.takeNews(of: "a.1", at: now).news.end else {
            Issue.record("it goes on")
            return
        }
        #expect(board.takeNews(of: "b.1", at: now).news == JobNews(deltas: [.text("B")]))
    }

    @Test mutating func aRunThatIsFullIsHeld() {
        board.open("a.1", limits: limits)
        let long = String(repeating: "x", count: JobRun.heldBytes)
        board.handle(replies: replies([("5-0", text("a.1", 1, long))]), at: now)
        #expect(board.takeChanges().held == ["a.1"])
    }

    @Test(arguments: [
        RedisValue.null, .array([]), .array([.array([])]), .integer(1), .error("ERR"),
        .array([.array([.null, .null])]), .array([.array([.null, .array([.array([.null])])])]),
        .array([.array([.null, .array([.array([.bulk([0x35, 0x2D, 0x30]), .null])])])]),
    ])
    mutating func anotherReplyChangesNothing(value: RedisValue) {
        board.open("a.1", limits: limits)
        board.handle(replies: value, at: now)
        board.handle(sights: value, of: ["a.1"])
        #expect(board.takeChanges().changed == [])
    }

    @Test mutating func jobsThatRedisHasAreWatched() {
        for job in ["c.1", "a.1", "b.1"] { board.open(job, limits: limits) }
        #expect(board.watched.isEmpty)
        board.handleAsked("c.1", entry: "3-0")
        board.handleAsked("a.1", entry: "1-0")
        board.handleAsked("z.1", entry: "9-0")
        #expect(board.watched.map(\.job) == ["a.1", "c.1"])
        #expect(board.watched.map(\.entry) == ["1-0", "3-0"])
        board.handle(sights: sights("0-1", "running", "lost"), of: ["a.1", "c.1"])
        #expect(board.takeChanges().changed == ["c.1"])
        #expect(board.takeNews(of: "c.1", at: now).news.end == .lost)
        board.handle(
            replies: replies([("5-0", ["job", "a.1", "n", "1", "type", "end"])]), at: now)
        #expect(board.watched.map(\.job) == ["c.1"])
    }

    @Test mutating func theLastPieceMayStillBeOnItsWay() {
        board.open("a.1", limits: limits)
        board.handleAsked("a.1", entry: "1-0")
        board.handle(sights: sights("5-0", "gone"), of: ["a.1"])
        #expect(board.takeChanges().changed == [])
        board.handle(
            replies: replies([("5-0", ["job", "a.1", "n", "1", "type", "end"])]), at: now)
        board.handle(sights: sights("5-0", "gone"), of: ["a.1"])
        #expect(board.takeNews(of: "a.1", at: now).news.end == .completed)
    }

    @Test mutating func aRedisThatHasLostEverythingIsReadFromItsBeginning() {
        board.open("a.1", limits: limits)
        board.handleAsked("a.1", entry: "1-0")
        board.handle(replies: replies([("5-0", text("a.1", 1, "A"))]), at: now)
        board.handle(sights: sights("0-1", "gone"), of: ["a.1"])
        #expect(board.position == .start)
        let news = board.takeNews(of: "a.1", at: now).news
        #expect(news == JobNews(deltas: [.text("A")], end: .gone))
    }

    @Test mutating func timeAndAnAbsentRedisEndAllRuns() {
        board.open("b.1", limits: limits)
        board.handleTime(.milliseconds(9_999))
        #expect(board.takeChanges().changed == [])
        board.handleTime(.milliseconds(10_000))
        #expect(board.takeChanges().changed == ["b.1"])
        board.open("a.1", limits: limits)
        board.failAll(.overloaded)
        #expect(board.takeNews(of: "a.1", at: now).news.end == .failed(.overloaded))
        guard case .failed(.upstream)? = board.takeNews(of: "b.1", at: now).news.end else {
            Issue.record("the first reason counts")
            return
        }
    }

    @Test mutating func aStreamThatCannotBeReadIsSkipped() {
        board.open("a.1", limits: limits)
        board.handleAsked("a.1", entry: "1-0")
        board.handle(sights: sights("9-0", "running"), of: ["a.1"])
        board.failReading(.overloaded)
        #expect(board.position.description == "9-0")
        #expect(board.takeNews(of: "a.1", at: now).news.end == .failed(.overloaded))
    }

    @Test(arguments: ["", "5", "5-", "-5", "5-0-1", "a-b", "5-99999999999999999999"])
    func whatIsNoPosition(text: String) { #expect(StreamPosition(text) == nil) }

    @Test func positionsHaveAnOrder() throws {
        let positions = try ["0-1", "1-0", "9-10", "10-2", "18446744073709551615-0"].map {
            try #require(StreamPosition($0))
        }
        #expect(positions == positions.sorted() && positions[0] == .start)
    }
}
