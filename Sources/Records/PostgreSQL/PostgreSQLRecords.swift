// The table of records in a PostgreSQL database: its schema, and what is written and read there.

import Codec
import Session

/// The records of a PostgreSQL database. Confined to one thread.
struct PostgreSQLRecords {
    private let connection: PostgreSQLConnection

    /// The statements that each version of the schema adds. A version that was released is never
    /// changed.
    private static let migrations = [
        """
        CREATE TABLE parley_sessions (
            id text NOT NULL,
            started_at timestamptz NOT NULL,
            fence bigint NOT NULL,
            ended_at timestamptz NOT NULL,
            end_reason text NOT NULL,
            document jsonb NOT NULL,
            PRIMARY KEY (id, started_at)
        );
        CREATE INDEX parley_sessions_by_start ON parley_sessions (started_at);
        CREATE INDEX parley_sessions_by_end ON parley_sessions (ended_at);
        """
    ]
    /// A lock of the database for the time of a migration: several servers may start at once.
    private static let migrationLock = 7_270_415

    /// Connects. Nothing is changed, so that a reader needs no right to write.
    init(url: String) throws(PostgreSQLError) { connection = try PostgreSQLConnection(url: url) }

    /// Brings the schema to the newest version.
    func migrate() throws(PostgreSQLError) {
        try connection.transaction { () throws(PostgreSQLError) in try upgrade() }
    }

    private func upgrade() throws(PostgreSQLError) {
        try connection.run("SELECT pg_advisory_xact_lock(\(Self.migrationLock))")
        try connection.run("CREATE TABLE IF NOT EXISTS parley_schema (version int NOT NULL)")
        let known = try connection.run("SELECT max(version) FROM parley_schema")
        let version = known.first?.first.flatMap { $0 }.flatMap { Int($0) } ?? 0
        guard version <= Self.migrations.count else {
            throw PostgreSQLError(
                description: "its schema has version \(version), this server knows "
                    + "\(Self.migrations.count)")
        }
        for number in version..<Self.migrations.count {
            for statement in Self.migrations[number].split(separator: ";\n") {
                try connection.run(String(statement))
            }
            try connection.run("INSERT INTO parley_schema VALUES ($1)", "\(number + 1)")
        }
    }

    /// Writes records, all or none. One that is there already is replaced.
    func write(_ documents: [RecordDocument]) throws(PostgreSQLError) {
        try connection.transaction { () throws(PostgreSQLError) in
            for document in documents { try write(document) }
        }
    }

    private func write(_ document: RecordDocument) throws(PostgreSQLError) {
        let head = document.head
        try connection.run(
            """
            INSERT INTO parley_sessions VALUES ($1, $2, $3, $4, $5, $6)
            ON CONFLICT (id, started_at) DO UPDATE SET fence = excluded.fence,
                ended_at = excluded.ended_at, end_reason = excluded.end_reason,
                document = excluded.document
            """,
            head.id, Timestamp.text(milliseconds: head.startedAt), "\(head.fence)",
            Timestamp.text(milliseconds: head.endedAt ?? head.changedAt), head.endReason ?? "",
            // jsonb has no NUL.
            document.json.replacingNUL)
    }

    /// Deletes records of sessions that ended at least this many days ago.
    func deleteRecords(olderThanDays days: Int) throws(PostgreSQLError) {
        try connection.transaction { () throws(PostgreSQLError) in
            _ = try connection.run(
                "DELETE FROM parley_sessions WHERE ended_at < now() - make_interval(days => $1)",
                "\(days)")
        }
    }

    // MARK: Reading

    /// Sessions, the newest first: id, begin, end, reason and number of responses.
    func list(since milliseconds: Int, limit: Int) throws(PostgreSQLError) -> [[String?]] {
        try connection.transaction { () throws(PostgreSQLError) in
            try connection.run(
                """
                SELECT id,
                    to_char(min(started_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
                    to_char(max(ended_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
                    (array_agg(end_reason ORDER BY started_at DESC))[1]
                FROM parley_sessions WHERE started_at >= $1
                GROUP BY id ORDER BY min(started_at) DESC, id LIMIT $2
                """, Timestamp.text(milliseconds: milliseconds), "\(limit)")
        }
    }

    /// The documents of a session, one for each server that has had it, the first one first.
    func documents(_ sessionID: String) throws(PostgreSQLError) -> [String] {
        try connection.transaction { () throws(PostgreSQLError) in
            try connection.run(
                "SELECT document FROM parley_sessions WHERE id = $1 ORDER BY started_at", sessionID)
        }.compactMap { $0.first.flatMap { $0 } }
    }

    /// Sessions that fit a search, the newest first.
    /// - Parameter limit: how many at most, in place of the search's own.
    func search(_ search: RecordSearch, limit: Int) throws(PostgreSQLError) -> [RecordListing] {
        let after = search.after
        return try connection.transaction { () throws(PostgreSQLError) in
            try connection.run(
                """
                WITH fitting AS (
                    SELECT * FROM parley_sessions AS record WHERE $1 = '%%'
                        OR EXISTS (SELECT 1 FROM parley_sessions AS part
                            WHERE part.id = record.id AND (part.id ILIKE $1
                                OR EXISTS (SELECT 1 FROM jsonb_path_query(part.document,
                                        'strict $.session.** ? (@.type() == "string")') AS fact
                                    WHERE fact #>> '{}' ILIKE $1)
                                OR EXISTS (SELECT 1 FROM jsonb_path_query(part.document,
                                        '$.items[*].item.content[*].keyvalue()
                                            ? (@.key == "text" || @.key == "transcript").value')
                                        AS words
                                    WHERE words #>> '{}' ILIKE $1)))
                ), listed AS (
                    SELECT id, \(Self.milliseconds("min(started_at)")) AS started,
                        \(Self.milliseconds("max(ended_at)")) AS ended,
                        (array_agg(end_reason ORDER BY started_at DESC))[1] AS reason,
                        (array_agg(document -> 'session' ORDER BY started_at DESC))[1] AS facts,
                        sum((document ->> 'response_count')::bigint) AS turns,
                        sum((SELECT count(*) FROM jsonb_path_query(document,
                            '$.turns[*] ? (@.status == "failed")'))) AS failed
                    FROM fitting GROUP BY id
                )
                SELECT id, started, ended, reason, facts, turns, failed FROM listed
                WHERE started < $2::bigint OR started = $2::bigint AND id > $3
                ORDER BY started DESC, id LIMIT $4::bigint
                """,
                search.text.likePattern, "\(after?.startedAt ?? .max)", after?.id ?? "", "\(limit)")
        }.map(Self.listing)
    }

    private static func milliseconds(_ time: String) -> String {
        "round(extract(epoch FROM \(time)) * 1000)::bigint"
    }

    private static func listing(_ row: [String?]) -> RecordListing {
        func number(_ column: Int) -> Int { row[column].flatMap { Int($0) } ?? 0 }
        return RecordListing(
            id: row[0] ?? "", startedAt: number(1), endedAt: number(2), endReason: row[3] ?? "",
            facts: row[4] ?? "{}", turns: number(5), failedTurns: number(6))
    }

    /// Whether there is a record of a session.
    func has(_ sessionID: String) throws(PostgreSQLError) -> Bool {
        try connection.transaction { () throws(PostgreSQLError) in
            try connection.run("SELECT 1 FROM parley_sessions WHERE id = $1 LIMIT 1", sessionID)
        }.isEmpty == false
    }

    /// Deletes all records of a session.
    func delete(_ sessionID: String) throws(PostgreSQLError) {
        try connection.transaction { () throws(PostgreSQLError) in
            _ = try connection.run("DELETE FROM parley_sessions WHERE id = $1", sessionID)
        }
    }
}

extension String {
    /// The text with the escape of NUL replaced: PostgreSQL's `jsonb` does not take it.
    fileprivate var replacingNUL: String {
        guard contains("\\u0000") else { return self }
        return split(separator: "\\u0000", omittingEmptySubsequences: false)
            .joined(separator: "\\ufffd")
    }
}
