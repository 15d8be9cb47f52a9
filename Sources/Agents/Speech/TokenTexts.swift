// The texts of a model's tokens, as a file has them: a line of hexadecimal for each.

/// Texts by the numbers of their tokens, from 0. Their bytes need not be UTF-8: a letter may be spread
/// over several tokens.
struct TokenTexts: Sendable {
    /// The texts one behind the other.
    private var bytes: [UInt8] = []
    /// Where each ends.
    private var ends: [Int32] = []

    /// How many there are.
    var count: Int { ends.count }

    /// The text of a token, which there must be.
    subscript(token: Int) -> ArraySlice<UInt8> {
        bytes[(token == 0 ? 0 : Int(ends[token - 1]))..<Int(ends[token])]
    }

    /// Appends the text of the next token.
    /// - Returns: false where the line is not hexadecimal, in small letters.
    mutating func append(_ line: some Sequence<UInt8>) -> Bool {
        var digits = line.makeIterator()
        while let high = digits.next() {
            guard let high = Self.value(of: high), let low = digits.next().flatMap(Self.value)
            else { return false }
            bytes.append(high << 4 | low)
        }
        ends.append(Int32(bytes.count))
        return true
    }

    private static func value(of digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        default: nil
        }
    }
}
