// What `parley top` reads from a server: the sessions of `/admin/sessions`, one of them with its
// parts, and the few numbers of `/metrics` that the header shows. Parsing only: PageClient gets the
// pages, and TopView shows the values.
//
// Invariant: any answer of a server becomes a value or a `CommandFailure`. Text of the server's
// clients reaches the terminal as visible ASCII only. Numbers are 0…2^53, so that their sums and
// percentages fit an Int.

import Codec
import Session

/// One session in the list.
struct TopRow: Equatable, Sendable {
    var id: String
    /// Which of several servers has it, by its place; nil where there is one.
    var node: Int?
    var shard: Int
    var state: String
    var bytes: Int
    var ageMilliseconds: Int
    var idleMilliseconds: Int
    var client: String
    var model: String
    var turns: Int
    /// Times of the last turn's steps in milliseconds, as far as the turn came.
    var lastTurn: [TurnHop: Int]

    init(_ value: JSONValue) throws(CommandFailure) {
        guard let id = value["id"]?.string, let state = value["state"]?.string,
            let bytes = value["bytes"]?.count
        else { throw CommandFailure(description: "the server's list of sessions cannot be read") }
        self.id = id.visible(.ascii)
        self.state = state.visible(.ascii)
        self.bytes = bytes
        shard = value["shard"]?.count ?? 0
        ageMilliseconds = value["age_ms"]?.count ?? 0
        idleMilliseconds = value["idle_ms"]?.count ?? 0
        client = (value["client"]?.string ?? "").visible(.ascii)
        model = (value["model"]?.string ?? "").visible(.ascii)
        turns = value["turns"]?.count ?? 0
        lastTurn = [:]
        guard let turn = value["last_turn"] else { return }
        lastTurn[.transcript] = turn["transcript_ms"]?.count
        lastTurn[.firstToken] = turn["first_token_ms"]?.count
        lastTurn[.firstAudio] = turn["first_audio_ms"]?.count
    }
}

/// The answer of `/admin/sessions`.
struct TopList: Equatable {
    var shards: Int
    /// Shards that did not answer in time.
    var silentShards: Int
    var connections: Int
    var ledgerBytes: Int
    var residentBytes: Int
    /// Sessions by state.
    var states: [String: Int] = [:]
    var rows: [TopRow] = []
    var hasMore: Bool

    /// Reads an answer.
    /// - Throws: a `CommandFailure` when it is something else.
    init(_ body: [UInt8], parser: JSONParser) throws(CommandFailure) {
        let value = try parser.object(body)
        guard let data = value["data"]?.elements, let ledgerBytes = value["ledger_bytes"]?.count
        else { throw CommandFailure(description: "the server's list of sessions cannot be read") }
        shards = value["shards"]?.count ?? 1
        silentShards = shards - (value["shards_answered"]?.count ?? shards)
        connections = value["connections"]?.count ?? 0
        self.ledgerBytes = ledgerBytes
        residentBytes = value["resident_bytes"]?.count ?? 0
        hasMore = value["has_more"]?.bool ?? false
        if let members = value["states"]?.members {
            for (name, count) in members { states[name.visible(.ascii)] = count.count }
        }
        for row in data { rows.append(try TopRow(row)) }
    }

    /// This list with the sessions of another server. Sums stay within an Int, because a server's
    /// numbers are at most 2^53 and there are at most `TopCommand.maxNodes` of them.
    func adding(_ other: TopList) -> TopList {
        var sum = self
        sum.shards += other.shards
        sum.silentShards += other.silentShards
        sum.connections += other.connections
        sum.ledgerBytes += other.ledgerBytes
        sum.residentBytes += other.residentBytes
        sum.states.merge(other.states, uniquingKeysWith: +)
        sum.rows += other.rows
        sum.hasMore = hasMore || other.hasMore
        return sum
    }
}

/// The answer of `/admin/sessions/{id}`.
struct TopDetail: Equatable {
    /// A part of what the session holds.
    struct Part: Equatable {
        var name: String
        var bytes: Int
    }

    var row: TopRow
    /// In the order of the answer.
    var parts: [Part] = []

    /// Reads an answer.
    /// - Throws: a `CommandFailure` when it is something else.
    init(_ body: [UInt8], parser: JSONParser) throws(CommandFailure) {
        let value = try parser.object(body)
        row = try TopRow(value)
        guard let members = value["parts"]?.members else { return }
        for (name, bytes) in members {
            parts.append(Part(name: name.visible(.ascii), bytes: bytes.count ?? 0))
        }
    }
}

/// The values of `/metrics` that the header shows (Prometheus text format 0.0.4).
struct TopMetrics: Equatable {
    /// An upper bound in seconds, and how many deadlines expired up to it.
    struct Bucket: Equatable {
        var bound: Double
        var count: Double
    }

    /// The part of a second that each shard works, by its number.
    var busy: [Double] = []
    /// Responses that have ended.
    var responses = 0.0
    /// How late deadlines expired.
    var lag: [Bucket] = []
    /// The process's own memory by what holds it, in the order of the page. A part that is the rest
    /// of others may be below zero.
    var memory: [TopDetail.Part] = []

    /// The most parts of the memory that are read. 32: a server has nine.
    private static let maxParts = 32

    /// Reads a page; unknown lines are ignored.
    init(parsing text: String) {
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            guard let space = line.lastIndex(of: " "),
                let value = Double(line[line.index(after: space)...]), value.magnitude.isCount
            else { continue }
            let series = line[..<space]
            if series.hasPrefix("parley_memory_bytes{part=\""), memory.count < Self.maxParts {
                let name = series.drop { $0 != "\"" }.dropFirst().prefix { $0 != "\"" }
                memory.append(
                    TopDetail.Part(name: String(name).visible(.ascii), bytes: Int(value)))
            }
            guard value.isCount else { continue }
            if series.hasPrefix("parley_shard_busy_ratio{") {
                busy.append(value)
            } else if series.hasPrefix("parley_responses_total{") {
                responses = min(responses + value, Double(greatestCount))
            } else if series.hasPrefix("parley_event_loop_lag_seconds_bucket{le=\"") {
                let bound = series.drop { $0 != "\"" }.dropFirst().prefix { $0 != "\"" }
                let seconds = Double(bound).flatMap { $0.isCount ? $0 : nil }
                lag.append(Bucket(bound: seconds ?? .infinity, count: value))
            }
        }
    }

    /// The bound in seconds below which 99% of the deadlines since an earlier page expired, or
    /// since the server's start; nil where there were none.
    func lagBound(since earlier: TopMetrics?) -> Double? {
        let before = earlier?.lag.count == lag.count ? earlier?.lag.map(\.count) : nil
        let counts = lag.indices.map { lag[$0].count - (before?[$0] ?? 0) }
        guard let total = counts.last, total > 0 else { return nil }
        return counts.firstIndex { $0 >= total * 0.99 }.map { lag[$0].bound }
    }
}

/// The greatest number that is accepted from a server: 2^53, up to which a Double has every whole
/// number.
private let greatestCount = 1 << 53

extension Double {
    /// Whether the number is within what a server can report.
    fileprivate var isCount: Bool { (0...Double(greatestCount)).contains(self) }
}

extension JSONValue {
    /// A whole number within what a server can report; nil for any other value.
    fileprivate var count: Int? {
        int.flatMap { (0...greatestCount).contains($0) ? $0 : nil }
    }
}

extension JSONParser {
    /// An object.
    fileprivate func object(_ body: [UInt8]) throws(CommandFailure) -> JSONValue {
        do throws(JSONError) {
            let value = try parse(body)
            if value.kind == .object { return value }
        } catch {
            throw CommandFailure(
                description: "the server's answer is no JSON: \(error.explanation)")
        }
        throw CommandFailure(description: "the server's answer is no JSON object")
    }
}
