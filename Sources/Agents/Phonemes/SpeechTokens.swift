// Splits a sentence into the tokens that the tagger was trained on: words, marks, and the parts of
// contractions ("do" and "n't") and of words with a hyphen.
//
// Marks around a word are peeled off first. What is left is one of the words that the table splits,
// or is split at the marks within it. The order of these steps decides what "Mr." and "dog's." are.

import Codec

/// A piece of a sentence, and whether a space follows it.
struct SpeechToken {
    var text: Substring
    var hasSpace: Bool
}

/// Makes tokens.
struct SpeechTokens {
    private static let marks = Set(",:;!?()[]{}<>_#*&\"'".utf8)

    let table: TaggerTable

    /// The tokens of a sentence of ASCII.
    func tokens(of sentence: Substring) -> [SpeechToken] {
        var tokens: [SpeechToken] = []
        for word in sentence.split(separator: " ") {
            TextSteps.note(word.utf8.count)
            tokens += parts(of: word).map { SpeechToken(text: $0, hasSpace: false) }
            tokens[tokens.count - 1].hasSpace = word.endIndex < sentence.endIndex
        }
        return tokens
    }

    /// The tokens of a word between two spaces; at least one.
    private func parts(of word: Substring) -> [Substring] {
        if let parts = split(word) { return parts }
        var before: [Substring] = []
        var after: [Substring] = []
        var rest = word
        peeling: while !rest.isEmpty, table.split(rest) == nil {
            let lead = Self.leadingMark(of: rest)
            let inner = rest.dropFirst(lead)
            if lead > 0, !inner.isEmpty, table.split(inner) != nil {
                before.append(rest.prefix(lead))
                rest = inner
                break peeling
            }
            let tail = Self.trailingMark(of: inner.utf8)
            let outer = rest.dropLast(tail)
            if tail > 0, !outer.isEmpty, table.split(outer) != nil {
                after.append(rest.suffix(tail))
                rest = outer
                break peeling
            }
            guard lead + tail > 0 else { break }
            if lead > 0 { before.append(rest.prefix(lead)) }
            if tail > 0 { after.append(rest.suffix(tail)) }
            rest = rest.dropFirst(lead).dropLast(tail)
        }
        let middle = rest.isEmpty ? [] : split(rest) ?? Self.infixParts(of: rest)
        return joinedAgain(before + middle + after.reversed())
    }

    /// The parts of a word that the table has.
    private func split(_ word: Substring) -> [Substring]? {
        guard let counts = table.split(word) else { return nil }
        var rest = word
        return counts.map { count in
            defer { rest = rest.dropFirst(count) }
            return rest.prefix(count)
        }
    }

    /// Tokens that together are a word of the table, such as "Sept" and ".", as the table has them.
    private func joinedAgain(_ tokens: [Substring]) -> [Substring] {
        guard tokens.count > 1 else { return tokens }
        var result: [Substring] = []
        var index = 0
        search: while index < tokens.count {
            for count in [3, 2] where index + count <= tokens.count {
                if let parts = split(Substring(tokens[index..<index + count].joined())) {
                    result += parts
                    index += count
                    continue search
                }
            }
            result.append(tokens[index])
            index += 1
        }
        return result
    }

    // MARK: Marks

    /// Bytes of the mark that a word begins with; 0 where there is none.
    private static func leadingMark(of word: Substring) -> Int {
        guard let first = word.utf8.first else { return 0 }
        if first == UInt8(ascii: ".") {
            let dots = word.utf8.prefix { $0 == first }.count
            return dots > 1 ? dots : 0
        }
        return marks.contains(first) || "%=+$".utf8.contains(first) ? 1 : 0
    }

    /// Bytes of the mark or of the "'s" that a word ends with; 0 where there is none.
    private static func trailingMark(of word: Substring.UTF8View) -> Int {
        guard let last = word.last else { return 0 }
        if last | 0x20 == UInt8(ascii: "s"), word.dropLast().last == UInt8(ascii: "'") { return 2 }
        if marks.contains(last) { return 1 }
        guard last == UInt8(ascii: ".") else { return 0 }
        let dots = word.reversed().prefix { $0 == last }.count
        if dots > 1 { return dots }
        guard let before = word.dropLast().last else { return 0 }
        // The dot of "A." stays with the letter: an initial.
        let isEnd =
            !isCapital(before) && before != UInt8(ascii: "/") && before != UInt8(ascii: "=")
            && before != UInt8(ascii: "@") && before != UInt8(ascii: "$")
        let isCapitals = isCapital(before) && word.dropLast(2).last.map(isCapital) == true
        return isEnd || isCapitals ? 1 : 0
    }

    private static func isCapital(_ byte: UInt8) -> Bool { (0x41...0x5A).contains(byte) }
    private static func isSmall(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte) }
    private static func isQuote(_ byte: UInt8) -> Bool { byte == 0x22 || byte == 0x27 }

    /// A word split at the marks within it: hyphens, dots and slashes between letters.
    private static func infixParts(of word: Substring) -> [Substring] {
        let bytes = Array(word.utf8)
        var parts: [Substring] = []
        var start = 0
        var place = 1
        func text(_ range: Range<Int>) -> Substring {
            let start = word.utf8.index(word.startIndex, offsetBy: range.lowerBound)
            return word[start..<word.utf8.index(start, offsetBy: range.count)]
        }
        while place < bytes.count {
            let count = infix(in: bytes, at: place)
            if count > 0 {
                if place > start { parts.append(text(start..<place)) }
                parts.append(text(place..<place + count))
                start = place + count
            }
            place += max(1, count)
        }
        if start < bytes.count { parts.append(text(start..<bytes.count)) }
        return parts
    }

    /// Bytes of the mark within a word that splits it; 0 where there is none.
    /// - Parameter place: at least 1.
    private static func infix(in bytes: [UInt8], at place: Int) -> Int {
        let before = bytes[place - 1]
        let run = bytes[place...].prefix { $0 == bytes[place] }.count
        let next = place + 1 < bytes.count ? bytes[place + 1] : 0
        switch bytes[place] {
        case UInt8(ascii: "."):
            if run > 1 { return run }
            let isEnd = isSmall(before) || isQuote(before)
            return isEnd && (isCapital(next) || isQuote(next)) ? 1 : 0
        case UInt8(ascii: ","): return before.isASCIILetter && next.isASCIILetter ? 1 : 0
        case UInt8(ascii: "-"):
            guard before.isASCIIAlphanumeric, run <= 3, place + run < bytes.count,
                bytes[place + run].isASCIILetter
            else { return 0 }
            return run
        case UInt8(ascii: ":"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "="),
            UInt8(ascii: "/"):
            return before.isASCIIAlphanumeric && next.isASCIILetter ? 1 : 0
        default: return 0
        }
    }
}
