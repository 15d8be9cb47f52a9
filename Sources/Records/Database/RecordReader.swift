// Reads records out of the file: lists, and whole documents.

import Codec
import Session

/// Reads of a file of records. It writes nothing.
struct RecordReader {
    private let database: SQLiteDatabase

    init(_ database: SQLiteDatabase) { self.database = database }

    private static let headColumns = """
        id, fence, started_ms, ended_ms, changed_ms, end_reason, close_code, end_message, facts,
        redaction
        """

    private static func head(_ row: SQLiteStatement) -> RecordDocument.Head {
        RecordDocument.Head(
            id: row.text(0), fence: row.integer(1), startedAt: row.integer(2),
            endedAt: row.optionalInteger(3), changedAt: row.integer(4),
            endReason: row.optionalText(5), closeCode: row.optionalInteger(6),
            endMessage: row.optionalText(7), facts: row.text(8), redaction: row.text(9))
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

    /// Sessions that have ended, those that ended first before the others.
    func ended(limit: Int) throws(SQLiteError) -> [String] {
        try database.rows(
            "SELECT id FROM sessions WHERE ended_ms IS NOT NULL ORDER BY ended_ms LIMIT ?",
            .integer(limit)
        ) { $0.text(0) }
    }

    /// How many sessions have ended.
    func endedCount() throws(SQLiteError) -> Int {
        try database.number("SELECT COUNT(*) FROM sessions WHERE ended_ms IS NOT NULL") ?? 0
    }

    /// The record of a session; nil: there is none.
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

    /// How many items a session has.
    func itemCount(of sessionID: String) throws(SQLiteError) -> Int {
        try database.number("SELECT COUNT(*) FROM items WHERE session = ?", .text(sessionID)) ?? 0
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
