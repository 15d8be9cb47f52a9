// Cuts a model's stream of text into clauses that can be spoken while the model still writes. It
// handles text only: the synthesiser decides what is speakable and how it sounds. Which dots end
// nothing is in LanguageRules.
//
// Every cut costs a little of the melody of speech, so a clause is a sentence. The first clause is
// an exception, because nothing can be heard before it is complete. It also ends at a comma or
// before a conjunction, once it is long enough to cover the synthesis of the next.
//
// Invariant: the joined clauses are the text. Each clause that ends at a mark has a word, and two
// where its script separates words, unless the model pauses behind the mark. However the text is
// split into deltas, the clauses are the same, except where the model pauses behind a mark. The
// work is proportional to the text's length: text that was read ahead is not read again for the
// next mark.

import Codec

/// Gathers text and gives out clauses.
struct ClauseSplitter {
    /// The fewest UTF-8 bytes before a sentence end that cuts. Shorter sentences ("Yes. Of
    /// course.") go together, because every cut costs a pause.
    static let minSentenceBytes = 12
    /// UTF-8 bytes from which the first clause may end at a comma. 24 is about 1.5 s of speech,
    /// which covers the synthesis of the next clause many times.
    static let minFirstClauseBytes = 24
    /// UTF-8 bytes from which the first clause may end before a conjunction: 3 s of speech.
    static let maxEagerBytes = 48
    /// UTF-8 bytes from which any clause ends at a comma: 8 s of speech, and models write sentences
    /// that are far longer.
    static let minCommaClauseBytes = 120
    /// From this length on, a clause is cut at a space even without punctuation. From twice this
    /// length on, it is cut anywhere. This bounds latency and memory.
    static let maxClauseBytes = 240
    /// UTF-8 bytes up to which a block of code is one clause, so that the synthesiser can tell that
    /// it is code. A longer one is cut as other text is.
    static let maxCodeBytes = 8_192
    /// Pause of a model behind a mark, in ms, that ends the clause although nothing follows the
    /// mark. It is 40. That is above the gap between tokens at 25 a second, so that "example." and
    /// "com" stay together, and below what a user notices as a delay.
    static let pauseMilliseconds = 40
    /// The same where the mark may be part of a word ("3." and "5", "1," and "000"), or where the
    /// clause is so short that it loses melody. It is 200 ms. Models that write five tokens a
    /// second stay whole, and a user who waits for "1," hears it within 300 ms.
    static let longPauseMilliseconds = 200
    /// UTF-8 bytes of white space, quotes and brackets behind a mark that are looked through.
    private static let maxBytesBehindMark = 8

    private let rules: LanguageRules
    private var pending: [UInt8] = []
    /// Where the clause in progress starts in `pending`.
    private var start = 0
    private var scanned = 0
    private var isFirst = true
    /// Whether `scanned` is within a fenced block of code, and where that began.
    private var isInCode = false
    private var codeStart = 0
    private var words = WordCount()
    /// A run of closing marks, as far as it was read. It is read once for all its marks.
    private var closers = 0..<0
    /// Whether more text is needed to tell what the character at `scanned` means.
    private var needsMore = false

    /// - Parameter rules: which words tell where a clause may end.
    init(_ rules: LanguageRules) { self.rules = rules }

    /// Adds text; returns the clauses that it completes.
    mutating func append(_ text: String) -> [String] {
        pending.append(contentsOf: text.utf8)
        var clauses: [String] = []
        while let end = nextCut() {
            clauses.append(String(decoding: pending[start..<end], as: UTF8.self))
            start = end
            scanned = end
            isFirst = false
            words = WordCount()
        }
        // Once per call and not per clause: the cost of a long text then grows with its length
        // only.
        pending.removeFirst(start)
        scanned -= start
        codeStart -= start
        closers = closers.lowerBound - start..<closers.upperBound - start
        start = 0
        return clauses
    }

    /// Takes what is left, if it holds more than white space.
    mutating func finish() -> String? {
        defer { self = ClauseSplitter(rules) }
        return pending.contains { $0 > 32 } ? String(decoding: pending, as: UTF8.self) : nil
    }

    /// Pause of the model, in ms, that makes the text so far a clause. Nil means that it does not
    /// end with a mark, has no word, or that the mark belongs to an abbreviation, a list's number
    /// or code.
    var endingPause: Int? {
        guard !isInCode, words.hasAny, let mark = lastMark else { return nil }
        return needsMore && mark == scanned && !isDoubtful(mark)
            ? Self.pauseMilliseconds : Self.longPauseMilliseconds
    }

    /// Takes the text so far as a clause, if it ends with a mark.
    mutating func takeAtMark() -> String? {
        guard endingPause != nil else { return nil }
        let clause = String(decoding: pending[start...], as: UTF8.self)
        self = ClauseSplitter(rules)
        isFirst = false
        return clause
    }

    /// Where the mark is with which the text so far ends, white space and closing quotes left out.
    private var lastMark: Int? {
        let least = max(start, pending.count - Self.maxBytesBehindMark)
        var end = pending.count
        while end > least {
            TextSteps.note()
            var index = end - 1
            while index > least, pending[index] & 0xC0 == 0x80 { index -= 1 }
            switch pending[index] {
            case UInt8(ascii: "."): return isAbbreviation(endingAt: index) ? nil : index
            case UInt8(ascii: "!"), UInt8(ascii: "?"), UInt8(ascii: ";"), UInt8(ascii: ","),
                UInt8(ascii: ":"), UInt8(ascii: "\n"):
                return index
            case ...32: end = index
            default:
                if closerLength(at: index) != nil {
                    end = index
                } else {
                    return CharacterAt(index, in: pending).scalar.isMark ? index : nil
                }
            }
        }
        return nil
    }

    /// Whether a mark may be part of what follows: a number, or a time of day.
    private func isDoubtful(_ mark: Int) -> Bool {
        switch pending[mark] {
        case UInt8(ascii: "."), UInt8(ascii: ","):
            mark > start && (48...57).contains(pending[mark - 1])
        case UInt8(ascii: ":"): true
        default: false
        }
    }

    /// The end of the next complete clause, or nil where more text is needed to find it.
    private mutating func nextCut() -> Int? {
        needsMore = false
        while scanned < pending.count {
            TextSteps.note()
            guard let isFence = isFence(at: scanned) else {
                needsMore = true
                return nil
            }
            if isFence {
                isInCode.toggle()
                codeStart = scanned
                scanned += 3
                continue
            }
            let character = CharacterAt(scanned, in: pending)
            if isInCode, scanned - codeStart < Self.maxCodeBytes {
                scanned = character.end
                continue
            }
            switch decision(about: character) {
            case .needsMore:
                needsMore = true
                return nil
            case .goOn:
                words.append(pending[scanned])
                scanned = character.end
                // Whatever it is made of: a clause is bounded.
                if scanned - start >= 2 * Self.maxClauseBytes { return scanned }
            case .cut(let end): return end
            }
        }
        return nil
    }

    private enum Decision {
        case goOn
        case needsMore
        case cut(Int)
    }

    // Most characters neither end a clause nor need a look at what is behind them.
    private mutating func decision(about character: CharacterAt) -> Decision {
        let length = character.end - start
        let index = character.start
        switch pending[index] {
        case UInt8(ascii: "."), UInt8(ascii: "!"), UInt8(ascii: "?"), UInt8(ascii: ";"):
            guard length >= Self.minSentenceBytes, words.isEnough else { return .goOn }
            return cut(after: character)
        case UInt8(ascii: "\n"):
            guard length >= Self.minSentenceBytes, words.isEnough else { return .goOn }
            return .cut(character.end)
        case UInt8(ascii: ","), UInt8(ascii: ":"):
            guard length >= leastCommaBytes, words.isEnough else { return .goOn }
            return cut(after: character)
        case 0x80...: return decisionBeyondASCII(about: character, length: length)
        case ...32: return decisionAtSpace(at: index, length: length)
        default: return .goOn
        }
    }

    private var leastCommaBytes: Int {
        isFirst ? Self.minFirstClauseBytes : Self.minCommaClauseBytes
    }

    /// A mark cuts where white space follows it, quotes and brackets that it closes included, so
    /// that "3.5", "10:30" and "example.com" stay whole.
    private mutating func cut(after mark: CharacterAt) -> Decision {
        let next = endOfClosers(from: mark.end)
        guard next - start < 2 * Self.maxClauseBytes else { return .goOn }
        guard next < pending.count else { return .needsMore }
        guard pending[next] <= 32 else { return .goOn }
        let isDot = pending[mark.start] == UInt8(ascii: ".")
        return isDot && isAbbreviation(endingAt: mark.start) ? .goOn : .cut(next)
    }

    /// Where the closing marks end that begin at an index, as far as the text and a clause go.
    private mutating func endOfClosers(from index: Int) -> Int {
        let isKnown = closers.lowerBound <= index && index <= closers.upperBound
        var next = isKnown ? closers.upperBound : index
        while next < pending.count, next - start < 2 * Self.maxClauseBytes,
            let length = closerLength(at: next)
        {
            TextSteps.note()
            next += length
        }
        closers = (isKnown ? closers.lowerBound : index)..<next
        return next
    }

    /// The ends of sentences of every script (।, ۔, ؟) cut where ASCII marks do, and so do …, and, as
    /// commas do, other punctuation (،, ؛) and dashes. Full-width marks (。！？； and ，、：) cut wherever
    /// they stand.
    private mutating func decisionBeyondASCII(
        about character: CharacterAt, length: Int
    ) -> Decision {
        guard length >= Self.minSentenceBytes, words.isEnough else { return .goOn }
        let scalar = character.scalar
        let endsSentence = scalar.isSentenceMark
        guard endsSentence || (scalar.isMark && length >= leastCommaBytes) else { return .goOn }
        guard scalar.isFullWidth else { return cut(after: character) }
        // A full-width mark counts for three bytes.
        if endsSentence, length == Self.minSentenceBytes { return .goOn }
        return cutFullWidth(after: character.end - 1)
    }

    /// A closing bracket or quote (」』）”) belongs to the sentence before it.
    private func cutFullWidth(after index: Int) -> Decision {
        guard index + 1 < pending.count else { return .needsMore }
        guard pending[index + 1] >= 0xE2, pending[index + 1] <= 0xEF else { return .cut(index + 1) }
        guard index + 3 < pending.count else { return .needsMore }
        switch (pending[index + 1], pending[index + 2], pending[index + 3]) {
        case (0xE3, 0x80, 0x8D), (0xE3, 0x80, 0x8F), (0xEF, 0xBC, 0x89), (0xE2, 0x80, 0x9D):
            return .cut(index + 4)
        default: return .cut(index + 1)
        }
    }

    private func decisionAtSpace(at index: Int, length: Int) -> Decision {
        if length >= Self.maxClauseBytes, words.isEnough { return .cut(index + 1) }
        guard isFirst, length >= Self.maxEagerBytes, words.isEnough else { return .goOn }
        // A longer word is no conjunction.
        let next = pending[(index + 1)...].prefix(ClauseWords.maxConjunctionBytes + 1)
        TextSteps.note(next.count)
        guard let end = next.firstIndex(where: { $0 <= 32 }) else {
            return next.count <= ClauseWords.maxConjunctionBytes ? .needsMore : .goOn
        }
        return rules.clauses.isConjunction(pending[index + 1..<end]) ? .cut(index) : .goOn
    }

    // MARK: What stands where

    /// Whether three backquotes stand at an index; nil when that is not known yet.
    private func isFence(at index: Int) -> Bool? {
        let grave = UInt8(ascii: "`")
        guard pending[index] == grave else { return false }
        let end = min(index + 3, pending.count)
        guard pending[index..<end].allSatisfy({ $0 == grave }) else { return false }
        return end - index == 3 ? true : nil
    }

    /// Bytes of the closing quote, bracket or emphasis at an index, or nil.
    private func closerLength(at index: Int) -> Int? {
        switch pending[index] {
        case UInt8(ascii: "\""), UInt8(ascii: "'"), UInt8(ascii: ")"), UInt8(ascii: "]"),
            UInt8(ascii: "}"), UInt8(ascii: "*"), UInt8(ascii: "_"), UInt8(ascii: "."),
            UInt8(ascii: "!"), UInt8(ascii: "?"):
            return 1
        case 0xE2 where index + 2 < pending.count && pending[index + 1] == 0x80:
            // ’ ” and ›
            return [0x99, 0x9D, 0xBA].contains(pending[index + 2]) ? 3 : nil
        case 0xC2 where index + 1 < pending.count && pending[index + 1] == 0xBB: return 2
        default: return nil
        }
    }

    /// Whether the dot at an index is part of an abbreviation, an initial, or a number in a list.
    private func isAbbreviation(endingAt index: Int) -> Bool {
        // One byte more than the longest abbreviation. Earlier text is not read.
        let before = pending[start..<index].suffix(ClauseWords.maxAbbreviationBytes + 1)
        TextSteps.note(before.count)
        let space = before.lastIndex { $0 <= 32 || $0 == UInt8(ascii: "(") }
        let word = before[(space.map { $0 + 1 } ?? before.startIndex)...]
        guard let first = word.first, word.count <= ClauseWords.maxAbbreviationBytes else {
            return false
        }
        // "1." begins an item where nothing is before it in its line.
        if word.count <= 3, word.allSatisfy({ (48...57).contains($0) }) {
            return isLineStart(word.startIndex)
        }
        // "J. S. Bach", but "so do I. Then".
        if word.count == 1, (65...90).contains(first), first != UInt8(ascii: "I") { return true }
        return rules.clauses.isAbbreviation(word)
    }

    private func isLineStart(_ index: Int) -> Bool {
        let before = pending[start..<index]
        let last = before.lastIndex { $0 != 32 }
        TextSteps.note(index - (last ?? start))
        return last.map { pending[$0] == UInt8(ascii: "\n") } ?? true
    }
}

/// A character of valid UTF-8 (RFC 3629 §3).
private struct CharacterAt {
    let start: Int
    let end: Int
    let scalar: Unicode.Scalar

    init(_ start: Int, in bytes: [UInt8]) {
        let lead = bytes[start]
        let count = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4
        self.start = start
        end = min(start + count, bytes.count)
        guard count > 1 else {
            scalar = Unicode.Scalar(lead)
            return
        }
        var value = UInt32(lead) & (0x7F >> UInt32(count))
        for byte in bytes[(start + 1)..<end] { value = value << 6 | UInt32(byte & 0x3F) }
        scalar = Unicode.Scalar(value) ?? "\u{FFFD}"
    }
}

extension Unicode.Scalar {
    /// Whether it ends a sentence, in any script.
    fileprivate var isSentenceMark: Bool { endsSentence || self == "…" || self == "；" }
    /// Whether it ends a sentence or a part of one.
    fileprivate var isMark: Bool {
        isSentenceMark || endsClause || self == "–" || self == "—"
    }
}

/// Counts the words of a clause up to two. Emoji and marks are no words.
private struct WordCount {
    private var count = 0
    private var isInWord = false

    /// Whether a clause may end. A single word is kept together with its neighbours, which give it
    /// its melody. A script without spaces has no such rule.
    var isEnough: Bool { count >= 2 }
    var hasAny: Bool { count > 0 }

    mutating func append(_ byte: UInt8) {
        switch byte {
        case 48...57, 65...90, 97...122, 0xC3...0xDF:
            if !isInWord { count += 1 }
            isInWord = true
        case 0xE0, 0xE1, 0xE3...0xED:
            // A character of three bytes that is no symbol: most are syllables or words.
            count += 1
            isInWord = true
        case ...32: isInWord = false
        default: break
        }
    }
}
