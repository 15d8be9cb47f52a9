// The signature of an event, as Standard Webhooks 1.0 has it: HMAC-SHA256 of the id, the time and the
// body, in the header `webhook-signature`.

import Codec

/// The secret that the server shares with the receiver of webhooks.
public struct WebhookSecret: Sendable, LosslessStringConvertible {
    /// Secrets of one receiver. 4: the present one, the next one, and two more by mistake.
    public static let maxSecrets = 4
    /// Bytes of a secret: 24…64, as Standard Webhooks asks for.
    public static let byteCounts = 24...64
    private static let prefix = "whsec_"

    private let bytes: [UInt8]

    /// Reads `whsec_` and Base64. The result is nil where the text has another form, or too few or
    /// too many bytes.
    public init?(_ text: String) {
        guard text.hasPrefix(Self.prefix) else { return nil }
        var bytes = ByteWriter(capacity: Self.byteCounts.upperBound)
        let encoded = Array(text.utf8.dropFirst(Self.prefix.utf8.count))
        guard (try? encoded.withUnsafeBytes { try Base64.decode($0, into: &bytes) }) != nil
        else { return nil }
        guard Self.byteCounts.contains(bytes.count) else { return nil }
        self.bytes = bytes.copiedBytes
    }

    /// The text that makes it.
    public var description: String { Self.prefix + Base64.text(of: bytes) }

    /// The value of `webhook-signature`; nil where OpenSSL has no memory.
    /// - Parameter seconds: since 1970, as in `webhook-timestamp`.
    func signature(id: String, seconds: Int, body: String) -> String? {
        HMAC.sha256(of: Array("\(id).\(seconds).\(body)".utf8), secret: bytes)
            .map { "v1," + Base64.text(of: $0) }
    }
}
