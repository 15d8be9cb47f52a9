// Records for an operator to read and to delete: in an SQLite file or a PostgreSQL database, whichever it
// is.

import Codec
import Server
import Session

/// Reads and deletes records. Confined to one thread.
public struct RecordBrowser {
    private enum Source {
        case file(SQLiteDatabase)
        case postgreSQL(PostgreSQLRecords)
    }

    /// One session of a list.
    public struct Listing: Equatable, Sendable {
        /// `sess_…`
        public let id: String
        /// RFC 3339.
        public let startedAt: String
        /// When the session ended (RFC 3339), or nil where it has not.
        public let endedAt: String?
        /// Why it has ended.
        public let endReason: String?
    }

    private let source: Source

    /// Whether records at this place are in a PostgreSQL database, not in a file.
    public static func isPostgreSQL(_ place: String) -> Bool {
        place.hasPrefix("postgres://") || place.hasPrefix("postgresql://")
    }

    /// Opens the place of records.
    /// - Parameters:
    ///   - place: a path, or a URL that begins with `postgres://`.
    ///   - isReadOnly: whether nothing is deleted, so that a file may be one that cannot be written.
    public init(_ place: String, isReadOnly: Bool = true) throws(RecordError) {
        do {
            if Self.isPostgreSQL(place) {
                source = .postgreSQL(try PostgreSQLRecords(url: place))
            } else {
                let database = try SQLiteDatabase(path: place, isReadOnly: isReadOnly)
                try RecordSchema.check(database)
                source = .file(database)
            }
        } catch {
            // The URL of a database may hold a password; its errors name the host.
            let name = Self.isPostgreSQL(place) ? "the records" : place
            throw RecordError("\(name) cannot be read: \(error)")
        }
    }

    /// Sessions, the newest first.
    /// - Parameters:
    ///   - since: milliseconds since 1970 from which on sessions have begun.
    ///   - limit: how many at most.
    public func list(since: Int, limit: Int) throws(RecordError) -> [Listing] {
        try reading {
            switch source {
            case .file(let database):
                try RecordReader(database).heads(since: since, limit: limit).map(Listing.init)
            case .postgreSQL(let records):
                try records.list(since: since, limit: limit).map { row in
                    Listing(
                        id: row[0] ?? "", startedAt: row[1] ?? "", endedAt: row[2],
                        endReason: row[3])
                }
            }
        }
    }

    /// The record of a session: a JSON document, or one for each server that has had the session,
    /// in their order. Empty where there is no record.
    public func documents(_ sessionID: String) throws(RecordError) -> [String] {
        try reading {
            switch source {
            case .file(let database):
                try RecordReader(database).document(sessionID).map { [$0.json] } ?? []
            case .postgreSQL(let records): try records.documents(sessionID)
            }
        }
    }

    /// Ended sessions that fit, the newest first.
    /// - Parameter limit: how many at most, in place of the search's own.
    func search(_ search: RecordSearch, limit: Int) throws(RecordError) -> [RecordListing] {
        try reading {
            switch source {
            case .file(let database): try RecordReader(database).search(search, limit: limit)
            case .postgreSQL(let records): try records.search(search, limit: limit)
            }
        }
    }

    /// The state of a session's record.
    enum State: Equatable {
        case missing
        /// It has not ended.
        case open
        case ended
    }

    /// Whether a session has a record, and has ended. A database gets sessions that have ended only.
    func state(of sessionID: String) throws(RecordError) -> State {
        try reading {
            switch source {
            case .file(let database): try RecordReader(database).state(of: sessionID)
            case .postgreSQL(let records): try records.has(sessionID) ? .ended : .missing
            }
        }
    }

    /// Deletes the record of an ended session, if there is one. In a file, the webhook is written in the same
    /// transaction. For another database it is written first: a deletion without a webhook would be worse
    /// than one that is tried again, whose webhook has the same id.
    /// - Parameter webhooks: writes the webhook, or nil where there is no receiver.
    func delete(
        _ sessionID: String, telling webhooks: DeletionWebhooks? = nil
    ) throws(RecordError) {
        do {
            switch source {
            case .file(let database):
                try Self.erase(sessionID, from: database, telling: webhooks)
            case .postgreSQL(let records):
                if let webhooks {
                    let spool = try SQLiteDatabase(path: webhooks.spool)
                    try Self.overwriting(spool) { () throws(SQLiteError) in
                        try DeletionWebhooks.removeWaiting(sessionID, from: spool)
                        try webhooks.write(sessionID, into: spool)
                    }
                }
                try records.delete(sessionID)
            }
        } catch {
            throw RecordError("the record cannot be deleted: \(error)")
        }
    }

    /// The words of a session are in its record, and in webhooks that are not sent yet.
    private static func erase(
        _ sessionID: String, from database: SQLiteDatabase, telling webhooks: DeletionWebhooks?
    ) throws(SQLiteError) {
        try overwriting(database) { () throws(SQLiteError) in
            let deleted = try database.run(
                "DELETE FROM sessions WHERE id = ? AND ended_ms IS NOT NULL", .text(sessionID))
            // Everything of an open session stays.
            guard deleted > 0 else { return }
            try DeletionWebhooks.removeWaiting(sessionID, from: database)
            try webhooks?.write(sessionID, into: database)
        }
    }

    /// Runs one transaction. Deleted bytes are overwritten in the file, not only marked as free.
    private static func overwriting(
        _ database: SQLiteDatabase, _ body: () throws(SQLiteError) -> Void
    ) throws(SQLiteError) {
        try database.execute("PRAGMA secure_delete = ON")
        try database.transaction(body)
        _ = try database.rows("PRAGMA wal_checkpoint(TRUNCATE)") { _ in }
    }

    private func reading<Result>(_ read: () throws -> Result) throws(RecordError) -> Result {
        do { return try read() } catch {
            throw RecordError("the records cannot be read: \(error)")
        }
    }
}

/// The way to the receiver of webhooks for sessions that are deleted: the spool, from which the server sends
/// and signs. So it needs neither the URL nor the secret.
public struct DeletionWebhooks: Sendable {
    let writer: WebhookWriter
    /// Path of the file that the sender reads. This is the file of the records, where they are in a
    /// file.
    let spool: String

    /// - Parameter types: the events that the receiver wants.
    public init(_ types: Set<WebhookEventType>, spool: String) {
        (writer, self.spool) = (WebhookWriter(types: types), spool)
    }

    /// Removes the events of a session that are not sent yet.
    static func removeWaiting(
        _ sessionID: String, from spool: SQLiteDatabase
    ) throws(SQLiteError) {
        try spool.run(
            "DELETE FROM webhooks WHERE json_extract(body, '$.data.session_id') = ?",
            .text(sessionID))
    }

    func write(_ sessionID: String, into spool: SQLiteDatabase) throws(SQLiteError) {
        try writer.writeDeletion(of: sessionID, at: WallClock.milliseconds, into: spool)
    }
}

extension RecordBrowser.Listing {
    fileprivate init(_ head: RecordDocument.Head) {
        self.init(
            id: head.id, startedAt: Timestamp.text(milliseconds: head.startedAt),
            endedAt: head.endedAt.map { Timestamp.text(milliseconds: $0) },
            endReason: head.endReason)
    }
}
