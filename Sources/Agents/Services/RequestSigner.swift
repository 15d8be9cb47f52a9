// Signs requests to agents, so that an agent can tell a turn of this server from a foreign
// request: a JWT (ES256) in X-Parley-Signature, which the agent checks with the keys at
// /.well-known/jwks.json. docs/agents.md has the claims.
//
// Invariant: a key is published one rotation before it signs, and one after it has signed its last
// token. An agent that keeps the set for less than a rotation always has the key.

import Codec
import Session
import Synchronization

/// Makes the tokens of requests, and publishes their keys. Shared by all shards.
public final class RequestSigner: Sendable {
    /// Seconds for which a token is valid. 60: a request that waits for a connection still arrives
    /// in time, and a token that leaks is soon of no use.
    public static let lifetimeSeconds = 60
    /// Seconds after which a key that the server has made is replaced. One day: longer than any
    /// agent should keep the set of keys.
    public static let rotationSeconds = 86_400

    private struct Keys {
        /// The first signs.
        var all: [SigningKey]
        /// When the first began to sign, in seconds since 1970; nil: keys of a file do not change.
        var since: Int?
    }

    private let keys: Mutex<Keys>
    private let wallSeconds: @Sendable () -> Int
    private let makeTokenID: @Sendable () -> String

    /// Signs with the first of an operator's keys; all of them are published.
    /// - Parameters:
    ///   - wallSeconds: seconds since 1970.
    ///   - makeTokenID: an unpredictable name for each token (`jti`).
    public init(
        keys: [SigningKey], wallSeconds: @escaping @Sendable () -> Int,
        makeTokenID: @escaping @Sendable () -> String
    ) {
        precondition(!keys.isEmpty)
        self.keys = Mutex(Keys(all: keys, since: nil))
        self.wallSeconds = wallSeconds
        self.makeTokenID = makeTokenID
    }

    /// Makes keys of its own, and replaces them. Other servers do not have them.
    /// - Returns: nil where OpenSSL has no randomness.
    public init?(
        wallSeconds: @escaping @Sendable () -> Int, makeTokenID: @escaping @Sendable () -> String
    ) {
        guard let first = SigningKey(), let next = SigningKey() else { return nil }
        keys = Mutex(Keys(all: [first, next], since: wallSeconds()))
        self.wallSeconds = wallSeconds
        self.makeTokenID = makeTokenID
    }

    /// The token of a request; nil where OpenSSL cannot sign.
    /// - Parameter audience: the agent that it is for, `aud`.
    func token(for turn: TurnIdentity, audience: String) -> String? {
        let now = wallSeconds()
        let key = keys.withLock { keys in
            Self.rotate(&keys, at: now)
            return keys.all[0]
        }
        let claims = encodedObject { json in
            json.member("iss", "parley")
            json.member("aud", audience)
            if let subject = turn.subject { json.member("sub", subject) }
            json.member("sid", turn.sessionID)
            json.member("turn", turn.responseID)
            json.member("iat", now)
            json.member("exp", now + Self.lifetimeSeconds)
            json.member("jti", makeTokenID())
        }
        return key.token(claims: claims)
    }

    /// The public keys as a set (JWKS, RFC 7517 §5).
    public func publicKeys() -> [UInt8] {
        let now = wallSeconds()
        let all = keys.withLock { keys in
            Self.rotate(&keys, at: now)
            return keys.all
        }
        return encodedObject { json in
            json.array("keys") { json in
                for key in all { key.writePublicKey(to: &json) }
            }
        }
    }

    /// The next key signs, the one before it stays published, and a new one is published.
    private static func rotate(_ keys: inout Keys, at now: Int) {
        guard let since = keys.since, now - since >= rotationSeconds, let new = SigningKey()
        else { return }
        keys.all = [keys.all[1], new, keys.all[0]]
        keys.since = now
    }
}
