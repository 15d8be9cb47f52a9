// The credentials that a server accepts, and the limits of a credential that names none itself.

import Session

/// Settings of keys, tokens and client secrets.
public struct CredentialSettings: Sendable {
    /// None. Several keys are separated by commas, and each is an operator's key.
    public var apiKey: String?
    /// None. `APIKeys` has the format.
    public var apiKeysFile: String?
    /// False: a server without credentials that others can reach is nearly always a mistake, and
    /// its owner pays for the model.
    public var insecure = false
    /// None. The file is a JSON Web Key Set.
    public var jwtKeysFile: String?
    /// None. A secret has at least `JSONWebKey.minSecretBytes`.
    public var jwtSecret: String?
    /// None: a token with `aud` is for another server.
    public var jwtAudience: String?
    /// None: any issuer whose key is known may sign.
    public var jwtIssuer: String?
    /// 30: clocks that NTP keeps differ by far less, others by minutes.
    public var jwtLeewaySeconds = 30
    /// No limit: one key often serves a whole product.
    public var maxSessionsPerKey = 0
    /// No limit: an idle session costs next to nothing.
    public var maxSessionSeconds = 0
    /// 20,000: one key alone may have half of them, which is the number of sessions. They take 6 MB
    /// where they have no instructions.
    public var maxClientSecrets = 20_000
    /// 120: a client that retries an old key each second does not block others behind its address.
    public var authFailuresPerMinutePerAddress = 120

    static let keys: [Setting<Self>] = [
        .optionalText(
            "api-key", \.apiKey, "keys, with commas between", isSecret: true,
            """
            Key of the server, or several. Clients must then show one (Authorization: Bearer), \
            or a client secret made with one. The key also opens /metrics. Prefer the \
            variable: flags are visible to every user of the machine.
            """),
        .optionalText(
            "api-keys-file", \.apiKeysFile, "a file",
            """
            File of keys, one a line. A key may be followed by name=TEXT, max-sessions=N, \
            max-session-seconds=N, models=A,B, quotas=turns=20/minute,…, \
            recording=none|asked|all and operator, which opens /metrics. SIGHUP reads the file \
            again.
            """),
        .toggle(
            "insecure", \.insecure,
            """
            Whether the server may listen beyond this machine without asking for credentials. \
            By default such a start is refused.
            """),
        .optionalText(
            "jwt-keys-file", \.jwtKeysFile, "a file",
            """
            JSON Web Key Set (RFC 7517) of the issuers of tokens (RFC 7519): RSA (RS256), EC \
            on P-256 (ES256), oct (HS256). Clients may then show a token, which must have \
            exp. SIGHUP reads the file again.
            """),
        .optionalText(
            "jwt-secret", \.jwtSecret, "a text", isSecret: true,
            "Secret of at least 32 characters that tokens may be signed with (HS256)."),
        .optionalText(
            "jwt-audience", \.jwtAudience, "a text",
            "Audience that aud of a token must hold. Without it, a token with aud is refused."),
        .optionalText(
            "jwt-issuer", \.jwtIssuer, "a text",
            "Issuer that iss of a token must be. Without it, any issuer whose key is known."),
        .integer(
            "jwt-leeway-seconds", \.jwtLeewaySeconds, 0...600, unit: "seconds",
            "By how much the clocks of token issuers may differ from this machine's."),
        .integer(
            "max-sessions-per-key", \.maxSessionsPerKey, 0...10_000_000, unit: "sessions",
            """
            Sessions at once of one key, or one subject of tokens, that names no limit \
            itself; more are answered with 429. 0 is no limit: one key often serves a whole \
            product.
            """),
        .integer(
            "max-session-seconds", \.maxSessionSeconds, 0...604_800, unit: "seconds",
            """
            How long a session may last whose credential names no limit itself. Then an error \
            event and close code 1001 end it. 0 is no limit.
            """),
    ]

    static let limits: [Setting<Self>] = [
        .integer(
            "max-client-secrets", \.maxClientSecrets, 2...1_000_000, unit: "secrets",
            """
            Client secrets of all keys that have not expired. One key (one address, where no \
            credentials are asked for) may have as many as are still free: half of them where \
            it is alone. More are answered with 429.
            """),
        .integer(
            "auth-failures-per-minute-per-address", \.authFailuresPerMinutePerAddress,
            0...1_000_000, unit: "attempts",
            """
            Wrong credentials that one address may show in a minute; then it is answered with \
            429, whatever it shows. 0 is no limit.
            """),
    ]

    /// Whether clients must show a key, a client secret or a token.
    public var areAskedFor: Bool {
        apiKey != nil || apiKeysFile != nil || jwtKeysFile != nil || jwtSecret != nil
    }

    /// Whether credentials come from files, which a reload reads again.
    var haveFiles: Bool { apiKeysFile != nil || jwtKeysFile != nil }

    /// The error in these settings; nil where there is none.
    var objection: String? {
        let hasKeys = jwtKeysFile != nil || jwtSecret != nil
        if !hasKeys, jwtAudience != nil || jwtIssuer != nil {
            return "jwt-audience and jwt-issuer need jwt-keys-file or jwt-secret"
        }
        return nil
    }
}
