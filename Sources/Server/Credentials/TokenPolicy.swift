// The rules for signed tokens: keys, audience, issuer and times. Codec parses tokens and checks
// signatures (JSONWebToken); a token contains the limits of its holder.
//
// A token for another audience is refused, also by a server without an audience (RFC 7519 §4.1.3):
// it was made for another server.

import Codec

/// The rules for tokens.
package struct TokenPolicy: Sendable {
    /// Keys whose signatures are accepted.
    let keys: JSONWebKeySet
    /// The value that `aud` must contain. Where nil, a token must have no `aud`.
    var audience: String?
    /// The value that `iss` must have, or nil where any will do.
    var issuer: String?
    /// Seconds by which the clocks of issuer and server may differ.
    var leewaySeconds = 30
    /// Warnings about the file of keys, as lines for the log.
    private(set) var warnings: [String] = []

    /// Rules without an audience and an issuer.
    package init(keys: JSONWebKeySet) { self.keys = keys }

    /// Reads the keys that the settings name, or returns nil where they name none.
    init?(_ settings: CredentialSettings) throws(OptionError) {
        var keys = JSONWebKeySet()
        if let path = settings.jwtKeysFile {
            let file = try ConfiguredFile(option: "jwt-keys-file", readingFrom: path)
            do {
                keys = try JSONWebKeySet(json: file.bytes)
            } catch {
                throw file.error("\(error)")
            }
            warnings = Self.lines(about: keys.omissions, of: file)
            warnings += keys.untriedKeys.map { algorithm, count in
                file.error(
                    "has \(count) keys for \(algorithm.rawValue) without kid, of which a token is "
                        + "tried with \(JSONWebKeySet.maxTries): give them a kid"
                ).description
            }
        }
        if let secret = settings.jwtSecret {
            guard let key = JSONWebKey(secret: Array(secret.utf8)) else {
                throw OptionError(
                    "jwt-secret",
                    "it must have at least \(JSONWebKey.minSecretBytes) characters; make one with "
                        + "`openssl rand -hex 32`")
            }
            keys.append(key)
        }
        guard !keys.keys.isEmpty else { return nil }
        self.keys = keys
        audience = settings.jwtAudience
        issuer = settings.jwtIssuer
        leewaySeconds = settings.jwtLeewaySeconds
    }

    /// Lines about keys that are left out. 10: a file of another purpose may have thousands.
    private static func lines(about omissions: [String], of file: ConfiguredFile) -> [String] {
        var clauses = Array(omissions.prefix(10))
        if omissions.count > clauses.count {
            clauses.append("\(omissions.count - clauses.count) more keys")
        }
        return clauses.map { file.error("is used without \($0)").description }
    }

    /// The caller with a token.
    /// - Parameter seconds: the time, in seconds since 1970.
    /// - Throws: why the token is refused.
    func caller(of text: String, at seconds: Int) throws(RefusalReason) -> Caller {
        let claims: TokenClaims
        do throws(JSONWebTokenError) {
            claims = try JSONWebToken(text).claims(signedBy: keys)
        } catch {
            throw error == .malformed ? .malformedCredential : .unknownCredential
        }
        if let reason = objection(to: claims, at: Double(seconds)) { throw reason }
        // Without a subject, the token itself identifies its holder.
        let holder = claims.subject.map { "\(claims.issuer ?? "")\u{0}\($0)" } ?? text
        return Caller(
            access: .session, principal: SHA256Digest(of: holder),
            subject: claims.subject, allowance: claims.allowance)
    }

    /// Why claims with a good signature are refused, or nil.
    private func objection(to claims: TokenClaims, at now: Double) -> RefusalReason? {
        let leeway = Double(leewaySeconds)
        // A token without an end could not be revoked.
        guard let expiry = claims.expiry else { return .wrongClaims }
        guard now < expiry + leeway else { return .expiredCredential }
        if let start = claims.notBefore, now < start - leeway { return .wrongClaims }
        if let made = claims.issuedAt, now < made - leeway { return .wrongClaims }
        if let audience {
            guard claims.audiences.contains(audience) else { return .wrongClaims }
        } else if !claims.audiences.isEmpty {
            return .wrongClaims
        }
        if let issuer, claims.issuer != issuer { return .wrongClaims }
        return nil
    }
}
