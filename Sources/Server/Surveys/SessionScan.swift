// A shard's look through its connections and sessions for an operator: counts by state, and of those
// that fit the query the first few in its order. It goes on over several ticks, some connections in each, so
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
    /// Whether the order is the exact opposite. The same for all ranks of an answer.
    var isReversed = false

    static func < (one: SessionRank, other: SessionRank) -> Bool {
        let isFirst = one.value == other.value ? one.id < other.id : one.value > other.value
        return one.isReversed ? !isFirst && one != other : isFirst
    }
}

/// A connection or a text request that may come into the answer.
struct SessionCandidate {
    let rank: SessionRank
    let token: EventToken
}

/// The first few of many candidates: a heap with the last of them on top. Or the last few, with the
/// first of them on top.
struct SessionRanking {
    let limit: Int
    private let keepsLast: Bool
    /// Whether of two values the lower one is kept.
    private let prefersLow: Bool
    private var heap: [SessionCandidate] = []
    /// Candidates that were counted.
    private(set) var counted = 0

    /// - Parameters:
    ///   - limit: how many are kept, 1 or more.
    ///   - keepsLast: whether the last are kept instead of the first.
    ///   - isReversed: whether the ranks are.
    init(limit: Int, keepsLast: Bool = false, isReversed: Bool = false) {
        self.limit = limit
        self.keepsLast = keepsLast
        prefersLow = keepsLast != isReversed
    }

    /// Counts a candidate of which only the value is known yet.
    /// - Returns: whether it may be among those that are kept: only then it is to be offered.
    mutating func mayTake(_ value: Int) -> Bool {
        counted += 1
        guard heap.count >= limit else { return true }
        return prefersLow ? value <= heap[0].rank.value : value >= heap[0].rank.value
    }

    /// Whether one candidate is rather kept than another.
    private func isPreferred(_ one: SessionRank, to other: SessionRank) -> Bool {
        keepsLast ? other < one : one < other
    }

    /// Takes a candidate in, if it comes before the last of those that are kept.
    mutating func offer(_ candidate: SessionCandidate) {
        if heap.count < limit {
            heap.append(candidate)
            moveUp(from: heap.count - 1)
        } else if isPreferred(candidate.rank, to: heap[0].rank) {
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
            guard isPreferred(heap[parent].rank, to: heap[position].rank) else { return }
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
                right < heap.count && isPreferred(heap[left].rank, to: heap[right].rank)
                ? right : left
            guard isPreferred(heap[position].rank, to: heap[last].rank) else { return }
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
    /// The moment at which the shard that asks gives up waiting.
    let end: Instant
    var ranking: SessionRanking
    /// The next slot of the connections to look at.
    var nextSlot = 0
    /// The next slot of the sessions, among which those are that wait for their clients. A session that
    /// is lost, or comes back, during the scan may be counted twice, or not.
    private var nextSession = 0
    /// Whether all slots have been looked at.
    private(set) var isOver = false
    /// Connections in each state, in the order of `SessionState.allCases`.
    var states = [Int](repeating: 0, count: SessionState.allCases.count)
    /// Those that fit the query and come before the page, with the page's own where it ends before
    /// a rank.
    private(set) var preceding = 0
    /// Time that it has taken of the shard.
    var nanoseconds = 0

    init(_ question: SurveyQuestion, end: Instant) {
        self.question = question
        self.end = end
        let query = question.query
        ranking = SessionRanking(
            limit: query.limit, keepsLast: query.keepsLast, isReversed: query.isReversed)
    }

    /// Looks at the next connections, and behind them at sessions that wait for their clients.
    /// - Parameters:
    ///   - slots: the most slots to look at; 1 or more.
    ///   - shard: the number of the shard, for the names of connections without a session.
    /// - Returns: slots that this took, 1 or more.
    mutating func look(
        through connections: SlotTable<Connection>, _ sessions: SlotTable<LiveSession>,
        _ waiting: WaitingSessions, atMost slots: Int, clock: ShardClock, shard: Int
    ) -> Int {
        guard nextSlot < connections.slotCount else {
            return look(through: waiting, of: sessions, atMost: slots, clock)
        }
        // There are none where the table was given back meanwhile.
        let end = max(nextSlot, min(connections.slotCount, nextSlot + slots))
        let count = max(1, end - nextSlot)
        for slot in nextSlot..<end {
            connections.reference(inSlot: slot)?._withUnsafeGuaranteedRef {
                look(at: $0, clock, shard: shard)
            }
        }
        nextSlot = end
        isOver = end >= connections.slotCount && waiting.count == 0
        return count
    }

    /// Takes a connection's state and bytes as of its last settling: the connection itself has
    /// these, while the session is elsewhere in memory.
    private mutating func look(at connection: Connection, _ clock: ShardClock, shard: Int) {
        guard connection.state != .closed else { return }
        look(
            at: connection.token, in: connection.chargedState ?? .connection,
            id: connection.live?.session.id ?? Self.id(of: connection, shard: shard),
            model: connection.live?.session.parameters.model
        ) { order in
            switch order {
            case .bytes: Int(connection.charged)
            case .age: Self.value(of: clock.time(ofPeerTime: connection.activityStart))
            case .idle: Self.value(of: clock.time(ofPeerTime: connection.lastActive))
            case .turns: Int(connection.live?.turns ?? 0)
            case .latency: connection.live?.lastTurn.milliseconds ?? 0
            case .id: 0
            }
        }
    }

    /// A time as the value of a rank: the earlier, the higher.
    private static func value(of time: Instant) -> Int { Int(-time.nanoseconds) }

    /// A name for a connection that has no session.
    private static func id(of connection: Connection, shard: Int) -> String {
        "conn_\(shard)_\(connection.token.index)_\(connection.token.generation)"
    }

    /// Examines all text requests.
    mutating func look(through requests: TextRequests, clock: ShardClock) {
        requests.forEach { request in
            look(
                at: request.token, in: request.live.session.state, id: request.live.session.id,
                model: request.live.session.parameters.model
            ) { order in
                switch order {
                case .bytes: Int(request.charge.bytes)
                case .age: Self.value(of: clock.time(ofPeerTime: request.started))
                case .idle: Self.value(of: clock.time(ofPeerTime: request.lastActive))
                case .turns: Int(request.live.turns)
                case .latency: request.live.lastTurn.milliseconds ?? 0
                case .id: 0
                }
            }
        }
    }

    private mutating func look(
        through waiting: WaitingSessions, of sessions: SlotTable<LiveSession>, atMost slots: Int,
        _ clock: ShardClock
    ) -> Int {
        let slotCount = waiting.count == 0 ? 0 : sessions.slotCount
        let end = max(nextSession, min(slotCount, nextSession + slots))
        defer {
            nextSession = end
            isOver = end >= slotCount
        }
        for slot in nextSession..<end {
            guard let live = sessions[slot: slot], live.connection == nil,
                let place = waiting[live.token]
            else { continue }
            look(
                at: live.token, in: place.charge.state ?? .idle, id: live.session.id,
                model: live.session.parameters.model
            ) { order in
                switch order {
                case .bytes: Int(place.charge.bytes)
                case .age: Self.value(of: clock.time(ofPeerTime: place.began))
                case .idle: Self.value(of: clock.time(ofPeerTime: place.lastActive))
                case .turns: Int(live.turns)
                case .latency: live.lastTurn.milliseconds ?? 0
                case .id: 0
                }
            }
        }
        return max(1, end - nextSession)
    }

    /// Counts a connection, and offers it where it fits the query.
    /// - Parameter value: of its rank in an order.
    private mutating func look(
        at token: EventToken, in state: SessionState, id: @autoclosure () -> String,
        model: @autoclosure () -> String?, value: (SessionQuery.Order) -> Int
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
        if !query.search.isEmpty {
            guard id().contains(query.search) || model()?.contains(query.search) == true
            else { return }
        }
        let value = value(query.order)
        // The id is read only where the session may come into the answer: it lies in memory that
        // is likely not in the cache.
        let mayBeShown = ranking.mayTake(value)
        guard isOnPage(value, id), mayBeShown else { return }
        let rank = SessionRank(value: value, id: id(), isReversed: query.isReversed)
        ranking.offer(SessionCandidate(rank: rank, token: token))
    }

    /// Whether a session is on the side of the page's end where the page is, and counts it where it
    /// comes before that end.
    private mutating func isOnPage(_ value: Int, _ id: () -> String) -> Bool {
        let query = question.query
        let end: SessionRank
        switch query.start {
        case .first, .last: return true
        case .after(let rank), .before(let rank): end = rank
        }
        let isBefore =
            value == end.value
            ? SessionRank(value: value, id: id(), isReversed: query.isReversed) < end
            : (value > end.value) != query.isReversed
        if query.keepsLast {
            preceding += isBefore ? 1 : 0
            return isBefore
        }
        let isBehind = !isBefore && (value != end.value || id() != end.id)
        preceding += isBehind ? 0 : 1
        return isBehind
    }
}

extension Connection {
    /// When a message last came or left; before the upgrade, any bytes.
    var lastActive: Instant { state == .webSocket ? lastMessage : lastReceived }
}

extension String {
    /// Whether bytes occur in its UTF-8. Without Foundation, and for texts of some dozen bytes.
    fileprivate func contains(_ wanted: [UInt8]) -> Bool {
        var text = self
        return text.withUTF8 { bytes in
            guard bytes.count >= wanted.count else { return false }
            return (0...bytes.count - wanted.count).contains { start in
                bytes[start..<start + wanted.count].elementsEqual(wanted)
            }
        }
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
