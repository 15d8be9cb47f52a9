// A connection to a PostgreSQL server, by libpq, whose calls wait. Confined to one thread.
//
// Nothing is sent when connecting that a pooler refuses: PgBouncer knows no `options`, as its
// package configures it. Settings in the operator's URL win over those that are set here. Limits of
// time belong to a transaction, because a pooler gives each transaction another connection of its
// own.

import CPostgreSQL
import Glibc

/// A call of PostgreSQL that failed.
struct PostgreSQLError: Error, CustomStringConvertible {
    /// The server's or libpq's words.
    let description: String
    /// Whether another attempt cannot succeed, because the server has refused the statement itself.
    var isRefusal = false
}

/// An open connection.
final class PostgreSQLConnection {
    /// Seconds that a new connection may take, and after which a server that does not answer counts
    /// as away. 5 s each.
    private static let timeoutSeconds = 5

    private let handle: OpaquePointer

    /// Connects.
    /// - Parameter url: `postgres://…`, or any connection string of libpq.
    init(url: String) throws(PostgreSQLError) {
        // "dbname" is expanded as a connection string, which has precedence over what is before it.
        let options: [(String, String)] = [
            ("connect_timeout", "\(Self.timeoutSeconds)"), ("application_name", "parley"),
            ("tcp_user_timeout", "\(Self.timeoutSeconds * 1_000)"),
            ("keepalives_idle", "\(Self.timeoutSeconds)"), ("dbname", url),
        ]
        let names = options.map { strdup($0.0) } + [nil]
        let values = options.map { strdup($0.1) } + [nil]
        defer { for text in names + values { free(text) } }
        let handle = names.map { UnsafePointer($0) }.withUnsafeBufferPointer { names in
            values.map { UnsafePointer($0) }.withUnsafeBufferPointer { values in
                PQconnectdbParams(names.baseAddress, values.baseAddress, 1)
            }
        }
        guard let handle else { throw PostgreSQLError(description: "out of memory") }
        guard PQstatus(handle) == CONNECTION_OK else {
            let words = Self.words(PQerrorMessage(handle))
            PQfinish(handle)
            throw PostgreSQLError(description: words)
        }
        self.handle = handle
        // Its notices would go to standard error.
        PQsetNoticeProcessor(handle, { _, _ in }, nil)
    }

    deinit { PQfinish(handle) }

    /// Runs statements in one transaction, in which each has a time limit: the operator's, set in
    /// the URL, the role or the database, or otherwise `timeoutSeconds`.
    /// - Throws: the error of a statement. Then the transaction is rolled back.
    func transaction<Value>(
        _ statements: () throws(PostgreSQLError) -> Value
    ) throws(PostgreSQLError) -> Value {
        try run("BEGIN")
        do throws(PostgreSQLError) {
            // As SET LOCAL, where there is no limit yet.
            try run(
                """
                SELECT set_config('statement_timeout', '\(Self.timeoutSeconds * 1_000)', true)
                WHERE current_setting('statement_timeout') = '0'
                """)
            let value = try statements()
            try run("COMMIT")
            return value
        } catch {
            _ = try? run("ROLLBACK")
            throw error
        }
    }

    /// The rows of a statement, as text; nil stands for null.
    @discardableResult
    func run(_ sql: String, _ values: String?...) throws(PostgreSQLError) -> [[String?]] {
        let texts = values.map { $0.map { strdup($0) } ?? nil }
        defer { for text in texts { free(text) } }
        let result = texts.map { UnsafePointer($0) }.withUnsafeBufferPointer {
            PQexecParams(
                handle, sql, Int32(values.count), nil, $0.baseAddress, nil, nil, 0)
        }
        defer { PQclear(result) }
        switch PQresultStatus(result) {
        case PGRES_COMMAND_OK, PGRES_TUPLES_OK:
            return (0..<PQntuples(result)).map { row in
                (0..<PQnfields(result)).map { column in
                    PQgetisnull(result, row, column) == 1
                        ? nil : String(cString: PQgetvalue(result, row, column))
                }
            }
        default:
            // Without a connection there is no state of SQL.
            let state = PQresultErrorField(result, Int32(UInt8(ascii: "C")))
            throw PostgreSQLError(
                description: Self.words(PQresultErrorMessage(result)),
                isRefusal: PQstatus(handle) == CONNECTION_OK && state != nil
                    && Self.isData(String(cString: state!)))
        }
    }

    /// Classes 22 and 23 of SQLSTATE: the data is at fault, and will be the next time.
    private static func isData(_ state: String) -> Bool {
        state.hasPrefix("22") || state.hasPrefix("23")
    }

    /// The first line of a message.
    private static func words(_ message: UnsafePointer<CChar>?) -> String {
        let text = message.map { String(cString: $0) } ?? ""
        return String(text.split(whereSeparator: \.isNewline).first ?? "no reason was given")
    }
}
