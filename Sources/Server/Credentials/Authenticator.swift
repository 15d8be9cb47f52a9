// Finds the caller by the credential of a request. One object for all shards: keys, rules for
// tokens, client secrets, open sessions per principal, failed attempts per address.
//
// Without keys and rules for tokens no credential is needed. Client secrets that this server made
// still count then, so that an application can be tried as it will run.
//
// Invariant: a credential is compared as a hash or by its signature, never as text, and is passed
// to no other part.

import Codec
import Session
import Synchronization

/// Keys and rules, read from options and files; a reload replaces all of them.
package struct CredentialRules: Sendable {
    /// The server's keys.
    var keys = APIKeys()
    /// The rules for tokens. Where nil, no token is accepted.
    var tokens: TokenPolicy?

    /// Lines for the log about the secrets that can be guessed over the network.
    private(set) var guessable: [String] = []

    /// Rules with these keys and tokens.
    package init(keys: APIKeys = APIKeys(), tokens: TokenPolicy? = nil) {
        self.keys = keys
        self.tokens = tokens
    }

    /// Reads the keys and rules that the settings name.
    /// - Parameter secrets: other secrets that can be guessed over the network, by their options.
    init(
        _ settings: CredentialSettings, secrets: [(option: String, text: String?)]
    ) throws(OptionError) {
        if let text = settings.apiKey { try keys.add(option: text) }
        if let path = settings.apiKeysFile {
            try keys.add(try ConfiguredFile(option: "api-keys-file", readingFrom: path))
        }
        tokens = try TokenPolicy(settings)
        let short = secrets.filter { ($0.text?.utf8.count ?? .max) < APIKeys.guessableBytes }
        guessable = (keys.guessable + short.map(\.option)).map {
            "\($0): a secret of fewer than \(APIKeys.guessableBytes) characters can be guessed; make "
                + "one with `openssl rand -hex 24`"
        }
    }
}

/// Finds callers by their credentials. Any thread.
package final class Authenticator: Sendable {
    /// Client secrets that have not expired.
    package let secrets: ClientSecrets
    /// Open sessions of principals whose sessions are limited.
    package let places = SessionPlaces()
    /// Failed attempts by address.
    let failures: AddressLimits
    /// Whether credentials are needed. It stays true where a reload leaves no key: then every
    /// request is refused.
    let isOn: Bool
    private let rules: Mutex<CredentialRules>
    /// Sessions of a key that has no limit of its own; 0 sets no limit.
    private let maxSessionsPerKey: Int

    /// Creates one for the limits of the settings.
    package init(_ settings: CredentialSettings, rules: CredentialRules) {
        self.rules = Mutex(rules)
        maxSessionsPerKey = settings.maxSessionsPerKey
        isOn = settings.areAskedFor || rules.keys.count > 0 || rules.tokens != nil
        secrets = ClientSecrets(maxEntries: settings.maxClientSecrets)
        failures = AddressLimits(
            failuresPerMinute: settings.authFailuresPerMinutePerAddress)
    }

    /// Replaces keys and rules. Open sessions go on; client secrets made with a removed key open
    /// nothing more.
    package func replace(_ rules: CredentialRules) {
        self.rules.withLock { $0 = rules }
        places.follow(limitedKeys)
    }

    /// Reports places to other servers from now on, and asks about those of the server's own keys.
    /// - Parameter wake: is called when there is something to report, on any thread.
    func sharePlaces(_ wake: @escaping @Sendable () -> Void) {
        places.share(wake)
        places.follow(limitedKeys)
    }

    /// The keys whose sessions are limited.
    private var limitedKeys: [SHA256Digest] {
        rules.withLock { $0.keys.digests { ($0.maxSessions ?? maxSessionsPerKey) > 0 } }
    }

    /// A key of the server.
    func key(of digest: SHA256Digest) -> APIKey? { rules.withLock { $0.keys.key(of: digest) } }

    /// The hash of a credential that has the form of a client secret and that this node does not
    /// know: another one may have made it. Nil for every other credential.
    func unknownSecret(in credential: RequestCredential, at now: Instant) -> SHA256Digest? {
        guard case .bearer(let text) = credential, ClientSecrets.isSecret(text) else { return nil }
        let digest = SHA256Digest(of: text)
        guard secrets.entry(of: digest, at: now) == nil, key(of: digest) == nil else { return nil }
        return digest
    }

    /// The caller with a credential.
    /// - Parameters:
    ///   - found: the entry of this credential that another node has made, also where the table has
    ///     no room for it.
    ///   - now: for secrets, which expire by the server's own clock.
    ///   - wallSeconds: seconds since 1970, for tokens.
    /// - Throws: why the credential is not accepted.
    func caller(
        of credential: RequestCredential, found: ClientSecrets.Entry? = nil, at now: Instant,
        wallSeconds: Int
    ) throws(RefusalReason) -> Caller {
        // Most clients send a credential also where none is needed, as their libraries want one.
        guard case .bearer(let text) = credential else {
            if !isOn { return .anonymous }
            throw credential == .none ? .noCredential : .malformedCredential
        }
        if !isOn, !text.hasPrefix(ClientSecrets.prefix) { return .anonymous }
        let digest = SHA256Digest(of: text)
        let rules = rules.withLock { $0 }
        if let key = rules.keys.key(of: digest) {
            return Caller(
                access: key.isOperator ? .operator : .key, principal: digest,
                subject: key.name, allowance: key.allowance)
        }
        if text.hasPrefix(ClientSecrets.prefix),
            let entry = secrets.entry(of: digest, at: now) ?? found
        {
            // With a removed key its secrets are invalid.
            let isValid = !isOn || entry.key.map { rules.keys.key(of: $0) != nil } ?? false
            guard isValid else { throw .unknownCredential }
            var caller = entry.caller
            caller.secret = digest
            return caller
        }
        guard isOn else { return .anonymous }
        guard let tokens = rules.tokens, JSONWebToken.isLike(text) else {
            throw .unknownCredential
        }
        return try tokens.caller(of: text, at: wallSeconds)
    }
}
