// A connection to a SQLite file, and its statements. Nothing here knows what the file contains.
//
// Invariant: a connection and its statements stay on one thread. Several connections, also of several
// processes, may use one file: readers never wait for a writer (WAL), and a writer waits for another
// for `busyTimeout` at most.

import CSQLite
import Server
import Session

/// A call of SQLite that failed.
struct SQLiteError: Error, Equatable, CustomStringConvertible {
    /// The result code.
    let code: Int32
    /// SQLite's words.
    let description: String

    /// Whether the disk is full, or the file may not become larger.
    var isFull: Bool { code & 0xFF == SQLITE_FULL }
}

/// A value of a row.
enum SQLiteValue: Equatable {
    case null
    case integer(Int)
    case text(String)

    static func optional(_ value: Int?) -> SQLiteValue { value.map { .integer($0) } ?? .null }
    static func optional(_ value: String?) -> SQLiteValue { value.map { .text($0) } ?? .null }
    static func flag(_ value: Bool) -> SQLiteValue { .integer(value ? 1 : 0) }
}

/// An open database. Confined to one thread at a time.
final class SQLiteDatabase {
    /// How long a write waits for that of another process. 5 s: a batch takes milliseconds.
    private static let busyTimeout: Int32 = 5_000
    /// Steps of SQLite's machine between two looks at the time. 100,000: some milliseconds.
    private static let stepsBetweenLooks: Int32 = 100_000

    fileprivate let handle: OpaquePointer
    private var statements: [String: SQLiteStatement] = [:]
    /// When a statement is interrupted. Nil sets no limit.
    private var deadline: Instant?

    /// Opens a file, which is made if it does not exist.
    /// - Parameter isReadOnly: whether nothing is written, and nothing is made.
    init(path: String, isReadOnly: Bool = false) throws(SQLiteError) {
        var handle: OpaquePointer?
        let access = isReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
        let code = sqlite3_open_v2(path, &handle, access | SQLITE_OPEN_NOMUTEX, nil)
        guard code == SQLITE_OK, let handle else {
            let words = handle.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
            sqlite3_close_v2(handle)
            throw SQLiteError(code: code, description: words)
        }
        self.handle = handle
        sqlite3_busy_timeout(handle, Self.busyTimeout)
        if !isReadOnly {
            try execute("PRAGMA journal_mode = WAL")
            // A commit survives the end of the process at once, and a loss of power after the next
            // checkpoint.
            try execute("PRAGMA synchronous = NORMAL")
            try execute("PRAGMA foreign_keys = ON")
        }
    }

    deinit {
        statements = [:]
        sqlite3_close_v2(handle)
    }

    /// Runs statements without parameters.
    func execute(_ sql: String) throws(SQLiteError) {
        try check(sqlite3_exec(handle, sql, nil, nil, nil))
    }

    /// Runs one statement that gives no rows.
    /// - Returns: how many rows it has changed.
    @discardableResult
    func run(_ sql: String, _ values: SQLiteValue...) throws(SQLiteError) -> Int {
        let statement = try prepared(sql)
        defer { statement.reset() }
        try statement.bind(values)
        while try statement.step() {}
        return Int(sqlite3_changes64(handle))
    }

    /// The rows of a query.
    func rows<Row>(
        _ sql: String, _ values: SQLiteValue..., read: (SQLiteStatement) -> Row
    ) throws(SQLiteError) -> [Row] {
        let statement = try prepared(sql)
        defer { statement.reset() }
        try statement.bind(values)
        var rows: [Row] = []
        while try statement.step() { rows.append(read(statement)) }
        return rows
    }

    /// The first number of a query's first row, if there is one.
    func number(_ sql: String, _ values: SQLiteValue...) throws(SQLiteError) -> Int? {
        let statement = try prepared(sql)
        defer { statement.reset() }
        try statement.bind(values)
        return try statement.step() ? statement.integer(0) : nil
    }

    /// Runs `body`, whose changes happen all or not at all.
    func transaction(_ body: () throws(SQLiteError) -> Void) throws(SQLiteError) {
        try execute("BEGIN IMMEDIATE")
        do throws(SQLiteError) {
            try body()
            try execute("COMMIT")
        } catch {
            // This fails where SQLite has rolled back by itself, which does no harm.
            try? execute("ROLLBACK")
            throw error
        }
    }

    /// Runs `body`, whose statements end with an error when a time limit is over.
    /// - Parameter time: the time after which a running statement is interrupted.
    func within<Value>(
        _ time: Duration, _ body: () throws(SQLiteError) -> Value
    ) throws(SQLiteError) -> Value {
        deadline = MonotonicClock.now + time
        sqlite3_progress_handler(
            handle, Self.stepsBetweenLooks,
            { database in
                let database = database.map {
                    Unmanaged<SQLiteDatabase>.fromOpaque($0).takeUnretainedValue()
                }
                guard let deadline = database?.deadline else { return 0 }
                return MonotonicClock.now >= deadline ? 1 : 0
            }, Unmanaged.passUnretained(self).toOpaque())
        defer {
            sqlite3_progress_handler(handle, 0, nil, nil)
            deadline = nil
        }
        do throws(SQLiteError) { return try body() } catch {
            guard error.code == SQLITE_INTERRUPT else { throw error }
            throw SQLiteError(code: error.code, description: "it takes longer than \(time)")
        }
    }

    /// A statement is compiled once.
    private func prepared(_ sql: String) throws(SQLiteError) -> SQLiteStatement {
        if let known = statements[sql] { return known }
        var pointer: OpaquePointer?
        try check(sqlite3_prepare_v2(handle, sql, -1, &pointer, nil))
        guard let pointer else { throw SQLiteError(code: SQLITE_MISUSE, description: "no SQL") }
        let statement = SQLiteStatement(pointer, of: handle)
        statements[sql] = statement
        return statement
    }

    private func check(_ code: Int32) throws(SQLiteError) {
        guard code != SQLITE_OK else { return }
        throw SQLiteError(code: code, description: String(cString: sqlite3_errmsg(handle)))
    }
}

/// A compiled statement of a database, which it must not outlive.
final class SQLiteStatement {
    private let pointer: OpaquePointer
    private let handle: OpaquePointer

    fileprivate init(_ pointer: OpaquePointer, of handle: OpaquePointer) {
        (self.pointer, self.handle) = (pointer, handle)
    }

    deinit { sqlite3_finalize(pointer) }

    fileprivate func bind(_ values: [SQLiteValue]) throws(SQLiteError) {
        for (index, value) in values.enumerated() {
            let place = Int32(index + 1)
            switch value {
            case .null: try check(sqlite3_bind_null(pointer, place))
            case .integer(let number): try check(sqlite3_bind_int64(pointer, place, Int64(number)))
            case .text(let text):
                var text = text
                let code = text.withUTF8 { bytes in
                    bytes.withMemoryRebound(to: CChar.self) {
                        parley_sqlite_bind_text(pointer, place, $0.baseAddress, Int32($0.count))
                    }
                }
                try check(code)
            }
        }
    }

    /// - Returns: whether there is a row.
    fileprivate func step() throws(SQLiteError) -> Bool {
        let code = sqlite3_step(pointer)
        if code == SQLITE_ROW { return true }
        guard code == SQLITE_DONE else {
            throw SQLiteError(code: code, description: String(cString: sqlite3_errmsg(handle)))
        }
        return false
    }

    fileprivate func reset() {
        sqlite3_reset(pointer)
        sqlite3_clear_bindings(pointer)
    }

    private func check(_ code: Int32) throws(SQLiteError) {
        guard code != SQLITE_OK else { return }
        throw SQLiteError(code: code, description: String(cString: sqlite3_errmsg(handle)))
    }

    // MARK: The row

    /// A number; 0 for null.
    func integer(_ column: Int32) -> Int { Int(sqlite3_column_int64(pointer, column)) }

    /// A number, or nil.
    func optionalInteger(_ column: Int32) -> Int? {
        sqlite3_column_type(pointer, column) == SQLITE_NULL ? nil : integer(column)
    }

    /// A text; empty for null.
    func text(_ column: Int32) -> String { optionalText(column) ?? "" }

    /// A text, or nil.
    func optionalText(_ column: Int32) -> String? {
        guard let bytes = sqlite3_column_text(pointer, column) else { return nil }
        let count = Int(sqlite3_column_bytes(pointer, column))
        return String(decoding: UnsafeBufferPointer(start: bytes, count: count), as: UTF8.self)
    }
}
