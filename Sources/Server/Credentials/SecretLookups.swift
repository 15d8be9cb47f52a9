// The requests of a shard that wait until the store has said whether another node has made their client
// secret. Values only: ShardSecrets asks, and goes on with the requests.
//
// Invariant: at most `maxLookups` wait. Each question has one answer, within the time limit of a
// command for Redis.

import Codec

/// Names a look-up of one shard.
typealias SecretLookupID = UInt64

/// Where nodes leave their client secrets for each other. Confined to a shard's thread.
protocol SharedSecrets: AnyObject {
    /// Whether it answers now.
    var isReady: Bool { get }
    /// Leaves a record for a time. Where that fails, the secret is good at its own node only.
    func share(_ record: [UInt8], of secret: SHA256Digest, for lifetime: Duration)
    /// Asks for a record. `then` gets it once, perhaps before the call returns. It gets no bytes
    /// where there is no record.
    func find(
        _ secret: SHA256Digest, then: @escaping (Result<[UInt8], RedisError>) -> Void)
}

/// The store's answer about the client secret of a request.
struct SecretAnswer {
    /// The entry of the secret, or nil where the secret is unknown or not valid here, or the store
    /// has failed.
    let entry: ClientSecrets.Entry?
}

/// A request whose client secret is looked up.
struct AwaitedSender {
    /// The hash of the secret.
    let secret: SHA256Digest
    let request: HTTPRequest
    /// Whether only its head has come.
    let isHead: Bool
    /// Its connection.
    let token: EventToken
    /// The address that a failed attempt was counted for, or nil where none was counted.
    let counted: NetworkAddress?
}

/// The look-ups of one shard.
struct SecretLookups {
    /// Look-ups under way at one shard. 256: each takes a millisecond, and each request waits with
    /// at most 64 KiB of body.
    static let maxLookups = 256

    private var waiting: [SecretLookupID: AwaitedSender] = [:]
    private var lastID: SecretLookupID = 0

    /// Whether no more can be made now.
    var isFull: Bool { waiting.count >= Self.maxLookups }

    /// Begins a look-up.
    mutating func insert(_ sender: AwaitedSender) -> SecretLookupID {
        lastID += 1
        waiting[lastID] = sender
        return lastID
    }

    /// The request of a look-up, which is over.
    mutating func remove(_ id: SecretLookupID) -> AwaitedSender? {
        waiting.removeValue(forKey: id)
    }
}

extension RouteFailure {
    static let tooManySecrets = unavailable(
        "too_many_lookups", "Too many credentials are being looked up.", retryAfterSeconds: 1)
}
