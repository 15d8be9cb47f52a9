// The state of calls and sidebands on one shard: questions that it was asked over HTTP, searches
// for other shards, its observed sessions, and the sidebands whose sockets it has. ShardCalls,
// ShardObservations and ShardSidebands act on it.
//
// Invariant: without a call or a sideband everything here is empty, and a tick looks at one flag.

import Codec
import Session

/// A request that waits until the shards, or the nodes, have looked for its session or chat.
struct AwaitedCall {
    /// The client's request.
    enum Wish {
        /// To join the session: the WebSocket begins once it was found.
        case join(WebSocketUpgrade, SidebandLink)
        /// To end the session.
        case hangUp
        /// To know whether it is here: the client is another node.
        case find
        /// To resume the reply of a chat. It is at another node, or nowhere.
        case chat
        /// To come back to it, while the store does not say where it is. It is at another node, or
        /// nowhere: then a new session begins.
        case resume(ResumeClaim)

        var isHangUp: Bool { if case .hangUp = self { true } else { false } }
        /// The answer where nothing was found.
        var missing: HTTPResponse {
            if case .chat = self {
                HTTPResponse(status: 204)
            } else {
                RouteFailure.noSession.response
            }
        }
    }

    /// Time that shards have to answer. 1 s, as for a survey.
    static let patience = Duration.seconds(1)

    let id: CallID
    let wish: Wish
    let request: HTTPRequest
    let caller: Caller
    /// The connection of the client that asked.
    let token: EventToken
    /// Shards that have not answered. All other nodes together count as one more.
    var shards: Int
    /// Whether a node that may have the session did not answer.
    var isUncertain = false
}

/// A shard's look for one session, some in each tick.
struct CallSearch {
    let question: CallQuestion
    /// By when it must be over: then no client waits for its answer any more.
    let end: Instant
    /// The next slot to look at.
    private var nextSlot = 0

    init(_ question: CallQuestion, at now: Instant) {
        self.question = question
        end = now + AwaitedCall.patience
    }

    /// Whether all slots have been looked at.
    func isOver(in sessions: SlotTable<LiveSession>) -> Bool { nextSlot >= sessions.slotCount }

    /// Looks at the next sessions, until it has found the one that is asked for.
    /// - Parameter slots: how many slots may still be looked at. The call lowers it.
    mutating func look(
        through sessions: SlotTable<LiveSession>, atMost slots: inout Int
    ) -> LiveSession? {
        while slots > 0, nextSlot < sessions.slotCount {
            slots -= 1
            nextSlot += 1
            guard let live = sessions[slot: nextSlot - 1],
                live.session.id == question.sessionID
            else { continue }
            return live
        }
        return nil
    }
}

/// A sideband whose socket a shard has.
struct JoinedSideband {
    let link: SidebandLink
    let place: SessionPlace

    /// Bytes that it takes: its record, and the events that wait on the way.
    var heldBytes: Int {
        link.heldBytes + place.sessionID.heapBytes + MemoryLayout<JoinedSideband>.stride
    }
}

/// The calls and sidebands of one shard.
struct SidebandTable {
    /// Questions under way at one shard. 256: they take milliseconds, and 2 s where a node is away.
    static let maxCalls = 256
    /// Searches under way at one shard. 1,024: four shards that each ask as many as they may.
    static let maxSearches = 1_024
    /// Slots that are checked in a tick. 1,024, as in SessionScan.
    static let slotsPerTick = 1_024

    private var calls: [AwaitedCall] = []
    private var nextID: CallID = 1
    /// Searches for other shards and this one, oldest first.
    private(set) var searches: [CallSearch] = []
    /// Observed sessions, by their tokens.
    var observations: [EventToken: SessionObservation] = [:]
    /// Sidebands on this shard, by their own connection.
    var joined: [EventToken: JoinedSideband] = [:]
    /// Events of sidebands for this shard's sessions.
    var inputs = SidebandInputs()
    /// Sessions that a sideband has left.
    var unsettled: [EventToken] = []

    /// Whether something is to be done in the next tick.
    @inline(__always)
    var hasWork: Bool { !searches.isEmpty || !inputs.isEmpty || !unsettled.isEmpty }

    /// Whether no more can be asked now.
    var isFull: Bool { calls.count >= Self.maxCalls }

    mutating func takeID() -> CallID {
        defer { nextID += 1 }
        return nextID
    }

    /// Whether a shard takes no more questions of others now.
    var isFullOfSearches: Bool { searches.count >= Self.maxSearches }

    mutating func beginSearch(_ question: CallQuestion, at now: Instant) {
        searches.append(CallSearch(question, at: now))
    }

    /// Forgets the searches that no client waits for any more.
    mutating func dropLateSearches(at now: Instant) {
        // They are in the order in which they began.
        searches.removeFirst(searches.firstIndex { now < $0.end } ?? searches.count)
    }

    /// Goes on with the oldest search.
    mutating func lookFurther(
        through sessions: SlotTable<LiveSession>, atMost slots: inout Int
    ) -> LiveSession? {
        searches[0].look(through: sessions, atMost: &slots)
    }

    /// The oldest search is over.
    mutating func endSearch() -> CallQuestion { searches.removeFirst().question }

    mutating func insert(_ call: AwaitedCall) { calls.append(call) }

    /// The call, which is over.
    mutating func remove(_ id: CallID) -> AwaitedCall? {
        calls.firstIndex { $0.id == id }.map { calls.remove(at: $0) }
    }

    /// A shard does not have the session.
    /// - Returns: the call, if this was the last shard that it waited for.
    mutating func noteMissing(_ id: CallID, isUncertain: Bool = false) -> AwaitedCall? {
        guard let index = calls.firstIndex(where: { $0.id == id }) else { return nil }
        if isUncertain { calls[index].isUncertain = true }
        calls[index].shards -= 1
        return calls[index].shards == 0 ? calls.remove(at: index) : nil
    }
}
