// A shard's connections by slot: an array, so that finding one costs a load and a comparison.
// Slots are reused, generations are not (until 2³² uses of the same slot).
//
// Up to the capacity a connection more costs its own place only: memory is asked for at once, and
// the kernel gives it page by page as it is used. A table that was long gives it back when it is
// empty.

/// The connections of one shard.
struct ConnectionTable {
    /// From how many slots on a table counts as long. 4,096: 64 kB.
    static let longCount = 4_096

    private var slots: [Connection?] = []
    private var generations: [UInt32] = []
    private var freeSlots: [UInt32] = []
    /// The generation of a new slot: one that no slot before had when the table was given back.
    private var firstGeneration: UInt32 = 0
    private let capacity: Int
    private let longCount: Int
    /// Open connections.
    private(set) var count = 0

    /// An empty table.
    /// - Parameters:
    ///   - capacity: connections that never make it move; beyond it more cost a copy now and then.
    ///   - longCount: from how many slots on it gives memory back.
    init(capacity: Int = 0, longCount: Int = Self.longCount) {
        self.capacity = capacity
        self.longCount = longCount
        reserve()
    }

    private mutating func reserve() {
        slots.reserveCapacity(capacity)
        generations.reserveCapacity(capacity)
        freeSlots.reserveCapacity(capacity)
    }

    /// The token that the next `insert` must use, or nil when the table is full (2²⁸ slots).
    mutating func reserveToken() -> EventToken? {
        if freeSlots.isEmpty {
            guard slots.count <= EventToken.maxIndex else { return nil }
            freeSlots.append(UInt32(slots.count))
            slots.append(nil)
            generations.append(firstGeneration)
        }
        let slot = Int(freeSlots[freeSlots.count - 1])
        return EventToken(.connection, index: slot, generation: generations[slot])
    }

    /// Puts a connection into the slot that `reserveToken` named.
    mutating func insert(_ connection: Connection) {
        let slot = Int(freeSlots.removeLast())
        precondition(connection.token.index == slot && slots[slot] == nil)
        slots[slot] = connection
        count += 1
    }

    /// The connection that a token means, if it still is there.
    subscript(token: EventToken) -> Connection? {
        guard token.index < slots.count, generations[token.index] == token.generation
        else { return nil }
        return slots[token.index]
    }

    /// The connection that a token means, without counting a reference to it. For the path of
    /// every message: no connection is removed before the end of the tick, so the table's
    /// reference lasts.
    func reference(to token: EventToken) -> Unmanaged<Connection>? {
        guard token.index < slots.count, generations[token.index] == token.generation
        else { return nil }
        return reference(inSlot: token.index)
    }

    /// The same by slot; nil for a slot that was noted before the table was given back.
    func reference(inSlot slot: Int) -> Unmanaged<Connection>? {
        guard slot < slots.count, let connection = slots[slot] else { return nil }
        return .passUnretained(connection)
    }

    /// Slots that were ever used; those above them are free.
    var slotCount: Int { slots.count }

    /// The connection in a slot; nil for one that was noted before the table was given back.
    subscript(slot slot: Int) -> Connection? { slot < slots.count ? slots[slot] : nil }

    /// Frees a connection's slot; its token means nothing from now on.
    mutating func remove(_ connection: Connection) {
        let slot = connection.token.index
        precondition(slots[slot] === connection)
        slots[slot] = nil
        generations[slot] &+= 1
        freeSlots.append(UInt32(slot))
        count -= 1
        if count == 0, slots.count >= longCount { giveBack() }
    }

    private mutating func giveBack() {
        firstGeneration = (generations.max() ?? 0) &+ 1
        (slots, generations, freeSlots) = ([], [], [])
        reserve()
    }

    /// Gives each of two connections the other's place and name.
    /// - Precondition: both are in the table.
    mutating func exchange(_ one: Connection, _ other: Connection) {
        slots.swapAt(one.token.index, other.token.index)
        one.exchangeNames(with: other)
    }

    /// Visits all connections in the order of their slots.
    func forEach(_ body: (Connection) -> Void) {
        for case let connection? in slots { body(connection) }
    }
}
