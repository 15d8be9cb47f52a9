// Parses a signed token in its compact form (JWS, RFC 7515 §3.1; JWT, RFC 7519) and verifies its
// signature. JSONWebKey has the keys; Server's TokenPolicy interprets the claims. Nothing here
// signs.
//
// Invariant: only a token whose signature was verified gives its claims. The key determines the
// algorithm, never the token (RFC 8725 §3.1).

/// Why a token is refused.
public enum JSONWebTokenError: Error, Equatable, Sendable {
    /// Not three parts of strict base64url, no JSON object in one of the first two, an object with
    /// a repeated member (RFC 7519 §4), or a claim of a wrong type.
    case malformed
    /// Its header requires an extension that is not supported (`crit`, RFC 7515 §4.1.11).
    case unsupportedExtension
    /// `none`, or any algorithm other than the three of `JSONWebToken.Algorithm`.
    case unsupportedAlgorithm
    /// The set has no key for this algorithm and `kid`.
    case unknownKey
    /// None of the keys made this signature of this text.
    case invalidSignature
}

/// A token that is parsed and whose signature is not verified yet.
public struct JSONWebToken: Sendable {
    /// How a token is signed (RFC 7518 §3.1).
    public enum Algorithm: String, CaseIterable, Sendable {
        /// HMAC with SHA-256.
        case hs256 = "HS256"
        /// RSASSA-PKCS1-v1_5 with SHA-256.
        case rs256 = "RS256"
        /// ECDSA on P-256 with SHA-256.
        case es256 = "ES256"
    }

    /// The algorithm that its header names.
    public let algorithm: Algorithm
    /// The key that its header names (`kid`).
    public let keyID: String?
    private let payload: [UInt8]
    private let signedText: [UInt8]
    private let signature: [UInt8]

    /// Whether a credential looks like a token: it has two dots and non-empty text before each.
    public static func isLike(_ text: String) -> Bool {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return parts.count == 3 && !parts[0].isEmpty && !parts[1].isEmpty
    }

    /// Parses a token. `RequestCredential` bounds its length.
    public init(_ text: String) throws(JSONWebTokenError) {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Base64URL.decode(parts[0]),
            let payload = Base64URL.decode(parts[1]), let signature = Base64URL.decode(parts[2])
        else { throw .malformed }
        let (algorithm, keyID) = try Self.readHeader(header)
        self.algorithm = algorithm
        self.keyID = keyID
        self.payload = payload
        self.signature = signature
        signedText = Array(text.utf8.prefix(parts[0].count + 1 + parts[1].count))
    }

    private static func readHeader(
        _ bytes: [UInt8]
    ) throws(JSONWebTokenError) -> (Algorithm, keyID: String?) {
        let parser = JSONParser(limits: TokenClaims.jsonLimits)
        let header = try parser.uniqueObject(bytes)
        // An empty `crit` is malformed; a filled one is not supported. Both are refused.
        guard header["crit"] == nil else { throw .unsupportedExtension }
        guard let name = header["alg"]?.string else { throw .malformed }
        guard let algorithm = Algorithm(rawValue: name) else { throw .unsupportedAlgorithm }
        guard let keyID = header["kid"] else { return (algorithm, nil) }
        guard let text = keyID.string else { throw .malformed }
        return (algorithm, text)
    }

    /// Verifies the signature and returns the claims.
    public func claims(signedBy keys: JSONWebKeySet) throws(JSONWebTokenError) -> TokenClaims {
        let candidates = keys.candidates(for: algorithm, keyID: keyID)
        guard !candidates.isEmpty else { throw .unknownKey }
        guard candidates.contains(where: { $0.verifies(signature, of: signedText) }) else {
            throw .invalidSignature
        }
        return try TokenClaims(json: payload)
    }
}

extension JSONParser {
    /// Parses an object and refuses repeated members, about which two readers may disagree.
    func uniqueObject(_ bytes: [UInt8]) throws(JSONWebTokenError) -> JSONValue {
        let value: JSONValue
        do {
            value = try parse(bytes)
        } catch {
            throw .malformed
        }
        guard let members = value.members else { throw .malformed }
        var names: Set<String> = []
        for (name, _) in members {
            guard names.insert(name).inserted else { throw .malformed }
        }
        return value
    }
}
