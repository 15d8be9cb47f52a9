// The list of nodes in the store: each node enters itself again and again, and reads the others. The
// secret that they share is there too; the first node makes it.
//
//   parley:nodes         sorted set: node → milliseconds of its last entry, by the store's clock
//   parley:node-records  hash: node → its NodeRecord
//   parley:node-secret   the secret
//
// Invariant: at most one renewal is under way. Without the store the last list stays: a node of it
// that is gone does not answer.

import Codec
import Session

/// Renews a directory of nodes. Confined to its shard's thread.
final class NodeRegistry {
    /// Bytes of the secret. 32: those of the hash of its HMAC.
    static let secretBytes = 32

    private let link: StoreLink
    private let directory: NodeDirectory
    private let describe: () -> [UInt8]
    private let makeSecret: () -> [UInt8]
    private let parser = JSONParser()
    private var isUnderWay = false

    init(
        over link: StoreLink, _ directory: NodeDirectory, describe: @escaping () -> [UInt8],
        makeSecret: @escaping () -> [UInt8]
    ) {
        (self.link, self.directory) = (link, directory)
        (self.describe, self.makeSecret) = (describe, makeSecret)
    }

    /// Enters this node and reads the others, unless the last time has no outcome yet.
    func renew() {
        guard !isUnderWay else { return }
        isUnderWay = true
        let command = RedisCommand(
            Self.script, keys: ["parley:nodes", "parley:node-records", "parley:node-secret"],
            arguments: [
                Array(directory.name.utf8), describe(),
                Array("\(NodeHeartbeat.lifetime.wholeMilliseconds)".utf8), makeSecret(),
            ])
        link.send(.heartbeat, command) { [self] result in
            isUnderWay = false
            guard let values = try? result.get().array, let secret = values.first?.bytes else {
                return
            }
            let records = values.dropFirst().compactMap { value in
                value.bytes.flatMap { NodeRecord($0, parser: parser) }
            }
            directory.replace(records, secret: secret)
        }
    }

    /// Keys: the three above. Arguments: node, record, lifetime in milliseconds, a new secret.
    /// Answers with the secret and the records of all nodes that are alive. Heartbeats take dead nodes
    /// out of the sorted set too, so that each record is looked up there.
    private static let script = RedisScript(
        """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        redis.call('ZADD', KEYS[1], now, ARGV[1])
        redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
        redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[3]))
        for _, node in ipairs(redis.call('HKEYS', KEYS[2])) do
            if not redis.call('ZSCORE', KEYS[1], node) then redis.call('HDEL', KEYS[2], node) end
        end
        redis.call('SET', KEYS[3], ARGV[4], 'NX')
        local answer = redis.call('HVALS', KEYS[2])
        table.insert(answer, 1, redis.call('GET', KEYS[3]))
        return answer
        """)
}

extension ServerConfiguration {
    /// Where other nodes reach this one; nil: nowhere.
    /// - Parameter port: the one that it listens on; nil: the configured one.
    func reachableURL(atPort port: Int?) -> String? {
        if let nodeURL { return nodeURL }
        guard host != "0.0.0.0", host != "::", !host.isEmpty else { return nil }
        let name = host.contains(":") ? "[\(host)]" : host
        let url = "\(tlsCertificate == nil ? "http" : "https")://\(name):\(port ?? self.port)"
        return NodeRecord.isURL(url) ? url : nil
    }
}
