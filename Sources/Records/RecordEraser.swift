// Erases sessions for an operator: their records, their recordings in a folder, and of an SQLite file the
// webhooks that are not sent yet. Spools of other servers are not known here. RecordBrowser reads the same
// places.
//
// Invariant: a session that is open is refused before anything of it is deleted, because its server would
// write it again.

/// Erases what is kept of sessions.
public struct RecordEraser {
    private enum Source {
        case file(SQLiteDatabase)
        case postgreSQL(PostgreSQLRecords)
    }

    /// What was deleted of a session.
    public struct Erased: Equatable, Sendable {
        /// Records: one, or one for each server that has had the session.
        public var records = 0
        /// Files of recordings.
        public var files = 0

        /// Whether there was nothing of the session.
        public var isEmpty: Bool { records == 0 && files == 0 }
    }

    private let source: Source
    private let folder: String?

    /// Opens the place of records, which must exist.
    /// - Parameters:
    ///   - place: a path, or a URL that begins with `postgres://`.
    ///   - folder: the folder of recordings; nil: recordings stay.
    public init(_ place: String, recordings folder: String?) throws(RecordError) {
        // Opening a file for writing would make a missing one.
        _ = try RecordBrowser(place)
        self.folder = folder
        source = try Self.erasing {
            RecordBrowser.isPostgreSQL(place)
                ? .postgreSQL(try PostgreSQLRecords(url: place))
                : .file(try SQLiteDatabase(path: place))
        }
    }

    /// The ids of a caller's sessions, the first one first.
    /// - Parameter caller: the number that a telephone call came from, or the `subject` of a record.
    public func sessions(ofCaller caller: String) throws(RecordError) -> [String] {
        try Self.erasing {
            switch source {
            case .file(let database):
                try database.rows(
                    """
                    SELECT id FROM sessions WHERE ? IN (json_extract(facts, '$.call.from'),
                        json_extract(facts, '$.subject')) ORDER BY started_ms, id
                    """, .text(caller)
                ) { $0.text(0) }
            case .postgreSQL(let records): try records.sessions(ofCaller: caller)
            }
        }
    }

    /// Erases a session.
    /// - Throws: where it is open or being recorded, or a file cannot be removed.
    public func erase(_ sessionID: String) throws(RecordError) -> Erased {
        let files =
            folder.map { RecordedFile.all(in: $0).filter { $0.sessionID == sessionID } } ?? []
        guard files.allSatisfy(\.isComplete) else {
            throw RecordError("\(sessionID) is still being recorded")
        }
        var erased = Erased(records: try eraseRecord(of: sessionID))
        for file in files {
            guard file.remove() else { throw RecordError("\(file.path) cannot be removed") }
            erased.files += 1
        }
        return erased
    }

    private func eraseRecord(of sessionID: String) throws(RecordError) -> Int {
        let erased: Int? = try Self.erasing {
            switch source {
            case .file(let database): try Self.erase(sessionID, from: database)
            case .postgreSQL(let records): try records.delete(sessionID)
            }
        }
        guard let erased else { throw RecordError("\(sessionID) is open: close it first") }
        return erased
    }

    /// Returns how many records there were; nil: the session is open.
    private static func erase(
        _ sessionID: String, from database: SQLiteDatabase
    ) throws(SQLiteError) -> Int? {
        var erased: Int?
        // Words are overwritten, not only forgotten.
        try database.execute("PRAGMA secure_delete = ON")
        try database.transaction { () throws(SQLiteError) in
            let open = try database.number(
                "SELECT 1 FROM sessions WHERE id = ? AND ended_ms IS NULL", .text(sessionID))
            guard open == nil else { return }
            try database.run(
                "DELETE FROM webhooks WHERE json_extract(body, '$.data.session_id') = ?",
                .text(sessionID))
            erased = try database.run("DELETE FROM sessions WHERE id = ?", .text(sessionID))
        }
        _ = try database.rows("PRAGMA wal_checkpoint(TRUNCATE)") { _ in }
        return erased
    }

    private static func erasing<Result>(_ body: () throws -> Result) throws(RecordError) -> Result {
        do { return try body() } catch {
            throw RecordError("the records cannot be changed: \(error)")
        }
    }
}
