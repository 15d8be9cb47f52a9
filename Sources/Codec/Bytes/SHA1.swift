// SHA-1 (RFC 3174), as protocols require it: the WebSocket handshake, and the names of Redis'
// scripts. It protects no secret; SHA256Digest does.

import COpenSSL

/// Hashes bytes with SHA-1.
enum SHA1 {
    /// The 20 bytes of the hash.
    static func digest(of bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 20)
        let status = EVP_Digest(bytes, bytes.count, &digest, nil, algorithm, nil)
        precondition(status == 1, "OpenSSL does not know SHA-1")
        return digest
    }

    /// The hash as 40 lowercase digits.
    static func hexadecimal(of bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(
            decoding: digest(of: bytes).flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] },
            as: UTF8.self)
    }

    /// Fetched once: the lookup costs more than the hash. Never freed, only read.
    nonisolated(unsafe) private static let algorithm = EVP_MD_fetch(nil, "SHA1", nil)
}
