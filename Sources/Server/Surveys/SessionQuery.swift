// An operator's question about the sessions: the parameters of `GET /admin/sessions` and the id of
// `GET /admin/sessions/{id}`, as values. The operator's page also asks for a page of the list, its
// direction, and a text to search for. SessionScan answers it.
//
// Invariant: a query is within its limits; one that is not is refused where it is read.

import Codec
import Session

/// A question about the sessions of a server.
struct SessionQuery: Equatable, Sendable {
    /// The order of the sessions in an answer.
    enum Order: String, CaseIterable, Sendable {
        /// The largest ledger first.
        case bytes
        /// The oldest first.
        case age
        /// The longest without a message first.
        case idle
        /// The most responses first.
        case turns
        /// The slowest last turn first.
        case latency
        /// By the alphabet.
        case id
    }

    /// The nodes whose sessions are asked for.
    enum Scope: String, CaseIterable, Sendable {
        /// Those of all nodes that can be reached.
        case cluster
        /// Those of the node that was asked.
        case node
    }

    /// Where a page of the list begins. A rank instead of a number of rows: a page then costs the
    /// same wherever it is, and stays at its place while sessions before it come and go.
    enum Start: Equatable, Sendable {
        case first
        /// With the first session behind this rank.
        case after(SessionRank)
        /// So that the session before this rank is the last one.
        case before(SessionRank)
        /// So that the last session of all is the last one.
        case last
    }

    /// Bytes of a text to search for. 64: more than any id.
    static let maxSearchBytes = 64
    /// Sessions in one answer. 1,000: a quarter of a megabyte of JSON, made in a millisecond.
    static let limits = 1...1_000

    /// Bytes, by default: most questions are about memory.
    var order = Order.bytes
    /// All nodes. A server alone is the only one.
    var scope = Scope.cluster
    /// Whether the order is reversed.
    var isReversed = false
    var start = Start.first
    /// Only sessions with this in their id or model; empty: all. UTF-8.
    var search: [UInt8] = []
    /// The state of the sessions that are wanted. Nil selects sessions in any state, and no
    /// connection without one.
    var state: SessionState?
    /// 1…1,000. 100.
    var limit = 100
    /// One session or connection alone, with its parts. Nil selects all.
    var id: String?

    /// Everything by bytes.
    init() {}

    /// One session or connection.
    init(id: String) {
        self.id = id
        limit = 1
    }

    /// Reads the query of a request; parameters that it does not know are ignored.
    /// - Throws: for values that are none of the known ones, as status 400.
    init(_ request: HTTPRequest) throws(ClientEventError) {
        order = try Self.choice("order", of: request) ?? order
        state = try Self.choice("state", of: request)
        scope = try Self.choice("scope", of: request) ?? scope
        guard let text = request.queryValue("limit") else { return }
        guard let number = Int(text), Self.limits.contains(number) else {
            throw ClientEventError(
                code: "invalid_value", message: "'limit' is a whole number from 1 to 1000.",
                param: "limit")
        }
        limit = number
    }

    private static func choice<Choice: CaseIterable & RawRepresentable<String>>(
        _ name: StaticString, of request: HTTPRequest
    ) throws(ClientEventError) -> Choice? {
        guard let text = request.queryValue("\(name)") else { return nil }
        guard let choice = Choice(rawValue: text) else {
            let names = Choice.allCases.map { "'\($0.rawValue)'" }.joined(separator: ", ")
            throw ClientEventError(
                code: "invalid_value", message: "'\(name)' is one of \(names).", param: "\(name)")
        }
        return choice
    }

    /// Whether the page is the end of the sessions that it may contain, rather than the beginning.
    var keepsLast: Bool {
        switch start {
        case .first, .after: false
        case .before, .last: true
        }
    }

    /// Whether a connection in this state is asked for.
    func includes(_ state: SessionState) -> Bool {
        self.state.map { $0 == state } ?? (state != .connection)
    }
}
