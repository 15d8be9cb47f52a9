// Puts events into the spool, in the transaction of the change that they are about. So an event is sent
// exactly when its change was kept, however the process ends. RecordBrowser says when a deletion is sent.

import Codec
import Session

/// Writes the events that follow from changes.
struct WebhookWriter: Sendable {
    /// The events that the receiver wants.
    let types: Set<WebhookEventType>
    /// Events that may wait. 100,000: a day of an outage at one a second. Further ones are left out.
    static let maxWaiting = 100_000

    /// Writes the events of a change.
    func write(_ entry: RecordDatabase.Entry, into file: RecordDatabase) throws(SQLiteError) {
        let change = entry.change
        if change.isFirst, types.contains(.sessionStarted) {
            let time = entry.time(of: change.summary.startedAt)
            try put(WebhookEvent.started(change, at: time), at: entry.takenAt, into: file)
        }
        if types.contains(.turnCompleted) {
            for turn in change.turns {
                let body = WebhookEvent.completed(
                    turn, RecordJSON.turn(turn, time: entry.time), of: change.sessionID,
                    at: entry.time(of: turn.endedAt))
                try put(body, at: entry.takenAt, into: file)
            }
        }
        if change.end != nil {
            try writeEnd(of: change.sessionID, at: entry.takenAt, into: file)
        }
    }

    /// Writes that a session has ended, with its record.
    func writeEnd(
        of sessionID: String, at time: Int, into file: RecordDatabase
    ) throws(SQLiteError) {
        guard types.contains(.sessionEnded),
            let document = try RecordReader(file.database).document(sessionID)
        else { return }
        try put(WebhookEvent.ended(document, at: time), at: time, into: file)
    }

    /// Writes the answer to the question about a session.
    /// - Parameter answer: JSON, as in a record.
    func write(
        afterCall answer: String, of sessionID: String, agent: String, at time: Int,
        into file: RecordDatabase
    ) throws(SQLiteError) {
        guard types.contains(.sessionAfterCall) else { return }
        let body = WebhookEvent.afterCall(answer, of: sessionID, agent: agent, at: time)
        try put(body, at: time, into: file)
    }

    /// Writes that a session was deleted. The event has its id from the session: where a deletion
    /// fails and is tried again, a receiver knows the second event.
    /// - Parameter spool: the file that the sender reads.
    func writeDeletion(
        of sessionID: String, at time: Int, into spool: SQLiteDatabase
    ) throws(SQLiteError) {
        guard types.contains(.sessionDeleted) else { return }
        _ = try Self.put(
            WebhookEvent.deleted(sessionID, at: time), id: "msg_deleted_" + sessionID, at: time,
            into: spool)
    }

    private func put(
        _ body: String, at time: Int, into file: RecordDatabase
    ) throws(SQLiteError) {
        let id =
            "msg_" + String(UInt64.random(in: .min ... .max), radix: 36)
            + String(UInt64.random(in: .min ... .max), radix: 36)
        guard try !Self.put(body, id: id, at: time, into: file.database) else { return }
        file.webhooksLeftOut += 1
    }

    /// - Parameter id: stays the same however often the event is sent: by it a receiver knows one that
    ///   it has already.
    /// - Returns: false where too many wait, or one with this id.
    private static func put(
        _ body: String, id: String, at time: Int, into spool: SQLiteDatabase
    ) throws(SQLiteError) -> Bool {
        // The span of row numbers is the count, or more: it costs two look-ups. Only where it is too long,
        // because one event has waited while many others went, are the rows counted.
        let written = try spool.run(
            """
            INSERT OR IGNORE INTO webhooks (id, body, created_ms, attempts, due_ms) SELECT ?, ?, ?, 0, ?
            WHERE (SELECT COALESCE(MAX(rowid) - MIN(rowid), 0) FROM webhooks) < ?
                OR (SELECT COUNT(*) FROM webhooks) < ?
            """,
            .text(id), .text(body), .integer(time), .integer(time), .integer(maxWaiting),
            .integer(maxWaiting))
        return written > 0
    }
}
