// Joins texts that were cut within a character. A service that counts UTF-16 units may cut an emoji
// in two. JSON then has half of a surrogate pair at the end of one delta and the other half at the
// beginning of the next. The parser reads either as U+FFFD and keeps the half beside the text.
//
// Invariant: a half that stays alone becomes one U+FFFD.

/// The texts of one stream, in order.
public struct SurrogateHalves: Equatable, Sendable {
    /// The high half that the text before ended with.
    private var high: UInt16?

    /// Nothing has come yet.
    public init() {}

    /// Whether half of a character waits for the next text.
    public var isWaiting: Bool { high != nil }

    /// The text of the next string, the waiting half before it. A half at its end waits. Nil where the
    /// value is no string.
    public mutating func text(of value: JSONValue?) -> String? {
        guard let value, let bytes = value.utf8 else { return nil }
        // An empty text decides nothing.
        guard !bytes.isEmpty else { return "" }
        guard high != nil || value.lastHalf != nil else {
            return String(decoding: bytes, as: UTF8.self)
        }
        var rest = bytes[...]
        var text = ""
        if let high = high.take() {
            if let low = value.firstHalf {
                text.unicodeScalars.append(Self.character(high, low))
                rest = rest.dropFirst(Self.replacementBytes)
            } else {
                text = "\u{FFFD}"
            }
        }
        if let half = value.lastHalf {
            high = half
            rest = rest.dropLast(Self.replacementBytes)
        }
        return text + String(decoding: rest, as: UTF8.self)
    }

    /// No more text comes.
    /// - Returns: U+FFFD for a half that waits, or nothing.
    public mutating func finish() -> String { high.take() == nil ? "" : "\u{FFFD}" }

    /// UTF-8 bytes of U+FFFD.
    private static let replacementBytes = 3

    /// The character of a pair (RFC 2781 §2.2).
    private static func character(_ high: UInt16, _ low: UInt16) -> Unicode.Scalar {
        let value = 0x10000 + (UInt32(high & 0x3FF) << 10 | UInt32(low & 0x3FF))
        return Unicode.Scalar(value) ?? "\u{FFFD}"
    }
}
