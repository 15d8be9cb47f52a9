// Reads records out of the file: lists, and whole documents.

import Codec
import Session

/// Reads of a file of records. It writes nothing.
struct RecordReader {
    private let database: SQLiteDatabase

    init(_ database: SQLiteDatabase) { self.database = database }

    private static let headColumns = """
        id, fence, started_ms, ended_ms, changed_ms, end_reason, close_code, end_message, facts,
        redaction, after_call
        """

    private static func head(_ row: SQLiteStatement) -> RecordDocument.Head {
        RecordDocument.Head(
            id: row.text(0), fence: row.integer(1), startedAt: row.integer(2),
            endedAt: row.optionalInteger(3), changedAt: row.integer(4),
            endReason: row.optionalText(5), closeCode: row.optionalInteger(6),
            endMessage: row.optionalText(7), facts: row.text(8), redaction: row.text(9),
            afterCall: row.optionalText(10))
    }

    /// Sessions, the newest first.
    /// - Parameters:
    ///   - since: milliseconds since 1970 from which on sessions have begun.
    ///   - limit: how many at most.
    func heads(since: Int, limit: Int) throws(SQLiteError) -> [RecordDocument.Head] {
        try database.rows(
            "SELECT \(Self.headColumns) FROM sessions WHERE started_ms >= ? "
                + "ORDER BY started_ms DESC, id LIMIT ?",
            .integer(since), .integer(limit), read: Self.head)
    }

    /// How long a search may take. 5 s, as a statement of PostgreSQL: other questions wait behind it.
    private static let searchTime = Duration.seconds(5)
    /// Parameters: start and id of the session behind which the list begins, the pattern, the limit.
    private static let searchStatement = """
        SELECT id, started_ms, ended_ms, end_reason, facts,
            (SELECT COALESCE(SUM(turns), 0) FROM uses WHERE session = sessions.id),
            (SELECT COUNT(*) FROM turns
                WHERE session = sessions.id AND json_extract(turn, '$.status') = 'failed')
        FROM sessions
        WHERE ended_ms IS NOT NULL
            AND (started_ms < ?1 OR started_ms = ?1 AND id > ?2)
            AND (id LIKE ?3 ESCAPE '\\'
                OR EXISTS (SELECT 1 FROM json_tree(facts) AS fact
                    WHERE fact.type = 'text' AND fact.value LIKE ?3 ESCAPE '\\')
                OR EXISTS (SELECT 1 FROM items, json_each(items.item, '$.content') AS part
                    WHERE items.session = sessions.id AND (
                        json_extract(part.value, '$.text') LIKE ?3 ESCAPE '\\'
                        OR json_extract(part.value, '$.transcript') LIKE ?3 ESCAPE '\\')))
        ORDER BY started_ms DESC, id LIMIT ?4
        """

    /// Ended sessions that fit a search, the newest first.
    /// - Parameter limit: how many at most, in place of the search's own.
    func search(_ search: RecordSearch, limit: Int) throws(SQLiteError) -> [RecordListing] {
        let after = search.after ?? RecordSearch.Place(startedAt: .max, id: "")
        return try database.within(Self.searchTime) { () throws(SQLiteError) in
            try database.rows(
                Self.searchStatement, .integer(after.startedAt), .text(after.id),
                .text(search.text.likePattern), .integer(limit)
            ) { row in
                RecordListing(
                    id: row.text(0), startedAt: row.integer(1), endedAt: row.integer(2),
                    endReason: row.text(3), facts: row.text(4), turns: row.integer(5),
                    failedTurns: row.integer(6))
            }
        }
    }

    /// Whether a session has a record, and has ended.
    func state(of sessionID: String) throws(SQLiteError) -> RecordBrowser.State {
        let isOpen = try database.number(
            "SELECT ended_ms IS NULL FROM sessions WHERE id = ?", .text(sessionID))
        guard let isOpen else { return .missing }
        return isOpen == 0 ? .ended : .open
    }

    /// Sessions whose record is complete, those that ended first before the others.
    func complete(limit: Int) throws(SQLiteError) -> [String] {
        try database.rows(
            """
            SELECT id FROM sessions WHERE ended_ms IS NOT NULL AND after_call IS NOT ?
            ORDER BY ended_ms LIMIT ?
            """, .text(RecordDocument.awaitedAnswer), .integer(limit)
        ) { $0.text(0) }
    }

    /// How many sessions have ended.
    func endedCount() throws(SQLiteError) -> Int {
        try database.number("SELECT COUNT(*) FROM sessions WHERE ended_ms IS NOT NULL") ?? 0
    }

    /// The record of a session, if there is one.
    func document(_ sessionID: String) throws(SQLiteError) -> RecordDocument? {
        let heads = try database.rows(
            "SELECT \(Self.headColumns) FROM sessions WHERE id = ?", .text(sessionID),
            read: Self.head)
        guard let head = heads.first else { return nil }
        return RecordDocument(
            head: head, use: try use(of: sessionID),
            items: try database.rows(
                """
                SELECT item, added_ms, deleted_ms, out_of_band, written, sent_ms, heard_ms, is_cut
                FROM items WHERE session = ? ORDER BY number
                """, .text(sessionID), read: Self.item),
            turns: try database.rows(
                "SELECT turn FROM turns WHERE session = ? ORDER BY number", .text(sessionID)
            ) { $0.text(0) })
    }

    private static func item(_ row: SQLiteStatement) -> RecordDocument.Item {
        RecordDocument.Item(
            item: row.text(0), addedAt: row.integer(1), deletedAt: row.optionalInteger(2),
            isOutOfBand: row.integer(3) != 0, written: row.optionalText(4),
            sentMilliseconds: row.optionalInteger(5), heardMilliseconds: row.optionalInteger(6),
            isCut: row.integer(7) != 0)
    }

    private func use(of sessionID: String) throws(SQLiteError) -> RecordDocument.Use {
        let parts = try database.rows(
            """
            SELECT turns, input_text_tokens, input_audio_tokens, cached_tokens, output_text_tokens,
                output_audio_tokens, samples_in, peak_bytes
            FROM uses WHERE session = ?
            """, .text(sessionID)
        ) { row in
            var use = RecordDocument.Use()
            use.turns = row.integer(0)
            use.usage.inputTextTokens = row.integer(1)
            use.usage.inputAudioTokens = row.integer(2)
            use.usage.cachedTokens = row.integer(3)
            use.usage.outputTextTokens = row.integer(4)
            use.usage.outputAudioTokens = row.integer(5)
            use.samplesIn = row.integer(6)
            use.peakBytes = row.integer(7)
            return use
        }
        return parts.reduce(into: RecordDocument.Use()) { sum, part in
            sum.turns &+= part.turns
            sum.usage.add(part.usage)
            sum.samplesIn &+= part.samplesIn
            sum.peakBytes = max(sum.peakBytes, part.peakBytes)
        }
    }
}

extension String {
    /// The pattern of LIKE for texts that contain this one, with `\` as the escape.
    var likePattern: String {
        let escaped = map { "%_\\".contains($0) ? "\\\($0)" : String($0) }.joined()
        return "%\(escaped)%"
    }
}
