// The claims of a token that a server looks at: the registered ones (RFC 7519 §4.1) and the
// object `parley` with the limits of its holder. Reading only; whether a token is still good, and
// meant for this server, is TokenPolicy's to say.
//
// Invariant: a claim of a wrong type refuses the token; it is never read as absent, which would
// take a limit away.

/// What a token says of its holder and of itself. Times are seconds since 1970 (RFC 7519 §2),
/// in `timeRange`.
public struct TokenClaims: Equatable, Sendable {
    /// Who made it (`iss`).
    public let issuer: String?
    /// Whom it is about (`sub`).
    public let subject: String?
    /// Whom it is meant for (`aud`), which may be one text or several; empty: not said.
    public let audiences: [String]
    /// From when on it does not count any more (`exp`).
    public let expiry: Double?
    /// Before when it does not count (`nbf`).
    public let notBefore: Double?
    /// When it was made (`iat`).
    public let issuedAt: Double?
    /// Limits of its holder: `parley.max_sessions`, `.max_session_seconds` and `.models`.
    public let allowance: SessionAllowance

    /// What a time may be: from 1970 to the end of the year 9999, the last that RFC 3339 can
    /// write. No clock reaches what lies beyond; it is a mistake, or an attack on a reader.
    static let timeRange = 0.0...253_402_300_799.0

    /// What header and claims may cost: a few kilobytes of flat objects.
    static var jsonLimits: JSONLimits {
        var limits = JSONLimits()
        limits.maxDocumentBytes = RequestCredential.maxBytes
        limits.maxDepth = 16
        limits.maxValues = 2_048
        return limits
    }

    /// Reads the payload of a token.
    init(json: [UInt8]) throws(JSONWebTokenError) {
        let parser = JSONParser(limits: Self.jsonLimits)
        let claims = try parser.uniqueObject(json)
        issuer = try claims.tokenText("iss")
        subject = try claims.tokenText("sub")
        expiry = try claims.tokenTime("exp")
        notBefore = try claims.tokenTime("nbf")
        issuedAt = try claims.tokenTime("iat")
        if let list = claims["aud"], list.kind == .array {
            audiences = try list.tokenTexts()
        } else {
            audiences = try claims.tokenText("aud").map { [$0] } ?? []
        }
        allowance = try claims["parley"]?.tokenAllowance() ?? SessionAllowance()
    }
}

extension JSONValue {
    fileprivate func tokenText(_ name: StaticString) throws(JSONWebTokenError) -> String? {
        guard let value = self[name] else { return nil }
        guard let text = value.string else { throw .malformed }
        return text
    }

    fileprivate func tokenTime(_ name: StaticString) throws(JSONWebTokenError) -> Double? {
        guard let value = self[name] else { return nil }
        guard let seconds = value.double, TokenClaims.timeRange.contains(seconds) else {
            throw .malformed
        }
        return seconds
    }

    fileprivate func tokenTexts() throws(JSONWebTokenError) -> [String] {
        guard let elements else { throw .malformed }
        var texts: [String] = []
        for element in elements {
            guard let text = element.string else { throw .malformed }
            texts.append(text)
        }
        return texts
    }

    fileprivate func tokenAllowance() throws(JSONWebTokenError) -> SessionAllowance {
        guard let members else { throw .malformed }
        var allowance = SessionAllowance()
        var names: Set<String> = []
        for (name, value) in members {
            // A limit that is misspelt must not be one that is missing.
            guard names.insert(name).inserted else { throw .malformed }
            switch name {
            case "max_sessions":
                allowance.maxSessions = try value.tokenInteger(SessionAllowance.sessionsRange)
            case "max_session_seconds":
                allowance.maxSessionSeconds = try value.tokenInteger(SessionAllowance.secondsRange)
            case "models":
                let models = try value.tokenTexts()
                guard models.count <= SessionAllowance.maxModels else { throw .malformed }
                allowance.models = models
            default: throw .malformed
            }
        }
        return allowance
    }

    private func tokenInteger(_ range: ClosedRange<Int>) throws(JSONWebTokenError) -> Int {
        guard let int, range.contains(int) else { throw .malformed }
        return int
    }
}
