// A shard's look through its connections for an operator: counts by state, and of those that fit
// the query the first few in its order. It goes on over several ticks, some connections in each, so
// that a shard with a hundred thousand of them serves the others meanwhile.
//
// Invariant: at most `limit` candidates are kept, whatever the number of connections.

import Codec
import Session

/// The rank of a session in an answer; those that come first are less.
struct SessionRank: Comparable, Sendable {
    /// Higher comes first.
    let value: Int
    /// Among equals the alphabet decides, so that two answers agree.
    let id: String

    static func < (one: SessionRank, other: SessionRank) -> Bool {
        one.value == other.value ? one.id < other.id : one.value > other.value
    }
}

/// A connection or a text request that may come into the answer.
struct SessionCandidate {
    let rank: SessionRank
    let token: EventToken
}

/// The first few of many candidates: a heap with the last of them on top.
struct SessionRanking {
    let limit: Int
    private var heap: [SessionCandidate] = []
    /// Candidates that were counted.
    private(set) var counted = 0

    /// - Parameter limit: how many are kept, 1 or more.
    init(limit: Int) { self.limit = limit }

    /// Counts a candidate of which only the value is known yet.
    /// - Returns: whether it may be among those that are kept: only then it is to be offered.
    mutating func mayTake(_ value: Int) -> Bool {
        counted += 1
        return heap.count < limit || value >= heap[0].rank.value
    }

    /// Takes a candidate in, if it comes before the last of those that are kept.
    mutating func offer(_ candidate: SessionCandidate) {
        if heap.count < limit {
            heap.append(candidate)
            moveUp(from: heap.count - 1)
        } else if candidate.rank < heap[0].rank {
            heap[0] = candidate
            moveDown()
        }
    }

    /// Those that are kept, in order.
    var sorted: [SessionCandidate] { heap.sorted { $0.rank < $1.rank } }

    private mutating func moveUp(from start: Int) {
        var position = start
        while position > 0 {
            let parent = (position - 1) / 2
            guard heap[parent].rank < heap[position].rank else { return }
            heap.swapAt(parent, position)
            position = parent
        }
    }

    private mutating func moveDown() {
        var position = 0
        while true {
            let left = 2 * position + 1
            guard left < heap.count else { return }
            let right = left + 1
            let last =
                right < heap.count && heap[left].rank < heap[right].rank ? right : left
            guard heap[position].rank < heap[last].rank else { return }
            heap.swapAt(position, last)
            position = last
        }
    }
}

/// One scan in progress.
struct SessionScan {
    /// Slots looked at in a tick. 1,024: some 0.2 ms, which no packet of audio notices.
    static let slotsPerTick = 1_024

    let question: SurveyQuestion
    var ranking: SessionRanking
    /// The next slot to look at.
    var nextSlot = 0
    /// Whether all slots have been looked at.
    private(set) var isOver = false
    /// Connections in each state, in the order of `SessionState.allCases`.
    var states = [Int](repeating: 0, count: SessionState.allCases.count)
    /// Time that it has taken of the shard.
    var nanoseconds = 0

    init(_ question: SurveyQuestion) {
        self.question = question
        ranking = SessionRanking(limit: question.query.limit)
    }

    /// Looks at the next connections.
    /// - Parameters:
    ///   - slots: the most slots to look at; 1 or more.
    ///   - shard: the number of the shard, for the names of connections without a session.
    /// - Returns: slots that this took, 1 or more.
    mutating func look(
        through connections: ConnectionTable, atMost slots: Int, clock: ShardClock, shard: Int
    ) -> Int {
        // None where the table was given back meanwhile.
        let end = max(nextSlot, min(connections.slotCount, nextSlot + slots))
        let count = max(1, end - nextSlot)
        for slot in nextSlot..<end {
            connections.reference(inSlot: slot)?._withUnsafeGuaranteedRef {
                look(at: $0, clock, shard: shard)
            }
        }
        nextSlot = end
        isOver = end >= connections.slotCount
        return count
    }

    /// Takes a connection's state and bytes as of its last settling: they lie in the connection,
    /// while the session is somewhere else in memory.
    private mutating func look(at connection: Connection, _ clock: ShardClock, shard: Int) {
        guard connection.state != .closed else { return }
        look(
            at: connection.token, in: connection.chargedState ?? .connection,
            bytes: Int(connection.charged),
            started: clock.time(ofPeerTime: connection.activityStart),
            id: connection.live?.session.id ?? Self.id(of: connection, shard: shard))
    }

    /// A name for a connection that has no session.
    private static func id(of connection: Connection, shard: Int) -> String {
        "conn_\(shard)_\(connection.token.index)_\(connection.token.generation)"
    }

    /// Looks at all text requests.
    mutating func look(through requests: TextRequests, clock: ShardClock) {
        requests.forEach {
            look(
                at: $0.token, in: $0.live.session.state, bytes: Int($0.charged),
                started: clock.time(ofPeerTime: $0.started), id: $0.live.session.id)
        }
    }

    /// Counts a connection, and offers it where it fits the query.
    private mutating func look(
        at token: EventToken, in state: SessionState, bytes: Int, started: Instant,
        id: @autoclosure () -> String
    ) {
        states[state.index] += 1
        let query = question.query
        if let wanted = query.id {
            let id = id()
            guard id == wanted, ranking.mayTake(0) else { return }
            ranking.offer(SessionCandidate(rank: SessionRank(value: 0, id: id), token: token))
            return
        }
        guard query.includes(state) else { return }
        let value =
            switch query.order {
            case .bytes: bytes
            case .age: Int(-started.nanoseconds)
            case .id: 0
            }
        // The id is read only where the session may come into the answer: it lies in memory that
        // is likely not in the cache.
        guard ranking.mayTake(value) else { return }
        ranking.offer(SessionCandidate(rank: SessionRank(value: value, id: id()), token: token))
    }
}

extension SessionState {
    /// Its place among all states.
    var index: Int {
        switch self {
        case .idle: 0
        case .listening: 1
        case .speaking: 2
        case .replying: 3
        case .connection: 4
        }
    }
}
