// Codes that prove who wrote a text: RFC 2104, by OpenSSL.

import COpenSSL

/// Message authentication codes by a shared secret.
public enum HMAC {
    /// HMAC with SHA-256 (RFC 4868).
    /// - Returns: 32 bytes; nil where OpenSSL has no memory.
    public static func sha256(of text: [UInt8], secret: [UInt8]) -> [UInt8]? {
        code(of: text, secret, "SHA256", byteCount: SHA256Digest.byteCount)
    }

    private static func code(
        of text: [UInt8], _ secret: [UInt8], _ digest: String, byteCount: Int
    ) -> [UInt8]? {
        var code = [UInt8](repeating: 0, count: byteCount)
        let made = EVP_Q_mac(
            nil, "HMAC", nil, digest, nil, secret, secret.count, text, text.count, &code,
            code.count, nil)
        guard made != nil else {
            ERR_clear_error()
            return nil
        }
        return code
    }
}
