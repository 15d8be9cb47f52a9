// The tables of the file that records are written to. The file is the database of records, or the spool
// of another database and of webhooks.
//
// Invariant: a file of an earlier schema is brought to the newest when it is opened, in one
// transaction. A file of a later one is refused, because this server does not know what it means.

/// The schema and its versions.
enum RecordSchema {
    /// The statements that each version adds, from the first on. A version that was released is
    /// never changed.
    static let migrations = [
        """
        CREATE TABLE processes (
            name TEXT PRIMARY KEY,
            seen_ms INTEGER NOT NULL
        );
        -- A session, over all the processes that have had it.
        CREATE TABLE sessions (
            id TEXT PRIMARY KEY,
            process TEXT NOT NULL,
            fence INTEGER NOT NULL,
            started_ms INTEGER NOT NULL,
            changed_ms INTEGER NOT NULL,
            ended_ms INTEGER,
            end_reason TEXT,
            close_code INTEGER,
            end_message TEXT,
            facts TEXT NOT NULL,
            redaction TEXT NOT NULL
        );
        CREATE INDEX sessions_by_start ON sessions (started_ms);
        CREATE INDEX sessions_by_end ON sessions (ended_ms);
        -- What a session has used in one stay in a process.
        CREATE TABLE uses (
            session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            process TEXT NOT NULL,
            -- By the clock of the process, which names the stay exactly.
            began_ns INTEGER NOT NULL,
            turns INTEGER NOT NULL,
            input_text_tokens INTEGER NOT NULL,
            input_audio_tokens INTEGER NOT NULL,
            cached_tokens INTEGER NOT NULL,
            output_text_tokens INTEGER NOT NULL,
            output_audio_tokens INTEGER NOT NULL,
            samples_in INTEGER NOT NULL,
            peak_bytes INTEGER NOT NULL,
            PRIMARY KEY (session, process, began_ns)
        );
        -- The order of the rows is the order in which the items came.
        CREATE TABLE items (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            id TEXT NOT NULL,
            added_ms INTEGER NOT NULL,
            deleted_ms INTEGER,
            out_of_band INTEGER NOT NULL,
            item TEXT NOT NULL,
            written TEXT,
            sent_ms INTEGER,
            heard_ms INTEGER,
            is_cut INTEGER,
            UNIQUE (session, id)
        );
        CREATE TABLE turns (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            response TEXT NOT NULL,
            turn TEXT NOT NULL,
            UNIQUE (session, response)
        );
        CREATE TABLE webhooks (
            id TEXT PRIMARY KEY,
            body TEXT NOT NULL,
            created_ms INTEGER NOT NULL,
            attempts INTEGER NOT NULL,
            due_ms INTEGER NOT NULL
        );
        CREATE INDEX webhooks_by_due ON webhooks (due_ms);
        """,
        """
        -- How long before `due_ms` it was set: a later one is left from a clock that was ahead.
        ALTER TABLE webhooks ADD COLUMN pause_ms INTEGER NOT NULL DEFAULT 0;
        """,
        """
        -- JSON: what came of the question about the session. 'null' while the answer is awaited, NULL where
        -- none was asked.
        ALTER TABLE sessions ADD COLUMN after_call TEXT;
        CREATE INDEX sessions_by_question ON sessions (process) WHERE after_call = 'null';
        """,
    ]

    /// Brings a file to the newest schema.
    static func migrate(_ database: SQLiteDatabase) throws(SQLiteError) {
        guard try version(of: database) < migrations.count else { return try check(database) }
        try database.transaction { () throws(SQLiteError) in
            // Another process may have been first.
            let version = try version(of: database)
            for number in version..<max(version, migrations.count) {
                try database.execute(migrations[number])
                try database.execute("PRAGMA user_version = \(number + 1)")
            }
        }
        try check(database)
    }

    /// Refuses a file that this server does not know.
    static func check(_ database: SQLiteDatabase) throws(SQLiteError) {
        let version = try version(of: database)
        guard version == migrations.count else {
            throw SQLiteError(
                code: 1,
                description: "its schema has version \(version), this server knows "
                    + "\(migrations.count)")
        }
    }

    private static func version(of database: SQLiteDatabase) throws(SQLiteError) -> Int {
        try database.number("PRAGMA user_version") ?? 0
    }
}
