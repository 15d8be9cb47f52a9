// Joins texts of pieces that were cut within a character. A worker that cuts bytes may end one piece with
// the first bytes of a character and begin the next with its others.
//
// Invariant: between calls it holds at most three bytes, the beginning of one character. Bytes that
// belong to none become U+FFFD.

/// The texts of one answer, in order.
struct JobText {
    /// The beginning of a character whose other bytes have not come.
    private var cut: [UInt8] = []

    /// The text of the next piece, the waiting bytes before it. The beginning of a character at its end
    /// waits.
    mutating func text(of bytes: [UInt8]) -> String {
        let all = cut + bytes
        let end = Self.endOfWholeCharacters(in: all)
        cut = Array(all[end...])
        return String(decoding: all[..<end], as: UTF8.self)
    }

    /// No more text comes.
    /// - Returns: U+FFFD for a beginning that waits, or nothing.
    mutating func finish() -> String {
        defer { cut = [] }
        return String(decoding: cut, as: UTF8.self)
    }

    private static func endOfWholeCharacters(in bytes: [UInt8]) -> Int {
        guard let start = bytes.suffix(3).lastIndex(where: { $0 & 0xC0 != 0x80 }) else {
            return bytes.count
        }
        let needed =
            switch bytes[start] {
            case 0xC2...0xDF: 2
            case 0xE0...0xEF: 3
            case 0xF0...0xF4: 4
            default: 1
            }
        return start + needed > bytes.count ? start : bytes.count
    }
}
