// From the credential of a request to who sends it. One object for all shards: keys, rules for
// tokens, client secrets, open sessions per holder, failed attempts per address.
//
// Without keys and rules for tokens nobody is asked for anything; then only client secrets that
// this server made mean something, so that an application can be tried as it will run.
//
// Invariant: a credential is compared as a hash or by its signature, never as text, and goes
// nowhere else.

import Codec
import Session
import Synchronization

/// Keys and rules as they are read from options and files; a reload replaces them whole.
package struct CredentialRules: Sendable {
    /// The server's keys.
    var keys = APIKeys()
    /// How tokens are judged; nil: none is taken.
    var tokens: TokenPolicy?

    /// Rules with these keys and tokens.
    package init(keys: APIKeys = APIKeys(), tokens: TokenPolicy? = nil) {
        self.keys = keys
        self.tokens = tokens
    }

    /// Reads what a configuration names.
    init(_ configuration: ServerConfiguration) throws(OptionError) {
        if let text = configuration.apiKey { try keys.add(option: text) }
        if let path = configuration.apiKeysFile {
            try keys.add(try ConfiguredFile(option: "api-keys-file", readingFrom: path))
        }
        tokens = try TokenPolicy(configuration)
    }
}

/// Tells who is who. Any thread.
package final class Authenticator: Sendable {
    /// Client secrets that were made and have not expired.
    package let secrets: ClientSecrets
    /// Open sessions of those who may have only so many.
    package let places = SessionPlaces()
    /// Failed attempts by address.
    let failures: AddressLimits
    /// Whether credentials are asked for. Also where there is no key left: then nobody comes in.
    let isOn: Bool
    private let rules: Mutex<CredentialRules>

    /// Creates one for the limits of a configuration.
    package init(_ configuration: ServerConfiguration, rules: CredentialRules) {
        self.rules = Mutex(rules)
        isOn = configuration.asksForCredentials || rules.keys.count > 0 || rules.tokens != nil
        secrets = ClientSecrets(maxEntries: configuration.maxClientSecrets)
        failures = AddressLimits(
            failuresPerMinute: configuration.authFailuresPerMinutePerAddress)
    }

    /// Takes other keys and rules. Sessions that are open go on; client secrets made with a key
    /// that is gone open nothing more.
    package func replace(_ rules: CredentialRules) { self.rules.withLock { $0 = rules } }

    /// Who sends a request.
    /// - Parameters:
    ///   - now: for what expires by the server's own clock.
    ///   - wallSeconds: seconds since 1970, for tokens.
    /// - Throws: why he is nobody.
    func caller(
        of credential: RequestCredential, at now: Instant, wallSeconds: Int
    ) throws(RefusalReason) -> Caller {
        // Where none are asked for most clients still send one, since their libraries want one.
        guard case .bearer(let text) = credential else {
            if !isOn { return .anybody }
            throw credential == .none ? .noCredential : .malformedCredential
        }
        if !isOn, !text.hasPrefix(ClientSecrets.prefix) { return .anybody }
        let digest = SHA256Digest(of: text)
        let rules = rules.withLock { $0 }
        if let key = rules.keys.key(of: digest) {
            return Caller(
                access: key.isOperator ? .operator : .key, principal: digest,
                allowance: key.allowance)
        }
        if text.hasPrefix(ClientSecrets.prefix), let entry = secrets.entry(of: digest, at: now) {
            // A key that was taken away takes its secrets with it.
            let isValid = !isOn || entry.key.map { rules.keys.key(of: $0) != nil } ?? false
            guard isValid else { throw .unknownCredential }
            var caller = entry.caller
            caller.secret = digest
            return caller
        }
        guard isOn else { return .anybody }
        guard let tokens = rules.tokens, JSONWebToken.isLike(text) else {
            throw .unknownCredential
        }
        return try tokens.caller(of: text, at: wallSeconds)
    }
}
