// Splits a token where its spelling does: "iPhone", "O'Brien", "well-known". The parts are read
// together where the lexicon has the whole, and one by one where it has not.

import Codec

/// Finds the parts of a token.
enum WordParts {
    /// The parts of a token, in order. Apostrophes that belong to no part are left out.
    static func parts(of token: Substring) -> [Substring] {
        if token.utf8.allSatisfy({ $0.isASCIILetter && $0 >= 0x61 }) { return [token] }
        let bytes = Array(token.utf8)
        var parts: [Substring] = []
        var place = 0
        while place < bytes.count {
            let count = part(of: bytes, at: place)
            if count > 0 {
                let start = token.utf8.index(token.startIndex, offsetBy: place)
                parts.append(token[start..<token.utf8.index(start, offsetBy: count)])
            }
            place += max(1, count)
        }
        return parts
    }

    /// Bytes of the part that begins at a place; 0 for a character to leave out.
    private static func part(of bytes: [UInt8], at place: Int) -> Int {
        let rest = bytes[place...]
        let first = bytes[place]
        if isApostrophe(first) {
            let count = rest.prefix(while: isApostrophe).count
            return place == 0 || count > 1 || count == rest.count ? count : 0
        }
        if isJoiner(first) { return rest.prefix(while: isJoiner).count }
        if first.isASCIIDigit { return rest.prefix(while: \.isASCIIDigit).count }
        guard first.isASCIILetter else { return 1 }
        let letters = Array(rest.prefix(while: \.isASCIILetter))
        // The A of "AVenue": a capital before a capitalised word.
        if letters.count > 2, isCapital(letters[0]), isCapital(letters[1]), !isCapital(letters[2]) {
            return 1
        }
        let change = letters.indices.dropLast().first {
            !isCapital(letters[$0]) && isCapital(letters[$0 + 1])
        }
        if let change { return change + 1 }
        // "don't" and "o'c": an apostrophe and one letter belong to the part, again and again.
        var end = place + letters.count
        while end + 1 < bytes.count, isApostrophe(bytes[end]), bytes[end + 1].isASCIILetter {
            end += 2
        }
        return end - place
    }

    private static func isApostrophe(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "'") }
    private static func isJoiner(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }
    private static func isCapital(_ byte: UInt8) -> Bool { (0x41...0x5A).contains(byte) }
}
