// A survey: one shard was asked over HTTP for the sessions of the server, asks all shards through
// their mailboxes, and answers when all have answered, or after a time. Here are the values that
// travel, and the table of surveys. The work of a shard is in ShardSurveys, the JSON in
// SurveyAnswer.
//
// Invariant: no thread waits for a shard, and no lock is taken while one works; without a question
// there is no cost.

import Codec
import Session
import Synchronization

/// A question to one shard.
struct SurveyQuestion: Sendable {
    let query: SessionQuery
    /// How long its answer is waited for.
    var patience = Survey.patience
    /// Takes its answer. Any thread.
    let answer: @Sendable (SurveyReport) -> Void
}

/// The answer of one shard.
struct SurveyReport: Sendable {
    /// The sessions in the order of the query, at most as many as it asked for.
    var rows: [SessionRow] = []
    /// Connections, text requests and sessions that wait for their clients, where they fit the query.
    var matching = 0
    /// Those of them that come before the page, with the page's own where it ends before a rank.
    var preceding = 0
    /// In the order of `SessionState.allCases`.
    var states: [Int]
    /// Open connections.
    var connections = 0
    /// The sum of all ledgers, in bytes.
    var ledgerBytes = 0
}

/// One session, text request or bare connection in an answer.
struct SessionRow: Sendable {
    let rank: SessionRank
    /// Sidebands that have joined it.
    var sidebands = 0
    /// The session that it has joined itself, as a sideband.
    var joined: String?
    let shard: Int
    let state: SessionState
    let bytes: Int
    let age: Duration
    /// Since a message last came or left.
    let idle: Duration
    let client: NetworkAddress
    /// Nil where there is no session.
    let model: String?
    let turns: Int
    /// Nil before the first.
    let lastTurn: TurnLatencies?
    /// The telephone call of the session, if it has one.
    var call: TelephoneCall?
    /// Bytes by part; nil in a list.
    var parts: MemoryLedger?

    /// `sess_…`, or `conn_…` of a connection without a session.
    var id: String { rank.id }
}

/// A survey that waits for shards.
struct Survey {
    /// Time that shards have to answer.
    static let patience = HTTPServerConnection.shardPatience

    let id: SurveyID
    let query: SessionQuery
    let request: HTTPRequest
    /// The connection of the client that asked.
    let token: EventToken
    /// How many were asked.
    let shards: Int
    var reports: [SurveyReport] = []
    /// Other nodes that were asked; 0 where this one answers for itself.
    var nodes = 0
    /// Whether their answers are still to come.
    var awaitsNodes = false
    /// The answers of other nodes.
    var nodeAnswers: [NodeAnswer] = []

    /// How long it may take.
    var patience: Duration { nodes > 0 ? NodeRequest.wholePatience : Self.patience }
    fileprivate var isComplete: Bool { reports.count == shards && !awaitsNodes }
}

/// The surveys of a shard: those that it was asked for, and those that it has a part in.
struct SurveyTable {
    /// Surveys under way at one shard. 8: they take milliseconds, and operators are few.
    static let maxSurveys = 8

    private var asked: [Survey] = []
    private var scans: [SessionScan] = []
    private var nextID: SurveyID = 1

    /// Whether a scan is to go on.
    var isScanning: Bool { !scans.isEmpty }
    /// Whether no more can be asked now.
    var isFull: Bool { asked.count >= Self.maxSurveys }

    mutating func takeID() -> SurveyID {
        defer { nextID += 1 }
        return nextID
    }

    mutating func insert(_ survey: Survey) { asked.append(survey) }

    /// Takes note of a report.
    /// - Returns: the survey, if this was the last that it waited for.
    mutating func add(_ report: SurveyReport, to id: SurveyID) -> Survey? {
        guard let index = asked.firstIndex(where: { $0.id == id }) else { return nil }
        asked[index].reports.append(report)
        return asked[index].isComplete ? asked.remove(at: index) : nil
    }

    /// Takes note of what other nodes say.
    /// - Returns: the survey, if this was the last that it waited for.
    mutating func add(_ answers: [NodeAnswer], to id: SurveyID) -> Survey? {
        guard let index = asked.firstIndex(where: { $0.id == id }) else { return nil }
        asked[index].nodeAnswers = answers
        asked[index].awaitsNodes = false
        return asked[index].isComplete ? asked.remove(at: index) : nil
    }

    /// The survey, which ends with the reports that have come.
    mutating func remove(_ id: SurveyID) -> Survey? {
        asked.firstIndex { $0.id == id }.map { asked.remove(at: $0) }
    }

    /// Begins to look through the shard's connections.
    mutating func begin(_ question: SurveyQuestion, at now: Instant) {
        scans.append(SessionScan(question, end: now + question.patience))
    }

    /// Removes the scans whose time is over. Operators ask every second, so the scans of a shard that
    /// needs longer than a second for its connections would pile up.
    mutating func dropLateScans(at now: Instant) { scans.removeAll { now >= $0.end } }

    /// The scan that is to go on; it is to be given back unless it is over.
    mutating func takeScan() -> SessionScan? { scans.isEmpty ? nil : scans.removeFirst() }

    mutating func giveBack(_ scan: SessionScan) { scans.insert(scan, at: 0) }
}
