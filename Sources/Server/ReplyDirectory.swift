// Replies by the chat that they belong to, of all shards: a client that comes back for one may
// arrive at any of them. Only what is asked for by chat has a place here; a reply's own content is
// in its ReplyLog. The lock is taken when a reply begins, is resumed and ends, never per delta.
//
// Invariant: at most `limit` replies, one a chat, the newest.

import Codec
import Synchronization

/// A chat of somebody: clients choose its id, so that it means nothing beyond the caller.
struct ChatKey: Hashable, Sendable {
    /// Whose it is (`Caller.principal`); nil where nobody is told apart.
    let principal: SHA256Digest?
    let id: String
}

/// Where a client finds the reply that it lost. Shared by all shards.
package final class ReplyDirectory: Sendable {
    private struct State {
        var logs: [ChatKey: ReplyLog] = [:]
        /// Complete replies, the oldest first; some may be gone from `logs`.
        var complete: [(chat: ChatKey, log: ReplyLog)] = []

        func holds(_ log: ReplyLog, of chat: ChatKey) -> Bool { logs[chat] === log }
    }

    private let limit: Int
    private let state = Mutex(State())

    /// Creates an empty directory. 0: nothing can be resumed.
    package init(limit: Int) { self.limit = limit }

    /// Replies that are kept.
    package var count: Int { state.withLock { $0.logs.count } }

    /// A reply of a chat begins; the chat's last one cannot be resumed any more. The oldest
    /// complete reply makes room where it must; where none is complete this one cannot be resumed.
    /// - Returns: the reply that lost its place.
    func insert(_ log: ReplyLog, of chat: ChatKey) -> ReplyLog? {
        state.withLock { state in
            if let replaced = state.logs[chat] {
                state.logs[chat] = log
                return replaced
            }
            guard limit > 0 else { return nil }
            while state.logs.count >= limit, !state.complete.isEmpty {
                let oldest = state.complete.removeFirst()
                if state.holds(oldest.log, of: oldest.chat) { state.logs[oldest.chat] = nil }
            }
            if state.logs.count < limit { state.logs[chat] = log }
            return nil
        }
    }

    /// The newest reply of a chat.
    func log(of chat: ChatKey) -> ReplyLog? { state.withLock { $0.logs[chat] } }

    /// Whether a reply can still be resumed.
    func holds(_ log: ReplyLog, of chat: ChatKey) -> Bool {
        state.withLock { $0.holds(log, of: chat) }
    }

    /// A reply is complete, and may make room for others.
    func handleComplete(_ log: ReplyLog, of chat: ChatKey) {
        state.withLock { state in
            guard state.holds(log, of: chat) else { return }
            state.complete.append((chat, log))
        }
    }

    /// Nobody needs a reply any more.
    func remove(_ log: ReplyLog, of chat: ChatKey) {
        state.withLock { state in
            if state.holds(log, of: chat) { state.logs[chat] = nil }
            state.complete.removeAll { $0.log === log }
        }
    }
}
