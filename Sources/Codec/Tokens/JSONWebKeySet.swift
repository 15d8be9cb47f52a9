// A set of keys as identity providers publish it (JWKS, RFC 7517 §5), read from the bytes of a
// file. Keys of other types, curves or uses are ignored, as the RFC asks. A set without any usable
// key, or with an incomplete key, is an operator's mistake and is refused.
//
// Invariant: at most `maxKeys`, so that a token costs a bounded number of verifications.

/// Why a file is not a usable set of keys, as a clause that follows the file's name.
public struct JSONWebKeySetError: Error, Equatable, CustomStringConvertible, Sendable {
    /// For example `has no key that can be used`.
    public let description: String

    init(_ description: String) { self.description = description }
}

/// Keys that tokens are verified with.
public struct JSONWebKeySet: Sendable {
    /// Maximum keys of a set. 64: a provider has two or three, a few providers together some
    /// dozens.
    public static let maxKeys = 64
    /// Maximum keys that a token without a `kid` is tried with. 8: less than a millisecond.
    static let maxTries = 8

    /// The keys in the order of the file.
    public private(set) var keys: [JSONWebKey]

    /// Creates a set.
    public init(_ keys: [JSONWebKey] = []) { self.keys = keys }

    /// Adds a key.
    public mutating func append(_ key: JSONWebKey) { keys.append(key) }

    /// Parses a file.
    public init(json: [UInt8]) throws(JSONWebKeySetError) {
        let parser = JSONParser()
        let root: JSONValue
        do {
            root = try parser.parse(json)
        } catch {
            throw JSONWebKeySetError("is not JSON: \(error.explanation)")
        }
        guard let elements = root["keys"]?.elements else {
            throw JSONWebKeySetError("has no array \"keys\": it must be a JSON Web Key Set")
        }
        guard elements.count <= Self.maxKeys else {
            throw JSONWebKeySetError("has more than \(Self.maxKeys) keys")
        }
        keys = []
        for (index, element) in elements.enumerated() {
            guard element.kind == .object else {
                throw JSONWebKeySetError("has a key that is no object (number \(index + 1))")
            }
            if let key = try Self.key(element, number: index + 1) { keys.append(key) }
        }
        guard !keys.isEmpty else {
            throw JSONWebKeySetError(
                "has no key that can be used: they must be for signatures, RSA (RS256), EC on "
                    + "P-256 (ES256) or oct (HS256)")
        }
    }

    /// Keys that may have signed a token: those of its algorithm, and of its `kid` if both have
    /// one.
    func candidates(
        for algorithm: JSONWebToken.Algorithm, keyID: String?
    ) -> ArraySlice<JSONWebKey> {
        let suitable = keys.filter { $0.algorithm == algorithm }
        guard let keyID else { return suitable.prefix(Self.maxTries) }
        let named = suitable.filter { $0.id == keyID }
        return (named.isEmpty ? suitable.filter { $0.id == nil } : named).prefix(Self.maxTries)
    }

    /// One key; nil if it is for another purpose.
    private static func key(
        _ object: JSONValue, number: Int
    ) throws(JSONWebKeySetError) -> JSONWebKey? {
        guard let type = object["kty"]?.string else {
            throw JSONWebKeySetError("has a key without \"kty\" (number \(number))")
        }
        guard isForSignatures(object) else { return nil }
        let id = object["kid"]?.string
        let key: JSONWebKey?
        switch type {
        case "oct" where isFor(.hs256, object):
            key = bytes("k", object).flatMap { JSONWebKey(secret: $0, id: id) }
        case "RSA" where isFor(.rs256, object):
            try refusePrivate(object, number)
            key = bytes("n", object).flatMap { modulus in
                bytes("e", object).flatMap {
                    JSONWebKey(rsaModulus: modulus, exponent: $0, id: id)
                }
            }
        case "EC" where isFor(.es256, object) && object["crv"]?.string == "P-256":
            try refusePrivate(object, number)
            key = bytes("x", object).flatMap { x in
                bytes("y", object).flatMap { JSONWebKey(p256X: x, y: $0, id: id) }
            }
        default: return nil
        }
        guard let key else {
            throw JSONWebKeySetError(
                "has a broken key (number \(number)): RSA keys have 2048 to 8192 bits, secrets at "
                    + "least 32 bytes, and all numbers are base64url without padding")
        }
        return key
    }

    private static func bytes(_ name: StaticString, _ object: JSONValue) -> [UInt8]? {
        object[name]?.utf8.flatMap { Base64URL.decode($0) }
    }

    /// Whether the key's `alg`, if present, is this algorithm. Without `alg` the key's type
    /// decides.
    private static func isFor(_ algorithm: JSONWebToken.Algorithm, _ object: JSONValue) -> Bool {
        guard let named = object["alg"] else { return true }
        return named.string == algorithm.rawValue
    }

    private static func isForSignatures(_ object: JSONValue) -> Bool {
        if let use = object["use"], use.string != "sig" { return false }
        guard let operations = object["key_ops"] else { return true }
        return operations.elements?.contains { $0.isString("verify") } ?? false
    }

    /// Refuses a private key: with it, this server could forge tokens. Verifying needs the public
    /// half only.
    private static func refusePrivate(
        _ object: JSONValue, _ number: Int
    ) throws(JSONWebKeySetError) {
        guard object["d"] == nil else {
            throw JSONWebKeySetError(
                "has a private key (number \(number)): give the server the public half only")
        }
    }
}
