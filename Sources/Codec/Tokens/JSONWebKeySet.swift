// A set of keys as identity providers publish it (JWKS, RFC 7517 §5), read from the bytes of a
// file. A key of another type, with a missing member or a value out of its range is left out, as the
// RFC asks, so that the other keys go on to open. `omissions` has the reason, for the log. A set
// without any usable key is an operator's mistake and is refused.
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
    public static let maxTries = 8

    /// The keys in the order of the file.
    public private(set) var keys: [JSONWebKey]
    /// The parts of the file that are left out, and why: one clause for each, which quotes no key.
    public private(set) var omissions: [String] = []
    /// Omissions that the refusal of a whole set names.
    private static let maxNamed = 3

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
        keys = []
        for (index, element) in elements.enumerated() {
            do throws(Objection) {
                guard let key = try Self.key(element) else { continue }
                guard keys.count < Self.maxKeys else {
                    omissions.append(
                        "\(elements.count - index) keys behind the first \(keys.count)")
                    break
                }
                keys.append(key)
            } catch {
                let name = element["kid"]?.string.map { ", kid \($0.prefix(64).visible())" }
                omissions.append("key \(index + 1)\(name ?? ""): \(error.problem)")
            }
        }
        guard !keys.isEmpty else {
            throw JSONWebKeySetError(
                "has no key that can be used: they must be for signatures, RSA (RS256), EC on "
                    + "P-256 (ES256) or oct (HS256)"
                    + omissions.prefix(Self.maxNamed).map { "; \($0)" }.joined())
        }
    }

    /// Algorithms with more keys than a token without a known `kid` is tried with, and the number of
    /// these keys.
    public var untriedKeys: [(algorithm: JSONWebToken.Algorithm, count: Int)] {
        JSONWebToken.Algorithm.allCases.compactMap { algorithm in
            let count = keys.count { $0.algorithm == algorithm && $0.id == nil }
            return count > Self.maxTries ? (algorithm, count) : nil
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

    /// Why one key is left out.
    private struct Objection: Error {
        let problem: String
        init(_ problem: String) { self.problem = problem }
    }

    /// One key; nil if it is for another purpose than signatures.
    private static func key(_ object: JSONValue) throws(Objection) -> JSONWebKey? {
        guard object.kind == .object else { throw Objection("it is no object") }
        guard let type = object.present("kty")?.string else { throw Objection("it has no kty") }
        guard isForSignatures(object) else { return nil }
        let id = object["kid"]?.string
        let key: JSONWebKey?
        switch type {
        case "oct":
            try check(object, isFor: .hs256)
            key = bytes("k", object).flatMap { JSONWebKey(secret: $0, id: id) }
        case "RSA":
            try check(object, isFor: .rs256)
            key = bytes("n", object).flatMap { modulus in
                bytes("e", object).flatMap {
                    JSONWebKey(rsaModulus: modulus, exponent: $0, id: id)
                }
            }
        case "EC":
            guard object["crv"]?.string == "P-256" else {
                throw Objection("its curve is not P-256")
            }
            try check(object, isFor: .es256)
            key = bytes("x", object).flatMap { x in
                bytes("y", object).flatMap { JSONWebKey(p256X: x, y: $0, id: id) }
            }
        default: throw Objection("its type (kty) is none of RSA, EC and oct")
        }
        guard let key else {
            throw Objection(
                "a number is missing, or out of its range: RSA keys have 2048 to 8192 bits and "
                    + "an odd exponent above 1, "
                    + "secrets at least 32 bytes, points are on the curve, and all numbers are "
                    + "base64url without padding")
        }
        return key
    }

    private static func bytes(_ name: StaticString, _ object: JSONValue) -> [UInt8]? {
        object[name]?.utf8.flatMap { Base64URL.decode($0) }
    }

    /// Refuses a key whose `alg`, if present, is another algorithm; without `alg` the key's type
    /// decides. Refuses a private key, too: with it, this server could forge tokens, and verifying
    /// needs the public half only.
    private static func check(
        _ object: JSONValue, isFor algorithm: JSONWebToken.Algorithm
    ) throws(Objection) {
        if let named = object.present("alg"), named.string != algorithm.rawValue {
            throw Objection("its alg is not \(algorithm.rawValue)")
        }
        guard algorithm == .hs256 || object.present("d") == nil else {
            throw Objection(
                "it is a private key: give the server the public half only, and replace the key, "
                    + "which was copied")
        }
    }

    private static func isForSignatures(_ object: JSONValue) -> Bool {
        if let use = object.present("use"), use.string != "sig" { return false }
        guard let operations = object.present("key_ops") else { return true }
        return operations.elements?.contains { $0.isString("verify") } ?? false
    }
}

extension JSONValue {
    /// A member; nil where it is null, which is no value.
    fileprivate func present(_ name: StaticString) -> JSONValue? {
        self[name].flatMap { $0.isNull ? nil : $0 }
    }
}
