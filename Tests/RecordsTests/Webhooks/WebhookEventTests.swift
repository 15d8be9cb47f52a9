// Which events follow from which changes, and what is in them.

import Codec
import Session
import Testing

@testable import Records

@Suite struct WebhookEventTests {
    private let folder = TemporaryFolder()
    private let changes = Changes()

    private func events(
        _ types: Set<WebhookEventType>, _ entries: [RecordDatabase.Entry]
    ) throws -> [String] {
        let file = try RecordDatabase(
            path: folder.file(), process: "a", webhooks: WebhookWriter(types: types))
        _ = try file.write(entries)
        return try file.database.rows("SELECT body FROM webhooks ORDER BY rowid") { $0.text(0) }
    }

    private func conversation() -> [RecordDatabase.Entry] {
        let answer = changes.reply("Hello.")
        return [
            changes.entry(isFirst: true),
            changes.entry(
                [changes.question("Hi."), answer], turns: [changes.turn(output: [answer])]),
            changes.entry(end: SessionEnd(.clientClosed)),
        ]
    }

    @Test func aConversationIsToldInOrder() throws {
        let bodies = try events(Set(WebhookEventType.allCases), conversation())
        let parsers = bodies.map { _ in JSONParser() }
        let events = try zip(parsers, bodies).map { try $0.parse($1) }
        #expect(
            events.map { $0["type"]?.string }
                == ["session.started", "turn.completed", "session.ended"])
        #expect(events[0]["timestamp"]?.string == "2026-11-23T20:09:11.290Z")
        #expect(events[0]["data"]?["is_continued"]?.bool == false)
        let turn = try #require(events[1]["data"])
        #expect(turn["turn"]?["response_id"]?.string == "resp_1")
        #expect(turn["output"]?.count == 1 && turn["session_id"]?.string == "sess_1")
        let end = try #require(events[2]["data"])
        #expect(end["is_truncated"]?.bool == false && end["record"]?["items"]?.count == 2)
    }

    @Test(arguments: [WebhookEventType.sessionStarted, .turnCompleted, .sessionEnded])
    func onlyWhatIsWantedIsTold(_ type: WebhookEventType) throws {
        let bodies = try events([type], conversation())
        #expect(bodies.count == 1 && bodies[0].contains(type.rawValue))
    }

    /// One event has waited for days while others came and went.
    @Test func theEventsThatWaitCountAndNotTheirNumbers() throws {
        let file = try RecordDatabase(
            path: folder.file(), process: "a",
            webhooks: WebhookWriter(types: [.sessionStarted]))
        for row in [1, 2 * WebhookWriter.maxWaiting] {
            try file.database.run(
                "INSERT INTO webhooks (rowid, id, body, created_ms, attempts, due_ms) "
                    + "VALUES (?, ?, '', 0, 1, 0)", .integer(row), .text("msg_\(row)"))
        }
        _ = try file.write([changes.entry(isFirst: true)])
        #expect(file.webhooksLeftOut == 0)
        #expect(try file.database.rows("SELECT id FROM webhooks") { $0.text(0) }.count == 3)
    }

    @Test func noMoreEventsWaitThanMay() throws {
        let file = try RecordDatabase(
            path: folder.file(), process: "a",
            webhooks: WebhookWriter(types: [.sessionStarted]))
        try file.database.run(
            """
            WITH RECURSIVE counter(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM counter WHERE n < ?)
            INSERT INTO webhooks (id, body, created_ms, attempts, due_ms) SELECT 'msg_' || n, '', 0, 1, 0 FROM counter
            """, .integer(WebhookWriter.maxWaiting))
        _ = try file.write([changes.entry(isFirst: true)])
        #expect(file.webhooksLeftOut == 1)
    }

    @Test func aLongRecordIsLeftOut() throws {
        var entries = conversation()
        let long = changes.question(String(repeating: "x", count: 2 << 20), id: "item_long")
        entries.insert(changes.entry([long]), at: 2)
        let body = try #require(try events([.sessionEnded], entries).first)
        let event = try JSONParser().parse(body)
        #expect(event["data"]?["is_truncated"]?.bool == true && body.utf8.count < 10_000)
        #expect(event["data"]?["record"]?["end"]?["reason"]?.string == "client_closed")
    }
}
