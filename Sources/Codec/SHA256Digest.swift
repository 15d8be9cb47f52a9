// SHA-256 (FIPS 180-4) of short texts, as a value: what a server keeps of a credential in place of
// the credential. Which credentials there are is Server's.
//
// Invariant: whether two digests are the same is found out in the same time whatever they are.
// (`==` and hashing, for dictionaries whose keys nobody outside chooses, make no such promise.)

import COpenSSL

/// The 32 bytes of a hash.
public struct SHA256Digest: Hashable, Sendable {
    /// Bytes of a digest.
    public static let byteCount = 32

    private var words: InlineWords

    /// The bytes, where they can be compared.
    private struct InlineWords: Hashable {
        var first: UInt64 = 0
        var second: UInt64 = 0
        var third: UInt64 = 0
        var fourth: UInt64 = 0
    }

    /// Hashes bytes.
    public init(of bytes: UnsafeRawBufferPointer) {
        words = InlineWords()
        let status = withUnsafeMutableBytes(of: &words) {
            EVP_Digest(bytes.baseAddress, bytes.count, $0.baseAddress, nil, Self.algorithm, nil)
        }
        precondition(status == 1, "OpenSSL does not know SHA-256")
    }

    /// Hashes the UTF-8 of a text.
    public init(of text: String) {
        var text = text
        self = text.withUTF8 { SHA256Digest(of: UnsafeRawBufferPointer($0)) }
    }

    /// Whether this is the same digest. Takes the same time for every answer.
    public func matches(_ other: SHA256Digest) -> Bool {
        withUnsafeBytes(of: words) { own in
            withUnsafeBytes(of: other.words) {
                CRYPTO_memcmp(own.baseAddress, $0.baseAddress, Self.byteCount) == 0
            }
        }
    }

    /// The bytes, in the order of the standard.
    public var bytes: [UInt8] { withUnsafeBytes(of: words) { [UInt8]($0) } }

    /// Fetched once: looking it up costs more than the hash of a key. Never freed, only read.
    nonisolated(unsafe) static let algorithm = EVP_MD_fetch(nil, "SHA256", nil)
}
