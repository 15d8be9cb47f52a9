// The slots of connections that wait for one step of the loop: to have their messages
// handled, their output flushed, their ledger settled, their slot freed. The loop works through
// such a queue in rounds. What is queued during a round waits for the next one, so that a
// connection which always has more to do cannot keep the loop in one step.
//
// Not here: whether a slot is queued already. A flag of the connection says that, because it is
// at hand where a slot is queued, and a search is not.
//
// Invariant: outside a round, the queue holds nothing of the last one. Both arrays keep their
// memory, so that the steady state allocates nothing.

/// Slots in the order in which they were queued, worked through in rounds.
struct SlotQueue {
    private var waiting: [Int] = []
    /// The slots of the round in progress; empty outside one.
    private var round: [Int] = []

    /// Whether nothing waits for the next round.
    var isEmpty: Bool { waiting.isEmpty }

    /// Slots that wait for the next round, in order.
    var slots: [Int] { waiting }

    /// Queues a slot for the next round.
    @inline(__always)
    mutating func append(_ slot: Int) { waiting.append(slot) }

    /// Queues slots of the round in progress for the next one, before all others.
    mutating func postpone(_ slots: [Int]) { waiting.insert(contentsOf: slots, at: 0) }

    /// Begins a round with the slots that wait.
    /// - Returns: how many slots the round has; `endRound()` must follow where it is not 0.
    @inline(__always)
    mutating func beginRound() -> Int {
        guard !waiting.isEmpty else { return 0 }
        // The arrays change places: a copy of one that is emptied would be allocated anew.
        swap(&waiting, &round)
        return round.count
    }

    /// A slot of the round in progress.
    /// - Precondition: `position` is below what `beginRound()` returned.
    @inline(__always)
    func slot(at position: Int) -> Int { round[position] }

    /// Ends the round.
    @inline(__always)
    mutating func endRound() { round.removeAll(keepingCapacity: true) }
}
