// The answers of other nodes to a question for sessions: their counts and rows, which SurveyAnswer
// puts beside this node's own. Rows are passed on as they came.
//
// Invariant: an answer that cannot be read counts as none. Sums are checked for overflow, because an
// answer is another machine's.

import Codec
import Session

/// The sessions of other nodes.
struct NodeSessions {
    /// A row of another node.
    struct Row {
        let rank: SessionRank
        let json: RawJSON
    }

    /// The greatest number of an answer that counts: 2^53.
    private static let greatestCount = 1 << 53

    /// Nodes that have answered.
    private(set) var answered = 0
    private(set) var shards = 0
    private(set) var shardsAnswered = 0
    private(set) var connections = 0
    private(set) var ledgerBytes = 0
    private(set) var residentBytes = 0
    /// In the order of `SessionState.allCases`.
    private(set) var states = [Int](repeating: 0, count: SessionState.allCases.count)
    private(set) var rows: [Row] = []
    private(set) var hasMore = false
    /// The one session that was asked for.
    private(set) var single: [UInt8]?

    /// None: this node is alone.
    init() {}

    /// Reads the answers to a question.
    init(_ answers: [NodeAnswer], to query: SessionQuery) {
        let parser = JSONParser()
        for answer in answers {
            if query.id != nil {
                guard answer.status == 200 || answer.status == 404 else { continue }
                answered += 1
                if answer.status == 200 { single = answer.body }
            } else if answer.status == 200, let value = try? parser.parse(answer.body) {
                add(value, in: query.order)
            }
        }
    }

    private mutating func add(_ value: JSONValue, in order: SessionQuery.Order) {
        guard let data = value["data"]?.elements else { return }
        answered += 1
        shards += Self.count(value["shards"])
        shardsAnswered += Self.count(value["shards_answered"])
        connections += Self.count(value["connections"])
        ledgerBytes += Self.count(value["ledger_bytes"])
        residentBytes += Self.count(value["resident_bytes"])
        if let members = value["states"]?.members {
            for (name, count) in members {
                guard let state = SessionState(rawValue: name) else { continue }
                // An answer may name a state many times.
                let sum = states[state.index] + Self.count(count)
                states[state.index] = min(sum, Self.greatestCount)
            }
        }
        hasMore = hasMore || value["has_more"]?.bool == true
        for row in data {
            guard let id = row["id"]?.string else { continue }
            let value =
                switch order {
                case .bytes: Self.count(row["bytes"])
                case .age: Self.count(row["age_ms"])
                case .idle: Self.count(row["idle_ms"])
                case .turns: Self.count(row["turns"])
                case .latency: Self.latency(row["last_turn"])
                case .id: 0
                }
            rows.append(Row(rank: SessionRank(value: value, id: id), json: row.raw))
        }
    }

    private static func latency(_ turn: JSONValue?) -> Int {
        let audio = turn?["first_audio_ms"]
        return count(audio?.int == nil ? turn?["first_token_ms"] : audio)
    }

    private static func count(_ value: JSONValue?) -> Int {
        value?.int.map { min(max(0, $0), greatestCount) } ?? 0
    }
}

extension SessionRow {
    /// The rank among rows of other nodes, whose clocks differ from this node's.
    func rank(in order: SessionQuery.Order) -> SessionRank {
        switch order {
        case .bytes: SessionRank(value: bytes, id: id)
        case .age: SessionRank(value: max(0, age.wholeMilliseconds), id: id)
        case .idle: SessionRank(value: max(0, idle.wholeMilliseconds), id: id)
        case .turns: SessionRank(value: turns, id: id)
        case .latency: SessionRank(value: lastTurn?.milliseconds ?? 0, id: id)
        case .id: SessionRank(value: 0, id: id)
        }
    }
}
