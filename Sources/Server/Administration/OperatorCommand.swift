// The commands of an operator's page, read from the text messages of `/admin/live`. Parsing only:
// ShardOperators carries them out.
//
// Invariant: any message becomes a command within its limits, or a typed error.

import Codec
import Session

/// One message of an operator's page.
enum OperatorCommand: Equatable, Sendable {
    /// Show a page of the sessions every second, in place of the page before.
    case watchSessions(SessionQuery)
    /// Show no page of the sessions.
    case ignoreSessions
    /// Show one session every second, with its conversation, in place of the one before.
    case watchSession(String)
    /// Show no session.
    case ignoreSession
    /// End a session.
    case closeSession(String)
    /// Drain the server.
    case drain

    /// Bytes of one message. 4 KiB: a command with the longest text and cursor has some hundred.
    static let maxBytes = 4_096
    /// Sessions of one page. 100: some 30 kB of JSON a second.
    static let pageLimits = 1...100
    /// Bytes of an id. 64: those of the server have 15.
    static let maxIDBytes = 64

    /// The value of `type` of each command.
    private enum Name: String, CaseIterable {
        case watchSessions = "sessions.watch"
        case ignoreSessions = "sessions.unwatch"
        case watchSession = "session.watch"
        case ignoreSession = "session.unwatch"
        case closeSession = "session.close"
        case drain = "server.drain"
    }

    /// Reads a message.
    init(_ message: UnsafeRawBufferPointer) throws(ClientEventError) {
        guard message.count <= Self.maxBytes else {
            throw ClientEventError(
                code: "message_too_long", message: "A command has at most 4096 bytes.")
        }
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONParser().parse(message)
        } catch {
            throw ClientEventError(
                code: "invalid_json", message: "This is no command: \(error.explanation).")
        }
        guard let text = value["type"]?.string, let name = Name(rawValue: text) else {
            let names = Name.allCases.map { "'\($0.rawValue)'" }.joined(separator: ", ")
            throw Self.invalid("type", "is one of \(names)")
        }
        switch name {
        case .watchSessions: self = .watchSessions(try Self.query(value))
        case .ignoreSessions: self = .ignoreSessions
        case .watchSession: self = .watchSession(try Self.id(value))
        case .ignoreSession: self = .ignoreSession
        case .closeSession: self = .closeSession(try Self.id(value))
        case .drain: self = .drain
        }
    }

    private static func invalid(_ name: StaticString, _ rule: String) -> ClientEventError {
        ClientEventError(
            code: "invalid_value", message: "'\(name)' \(rule).", param: "\(name)")
    }

    private static func id(_ value: JSONValue) throws(ClientEventError) -> String {
        guard let id = value["id"]?.string, (1...maxIDBytes).contains(id.utf8.count) else {
            throw invalid("id", "is a session's id, sess_…")
        }
        return id
    }

    // MARK: The page of sessions

    private static func query(_ value: JSONValue) throws(ClientEventError) -> SessionQuery {
        var query = SessionQuery()
        query.order = try choice("sort", of: value) ?? query.order
        query.isReversed = try choice("order", of: value) == Direction.ascending
        query.state = try choice("state", of: value)
        query.limit = try limit(value) ?? 50
        if let search = value["search"], !search.isNull {
            guard let text = search.string, text.utf8.count <= SessionQuery.maxSearchBytes else {
                throw invalid("search", "is a text of at most 64 bytes")
            }
            query.search = Array(text.utf8)
        }
        query.start = try start(value, isReversed: query.isReversed)
        return query
    }

    /// The direction of a sorted column.
    private enum Direction: String, CaseIterable {
        /// Most, oldest, slowest first; by id the alphabet.
        case descending
        /// The opposite.
        case ascending
    }

    private static func choice<Choice: CaseIterable & RawRepresentable<String>>(
        _ name: StaticString, of value: JSONValue
    ) throws(ClientEventError) -> Choice? {
        guard let member = value[name], !member.isNull else { return nil }
        guard let choice = member.string.flatMap(Choice.init) else {
            let names = Choice.allCases.map { "'\($0.rawValue)'" }.joined(separator: ", ")
            throw invalid(name, "is one of \(names)")
        }
        return choice
    }

    private static func limit(_ value: JSONValue) throws(ClientEventError) -> Int? {
        guard let member = value["limit"], !member.isNull else { return nil }
        guard let limit = member.int, pageLimits.contains(limit) else {
            throw invalid("limit", "is a whole number from 1 to 100")
        }
        return limit
    }

    /// `after` and `before` have the cursor of a row; `before` with an empty one means the end.
    private static func start(
        _ value: JSONValue, isReversed: Bool
    ) throws(ClientEventError) -> SessionQuery.Start {
        let (after, before) = (value["after"], value["before"])
        if let after, !after.isNull {
            guard before.map(\.isNull) ?? true else {
                throw invalid("before", "and 'after' exclude each other")
            }
            guard let text = after.string,
                let rank = SessionRank(cursor: text, isReversed: isReversed)
            else { throw invalid("after", "is the cursor of a row") }
            return .after(rank)
        }
        guard let before, !before.isNull else { return .first }
        guard let text = before.string else { throw invalid("before", "is the cursor of a row") }
        if text.isEmpty { return .last }
        guard let rank = SessionRank(cursor: text, isReversed: isReversed) else {
            throw invalid("before", "is the cursor of a row")
        }
        return .before(rank)
    }
}

extension SessionRank {
    /// The rank as a text, from which it can be made again: `VALUE:ID`.
    var cursor: String { "\(value):\(id)" }

    /// Reads a cursor, or returns nil where the text is none.
    init?(cursor: String, isReversed: Bool) {
        let parts = cursor.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let value = Int(parts[0]),
            (1...OperatorCommand.maxIDBytes).contains(parts[1].utf8.count)
        else { return nil }
        self.init(value: value, id: String(parts[1]), isReversed: isReversed)
    }
}
