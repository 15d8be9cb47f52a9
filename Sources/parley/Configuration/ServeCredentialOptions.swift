// The options of `parley serve` for credentials: keys, tokens, and what their holders may have.
// What an option is, is in ServeOption; the others are in ServeOptionTable.

import Server

extension ServeOptionTable {
    /// Who may use the server, and how much of it.
    static let credentials: [ServeOption] = keys + tokens + holders

    private static let keys: [ServeOption] = [
        .optionalText(
            "api-key", \.server.apiKey, allowed: "keys, with commas between", isSecret: true,
            in: .credentials,
            """
            Key of the server, or several: clients must then show one (Authorization: Bearer), or \
            a client secret made with one. It also opens /metrics. Prefer the variable: flags are \
            visible to every user of the machine.
            """),
        .optionalText(
            "api-keys-file", \.server.apiKeysFile, allowed: "a file", in: .credentials,
            """
            File of keys, one a line; behind a key may stand name=TEXT, max-sessions=N, \
            max-session-seconds=N, models=A,B and operator, which opens /metrics. SIGHUP reads it \
            anew.
            """),
        .toggle(
            "insecure", \.server.insecure, in: .credentials,
            """
            Whether the server may listen beyond this machine although it asks nobody for \
            credentials. Without it, such a start is refused.
            """),
    ]

    private static let tokens: [ServeOption] = [
        .optionalText(
            "jwt-keys-file", \.server.jwtKeysFile, allowed: "a file", in: .credentials,
            """
            JSON Web Key Set (RFC 7517) of those who sign tokens (RFC 7519): RSA (RS256), EC on \
            P-256 (ES256), oct (HS256). Clients may then show a token, which must have exp. \
            SIGHUP reads it anew.
            """),
        .optionalText(
            "jwt-secret", \.server.jwtSecret, allowed: "a text", isSecret: true, in: .credentials,
            "Secret of at least 32 characters that tokens may be signed with (HS256)."),
        .optionalText(
            "jwt-audience", \.server.jwtAudience, allowed: "a text", in: .credentials,
            "What aud of a token must hold. Without it, a token that has one is refused."),
        .optionalText(
            "jwt-issuer", \.server.jwtIssuer, allowed: "a text", in: .credentials,
            "What iss of a token must be. Without it, whatever one of the keys has signed."),
        .integer(
            "jwt-leeway-seconds", \.server.jwtLeewaySeconds, 0...600, unit: "seconds",
            in: .credentials,
            "By how much the clocks of those who make tokens may differ from this machine's."),
    ]

    private static let holders: [ServeOption] = [
        .integer(
            "max-sessions-per-key", \.server.maxSessionsPerKey, 0...10_000_000, unit: "sessions",
            in: .credentials,
            """
            Sessions at once of one key, or one subject of tokens, that says nothing itself; more \
            are answered with 429. 0 is no limit: a key is often all of a product's.
            """),
        .integer(
            "max-session-seconds", \.server.maxSessionSeconds, 0...604_800, unit: "seconds",
            in: .credentials,
            """
            How long a session may last whose credential says nothing itself; then an error event \
            and close code 1001 end it. 0 is no limit.
            """),
        .integer(
            "max-client-secrets", \.server.maxClientSecrets, 2...1_000_000, unit: "secrets",
            in: .credentials,
            """
            Client secrets of all keys that have not expired. One key, or without credentials one \
            address, has at most as many as are still free: half of them where it is alone. More \
            are answered with 429.
            """),
        .integer(
            "auth-failures-per-minute-per-address", \.server.authFailuresPerMinutePerAddress,
            0...1_000_000, unit: "attempts", in: .credentials,
            """
            Wrong credentials that one address may show in a minute; then it is answered with 429, \
            whatever it shows. 0 is no limit.
            """),
    ]
}
