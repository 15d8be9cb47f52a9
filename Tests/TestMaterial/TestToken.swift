// Tokens for tests, signed with a secret (HS256). Other algorithms are tested with the RFC's tokens
// and, over sockets, with tokens of another implementation.

import COpenSSL
import Codec

/// Signs any claims and header, valid or not.
package struct TestToken {
    /// A secret of sufficient length.
    package static let secret = "0123456789abcdef0123456789abcdef"

    /// A signed token with these claims.
    /// - Parameters:
    ///   - claims: JSON text.
    ///   - header: JSON text.
    package static func make(
        _ claims: String, header: String = #"{"alg":"HS256","typ":"JWT"}"#,
        secret: String = TestToken.secret
    ) -> String {
        let text = [header, claims].map { Base64URL.text(of: Array($0.utf8)) }
            .joined(separator: ".")
        return text + "." + Base64URL.text(of: mac(of: Array(text.utf8), Array(secret.utf8)))
    }

    private static func mac(of text: [UInt8], _ secret: [UInt8]) -> [UInt8] {
        var mac = [UInt8](repeating: 0, count: 32)
        let made = EVP_Q_mac(
            nil, "HMAC", nil, "SHA256", nil, secret, secret.count, text, text.count, &mac,
            mac.count, nil)
        precondition(made != nil)
        return mac
    }
}
