// Shows other servers that this one is alive, and takes what they have left for it. One shard of a
// server does this for all.
//
// Invariant: at most one heartbeat is under way.

import Codec
import Session

/// The heartbeat of a server. Confined to its shard's thread.
final class NodeHeartbeat {
    /// The time between two heartbeats. 1 s: three may fail before the server counts as dead.
    static let interval = Duration.seconds(1)
    /// How long a server counts as alive after a heartbeat. 3 s: the claim of a session of a dead
    /// server waits no longer.
    static let lifetime = Duration.seconds(3)
    /// Messages of one heartbeat; the others wait for the next.
    static let maxMessages = 1_000

    private let link: StoreLink
    private let node: String
    /// What other servers may know of this one.
    private let describe: () -> [UInt8]
    /// Is told of a session that another server has claimed.
    private let onFenced: (_ sessionID: String, _ fence: UInt64) -> Void
    /// Is told how many servers are alive after each heartbeat; nil: the store is away.
    private let onNodes: (_ count: Int?) -> Void
    private var isUnderWay = false

    init(
        over link: StoreLink, node: String, describe: @escaping () -> [UInt8],
        onFenced: @escaping (_ sessionID: String, _ fence: UInt64) -> Void,
        onNodes: @escaping (_ count: Int?) -> Void
    ) {
        self.onNodes = onNodes
        (self.link, self.node) = (link, node)
        (self.describe, self.onFenced) = (describe, onFenced)
    }

    /// Sends a heartbeat, unless the last one has no outcome yet.
    func beat() {
        guard !isUnderWay else { return }
        isUnderWay = true
        let command = RedisCommand(
            StoreScripts.heartbeat,
            keys: [
                StoreScripts.liveness(of: node), StoreScripts.inbox(of: node), StoreScripts.nodes,
            ],
            arguments: [
                describe(), Array("\(Self.lifetime.wholeMilliseconds)".utf8),
                Array("\(Self.maxMessages)".utf8), Array(node.utf8),
            ])
        link.send(.heartbeat, command) { [self] result in
            isUnderWay = false
            let answer = (try? result.get())?.array ?? []
            for message in answer.first?.array ?? [] { handle(message) }
            onNodes(answer.last?.integer.map { Int(clamping: $0) })
        }
    }

    /// `fenced FENCE ID`; anything else is for a later version.
    private func handle(_ message: RedisValue) {
        let words = message.text?.split(separator: " ", maxSplits: 2) ?? []
        guard words.count == 3, words[0] == "fenced", let fence = UInt64(words[1]) else { return }
        onFenced(String(words[2]), fence)
    }
}
