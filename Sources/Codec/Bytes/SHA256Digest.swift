// SHA-256 (FIPS 180-4) as a value. It hashes credentials, so that a server keeps the digest instead
// of the secret, and files, to check that they are unchanged. Server knows which credentials exist,
// Agents which files.
//
// Invariant: `matches` takes the same time whatever the two digests are. `==` and hashing make no
// such promise; use them only for dictionaries whose keys no outsider chooses.

import COpenSSL

/// The 32 bytes of a hash.
public struct SHA256Digest: Hashable, Sendable {
    /// Bytes of a digest.
    public static let byteCount = 32

    private var words: InlineWords

    /// The 32 bytes inline, in words.
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

    /// Reads a digest from 64 hexadecimal digits; nil for any other text.
    public init?(hexadecimal text: some StringProtocol) {
        let digits = text.utf8.compactMap { digit in
            digit < 128 ? Character(Unicode.Scalar(digit)).hexDigitValue : nil
        }
        guard digits.count == 2 * Self.byteCount, text.utf8.count == digits.count else {
            return nil
        }
        words = InlineWords()
        withUnsafeMutableBytes(of: &words) {
            for index in 0..<Self.byteCount {
                $0[index] = UInt8(digits[2 * index] << 4 | digits[2 * index + 1])
            }
        }
    }

    /// The first bytes as lowercase hexadecimal digits.
    /// - Parameter count: 0…32 bytes, two digits each.
    public func hexadecimal(ofBytes count: Int = Self.byteCount) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return withUnsafeBytes(of: words) { bytes in
            String(
                decoding: bytes.prefix(count).flatMap {
                    [digits[Int($0 >> 4)], digits[Int($0 & 15)]]
                },
                as: UTF8.self)
        }
    }

    /// The digest of the bytes that a hasher was given.
    fileprivate init(finishing context: OpaquePointer) {
        words = InlineWords()
        let status = withUnsafeMutableBytes(of: &words) {
            EVP_DigestFinal_ex(
                context, $0.baseAddress?.assumingMemoryBound(to: UInt8.self), nil)
        }
        precondition(status == 1, "OpenSSL cannot finish a hash")
    }

    /// Whether the digests are equal. Takes the same time for every answer.
    public func matches(_ other: SHA256Digest) -> Bool {
        withUnsafeBytes(of: words) { own in
            withUnsafeBytes(of: other.words) {
                CRYPTO_memcmp(own.baseAddress, $0.baseAddress, Self.byteCount) == 0
            }
        }
    }

    /// The bytes, in the standard's order.
    public var bytes: [UInt8] { withUnsafeBytes(of: words) { [UInt8]($0) } }

    /// Fetched once: the lookup costs more than hashing a key. Never freed, only read.
    nonisolated(unsafe) static let algorithm = EVP_MD_fetch(nil, "SHA256", nil)
}

/// Hashes bytes that arrive in pieces, such as those of a large file.
public struct SHA256Hasher: ~Copyable {
    private let context: OpaquePointer

    /// Begins a hash of no bytes.
    public init() {
        guard let context = EVP_MD_CTX_new(),
            EVP_DigestInit_ex(context, SHA256Digest.algorithm, nil) == 1
        else { preconditionFailure("OpenSSL does not know SHA-256") }
        self.context = context
    }

    deinit { EVP_MD_CTX_free(context) }

    /// Adds a piece.
    public mutating func append(_ bytes: UnsafeRawBufferPointer) {
        let status = EVP_DigestUpdate(context, bytes.baseAddress, bytes.count)
        precondition(status == 1, "OpenSSL cannot hash")
    }

    /// The digest of all pieces together.
    public consuming func finished() -> SHA256Digest { SHA256Digest(finishing: context) }
}
