// Events of sidebands that wait for this shard's sessions: a queue for each sideband, which are served
// in turn, one event at a time. So a sideband that floods its session delays no other.
//
// Invariants: events of one sideband keep their order. A sideband has a turn exactly while it has
// events; one whose session cannot take any yet keeps its place, and delays no other.

import Codec
import Session

/// An event of a sideband that its session has not handled.
struct SidebandInput {
    let text: [UInt8]
    let link: SidebandLink
    let token: EventToken
}

/// The waiting events of a shard's sessions.
struct SidebandInputs {
    private var queues: [ObjectIdentifier: [SidebandInput]] = [:]
    /// Sidebands with events, the next to be served first.
    private var turns: [ObjectIdentifier] = []

    /// Whether nothing waits.
    var isEmpty: Bool { turns.isEmpty }

    /// An event has come.
    mutating func append(_ input: SidebandInput) {
        let id = ObjectIdentifier(input.link)
        if queues[id] == nil { turns.append(id) }
        queues[id, default: []].append(input)
    }

    /// Takes the next events, in the order in which they are to be handled.
    /// - Parameters:
    ///   - limit: how many at most.
    ///   - mustWait: whether the session of a connection takes none yet.
    mutating func take(
        atMost limit: Int, where mustWait: (EventToken) -> Bool
    ) -> [SidebandInput] {
        var taken: [SidebandInput] = []
        var waiting: [ObjectIdentifier] = []
        var served = 0
        while taken.count < limit, served < turns.count {
            let id = turns[served]
            served += 1
            // Out of the table while it changes, so that the array is not copied.
            guard var queue = queues.removeValue(forKey: id), let next = queue.first
            else { continue }
            if mustWait(next.token) {
                waiting.append(id)
                queues[id] = queue
                continue
            }
            taken.append(queue.removeFirst())
            guard !queue.isEmpty else { continue }
            queues[id] = queue
            turns.append(id)
        }
        turns.replaceSubrange(..<served, with: waiting)
        return taken
    }
}
