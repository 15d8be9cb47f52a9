// The claims of a token that a server evaluates: the registered ones (RFC 7519 §4.1) and the object
// `parley` with the holder's limits. This file only reads them; TokenPolicy decides whether a token
// is still valid and meant for this server.
//
// Invariant: a claim of a wrong type refuses the token. It never counts as absent, which would
// remove a limit.

/// A token's claims. Times are seconds since 1970 (RFC 7519 §2), in `timeRange`.
public struct TokenClaims: Equatable, Sendable {
    /// The issuer (`iss`).
    public let issuer: String?
    /// The subject (`sub`): the user or program that the token is about.
    public let subject: String?
    /// The intended recipients (`aud`), given as one text or several; empty if absent.
    public let audiences: [String]
    /// The time at which the token expires (`exp`).
    public let expiry: Double?
    /// The time before which the token is not yet valid (`nbf`).
    public let notBefore: Double?
    /// The time at which the token was issued (`iat`).
    public let issuedAt: Double?
    /// The holder's limits: `parley.max_sessions`, `.max_session_seconds`, `.models`, `.agents`,
    /// `.quotas` and `.recording`.
    public let allowance: SessionAllowance

    /// Allowed times: from 1970 to the end of the year 9999, the last that RFC 3339 can write. A
    /// later time is a mistake, or an attack on a reader.
    static let timeRange = 0.0...253_402_300_799.0

    /// Limits of header and claims: a few kilobytes of flat objects.
    static var jsonLimits: JSONLimits {
        var limits = JSONLimits()
        limits.maxDocumentBytes = RequestCredential.maxBytes
        limits.maxDepth = 16
        limits.maxValues = 2_048
        return limits
    }

    /// Parses the payload of a token.
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
            // A misspelt limit must not count as a missing one.
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
            case "agents":
                let agents = try value.tokenTexts()
                guard (1...SessionAllowance.maxModels).contains(agents.count) else {
                    throw .malformed
                }
                allowance.agents = agents
            case "quotas":
                guard let quotas = [Quota](texts: try value.tokenTexts()) else {
                    throw .malformed
                }
                allowance.quotas = quotas
            case "recording":
                guard let rule = value.string.flatMap(RecordingRule.init) else {
                    throw .malformed
                }
                allowance.recording = rule
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
