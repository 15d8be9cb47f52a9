// The file of records: what is written is read again, whatever comes twice, late or from others.

import Codec
import Session
import Testing

@testable import Records

@Suite struct RecordDatabaseTests {
    private let folder = TemporaryFolder()
    private let changes = Changes()

    private func database(
        process: String = "process_a", redaction: RecordRedaction = .none,
        types: Set<WebhookEventType>? = nil, forgetsEnded: Bool = false
    ) throws -> RecordDatabase {
        try RecordDatabase(
            path: folder.file(), process: process, redaction: redaction,
            webhooks: types.map { WebhookWriter(types: $0) }, forgetsEnded: forgetsEnded)
    }

    private func document(_ file: RecordDatabase, _ id: String = "sess_1") throws -> RecordDocument?
    {
        try RecordReader(file.database).document(id)
    }

    private func webhooks(_ file: RecordDatabase) throws -> [String] {
        try file.database.rows("SELECT body FROM webhooks ORDER BY rowid") { $0.text(0) }
    }

    @Test func aConversationIsReadAsItWasWritten() throws {
        let file = try database()
        let answer = changes.reply("I said", written: "I said this.", heard: 400)
        #expect(try file.write([changes.entry([changes.question("What?")], isFirst: true)]) == 0)
        _ = try file.write([
            changes.entry(
                [answer], turns: [changes.turn(output: [answer])],
                end: SessionEnd(.clientClosed, closeCode: .normalClosure)
            ) { $0.summary.samplesIn = 24_000 }
        ])
        let json = try #require(try document(file)).json
        let record = try JSONParser().parse(json)
        #expect(record["id"]?.string == "sess_1")
        #expect(record["started_at"]?.string == "2026-11-23T20:09:11.290Z")
        #expect(record["ended_at"]?.string == "2026-11-23T20:09:16.290Z")
        #expect(record["end"]?["reason"]?.string == "client_closed")
        #expect(record["end"]?["close_code"]?.int == 1000)
        #expect(record["session"]?["model"]?.string == "test")
        #expect(record["audio_in_seconds"]?.double == 1.5)
        #expect(record["audio_out_seconds"]?.double == 1)
        let items = try #require(record["items"]?.elements.map(Array.init))
        #expect(items.count == 2)
        #expect(items[0]["added_at"]?.string == "2026-11-23T20:09:12.290Z")
        #expect(items[0]["speech"] == nil)
        let speech = try #require(items[1]["speech"])
        #expect(speech["heard_ms"]?.int == 400 && speech["is_cut"]?.bool == true)
        #expect(speech["written"]?.string == "I said this.")
        let turns = try #require(record["turns"]?.elements.map(Array.init))
        #expect(turns[0]["latency_ms"]?["first_token"]?.int == 20)
        #expect(turns[0]["latency_ms"]?["transcript"] == nil)
        #expect(turns[0]["items"]?.elements?.map(\.string) == ["item_r"])
    }

    @Test func whatIsWrittenTwiceMakesNoDifference() throws {
        let file = try database()
        let entry = changes.entry(
            [changes.question("a")], deleted: ["item_q"], turns: [changes.turn()], isFirst: true)
        _ = try file.write([entry])
        let before = try document(file)
        _ = try file.write([entry, entry])
        #expect(try document(file) == before)
    }

    @Test func theOrderIsThatInWhichItemsCame() throws {
        let file = try database()
        for id in ["c", "a", "b"] {
            _ = try file.write([changes.entry([changes.question("", id: id)])])
        }
        _ = try file.write([changes.entry([changes.question("again", id: "c")])])
        let items = try #require(try document(file)).items
        #expect(items.map { $0.item.contains("again") } == [true, false, false])
    }

    /// The client truncates for good: the session forgets the rest, the record does not.
    @Test func whatWasWrittenStaysKnown() throws {
        let file = try database()
        let cut = changes.reply("I", written: "I said this.", heard: 100)
        _ = try file.write([changes.entry([cut]), changes.entry([changes.reply("I", heard: 90)])])
        #expect(try document(file)?.items.first?.written == "I said this.")
        // Heard to its end after all.
        _ = try file.write([changes.entry([changes.reply("I said this.")])])
        #expect(try document(file)?.items.first?.written == nil)
    }

    @Test func aLaterOwnerHasPrecedence() throws {
        let file = try database()
        var later = changes
        later.fence = 2
        later.time += 60_000
        _ = try file.write([changes.entry(turns: [changes.turn()], isFirst: true)])
        _ = try file.write([later.entry(turns: [later.turn("resp_2")], isFirst: true)])
        // The earlier owner did not know yet.
        _ = try file.write([changes.entry(end: SessionEnd(.connectionLost))])
        let record = try #require(try document(file))
        #expect(record.head.endReason == nil && record.head.fence == 2)
        #expect(record.turns.count == 2)
    }

    @Test func usesOfSeveralStaysAreAdded() throws {
        let file = try database()
        var later = changes
        (later.fence, later.time) = (2, changes.time + 60_000)
        // The time of day at which a change is taken is not exact.
        var again = later
        again.time += 1
        for (stay, tokens) in [(changes, 10), (later, 5), (again, 7)] {
            _ = try file.write([
                stay.entry { change in
                    if stay.fence > 1 { change.summary.startedAt = .milliseconds(9_000) }
                    change.summary.usage.outputTextTokens = tokens
                    change.summary.turns = 1
                    change.summary.peakBytes = tokens * 100
                }
            ])
        }
        let use = try #require(try document(file)).use
        #expect(use.usage.outputTextTokens == 17 && use.turns == 2 && use.peakBytes == 1_000)
    }

    @Test func redactedWordsNeverReachTheFile() throws {
        let file = try database(redaction: .text, types: Set(WebhookEventType.allCases))
        let answer = changes.reply("xyzzy", written: "xyzzy plugh", heard: 100)
        _ = try file.write([
            changes.entry(
                [changes.question("xyzzy"), answer], turns: [changes.turn(output: [answer])],
                isFirst: true, end: SessionEnd(.clientClosed))
        ])
        let written = try [#require(try document(file)).json] + webhooks(file)
        #expect(written.count == 4)
        for text in written { #expect(!text.contains("xyzzy"), "\(text)") }
    }

    // MARK: The question about a session

    private func afterCall(_ file: RecordDatabase) throws -> String? {
        let record = try JSONParser().parse(try #require(try document(file)).json)
        return record["after_call"]?.raw.text
    }

    @Test func anAnswerFollowsTheEnd() throws {
        let file = try database(types: [.sessionEnded, .sessionAfterCall])
        _ = try file.write([changes.entry([changes.question("a")], isFirst: true)])
        #expect(try afterCall(file) == nil)
        _ = try file.write([changes.questionedEnd()])
        #expect(try afterCall(file) == "null")
        #expect(try RecordReader(file.database).complete(limit: 9).isEmpty)
        let answer = changes.answer(.data(RawJSON(#"{"party":4}"#)))
        _ = try file.write([answer, answer, changes.answer(.text("Another."))])
        #expect(try afterCall(file) == #"{"data":{"party":4}}"#)
        #expect(try document(file)?.head.endReason == "client_closed")
        #expect(try RecordReader(file.database).complete(limit: 9) == ["sess_1"])
        let bodies = try webhooks(file)
        #expect(bodies.count == 2 && bodies[0].contains(#""after_call":null"#))
        let event = try JSONParser().parse(bodies[1])
        #expect(event["type"]?.string == "session.after_call")
        #expect(
            event["data"]?.raw.text
                == #"{"session_id":"sess_1","agent":"desk","after_call":{"data":{"party":4}}}"#)
    }

    @Test func anAnswerThatNothingAwaitsIsLeftOut() throws {
        let file = try database(types: [.sessionAfterCall])
        _ = try file.write([changes.answer(.text("No session."))])
        #expect(try document(file) == nil)
        _ = try file.write([changes.questionedEnd()])
        var later = changes
        later.fence = 2
        // The session has gone on after its end, and has another one.
        _ = try file.write([later.entry(isFirst: true), changes.answer(.text("Early."))])
        #expect(try afterCall(file) == nil)
        _ = try file.write([later.questionedEnd(), changes.answer(.text("Early."))])
        #expect(try afterCall(file) == "null" && webhooks(file).isEmpty)
        _ = try file.write([later.answer(.text("Late."))])
        #expect(try afterCall(file) == #"{"text":"Late."}"#)
        try file.delete("sess_1")
        _ = try file.write([later.answer(.text("Late."))])
        #expect(try document(file) == nil && webhooks(file).count == 1)
    }

    @Test func forWebhooksAloneARecordStaysUntilItsAnswer() throws {
        let file = try database(types: [.sessionAfterCall], forgetsEnded: true)
        _ = try file.write([changes.questionedEnd()])
        #expect(try afterCall(file) == "null")
        _ = try file.write([changes.answer(.failed(code: "not_asked", message: "No place."))])
        #expect(try document(file) == nil)
        let event = try JSONParser().parse(try #require(try webhooks(file).first))
        #expect(event["data"]?["after_call"]?["error"]?["code"]?.string == "not_asked")
    }

    @Test func theQuestionsOfALostProcessHaveNoAnswer() throws {
        let lost = try database()
        _ = try lost.write([changes.questionedEnd()])
        try lost.noteAlive(at: changes.time)
        let next = try database(process: "process_b", types: [.sessionEnded, .sessionAfterCall])
        try next.endLostSessions(at: changes.time + 10_000)
        #expect(try afterCall(next) == "null")
        try next.endLostSessions(at: changes.time + 20_000)
        #expect(try afterCall(next)?.contains(#""code":"server_lost""#) == true)
        #expect(try document(next)?.head.endReason == "client_closed")
        let bodies = try webhooks(next)
        #expect(bodies.count == 1 && bodies[0].contains("session.after_call"))
    }

    // MARK: Sessions of processes that were killed

    @Test func sessionsOfALostProcessEnd() throws {
        let lost = try database()
        _ = try lost.write([changes.entry([changes.question("a")], isFirst: true)])
        try lost.noteAlive(at: changes.time)
        let next = try database(process: "process_b", types: [.sessionEnded])
        try next.noteAlive(at: changes.time + 10_000)
        try next.endLostSessions(at: changes.time + 10_000)
        #expect(try document(next)?.head.endedAt == nil)
        try next.noteAlive(at: changes.time + 20_000)
        try next.endLostSessions(at: changes.time + 20_000)
        let head = try #require(try document(next)).head
        #expect(head.endReason == "server_lost" && head.endedAt == changes.time)
        let event = try JSONParser().parse(try #require(try webhooks(next).first))
        #expect(event["type"]?.string == "session.ended")
        #expect(event["data"]?["record"]?["end"]?["reason"]?.string == "server_lost")
        try next.endLostSessions(at: changes.time + 30_000)
        #expect(try webhooks(next).count == 1)
    }

    // MARK: Limits

    @Test func aFullSpoolTakesNoNewSessions() throws {
        let file = try database()
        var other = changes
        other.id = "sess_2"
        _ = try file.write([changes.entry(isFirst: true)])
        let left = try file.write(
            [changes.entry([changes.question("a")]), other.entry(isFirst: true)],
            takesNewSessions: false)
        #expect(left == 1)
        #expect(try document(file, "sess_2") == nil)
        #expect(try document(file)?.items.count == 1)
    }

    @Test func oldRecordsAreDeleted() throws {
        let file = try database()
        var (old, open) = (changes, changes)
        (old.id, old.time, open.id) = ("sess_old", changes.time - 1_000_000, "sess_open")
        open.time = old.time
        _ = try file.write([
            old.entry(
                [old.question("a")], turns: [old.turn()], end: SessionEnd(.clientClosed)),
            open.entry(), changes.entry(end: SessionEnd(.clientClosed)),
        ])
        try file.deleteRecords(endedBefore: changes.time - 10)
        #expect(try RecordReader(file.database).heads(since: 0, limit: 9).count == 2)
        #expect(try document(file, "sess_old") == nil)
        for table in ["items", "turns", "uses"] {
            let rows = try file.database.number(
                "SELECT COUNT(*) FROM \(table) WHERE session = 'sess_old'")
            #expect(rows == 0, "\(table)")
        }
    }

    @Test func forWebhooksAloneNothingStays() throws {
        let file = try database(types: [.sessionEnded], forgetsEnded: true)
        _ = try file.write([
            changes.entry([changes.question("a")], isFirst: true),
            changes.entry(end: SessionEnd(.clientClosed)),
        ])
        #expect(try document(file) == nil)
        #expect(try webhooks(file).count == 1)
    }

    // MARK: The schema

    @Test func aFileOfALaterSchemaIsRefused() throws {
        let path = folder.file()
        do {
            let file = try database()
            try file.database.execute("PRAGMA user_version = 99")
        }
        #expect {
            _ = try RecordDatabase(path: path, process: "b")
        } throws: { "\($0)".contains("version 99") }
    }

    @Test func aTextIsNoFileOfRecords() throws {
        let path = folder.file()
        #expect(writeText(path, String(repeating: "no database ", count: 100)))
        #expect(throws: SQLiteError.self) { _ = try RecordDatabase(path: path, process: "b") }
    }

    /// The transaction of a change that cannot be written leaves nothing.
    @Test func whatCannotBeWrittenWholeIsNotWrittenAtAll() throws {
        let file = try database()
        let pages = try #require(try file.database.number("PRAGMA page_count"))
        try file.database.execute("PRAGMA max_page_count = \(pages + 2)")
        let large = changes.question(String(repeating: "x", count: 100_000))
        #expect {
            _ = try file.write([changes.entry(isFirst: true), changes.entry([large])])
        } throws: { ($0 as? SQLiteError)?.isFull == true }
        #expect(try document(file) == nil)
        try file.database.execute("PRAGMA max_page_count = 1000000")
        _ = try file.write([changes.entry(isFirst: true), changes.entry([large])])
        #expect(try document(file)?.items.count == 1)
    }
}
