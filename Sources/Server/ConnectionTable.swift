// A shard's connections by slot: an array, so that finding one costs a load and a comparison.
// Slots are reused, generations are not (until 2³² uses of the same slot).

/// The connections of one shard.
struct ConnectionTable {
    private var slots: [Connection?] = []
    private var generations: [UInt32] = []
    private var freeSlots: [Int] = []
    /// Open connections.
    private(set) var count = 0

    /// The token that the next `insert` must use, or nil when the table is full (2²⁸ slots).
    mutating func reserveToken() -> EventToken? {
        if freeSlots.isEmpty {
            guard slots.count <= EventToken.maxIndex else { return nil }
            freeSlots.append(slots.count)
            slots.append(nil)
            generations.append(0)
        }
        let slot = freeSlots[freeSlots.count - 1]
        return EventToken(.connection, index: slot, generation: generations[slot])
    }

    /// Puts a connection into the slot that `reserveToken` named.
    mutating func insert(_ connection: Connection) {
        let slot = freeSlots.removeLast()
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

    /// The connection that a token means, without counting a reference to it. For what every
    /// message passes: nobody is removed before the end of the turn, so the table's reference
    /// lasts.
    func reference(to token: EventToken) -> Unmanaged<Connection>? {
        guard token.index < slots.count, generations[token.index] == token.generation
        else { return nil }
        return reference(inSlot: token.index)
    }

    /// The same by slot.
    func reference(inSlot slot: Int) -> Unmanaged<Connection>? {
        guard let connection = slots[slot] else { return nil }
        return .passUnretained(connection)
    }

    /// Slots that were ever used; those above them hold nobody.
    var slotCount: Int { slots.count }

    /// The connection in a slot.
    subscript(slot slot: Int) -> Connection? { slots[slot] }

    /// Frees a connection's slot; its token means nothing from now on.
    mutating func remove(_ connection: Connection) {
        let slot = connection.token.index
        precondition(slots[slot] === connection)
        slots[slot] = nil
        generations[slot] &+= 1
        freeSlots.append(slot)
        count -= 1
    }

    /// Visits all connections in the order of their slots.
    func forEach(_ body: (Connection) -> Void) {
        for case let connection? in slots { body(connection) }
    }
}
