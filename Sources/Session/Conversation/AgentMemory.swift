// Mementos: texts that agents want back with a later request of the session, such as the id of an
// answer that they have stored, or their state. The conversation keeps them beside its items,
// because an agent's knowledge of the items changes with these. Only the agent's own provider reads
// the text.
//
// Invariant: at most two mementos are kept, the newest and the newest whose reply was heard whole.

import Codec

/// The mementos of a conversation. A session without such an agent has none.
final class AgentMemory {
    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(AgentMemory.self)
    /// Most UTF-8 bytes of a memento; a longer one is not kept. 192 KiB: what AG-UI keeps
    /// takes at most about 130.
    static let maxBytes = 192 << 10

    /// One memento, and the items that its agent knew.
    struct Kept: Equatable {
        let provider: String
        let text: String
        /// The last item that the agent knew: the end of its own reply.
        let lastItemID: String
        /// Whether the items up to there are as they were.
        var isHistoryKept = true
        var wasHeard = true
    }

    private(set) var newest: Kept
    /// The newest before `newest` whose reply was heard whole.
    private(set) var heard: Kept?

    init(_ first: Kept) { newest = first }

    /// All of them, the newest last.
    var all: [Kept] {
        guard !newest.wasHeard, let heard else { return [newest] }
        return [heard, newest]
    }

    /// All that is kept, whether or not it is used now, the newest last.
    var kept: [Kept] { (heard.map { [$0] } ?? []) + [newest] }

    /// Bytes of all mementos.
    var heldBytes: Int {
        [heard, newest].reduce(Self.objectBytes) { sum, kept in
            sum + (kept.map { $0.text.heapBytes + $0.provider.heapBytes } ?? 0)
        }
    }

    /// Keeps a new memento that the agent has given.
    func keep(_ kept: Kept) {
        if newest.wasHeard { heard = newest }
        newest = kept
    }

    /// Handles an item that was cut where the user stopped hearing it.
    /// - Parameter isAfter: whether the cut item comes after another one.
    func handleCut(isAfter: (_ itemID: String) -> Bool) {
        if let heard, !isAfter(heard.lastItemID) { self.heard?.isHistoryKept = false }
        newest.wasHeard = false
    }

    /// An item was inserted before others, or deleted.
    /// - Parameter isAfter: whether it comes after an item.
    func handleEdit(isAfter: (_ itemID: String) -> Bool) {
        if let heard, !isAfter(heard.lastItemID) { self.heard?.isHistoryKept = false }
        if !isAfter(newest.lastItemID) { newest.isHistoryKept = false }
    }
}
