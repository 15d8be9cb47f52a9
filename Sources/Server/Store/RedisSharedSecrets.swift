// Client secrets that several servers share, in Redis: one key a secret, named by its hash, which lives
// as long as the secret. SecretRecord is what it holds.
//
// Invariant: confined to the shard's thread. No more of a value is read than a record may have.

import Codec
import Session

/// A shard's way to the secrets of other nodes.
final class RedisSharedSecrets: SharedSecrets {
    private let link: StoreLink

    init(over link: StoreLink) { self.link = link }

    var isReady: Bool { link.isReady }

    func share(_ record: [UInt8], of secret: SHA256Digest, for lifetime: Duration) {
        guard link.isReady else { return }
        var command = RedisCommand("SET", Self.key(of: secret))
        command.append(record)
        command.append("PX")
        command.append(max(1, lifetime.wholeMilliseconds))
        link.send(.share, command) { _ in }
    }

    func find(
        _ secret: SHA256Digest, then: @escaping (Result<[UInt8], RedisError>) -> Void
    ) {
        // The last index is included, so that a value that is too long is noticed.
        let command = RedisCommand(
            "GETRANGE", Self.key(of: secret), "0", "\(SecretRecord.maxBytes)")
        link.send(.find, command) { result in then(result.map { $0.bytes ?? [] }) }
    }

    private static func key(of secret: SHA256Digest) -> String {
        "parley:secret:\(secret.hexadecimal())"
    }
}
