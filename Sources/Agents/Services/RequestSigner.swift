// Signs requests to agents, so that an agent can tell a turn of this server from a foreign request.
// The signature is a JWT (ES256) in X-Parley-Signature, which the agent checks with the keys at
// /.well-known/jwks.json. docs/agents.md has the claims.
//
// Invariant: a key that the server has made is published one rotation before it signs, and one after
// it has signed its last token. An agent that keeps the set for less than a rotation always has the
// key. A new key of a file signs once no agent should keep a set without it. The key before it stays
// published while its tokens are valid and agents may keep the set with it.

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

    /// Seconds for which a key that does not sign any more stays published.
    static let publishedSeconds = lifetimeSeconds + AgentSet.publicKeysAge
    /// Replaced keys that are published at most. 8: a key every minute; the oldest go first.
    static let maxReplaced = 8

    private struct Keys {
        /// The first signs.
        var all: [SigningKey]
        /// When the first began to sign, in seconds since 1970. Nil where the keys are a file's:
        /// the signer does not rotate those.
        var since: Int?
        /// The key of a file that signs until the first one may, or nil where the first signs.
        var before: SigningKey?
        /// When the first of a file may sign, in seconds since 1970.
        var firstSigns = 0
        /// Since when the keys of a file are published, by their ids, in seconds since 1970.
        var publishedSince: [String: Int] = [:]
        /// Keys of earlier files that have signed, and the time in seconds since 1970 until which
        /// each is published.
        var replaced: [(key: SigningKey, until: Int)] = []
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

    /// Publishes other keys from now on, of which the first signs once it has been published for
    /// `AgentSet.publicKeysAge`. Until then the key that signs now goes on.
    public func replace(with keys: [SigningKey]) {
        precondition(!keys.isEmpty)
        let now = wallSeconds()
        self.keys.withLock { state in
            Self.advance(&state, at: now)
            let signing = state.before ?? state.all[0]
            // Before the first replacement, all keys were there from the start.
            let isFirst = state.publishedSince.isEmpty
            let known = Set(isFirst ? state.all.map(\.id) : [])
            state.publishedSince = Dictionary(
                keys.map { key in
                    (key.id, known.contains(key.id) ? 0 : state.publishedSince[key.id] ?? now)
                }, uniquingKeysWith: min)
            state.all = keys
            state.since = nil
            state.before = signing.id == keys[0].id ? nil : signing
            state.firstSigns = state.publishedSince[keys[0].id, default: 0] + AgentSet.publicKeysAge
            Self.advance(&state, at: now)
        }
    }

    /// Makes the first key of a file sign, if it may by now.
    private static func advance(_ keys: inout Keys, at now: Int) {
        keys.replaced.removeAll { $0.until <= now }
        guard let before = keys.before, keys.firstSigns <= now else { return }
        keys.before = nil
        keys.replaced.removeAll { $0.key.id == before.id }
        keys.replaced.append((before, now + publishedSeconds))
        if keys.replaced.count > maxReplaced { keys.replaced.removeFirst() }
    }

    /// The token of a request; nil where OpenSSL cannot sign.
    /// - Parameter audience: the agent that it is for, `aud`.
    func token(for turn: TurnIdentity, audience: String) -> String? {
        let now = wallSeconds()
        let key = keys.withLock { keys in
            Self.rotate(&keys, at: now)
            Self.advance(&keys, at: now)
            return keys.before ?? keys.all[0]
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
            Self.advance(&keys, at: now)
            let others = [keys.before].compactMap(\.self) + keys.replaced.map(\.key)
            var ids: Set<String> = []
            return (keys.all + others).filter { ids.insert($0.id).inserted }
        }
        return encodedObject { json in
            json.array("keys") { json in
                for key in all { key.writePublicKey(to: &json) }
            }
        }
    }

    /// Makes the next key sign. The one before it stays published, and a new one is published.
    private static func rotate(_ keys: inout Keys, at now: Int) {
        guard let since = keys.since, now - since >= rotationSeconds, let new = SigningKey()
        else { return }
        keys.all = [keys.all[1], new, keys.all[0]]
        keys.since = now
    }
}
