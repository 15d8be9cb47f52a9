// The connections, or the sessions, of a shard, by slot. It is an array, so that finding one costs
// a load and a comparison. Slots are reused, tokens are not (until 2³² uses of the same slot).
//
// Up to the capacity a member more costs its own place only: memory is asked for at once, and the kernel
// gives it page by page as it is used. A table that was long gives it back when it is empty.

/// A member of a SlotTable. Its token says which slot it has, and which use of that.
protocol SlotMember: AnyObject {
    var token: EventToken { get }
}

/// The members of one kind on one shard.
struct SlotTable<Member: SlotMember> {
    /// From how many slots on a table counts as long. 4,096: 32 kB.
    static var longCount: Int { 4_096 }

    /// A slot without a member, and which use of it the next one is.
    private struct FreeSlot {
        let index: UInt32
        let generation: UInt32
    }

    private let kind: EventToken.Kind
    private var slots: [Member?] = []
    private var free: [FreeSlot] = []
    /// The generation of a new slot: one that no slot before had when the table was given back.
    private var firstGeneration: UInt32 = 0
    /// The highest generation that a freed slot has for its next member.
    private var lastGeneration: UInt32 = 0
    private let capacity: Int
    private let longCount: Int
    /// Members that are there.
    private(set) var count = 0

    /// An empty table.
    /// - Parameters:
    ///   - kind: of the members' tokens.
    ///   - capacity: members that never make it move; beyond it more cost a copy now and then.
    ///   - longCount: from how many slots on it gives memory back.
    init(of kind: EventToken.Kind, capacity: Int = 0, longCount: Int = Self.longCount) {
        self.kind = kind
        self.capacity = capacity
        self.longCount = longCount
        reserve()
    }

    private mutating func reserve() {
        slots.reserveCapacity(capacity)
        free.reserveCapacity(capacity)
    }

    /// The token that the next `insert` must use, or nil when the table is full (2²⁸ slots).
    mutating func reserveToken() -> EventToken? {
        if free.isEmpty {
            guard slots.count <= EventToken.maxIndex else { return nil }
            free.append(FreeSlot(index: UInt32(slots.count), generation: firstGeneration))
            slots.append(nil)
        }
        let next = free[free.count - 1]
        return EventToken(kind, index: Int(next.index), generation: next.generation)
    }

    /// Puts a member into the slot that `reserveToken` named.
    mutating func insert(_ member: Member) {
        let slot = Int(free.removeLast().index)
        precondition(member.token.index == slot && slots[slot] == nil)
        slots[slot] = member
        count += 1
    }

    /// The member that a token means, if it still is there.
    subscript(token: EventToken) -> Member? {
        guard token.index < slots.count, let member = slots[token.index], member.token == token
        else { return nil }
        return member
    }

    /// The member that a token means, without counting a reference to it. For connections alone, on the
    /// path of every message: none is removed before the end of the tick, so the table's reference lasts.
    func reference(to token: EventToken) -> Unmanaged<Member>? {
        guard let reference = reference(inSlot: token.index),
            reference._withUnsafeGuaranteedRef({ $0.token == token })
        else { return nil }
        return reference
    }

    /// The same by slot; nil for a slot that was noted before the table was given back.
    func reference(inSlot slot: Int) -> Unmanaged<Member>? {
        guard slot < slots.count, let member = slots[slot] else { return nil }
        return .passUnretained(member)
    }

    /// Slots that were ever used; those above them are free.
    var slotCount: Int { slots.count }

    /// The member in a slot; nil for one that was noted before the table was given back.
    subscript(slot slot: Int) -> Member? { slot < slots.count ? slots[slot] : nil }

    /// Frees a member's slot; its token means nothing from now on.
    mutating func remove(_ member: Member) {
        let slot = member.token.index
        precondition(slots[slot] === member)
        slots[slot] = nil
        let generation = member.token.generation &+ 1
        lastGeneration = max(lastGeneration, generation)
        free.append(FreeSlot(index: UInt32(slot), generation: generation))
        count -= 1
        if count == 0, slots.count >= longCount { giveBack() }
    }

    private mutating func giveBack() {
        firstGeneration = lastGeneration
        (slots, free) = ([], [])
        reserve()
    }

    /// Visits all members in the order of their slots.
    func forEach(_ body: (Member) -> Void) {
        for case let member? in slots { body(member) }
    }
}
