// A keeper of records that holds what it is given, and may refuse it.

import Session
import Synchronization

/// Collects changes.
final class CollectingKeeper: RecordKeeper {
    private let state = Mutex<(changes: [RecordChange], isFull: Bool, refused: Int)>(
        ([], false, 0))

    var changes: [RecordChange] { state.withLock { $0.changes } }
    var refused: Int { state.withLock { $0.refused } }

    /// Whether it takes nothing.
    var isFull: Bool {
        get { state.withLock { $0.isFull } }
        set { state.withLock { $0.isFull = newValue } }
    }

    func keep(_ change: RecordChange) -> Bool {
        state.withLock { state in
            guard !state.isFull else {
                state.refused += 1
                return false
            }
            state.changes.append(change)
            return true
        }
    }

    var counts: RecordCounts { RecordCounts() }
    func shutdown() {}

    /// The last form of each item, in the order in which they came.
    var items: [RecordedItem] {
        var order: [String] = []
        var last: [String: RecordedItem] = [:]
        for item in changes.flatMap(\.items) {
            if last.updateValue(item, forKey: item.item.id) == nil { order.append(item.item.id) }
        }
        return order.compactMap { last[$0] }
    }

    /// Why the session has ended.
    var end: SessionEnd? { changes.compactMap(\.end).last }
}
