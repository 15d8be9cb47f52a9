// Which signed tokens this server takes: by whose keys, for whom, and when. Parsing and signatures
// are Codec's (JSONWebToken); what a holder may do is in the token's own limits.
//
// A token with an audience that is not this server's is refused, also where the server was told no
// audience (RFC 7519 §4.1.3): it was made for somebody else.

import Codec

/// The rules for tokens.
package struct TokenPolicy: Sendable {
    /// Keys that may have signed them.
    let keys: JSONWebKeySet
    /// What `aud` must hold; nil: tokens must have none.
    var audience: String?
    /// What `iss` must be; nil: anything.
    var issuer: String?
    /// How far apart the clocks of issuer and server may be, in seconds.
    var leewaySeconds = 30

    /// Rules without an audience and an issuer.
    package init(keys: JSONWebKeySet) { self.keys = keys }

    /// Reads the keys that a configuration names; nil: it names none.
    init?(_ configuration: ServerConfiguration) throws(OptionError) {
        var keys = JSONWebKeySet()
        if let path = configuration.jwtKeysFile {
            let file = try ConfiguredFile(option: "jwt-keys-file", readingFrom: path)
            do {
                keys = try JSONWebKeySet(json: file.bytes)
            } catch {
                throw file.error("\(error)")
            }
        }
        if let secret = configuration.jwtSecret {
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
        audience = configuration.jwtAudience
        issuer = configuration.jwtIssuer
        leewaySeconds = configuration.jwtLeewaySeconds
    }

    /// Who holds a token.
    /// - Parameter seconds: the time, in seconds since 1970.
    /// - Throws: why the token is not taken.
    func caller(of text: String, at seconds: Int) throws(RefusalReason) -> Caller {
        let claims: TokenClaims
        do throws(JSONWebTokenError) {
            claims = try JSONWebToken(text).claims(signedBy: keys)
        } catch {
            throw error == .malformed ? .malformedCredential : .unknownCredential
        }
        if let reason = objection(to: claims, at: Double(seconds)) { throw reason }
        // Without a subject a token is the only thing that its holder is known by.
        let holder = claims.subject.map { "\(claims.issuer ?? "")\u{0}\($0)" } ?? text
        return Caller(
            access: .session, principal: SHA256Digest(of: holder), allowance: claims.allowance)
    }

    /// What speaks against claims whose signature is good.
    private func objection(to claims: TokenClaims, at now: Double) -> RefusalReason? {
        let leeway = Double(leewaySeconds)
        // A token for ever cannot be taken back.
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
