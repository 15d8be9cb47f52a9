// A private key that tokens are signed with: ECDSA on P-256 (ES256, RFC 7518 §3.4), by OpenSSL.
// JSONWebKey verifies such tokens; Agents' RequestSigner decides what is signed and when keys change.
//
// Invariant: the private half is never written. The public half is a JWK, named by its thumbprint
// (RFC 7638), so that the same key has the same name on every server.

import COpenSSL

/// Why a file of signing keys is not used, as a clause that follows the file's name.
public struct SigningKeyError: Error, Equatable, CustomStringConvertible, Sendable {
    /// For example `has no P-256 key`.
    public let description: String
}

/// A key pair on P-256.
public struct SigningKey: Sendable {
    private let handle: PrivateKey
    /// The name of the key in tokens and in the published set (`kid`).
    public let id: String
    private let x: String
    private let y: String

    /// Makes a new key; nil where OpenSSL has no randomness.
    public init?() {
        guard let handle = PrivateKey() else { return nil }
        self.init(handle)
    }

    /// Reads every P-256 key of a PEM file, as `openssl genpkey -algorithm EC -pkeyopt
    /// ec_paramgen_curve:P-256` writes it. Keys of other types are left out.
    /// - Throws: where there is none, or one cannot be read: the keys behind it would be missing,
    ///   among them perhaps the one that is to sign next.
    public static func keys(pem: [UInt8]) throws(SigningKeyError) -> [SigningKey] {
        let keys = try PrivateKey.all(pem: pem).compactMap(SigningKey.init)
        guard !keys.isEmpty else {
            throw SigningKeyError(
                description: "has no P-256 key; make one with `openssl genpkey -algorithm EC "
                    + "-pkeyopt ec_paramgen_curve:P-256`")
        }
        return keys
    }

    private init?(_ handle: PrivateKey) {
        guard let x = handle.coordinate(OSSL_PKEY_PARAM_EC_PUB_X),
            let y = handle.coordinate(OSSL_PKEY_PARAM_EC_PUB_Y)
        else { return nil }
        self.handle = handle
        self.x = Base64URL.text(of: x)
        self.y = Base64URL.text(of: y)
        // The members in this order, without blanks (RFC 7638 §3.2).
        let thumbprint = SHA256Digest(
            of: #"{"crv":"P-256","kty":"EC","x":"\#(self.x)","y":"\#(self.y)"}"#)
        id = Base64URL.text(of: thumbprint.bytes)
    }

    /// Writes the public half as a JWK (RFC 7517 §4).
    public func writePublicKey(to json: inout JSONWriter) {
        json.object { json in
            json.member("kty", "EC")
            json.member("crv", "P-256")
            json.member("alg", JSONWebToken.Algorithm.es256.rawValue)
            json.member("use", "sig")
            json.member("kid", id)
            json.member("x", x)
            json.member("y", y)
        }
    }

    /// A token in compact form (RFC 7515 §3.1); nil where OpenSSL cannot sign.
    /// - Parameter claims: a JSON object.
    public func token(claims: [UInt8]) -> String? {
        let header = #"{"alg":"ES256","typ":"JWT","kid":"\#(id)"}"#
        let text = Base64URL.text(of: Array(header.utf8)) + "." + Base64URL.text(of: claims)
        guard let signature = handle.signature(of: Array(text.utf8)) else { return nil }
        return text + "." + Base64URL.text(of: signature)
    }
}

/// An EVP_PKEY with a private half, and its owner. Signing only reads it, so any thread may
/// (OpenSSL's openssl-threads(7)).
private final class PrivateKey: @unchecked Sendable {
    private static let curve = "prime256v1"
    private let key: OpaquePointer

    private init(owning key: OpaquePointer) { self.key = key }

    deinit { EVP_PKEY_free(key) }

    convenience init?() {
        defer { ERR_clear_error() }
        guard let context = EVP_PKEY_CTX_new_from_name(nil, "EC", nil) else { return nil }
        defer { EVP_PKEY_CTX_free(context) }
        var made: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1,
            EVP_PKEY_CTX_set_group_name(context, Self.curve) == 1,
            EVP_PKEY_generate(context, &made) == 1, let made
        else { return nil }
        self.init(owning: made)
    }

    static func all(pem: [UInt8]) throws(SigningKeyError) -> [PrivateKey] {
        if let line = PEMBoundaries.damagedLine(in: pem) {
            throw SigningKeyError(
                description: "is damaged at line \(line): a BEGIN or END line is missing or cut")
        }
        defer { ERR_clear_error() }
        guard let bio = BIO_new_mem_buf(pem, Int32(clamping: pem.count)) else { return [] }
        defer { BIO_free(bio) }
        var found: [PrivateKey] = []
        var count = 0
        // No pass phrase is asked for on a terminal: a server starts unattended.
        while let key = PEM_read_bio_PrivateKey(bio, nil, { _, _, _, _ in -1 }, nil) {
            let owned = PrivateKey(owning: key)
            if owned.isOnCurve { found.append(owned) }
            count += 1
        }
        // OpenSSL skips a block that it cannot read.
        guard count == PEMBoundaries.count(of: "PRIVATE KEY", in: pem) else {
            throw SigningKeyError(description: "has a key that is damaged or encrypted")
        }
        return found
    }

    private var isOnCurve: Bool {
        var name = [CChar](repeating: 0, count: 32)
        return EVP_PKEY_get_group_name(key, &name, name.count, nil) == 1
            && name.starts(with: Self.curve.utf8CString)
    }

    /// A coordinate of the public point, 32 bytes; nil where the key has none.
    func coordinate(_ name: String) -> [UInt8]? {
        defer { ERR_clear_error() }
        var number: OpaquePointer?
        guard EVP_PKEY_get_bn_param(key, name, &number) == 1, let number else { return nil }
        defer { BN_free(number) }
        var bytes = [UInt8](repeating: 0, count: JSONWebKey.coordinateBytes)
        let count = BN_bn2binpad(number, &bytes, Int32(bytes.count))
        return Int(count) == bytes.count ? bytes : nil
    }

    /// The two halves of a signature, 32 bytes each (RFC 7518 §3.4).
    func signature(of text: [UInt8]) -> [UInt8]? {
        defer { ERR_clear_error() }
        guard let context = EVP_MD_CTX_new() else { return nil }
        defer { EVP_MD_CTX_free(context) }
        // DER of two numbers of at most 33 bytes each.
        var der = [UInt8](repeating: 0, count: 80)
        var count = der.count
        guard EVP_DigestSignInit(context, nil, SHA256Digest.algorithm, nil, key) == 1,
            EVP_DigestSign(context, &der, &count, text, text.count) == 1
        else { return nil }
        return Self.halves(ofDER: der[..<count])
    }

    /// Reads `SEQUENCE { INTEGER, INTEGER }` (RFC 3279 §2.2.3), which OpenSSL has just written.
    private static func halves(ofDER der: ArraySlice<UInt8>) -> [UInt8]? {
        var rest = der.dropFirst(2)
        var halves: [UInt8] = []
        for _ in 0..<2 {
            guard rest.count > 2, rest.first == 0x02, let length = rest.dropFirst().first,
                rest.count >= 2 + Int(length)
            else { return nil }
            let digits = rest.dropFirst(2).prefix(Int(length)).drop { $0 == 0 }
            let size = JSONWebKey.coordinateBytes
            guard digits.count <= size else { return nil }
            halves += [UInt8](repeating: 0, count: size - digits.count) + digits
            rest = rest.dropFirst(2 + Int(length))
        }
        return halves
    }
}
