// What an operator erases is gone, with its webhooks and recordings; all else stays.

import Glibc
import Session
import Testing

@testable import Records

@Suite struct RecordEraserTests {
    private let folder = TemporaryFolder()

    /// A file of three sessions: two of one caller, of which the second is open, and one of another caller.
    private func fill() throws {
        let file = try RecordDatabase(
            path: folder.file(), process: "process_a",
            webhooks: WebhookWriter(types: Set(WebhookEventType.allCases)))
        for (id, subject, isOpen) in [("a", "ada", false), ("b", "ada", true), ("c", "bob", false)]
        {
            var changes = Changes()
            changes.id = "sess_\(id)"
            let end = isOpen ? nil : SessionEnd(.clientClosed, closeCode: .normalClosure)
            let entry = changes.entry([changes.question("What?")], isFirst: true, end: end) {
                $0.summary.subject = subject
            }
            _ = try file.write([entry])
        }
    }

    private func count(_ table: String) throws -> Int? {
        try SQLiteDatabase(path: folder.file(), isReadOnly: true)
            .number("SELECT COUNT(*) FROM \(table)")
    }

    @Test func aSessionGoesWithItsItemsAndWebhooks() throws {
        try fill()
        let (items, webhooks) = (try count("items"), try count("webhooks"))
        #expect(items == 3 && webhooks == 5)
        let eraser = try RecordEraser(folder.file(), recordings: nil)
        #expect(try eraser.erase("sess_a") == RecordEraser.Erased(records: 1))
        #expect(try eraser.erase("sess_a").isEmpty)
        #expect(try count("sessions") == 2 && count("items") == 2 && count("webhooks") == 3)
    }

    @Test func aCallersSessionsAreFoundAndAnOpenOneIsRefused() throws {
        try fill()
        let eraser = try RecordEraser(folder.file(), recordings: nil)
        #expect(try eraser.sessions(ofCaller: "ada") == ["sess_a", "sess_b"])
        #expect(try eraser.sessions(ofCaller: "ad").isEmpty)
        #expect(throws: RecordError.self) { try eraser.erase("sess_b") }
        #expect(try count("sessions") == 3)
    }

    @Test func aMissingFileIsRefusedAndNotMade() {
        #expect(throws: RecordError.self) {
            try RecordEraser(folder.file("none.db"), recordings: nil)
        }
        #expect(access(folder.file("none.db"), F_OK) != 0)
    }
}
