// Shows other servers that this one is alive, takes what they have left for it, and reads which of
// them are alive. One shard of a server does this for all.
//
// Invariant: at most one heartbeat is under way. Without the store the directory keeps its last
// nodes: one of them that is gone does not answer.

import Codec
import Session

/// The heartbeat of a server. Confined to its shard's thread.
final class NodeHeartbeat {
    /// The time between two heartbeats. 1 s: three may fail before the server counts as dead.
    static let interval = Duration.seconds(1)
    /// Messages of one heartbeat; the others wait for the next.
    static let maxMessages = 1_000
    /// Bytes of the secret that the nodes share. 32: as many as the hash of its HMAC has.
    static let secretBytes = 32

    private let link: StoreLink
    private let directory: NodeDirectory
    private let parser = JSONParser()
    /// Makes this server's record for the others.
    private let describe: () -> [UInt8]
    /// Makes the nodes' secret, which only the first of them needs.
    private let makeSecret: () -> [UInt8]
    /// Called for a session that another server has claimed.
    private let onFenced: (_ sessionID: String, _ fence: UInt64) -> Void
    /// Called with the number of servers alive after each heartbeat. Nil means that it has failed.
    private let onNodes: (_ count: Int?) -> Void
    private var isUnderWay = false

    init(
        over link: StoreLink, _ directory: NodeDirectory, describe: @escaping () -> [UInt8],
        makeSecret: @escaping () -> [UInt8],
        onFenced: @escaping (_ sessionID: String, _ fence: UInt64) -> Void,
        onNodes: @escaping (_ count: Int?) -> Void
    ) {
        (self.link, self.directory) = (link, directory)
        (self.describe, self.makeSecret) = (describe, makeSecret)
        (self.onFenced, self.onNodes) = (onFenced, onNodes)
    }

    /// Sends a heartbeat, unless the last one has no outcome yet.
    func beat() {
        guard !isUnderWay else { return }
        isUnderWay = true
        let command = RedisCommand(
            StoreScripts.heartbeat,
            keys: [
                StoreScripts.liveness(of: directory.name),
                StoreScripts.inbox(of: directory.name), StoreScripts.nodes,
                StoreScripts.nodeSecret,
            ],
            arguments: [
                describe(), Array("\(NodeDirectory.lifetime.wholeMilliseconds)".utf8),
                Array("\(Self.maxMessages)".utf8), Array(directory.name.utf8), makeSecret(),
            ])
        link.send(.heartbeat, command) { [self] result in
            isUnderWay = false
            let answer = (try? result.get())?.array ?? []
            for message in answer.first?.array ?? [] { handle(message) }
            guard answer.count == 3, let secret = answer[1].bytes, let records = answer[2].array
            else { return onNodes(nil) }
            directory.replace(
                records.compactMap { $0.bytes.flatMap { NodeRecord($0, parser: parser) } },
                secret: secret)
            onNodes(records.count)
        }
    }

    /// Handles `fenced FENCE ID`. Other messages are for a later version.
    private func handle(_ message: RedisValue) {
        let words = message.text?.split(separator: " ", maxSplits: 2) ?? []
        guard words.count == 3, words[0] == "fenced", let fence = UInt64(words[1]) else { return }
        onFenced(String(words[2]), fence)
    }
}
