// What an operator finds of ended sessions, and what deleting leaves: nothing.

import Codec
import Glibc
import Logging
import Server
import Session
import Synchronization
import Testing

@testable import Records

/// A value that another thread gives.
private final class Box: Sendable {
    private let lock = ConditionLock()
    private let value = Mutex<RecordFinding?>(nil)

    func put(_ finding: RecordFinding) {
        value.withLock { $0 = finding }
        lock.withLock { lock.broadcast() }
    }

    func take() -> RecordFinding {
        lock.withLock {
            while true {
                if let finding = value.withLock({ $0 }) { return finding }
                lock.wait()
            }
        }
    }
}

extension RecordShelf {
    /// The answer, once it has come.
    fileprivate func ask(_ question: RecordQuestion) -> RecordFinding {
        let box = Box()
        #expect(ask(question) { box.put($0) })
        return box.take()
    }

    fileprivate func ids(_ search: RecordSearch) -> [String] {
        guard case .list(let rows, _) = ask(.list(search)) else { return [] }
        return rows.map(\.id)
    }

    fileprivate func ids(_ text: String) -> [String] {
        var search = RecordSearch()
        search.text = text
        return ids(search)
    }
}

@Suite struct RecordShelfTests {
    private let folder = TemporaryFolder()

    /// Three ended sessions, the later ones newer, and one that is open.
    private func write() throws -> RecordDatabase {
        let file = try RecordDatabase(path: folder.file(), process: "process_a")
        for number in 1...4 {
            var changes = Changes(id: "sess_\(number)")
            changes.time += 60_000 * number
            let answer = changes.reply("100% of item_\(number)")
            var turn = changes.turn(output: [answer])
            if number == 2 {
                turn.response.status = .failed(
                    type: "server_error", code: "model_unavailable", message: "No.")
            }
            let end = number == 4 ? nil : SessionEnd(.clientClosed)
            let entry = changes.entry(
                [changes.question("Where is box \(number)?"), answer], turns: [turn],
                isFirst: true, end: end
            ) { $0.summary.subject = "key-\(number)" }
            _ = try file.write([entry])
        }
        return file
    }

    @Test func endedSessionsAreListedAndFound() throws {
        _ = try write()
        let shelf = RecordShelf(folder.file(), recordings: nil)
        defer { shelf.shutdown() }
        #expect(shelf.ids("") == ["sess_3", "sess_2", "sess_1"])
        // By id, by a fact, by what either party said; a name of a field is no word.
        #expect(shelf.ids("ESS_2") == ["sess_2"])
        #expect(shelf.ids("key-3") == ["sess_3"])
        #expect(shelf.ids("where is BOX 1") == ["sess_1"])
        #expect(shelf.ids("item_3") == ["sess_3"])
        #expect(shelf.ids("content") == [])
        // Signs of the search's own language are letters.
        #expect(shelf.ids("100% of") == ["sess_3", "sess_2", "sess_1"])
        #expect(shelf.ids("1%f") == [] && shelf.ids("sess\\_1") == [] && shelf.ids("'") == [])
        guard case .list(let rows, let hasMore) = shelf.ask(.list(RecordSearch())) else {
            Issue.record("no list")
            return
        }
        #expect(!hasMore && rows.map(\.turns) == [1, 1, 1])
        #expect(rows.map(\.failedTurns) == [0, 1, 0])
        #expect(rows.map(\.endReason) == ["client_closed", "client_closed", "client_closed"])
    }

    @Test func aListGoesOnBehindItsLastSession() throws {
        _ = try write()
        let shelf = RecordShelf(folder.file(), recordings: nil)
        defer { shelf.shutdown() }
        var search = RecordSearch()
        search.limit = 2
        guard case .list(let rows, true) = shelf.ask(.list(search)) else {
            Issue.record("no first page")
            return
        }
        #expect(rows.map(\.id) == ["sess_3", "sess_2"])
        search.after = rows.last?.place
        #expect(shelf.ids(search) == ["sess_1"])
    }

    @Test func aDeletedSessionLeavesNoRows() throws {
        let file = try write()
        let shelf = RecordShelf(folder.file(), recordings: nil)
        defer { shelf.shutdown() }
        #expect(shelf.ask(.delete("sess_4")) == .open)
        #expect(shelf.ask(.delete("sess_5")) == .missing)
        #expect(shelf.ask(.delete("sess_2")) == .deleted)
        #expect(shelf.ask(.delete("sess_2")) == .missing)
        #expect(shelf.ask(.show("sess_2")) == .missing)
        #expect(shelf.ids("") == ["sess_3", "sess_1"])
        for table in ["items", "turns", "uses"] {
            let rows = try file.database.number(
                "SELECT COUNT(*) FROM \(table) WHERE session = ?", .text("sess_2"))
            #expect(rows == 0, "\(table)")
        }
    }

    /// The receiver learns of a deletion once, and nothing that still waited for it.
    @Test func aDeletionIsToldToTheReceiverOfWebhooks() throws {
        let file = try write()
        try file.database.run(
            "INSERT INTO webhooks (id, body, created_ms, attempts, due_ms) VALUES (?, ?, 0, 0, 0)",
            .text("msg_1"), .text(#"{"data":{"session_id":"sess_2"}}"#))
        let secret = try #require(WebhookSecret("whsec_" + String(repeating: "A", count: 32)))
        var receiver = WebhookSettings(url: "https://localhost/", secrets: [secret])
        func delete(_ id: String) throws -> [String] {
            let settings = RecordSettings(
                path: folder.file(), destination: .file, webhooks: receiver)
            let shelf = RecordShelf(folder.file(), recordings: nil, settings)
            defer { shelf.shutdown() }
            #expect(shelf.ask(.delete(id)) == .deleted)
            #expect(shelf.ask(.delete(id)) == .missing)
            return try file.database.rows("SELECT body FROM webhooks") { $0.text(0) }
        }
        let bodies = try delete("sess_2")
        let parser = JSONParser()
        let event = try parser.parse(try #require(bodies.first))
        #expect(bodies.count == 1 && event["type"]?.string == "session.deleted")
        #expect(event["data"]?["session_id"]?.string == "sess_2")
        // A deletion that another database has refused is tried again.
        let again = DeletionWebhooks(receiver.types, spool: folder.file())
        try again.write("sess_2", into: file.database)
        let ids = try file.database.rows("SELECT id FROM webhooks") { $0.text(0) }
        #expect(ids == ["msg_deleted_sess_2"])
        receiver.types = [.sessionEnded]
        #expect(try delete("sess_1") == bodies, "an event that nobody wants")
    }

    @Test func recordingsAreReadInPiecesAndDeleted() throws {
        _ = try write()
        let recordings = TemporaryFolder()
        let day = recordings.file("2026-11-23")
        #expect(mkdir(day, 0o700) == 0)
        for name in ["sess_1", "sess_1-184512", "sess_10"] {
            for side in ["user", "agent"] {
                #expect(writeText("\(day)/\(name).\(side).opus", "\(side) of \(name)"))
            }
        }
        let archive = try RecordingArchive(
            RecordingSettings(folder: recordings.path), logger: Logger(label: "test"))
        defer { archive.shutdown() }
        let shelf = RecordShelf(folder.file(), recordings: archive)
        defer { shelf.shutdown() }
        guard case .record(let documents, let listed) = shelf.ask(.show("sess_1")) else {
            Issue.record("no record")
            return
        }
        #expect(documents.count == 1)
        #expect(listed.map(\.name) == ["sess_1-184512", "sess_1"])
        #expect(listed.map(\.userBytes) == [21, 14] && listed.map(\.agentBytes) == [22, 15])
        func piece(_ name: String, _ offset: Int, _ count: Int) -> RecordFinding {
            shelf.ask(
                .listen(RecordingPiece(name: name, side: .agent, offset: offset, count: count)))
        }
        #expect(piece("sess_1", 0, 5) == .piece(Array("agent".utf8), of: 15))
        #expect(piece("sess_1", 9, 99) == .piece(Array("sess_1".utf8), of: 15))
        #expect(piece("sess_1", 15, 1) == .piece([], of: 15))
        #expect(piece("sess_1", .max, .max) == .piece([], of: 15))
        for name in ["sess_2", "../2026-11-23/sess_1", "sess_1.user", "", "sess_1/"] {
            #expect(piece(name, 0, 5) == .missing, "\(name)")
        }
        #expect(shelf.ask(.delete("sess_1")) == .deleted)
        #expect(piece("sess_1", 0, 5) == .missing && piece("sess_1-184512", 0, 5) == .missing)
        // Another session, whose id begins alike, stays.
        #expect(piece("sess_10", 0, 5) == .piece(Array("agent".utf8), of: 16))
        for side in ["user", "agent"] { unlink("\(day)/sess_10.\(side).opus") }
        rmdir(day)
    }

    @Test func aStatementEndsWhenItsTimeIsOver() throws {
        let database = try RecordDatabase(path: folder.file(), process: "process_a").database
        let endless =
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
            + "SELECT COUNT(*) FROM n"
        let error = #expect(throws: SQLiteError.self) {
            try database.within(.zero) { () throws(SQLiteError) in try database.number(endless) }
        }
        #expect(error?.description.contains("longer") == true)
        // The connection is as good as before, without a limit.
        #expect(try database.number("SELECT COUNT(*) FROM sessions") == 0)
    }

    @Test func recordsThatCannotBeReadAreAskedForAgain() throws {
        let shelf = RecordShelf(folder.file("later.db"), recordings: nil)
        defer { shelf.shutdown() }
        guard case .failed(let reason) = shelf.ask(.list(RecordSearch())) else {
            Issue.record("an empty file was read")
            return
        }
        #expect(reason.contains("later.db"))
        _ = try RecordDatabase(path: folder.file("later.db"), process: "process_a")
        #expect(shelf.ask(.list(RecordSearch())) == .list([], hasMore: false))
    }

    @Test func afterTheEndThereIsNoAnswer() {
        let shelf = RecordShelf(folder.file(), recordings: nil)
        shelf.shutdown()
        #expect(!shelf.ask(.show("sess_1")) { _ in Issue.record("an answer after the end") })
    }
}
