// What is deleted at the command line: the sessions of one caller, and nobody else's.

import Codec
import Glibc
import Server
import Session
import Testing

@testable import Records

@Suite struct SessionErasureTests {
    private let folder = TemporaryFolder()

    /// Ended sessions of callers, in which each caller's name is also said by the next.
    private func write(_ callers: [String], open: Set<Int> = []) throws {
        let file = try RecordDatabase(path: folder.file(), process: "process_a")
        for (number, caller) in callers.enumerated() {
            var changes = Changes(id: "sess_\(number)")
            changes.time += 60_000 * number
            let before = number > 0 ? callers[number - 1] : "nobody"
            let entry = changes.entry(
                [changes.question("Put me through to \(before).")], isFirst: true,
                end: open.contains(number) ? nil : SessionEnd(.clientClosed)
            ) { $0.summary.subject = caller }
            _ = try file.write([entry])
        }
    }

    @Test func theSessionsOfACallerAreThoseItHad() throws {
        try write(["anna", "bert", "anna", "carl"])
        let erasure = try SessionErasure(folder.file(), recordingsFolder: nil)
        #expect(try erasure.sessions(of: "anna") == ["sess_2", "sess_0"])
        #expect(try erasure.sessions(of: "ann") == [], "a part of a name is another name")
        for id in try erasure.sessions(of: "anna") { try erasure.erase(id) }
        #expect(try erasure.sessions(of: "anna") == [])
        for id in ["sess_1", "sess_3"] { try erasure.check(id) }
        #expect(throws: RecordError.self) { try erasure.check("sess_0") }
    }

    /// What was said is not in the file any more, neither in a record nor in a webhook.
    @Test func theWordsAreOverwritten() throws {
        try write(["anna", "bert"])
        let database = try SQLiteDatabase(path: folder.file())
        for id in ["sess_0", "sess_1"] {
            try database.run(
                "INSERT INTO webhooks (id, body, created_ms, attempts, due_ms) VALUES (?, ?, 0, 0, 0)",
                .text("msg_" + id),
                .text(#"{"data":{"session_id":"\#(id)","words":"secret \#(id)"}}"#))
        }
        try SessionErasure(folder.file(), recordingsFolder: nil).erase("sess_0")
        #expect(try database.number("SELECT count(*) FROM webhooks") == 1)
        let bytes = try WholeFile.read(folder.file(), maxBytes: 1 << 24)
        let text = String(decoding: bytes, as: UTF8.self)
        #expect(!text.contains("secret sess_0") && !text.contains("through to nobody"))
        #expect(text.contains("secret sess_1") && text.contains("through to anna"))
    }

    /// More than one page of the search.
    @Test func manySessionsAreAllFound() throws {
        try write(Array(repeating: "anna", count: 130))
        let erasure = try SessionErasure(folder.file(), recordingsFolder: nil)
        #expect(try erasure.sessions(of: "anna").count == 130)
    }

    @Test func anOpenSessionIsNotDeleted() throws {
        try write(["anna"], open: [0])
        let erasure = try SessionErasure(folder.file(), recordingsFolder: nil)
        #expect(throws: RecordError.self) { try erasure.check("sess_0") }
        #expect(throws: RecordError.self) { try erasure.erase("sess_0") }
        #expect(try RecordBrowser(folder.file()).documents("sess_0").count == 1)
    }

    /// The event lies where the running server looks for events, with the id that the page's has.
    @Test func theReceiverOfWebhooksIsTold() throws {
        try write(["anna", "bert"])
        let webhooks = DeletionWebhooks([.sessionDeleted], spool: folder.file())
        let erasure = try SessionErasure(
            folder.file(), recordingsFolder: nil, telling: webhooks)
        try erasure.erase("sess_0")
        let events = try SQLiteDatabase(path: folder.file())
            .rows("SELECT id, body FROM webhooks") { [$0.text(0), $0.text(1)] }
        #expect(events.count == 1 && events.first?.first == "msg_deleted_sess_0")
        let parser = JSONParser()
        let body = try parser.parse(try #require(events.first?.last))
        #expect(body["type"]?.string == "session.deleted")
        #expect(body["data"]?["session_id"]?.string == "sess_0")
        let unwanted = DeletionWebhooks([.sessionEnded], spool: folder.file())
        try SessionErasure(folder.file(), recordingsFolder: nil, telling: unwanted).erase("sess_1")
        let count = try SQLiteDatabase(path: folder.file()).number("SELECT COUNT(*) FROM webhooks")
        #expect(count == 1, "an event that the receiver does not want")
    }

    /// A wrong path is told, and leaves no empty file or folder.
    @Test func whatIsNotThereIsNotMade() throws {
        try write(["anna"])
        let missing = folder.file("missing")
        let webhooks = DeletionWebhooks([.sessionDeleted], spool: missing)
        #expect(throws: RecordError.self) { try SessionErasure(missing, recordingsFolder: nil) }
        #expect(throws: RecordError.self) {
            try SessionErasure(folder.file(), recordingsFolder: missing)
        }
        #expect(throws: RecordError.self) {
            try SessionErasure(folder.file(), recordingsFolder: nil, telling: webhooks)
        }
        #expect(access(missing, F_OK) != 0)
    }

    /// Its server would complete the file, and no record would lead to it.
    @Test func aSessionWithAnUnfinishedRecordingIsLeft() throws {
        try write(["anna"])
        let recordings = TemporaryFolder()
        let day = recordings.file("2026-11-23")
        #expect(mkdir(day, 0o700) == 0)
        for name in ["sess_0.user.opus", "sess_0-184512.user.opus.part", "sess_01.user.opus"] {
            #expect(writeText("\(day)/\(name)", "sound"))
        }
        let erasure = try SessionErasure(folder.file(), recordingsFolder: recordings.path)
        let refusal = #expect(throws: RecordError.self) { try erasure.check("sess_0") }
        #expect(refusal?.description.contains("sess_0-184512.user.opus.part") == true)
        #expect(throws: RecordError.self) { try erasure.erase("sess_0") }
        #expect(access("\(day)/sess_0.user.opus", F_OK) == 0)
        #expect(unlink("\(day)/sess_0-184512.user.opus.part") == 0)
        try erasure.erase("sess_0")
        #expect(access("\(day)/sess_0.user.opus", F_OK) != 0)
        #expect(access("\(day)/sess_01.user.opus", F_OK) == 0)
        #expect(try RecordBrowser(folder.file()).documents("sess_0") == [])
    }

    /// The server finds a note for each uploaded file. The record stays where it cannot be known what there
    /// is.
    @Test func whatWasUploadedIsNotedForTheServer() throws {
        try write(["anna", "bert"])
        let recordings = RecordingArchiveTests.Folder()
        try recordings.leave("uploaded", Array("\nsess_0.user\nsess_0.agent\nsess_1.user".utf8))
        try recordings.leave("uploaded", Array("\nsess_0-184512.user".utf8), in: "2026-11-24")
        let erasure = try SessionErasure(folder.file(), recordingsFolder: recordings.path)
        #expect(try erasure.erase("sess_0") == 3)
        let notes = try RecordingFolder(recordings.path, maxBytes: 0).notedErasures()
        #expect(
            notes.map(\.place) == [
                "2026-11-23/sess_0.agent.opus", "2026-11-23/sess_0.user.opus",
                "2026-11-24/sess_0-184512.user.opus",
            ])
        let list = "\(recordings.path)/2026-11-24/uploaded"
        #expect(unlink(list) == 0 && symlink("elsewhere", list) == 0)
        let refusal = #expect(throws: RecordError.self) { try erasure.erase("sess_1") }
        #expect(refusal?.description.contains("cannot read \(list)") == true)
        #expect(try RecordBrowser(folder.file()).documents("sess_1").count == 1)
        #expect(unlink(list) == 0)
        #expect(try erasure.erase("sess_1") == 1)
    }
}
