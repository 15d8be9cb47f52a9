// The signatures with which carriers prove that a WebSocket is theirs. Each is a code of the URL
// that the carrier has dialled, made with the token of the operator's account. The server cannot
// see that URL behind a proxy, so the operator can set it.
//
// Sources: Twilio "Webhooks security" (HMAC-SHA1 of the URL, base64) and "Sign webhooks with shared
// keys". The latter is the same with HMAC-SHA256, where a rule of the account names a shared key.
// Plivo: server SDK, `validateV3Signature` (HMAC-SHA256 of the URL, a dot and the nonce, base64).

import COpenSSL

/// How a carrier signs.
public enum CallSigning: Sendable {
    /// `X-Twilio-Signature`.
    case twilio
    /// `X-Plivo-Signature-V3`, with `X-Plivo-Signature-V3-Nonce`.
    case plivo

    /// The field by which Twilio names the shared key that has signed, and its algorithm:
    /// `key=…,algorithm=HMAC_SHA256`. Without it the account's token has signed.
    public static let settingsField = "X-Twilio-Webhooks-Signature-Settings"

    /// The field of Plivo's nonce.
    public static let nonceField = "X-Plivo-Signature-V3-Nonce"

    /// The field that has the signature.
    public var field: String {
        switch self {
        case .twilio: "X-Twilio-Signature"
        case .plivo: "X-Plivo-Signature-V3"
        }
    }

    /// Whether the fields of a request have a signature of one of the URLs.
    /// - Parameters:
    ///   - urls: forms of the URL that the carrier may have signed.
    ///   - token: of the operator's account.
    public func isSigned(_ fields: HTTPFields, _ urls: [String], token: String) -> Bool {
        guard fields.count(of: field) == 1, let signature = fields[field] else { return false }
        switch self {
        case .twilio:
            let digest = Self.twilioDigest(fields)
            return urls.contains { url in
                Self.matches(signature, Self.code(of: url, digest, token))
            }
        case .plivo:
            // An empty nonce would make one signature good for every call.
            guard fields.count(of: Self.nonceField) == 1, let nonce = fields[Self.nonceField],
                !nonce.isEmpty
            else { return false }
            // While a token is exchanged, there is one signature for each of the two.
            let signatures = signature.split(separator: ",").prefix(4)
            return urls.contains { url in
                let expected = self.signature(of: url, nonce: nonce, token: token)
                return signatures.contains { Self.matches(String($0), expected) }
            }
        }
    }

    /// The signature of a URL; empty where OpenSSL cannot make it.
    public func signature(of url: String, nonce: String = "", token: String) -> String {
        switch self {
        case .twilio: Self.code(of: url, .sha1, token)
        case .plivo: Self.code(of: "\(url).\(nonce)", .sha256, token)
        }
    }

    private enum Digest: String {
        case sha1 = "SHA1"
        case sha256 = "SHA256"

        var bytes: Int { self == .sha1 ? 20 : 32 }
    }

    /// The digest that the request names. The client chooses it, which proves nothing: each needs
    /// the operator's secret.
    private static func twilioDigest(_ fields: HTTPFields) -> Digest {
        fields[settingsField]?.contains("algorithm=HMAC_SHA256") == true ? .sha256 : .sha1
    }

    private static func code(of text: String, _ digest: Digest, _ token: String) -> String {
        let text = Array(text.utf8)
        let token = Array(token.utf8)
        var code = [UInt8](repeating: 0, count: digest.bytes)
        let made = EVP_Q_mac(
            nil, "HMAC", nil, digest.rawValue, nil, token, token.count, text, text.count, &code,
            code.count, nil)
        guard made != nil else {
            ERR_clear_error()
            return ""
        }
        return Base64.text(of: code)
    }

    /// Compares in a time that does not depend on where the texts differ.
    static func matches(_ text: String, _ expected: String) -> Bool {
        let (text, expected) = (Array(text.utf8), Array(expected.utf8))
        return !expected.isEmpty && text.count == expected.count
            && CRYPTO_memcmp(text, expected, text.count) == 0
    }
}
