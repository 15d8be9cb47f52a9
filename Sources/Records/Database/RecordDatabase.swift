// Writes changes of sessions into the file, and keeps it in order: sessions of processes that have
// ended without saying so, and records that are older than their owner wants.
//
// Invariant: the writes of one call happen completely or not at all, with the webhooks that follow
// from them. A change that is written twice makes no difference.

import Codec
import Session

/// The file of records, open for writing. Confined to one thread.
final class RecordDatabase {
    /// How long a process counts as alive after it was seen. 15 s: it writes that it is there every
    /// 2 s, and a disk may be busy for long.
    static let processLifetime = 15_000

    let database: SQLiteDatabase
    /// The name of this process in the file.
    private let process: String
    private let redaction: RecordRedaction
    /// Makes the events of webhooks, where webhooks are configured.
    private let webhooks: WebhookWriter?
    /// Whether a session's rows are deleted when it has ended: they serve webhooks alone.
    private let forgetsEnded: Bool
    /// Events of webhooks that were left out, because too many wait.
    var webhooksLeftOut = 0

    /// - Parameter path: of the file, which is made if it does not exist.
    init(
        path: String, process: String, redaction: RecordRedaction = .none,
        webhooks: WebhookWriter? = nil, forgetsEnded: Bool = false
    ) throws(SQLiteError) {
        database = try SQLiteDatabase(path: path)
        (self.process, self.redaction) = (process, redaction)
        (self.webhooks, self.forgetsEnded) = (webhooks, forgetsEnded)
        try RecordSchema.migrate(database)
    }

    // MARK: Changes

    /// A change, and the time of day at which it was taken, in milliseconds since 1970.
    struct Entry: Sendable {
        let change: RecordChange
        let takenAt: Int

        /// The time of day of an instant of the change.
        func time(of instant: Instant) -> Int {
            takenAt - (change.takenAt - instant).wholeMilliseconds
        }

        /// Whether the session's record is complete.
        var isComplete: Bool {
            if case .answered? = change.afterCall { return true }
            return change.end != nil && change.afterCall == nil
        }
    }

    /// Writes changes in their order.
    /// - Parameter takesNewSessions: false where changes of sessions that the file does not have
    ///   are left out, because the file has reached its limit.
    /// - Returns: how many changes were left out.
    func write(_ entries: [Entry], takesNewSessions: Bool = true) throws(SQLiteError) -> Int {
        var leftOut = 0
        try database.transaction { () throws(SQLiteError) in
            leftOut = 0
            for entry in entries {
                if !takesNewSessions, try !has(entry.change.sessionID) {
                    leftOut += 1
                    continue
                }
                try write(entry)
            }
        }
        return leftOut
    }

    private func has(_ sessionID: String) throws(SQLiteError) -> Bool {
        try database.number("SELECT 1 FROM sessions WHERE id = ?", .text(sessionID)) != nil
    }

    private func write(_ entry: Entry) throws(SQLiteError) {
        var entry = entry
        if redaction != .none {
            var change = entry.change
            redaction.apply(to: &change)
            entry = Entry(change: change, takenAt: entry.takenAt)
        }
        let change = entry.change
        if case .answered(let answer)? = change.afterCall {
            return try write(
                answer, of: change.sessionID, fence: Int(clamping: change.fence), at: entry.takenAt)
        }
        try writeSession(entry)
        try writeUse(change)
        for item in change.items { try write(item, of: entry) }
        for item in change.deleted {
            try database.run(
                "UPDATE items SET deleted_ms = ? WHERE session = ? AND id = ?",
                .integer(entry.time(of: item.at)), .text(change.sessionID), .text(item.id))
        }
        for turn in change.turns {
            try database.run(
                "INSERT INTO turns (session, response, turn) VALUES (?, ?, ?) "
                    + "ON CONFLICT (session, response) DO NOTHING",
                .text(change.sessionID), .text(turn.response.id),
                .text(RecordJSON.turn(turn, time: entry.time)))
        }
        try webhooks?.write(entry, into: self)
        if entry.isComplete, forgetsEnded { try delete(change.sessionID) }
    }

    /// Writes the answer about a session, if that still awaits it: the session was not deleted
    /// meanwhile, and has not gone on elsewhere.
    private func write(
        _ answer: AfterCallAnswer, of sessionID: String, fence: Int, at time: Int
    ) throws(SQLiteError) {
        let json = RecordJSON.afterCall(answer)
        let agents = try database.rows(
            """
            UPDATE sessions SET after_call = ? WHERE id = ? AND fence = ? AND after_call = ?
            RETURNING json_extract(facts, '$.agent')
            """,
            .text(json), .text(sessionID), .integer(fence), .text(RecordDocument.awaitedAnswer)
        ) { $0.text(0) }
        guard let agent = agents.first else { return }
        try webhooks?.write(afterCall: json, of: sessionID, agent: agent, at: time, into: self)
        if forgetsEnded { try delete(sessionID) }
    }

    /// Writes the session. A later owner of it replaces the data of an earlier one, never the
    /// reverse.
    private func writeSession(_ entry: Entry) throws(SQLiteError) {
        let change = entry.change
        let end = change.end
        try database.run(
            """
            INSERT INTO sessions (id, process, fence, started_ms, changed_ms, ended_ms, end_reason,
                close_code, end_message, facts, redaction, after_call)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET process = excluded.process, fence = excluded.fence,
                changed_ms = excluded.changed_ms, ended_ms = excluded.ended_ms,
                end_reason = excluded.end_reason, close_code = excluded.close_code,
                end_message = excluded.end_message, facts = excluded.facts,
                redaction = excluded.redaction, after_call = excluded.after_call
            WHERE excluded.fence >= fence
            """,
            .text(change.sessionID), .text(process), .integer(Int(clamping: change.fence)),
            .integer(entry.time(of: change.summary.startedAt)), .integer(entry.takenAt),
            .optional(end == nil ? nil : entry.takenAt), .optional(end?.reason.rawValue),
            .optional(end?.closeCode.map { Int($0.rawValue) }),
            .optional(end?.message.isEmpty == false ? end?.message : nil),
            .text(RecordJSON.facts(change.summary)), .text(redaction.rawValue),
            .optional(change.afterCall == nil ? nil : RecordDocument.awaitedAnswer))
    }

    private func writeUse(_ change: RecordChange) throws(SQLiteError) {
        let (summary, usage) = (change.summary, change.summary.usage)
        try database.run(
            "INSERT OR REPLACE INTO uses VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            .text(change.sessionID), .text(process),
            .integer(Int(summary.startedAt.nanoseconds)), .integer(summary.turns),
            .integer(usage.inputTextTokens),
            .integer(usage.inputAudioTokens), .integer(usage.cachedTokens),
            .integer(usage.outputTextTokens), .integer(usage.outputAudioTokens),
            .integer(summary.samplesIn), .integer(summary.peakBytes))
    }

    /// Writes an item. A reply that the client has cut keeps the text that was written of it.
    private func write(_ item: RecordedItem, of entry: Entry) throws(SQLiteError) {
        try database.run(
            """
            INSERT INTO items (session, id, added_ms, out_of_band, item, written, sent_ms, heard_ms,
                is_cut)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (session, id) DO UPDATE SET item = excluded.item,
                written = CASE WHEN excluded.is_cut THEN COALESCE(excluded.written, written) END,
                sent_ms = excluded.sent_ms, heard_ms = excluded.heard_ms, is_cut = excluded.is_cut
            """,
            .text(entry.change.sessionID), .text(item.item.id),
            .integer(entry.time(of: item.addedAt)), .flag(item.isOutOfBand),
            .text(RecordJSON.item(item.item)), .optional(item.written),
            .optional(item.speech?.sentMilliseconds), .optional(item.speech?.heardMilliseconds),
            item.speech.map { .flag($0.isCut) } ?? .null)
    }

    /// Deletes a session, with all that belongs to it.
    func delete(_ sessionID: String) throws(SQLiteError) {
        try database.run("DELETE FROM sessions WHERE id = ?", .text(sessionID))
    }

    // MARK: Order

    /// Notes that this process is alive.
    func noteAlive(at time: Int) throws(SQLiteError) {
        try database.run(
            "INSERT OR REPLACE INTO processes VALUES (?, ?)", .text(process), .integer(time))
    }

    /// Notes that this process ends. Then all data are in the file itself, not in its log, so that
    /// a copy of the file is complete.
    func noteEnd() throws(SQLiteError) {
        try database.run("DELETE FROM processes WHERE name = ?", .text(process))
        _ = try database.rows("PRAGMA wal_checkpoint(TRUNCATE)") { _ in }
    }

    /// Ends the sessions of processes that have not been seen for a while: they were killed.
    func endLostSessions(at time: Int) throws(SQLiteError) {
        try database.transaction { () throws(SQLiteError) in
            try database.run(
                "DELETE FROM processes WHERE seen_ms < ?", .integer(time - Self.processLifetime))
            let lost = try database.rows(
                """
                SELECT id FROM sessions WHERE ended_ms IS NULL
                AND process NOT IN (SELECT name FROM processes)
                """
            ) { $0.text(0) }
            for id in lost {
                try database.run(
                    "UPDATE sessions SET ended_ms = changed_ms, end_reason = ? WHERE id = ?",
                    .text(SessionEnd.Reason.serverLost.rawValue), .text(id))
                try webhooks?.writeEnd(of: id, at: time, into: self)
                if forgetsEnded { try delete(id) }
            }
            try endLostQuestions(at: time)
        }
    }

    /// Answers about sessions that their process can bring no more.
    private func endLostQuestions(at time: Int) throws(SQLiteError) {
        let lost = try database.rows(
            """
            SELECT id, fence FROM sessions WHERE after_call = '\(RecordDocument.awaitedAnswer)'
            AND process NOT IN (SELECT name FROM processes)
            """
        ) { ($0.text(0), $0.integer(1)) }
        for (id, fence) in lost {
            try write(
                .failed(
                    code: SessionEnd.Reason.serverLost.rawValue,
                    message: "The server ended before the model had answered."),
                of: id, fence: fence, at: time)
        }
    }

    /// Deletes the records of sessions that ended before a time.
    func deleteRecords(endedBefore time: Int) throws(SQLiteError) {
        try database.run("DELETE FROM sessions WHERE ended_ms < ?", .integer(time))
    }

    /// Bytes of the file that are in use.
    func usedBytes() throws(SQLiteError) -> Int {
        let pages = try database.number("PRAGMA page_count") ?? 0
        let free = try database.number("PRAGMA freelist_count") ?? 0
        return (pages - free) * (try database.number("PRAGMA page_size") ?? 0)
    }
}
