// Kept replies of all shards, by the chat that they belong to: a client that comes back for a reply
// may arrive at any shard. Only a reply of a chat has a place here; its content is in its ReplyLog.
// The lock is taken when a reply begins, is resumed and ends, never per delta.
//
// Invariant: at most `limit` replies, one a chat, the newest. An owner loses a place to another
// owner only while it has more places than the other would have then.

import Codec
import Synchronization

/// A chat of one user: clients choose its id, so that it means nothing beyond the user.
struct ChatKey: Hashable, Sendable {
    /// The user (`Caller.chatOwner`); nil where users are not told apart.
    let user: SHA256Digest?
    /// The owner of the places that its reply counts for (`Caller.principal`): a key, together with
    /// all of its client secrets.
    let principal: SHA256Digest?
    let id: String
}

extension ChatKey {
    /// A caller's chat.
    init(of caller: Caller, id: String) {
        self.init(user: caller.chatOwner, principal: caller.principal, id: id)
    }
}

/// Where a client finds the reply that it lost. Shared by all shards.
package final class ReplyDirectory: Sendable {
    private struct Place {
        let log: ReplyLog
        /// Counts up from the first reply: the lower, the older.
        let number: UInt64
        var isComplete = false
    }

    private struct State {
        var places: [ChatKey: Place] = [:]
        /// How many places each owner has; none has 0.
        var counts: [SHA256Digest?: Int] = [:]
        var lastNumber: UInt64 = 0

        func contains(_ log: ReplyLog, of chat: ChatKey) -> Bool { places[chat]?.log === log }

        func count(of owner: SHA256Digest?) -> Int { counts[owner] ?? 0 }

        mutating func insert(_ log: ReplyLog, of chat: ChatKey) {
            lastNumber += 1
            let place = Place(log: log, number: lastNumber)
            if places.updateValue(place, forKey: chat) == nil {
                counts[chat.principal, default: 0] += 1
            }
        }

        mutating func remove(_ chat: ChatKey) -> ReplyLog? {
            guard let place = places.removeValue(forKey: chat) else { return nil }
            let rest = count(of: chat.principal) - 1
            counts[chat.principal] = rest > 0 ? rest : nil
            return place.log
        }

        /// The chat whose reply makes room for a new one of an owner; nil where none may. The owner
        /// with the most replies loses its oldest complete one. A reply that is on its way is
        /// dropped only where its owner has more than its share, and never for one of the same
        /// owner.
        func chatToEvict(for owner: SHA256Digest?) -> ChatKey? {
            let own = count(of: owner)
            var found: (chat: ChatKey, rank: (Int, Int, UInt64))?
            for (chat, place) in places {
                let count = count(of: chat.principal)
                let isHeavier = count > (place.isComplete ? own : own + 1)
                guard isHeavier || (chat.principal == owner && place.isComplete) else { continue }
                // Numbers differ, so that the order of the dictionary decides nothing.
                let rank = (-count, place.isComplete ? 0 : 1, place.number)
                if let found, found.rank < rank { continue }
                found = (chat, rank)
            }
            return found?.chat
        }
    }

    private let limit: Int
    private let state = Mutex(State())

    /// Creates an empty directory. 0: nothing can be resumed.
    package init(limit: Int) { self.limit = limit }

    /// Replies that are kept.
    package var count: Int { state.withLock { $0.places.count } }

    /// A reply of a chat begins; the chat's last one cannot be resumed any more. Where all places
    /// are taken, the owner with the most replies loses one, if it has at least as many as this
    /// owner. Where no reply may be dropped, the new one cannot be resumed. Searches all replies
    /// then: 10 µs with the 256 of the default.
    /// - Returns: the reply that lost its place.
    func insert(_ log: ReplyLog, of chat: ChatKey) -> ReplyLog? {
        state.withLock { state in
            var lost = state.places[chat]?.log
            if lost == nil {
                guard limit > 0 else { return nil }
                if state.places.count >= limit {
                    guard let evicted = state.chatToEvict(for: chat.principal) else { return nil }
                    lost = state.remove(evicted)
                }
            }
            state.insert(log, of: chat)
            return lost
        }
    }

    /// The newest reply of a chat.
    func log(of chat: ChatKey) -> ReplyLog? { state.withLock { $0.places[chat]?.log } }

    /// Whether a reply can still be resumed.
    func contains(_ log: ReplyLog, of chat: ChatKey) -> Bool {
        state.withLock { $0.contains(log, of: chat) }
    }

    /// A reply is complete, and may make room for others.
    func handleComplete(_ log: ReplyLog, of chat: ChatKey) {
        state.withLock { state in
            guard state.contains(log, of: chat) else { return }
            state.places[chat]?.isComplete = true
        }
    }

    /// Removes a reply that is not needed any more.
    func remove(_ log: ReplyLog, of chat: ChatKey) {
        state.withLock { state in
            if state.contains(log, of: chat) { _ = state.remove(chat) }
        }
    }
}
