// One key that tokens are verified with (JWK, RFC 7517 §4), and the verification, by OpenSSL.
// JSONWebKeySet has sets of keys. Private keys are not needed here and are refused.
//
// Invariant: a key's type determines its one algorithm. So the bytes of a public key can never
// serve as the secret of an HMAC, an attack by which servers accepted forged tokens (RFC 8725
// §2.1). OpenSSL's error queue, which TLS shares, is left empty.

import COpenSSL

/// A key and its algorithm.
public struct JSONWebKey: Sendable {
    /// The key material.
    fileprivate enum Material: Sendable {
        case secret([UInt8])
        case `public`(OpenSSLKey)
    }

    /// Minimum bytes of a secret: the size of the hash (RFC 7518 §3.2).
    public static let minSecretBytes = 32
    /// Bits of an RSA key. Fewer than 2048 are insecure (RFC 7518 §3.3), more than 8192 are only
    /// slow.
    public static let rsaBits = 2_048...8_192
    /// Maximum bytes of RSA's public exponent. Nearly every key has 3 (65537).
    static let maxExponentBytes = 8
    /// Bytes of a coordinate on P-256, and of each half of a signature (RFC 7518 §3.4, §6.2.1).
    static let coordinateBytes = 32

    /// The key's name in tokens (`kid`), if it has one.
    public let id: String?
    /// The algorithm, which follows from the key's type.
    public let algorithm: JSONWebToken.Algorithm
    private let material: Material

    private init(_ id: String?, _ algorithm: JSONWebToken.Algorithm, _ material: Material) {
        self.id = id
        self.algorithm = algorithm
        self.material = material
    }

    /// Creates an HMAC key; nil if the secret is shorter than `minSecretBytes`.
    public init?(secret: [UInt8], id: String? = nil) {
        guard secret.count >= Self.minSecretBytes else { return nil }
        self.init(id, .hs256, .secret(secret))
    }

    /// Creates an RSA key from its numbers, most significant byte first; nil if they are outside
    /// the ranges above.
    public init?(rsaModulus modulus: [UInt8], exponent: [UInt8], id: String? = nil) {
        guard modulus.count <= Self.rsaBits.upperBound / 8, Self.isExponent(exponent),
            let key = OpenSSLKey(rsaModulus: modulus, exponent: exponent),
            Self.rsaBits.contains(key.bits)
        else { return nil }
        self.init(id, .rs256, .public(key))
    }

    /// Whether a number is a public exponent: odd, and at least 3 (RFC 8017 §3.1). With 1 the
    /// signature of a text is the text, which anyone can write.
    private static func isExponent(_ number: [UInt8]) -> Bool {
        guard number.count <= maxExponentBytes, let last = number.last else { return false }
        return last % 2 == 1 && (last > 1 || number.dropLast().contains { $0 != 0 })
    }

    /// Creates a key from a point of P-256; nil if the coordinates are not on the curve.
    public init?(p256X x: [UInt8], y: [UInt8], id: String? = nil) {
        guard x.count == Self.coordinateBytes, y.count == Self.coordinateBytes,
            let key = OpenSSLKey(p256Point: [4] + x + y)
        else { return nil }
        self.init(id, .es256, .public(key))
    }

    /// Whether this key made the signature of the text.
    public func verifies(_ signature: [UInt8], of text: [UInt8]) -> Bool {
        switch (algorithm, material) {
        case (.hs256, .secret(let secret)): Self.isMAC(signature, of: text, secret)
        case (.rs256, .public(let key)): key.verifies(signature, of: text)
        case (.es256, .public(let key)):
            ecdsaEncoding(of: signature).map { key.verifies($0, of: text) } ?? false
        case (.hs256, _), (.rs256, _), (.es256, _): false
        }
    }

    /// The code of a text by a secret (HMAC with SHA-256), which `verifies` takes. Nil where the
    /// key is no secret.
    public func authenticationCode(of text: [UInt8]) -> [UInt8]? {
        guard case .secret(let secret) = material else { return nil }
        return HMAC.sha256(of: text, secret: secret)
    }

    private static func isMAC(_ mac: [UInt8], of text: [UInt8], _ secret: [UInt8]) -> Bool {
        guard let expected = HMAC.sha256(of: text, secret: secret) else { return false }
        return mac.count == expected.count && CRYPTO_memcmp(mac, expected, mac.count) == 0
    }
}

/// The two halves of an ES256 signature as the DER that OpenSSL reads (RFC 3279 §2.2.3); nil unless
/// they are 32 bytes each.
private func ecdsaEncoding(of signature: [UInt8]) -> [UInt8]? {
    let half = JSONWebKey.coordinateBytes
    guard signature.count == 2 * half else { return nil }
    let numbers = derInteger(signature[..<half]) + derInteger(signature[half...])
    return [0x30, UInt8(numbers.count)] + numbers
}

/// An unsigned number of at most 32 bytes as a DER INTEGER: without leading zeros, except one where
/// the first bit would be taken as a sign.
private func derInteger(_ number: ArraySlice<UInt8>) -> [UInt8] {
    var digits = Array(number.drop { $0 == 0 })
    if (digits.first ?? 0x80) >= 0x80 { digits.insert(0, at: 0) }
    return [0x02, UInt8(digits.count)] + digits
}

/// An EVP_PKEY with an owner. Verifying only reads it, so any thread may (OpenSSL's
/// openssl-threads(7)).
private final class OpenSSLKey: @unchecked Sendable {
    private let key: OpaquePointer

    private init?(type: String, _ parameters: [OSSL_PARAM]) {
        defer { ERR_clear_error() }
        guard let context = EVP_PKEY_CTX_new_from_name(nil, type, nil) else { return nil }
        defer { EVP_PKEY_CTX_free(context) }
        var parameters = parameters
        var made: OpaquePointer?
        guard EVP_PKEY_fromdata_init(context) == 1,
            EVP_PKEY_fromdata(context, &made, parley_evp_public_key(), &parameters) == 1,
            let made
        else { return nil }
        key = made
    }

    deinit { EVP_PKEY_free(key) }

    convenience init?(rsaModulus modulus: [UInt8], exponent: [UInt8]) {
        var (modulus, exponent) = (Self.native(modulus), Self.native(exponent))
        let key: OpenSSLKey? = modulus.withUnsafeMutableBufferPointer { modulus in
            exponent.withUnsafeMutableBufferPointer { exponent in
                OSSL_PKEY_PARAM_RSA_N.withCString { modulusName in
                    OSSL_PKEY_PARAM_RSA_E.withCString { exponentName in
                        OpenSSLKey(
                            type: "RSA",
                            [
                                OSSL_PARAM_construct_BN(
                                    modulusName, modulus.baseAddress, modulus.count),
                                OSSL_PARAM_construct_BN(
                                    exponentName, exponent.baseAddress, exponent.count),
                                OSSL_PARAM_construct_end(),
                            ])
                    }
                }
            }
        }
        guard let key else { return nil }
        self.init(sharing: key)
    }

    convenience init?(p256Point point: [UInt8]) {
        var (point, group) = (point, Array("prime256v1".utf8CString))
        let key: OpenSSLKey? = point.withUnsafeMutableBytes { point in
            group.withUnsafeMutableBufferPointer { group in
                OSSL_PKEY_PARAM_GROUP_NAME.withCString { groupName in
                    OSSL_PKEY_PARAM_PUB_KEY.withCString { pointName in
                        OpenSSLKey(
                            type: "EC",
                            [
                                OSSL_PARAM_construct_utf8_string(groupName, group.baseAddress, 0),
                                OSSL_PARAM_construct_octet_string(
                                    pointName, point.baseAddress, point.count),
                                OSSL_PARAM_construct_end(),
                            ])
                    }
                }
            }
        }
        guard let key else { return nil }
        self.init(sharing: key)
    }

    private init(sharing other: OpenSSLKey) {
        EVP_PKEY_up_ref(other.key)
        key = other.key
    }

    /// A number in the machine's byte order, which OpenSSL expects.
    private static func native(_ number: [UInt8]) -> [UInt8] {
        let digits = number.isEmpty ? [0] : number
        return 1.littleEndian == 1 ? digits.reversed() : digits
    }

    /// Bits of its modulus or its curve.
    var bits: Int { Int(EVP_PKEY_get_bits(key)) }

    func verifies(_ signature: [UInt8], of text: [UInt8]) -> Bool {
        defer { ERR_clear_error() }
        guard let context = EVP_MD_CTX_new() else { return false }
        defer { EVP_MD_CTX_free(context) }
        // OpenSSL's default padding for RSA is PKCS #1 v1.5, which RS256 uses.
        return EVP_DigestVerifyInit(context, nil, SHA256Digest.algorithm, nil, key) == 1
            && EVP_DigestVerify(context, signature, signature.count, text, text.count) == 1
    }
}
