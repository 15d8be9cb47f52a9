// Cuts a model's stream of text into clauses that can be spoken while the model still writes. It
// handles text only: the synthesiser decides what is speakable and how it sounds. Which dots end
// nothing is in Abbreviations.
//
// Every cut costs a little of the melody of speech, so a clause is a sentence. The first clause is
// an exception, because nothing can be heard before it is complete: it also ends at a comma or
// before a conjunction, once it is long enough to cover the synthesis of the next.
//
// Invariant: the joined clauses are the text. Each clause has a word, and two where its script
// separates words. However the text is split into deltas, the clauses are the same, except where
// the model pauses behind a mark.

/// Gathers text and gives out clauses.
struct ClauseSplitter {
    /// UTF-8 bytes from which a sentence end cuts. Shorter sentences ("Yes. Of course.") go
    /// together, because every cut costs a pause.
    static let minSentenceBytes = 12
    /// UTF-8 bytes from which the first clause may end at a comma. 24 is about 1.5 s of speech,
    /// which covers the synthesis of the next clause many times.
    static let minFirstClauseBytes = 24
    /// UTF-8 bytes from which the first clause may end before a conjunction: 3 s of speech.
    static let maxEagerBytes = 48
    /// UTF-8 bytes from which any clause ends at a comma: 8 s of speech, and models write sentences
    /// that are far longer.
    static let minCommaClauseBytes = 120
    /// A clause is cut at a space from here on even without punctuation; bounds latency and memory.
    static let maxClauseBytes = 240
    /// UTF-8 bytes up to which a block of code is one clause, so that the synthesiser can tell that
    /// it is code. A longer one is cut as other text is.
    static let maxCodeBytes = 8_192
    /// How long a model must pause behind a mark, in ms, for the mark to end the clause although
    /// nothing follows it. 40: above the gap between tokens at 25 a second, so that "example." and
    /// "com" stay together, and below what a user notices as a delay.
    static let pauseMilliseconds = 40

    private var pending: [UInt8] = []
    /// Where the clause in progress starts in `pending`.
    private var start = 0
    private var scanned = 0
    private var isFirst = true
    /// Whether `scanned` is within a fenced block of code.
    private var isInCode = false
    private var words = WordCount()

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
        start = 0
        return clauses
    }

    /// Takes what is left, if it holds more than white space.
    mutating func finish() -> String? {
        defer { self = ClauseSplitter() }
        return pending.contains { $0 > 32 } ? String(decoding: pending, as: UTF8.self) : nil
    }

    /// Whether the text so far ends with a mark that ends a clause unless something follows at
    /// once.
    var isAtMark: Bool {
        guard scanned < pending.count, !isInCode, case .needsMore = decision(at: scanned) else {
            return false
        }
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        let follows = scanned > start && digits.contains(pending[scanned - 1])
        switch pending[scanned] {
        case UInt8(ascii: "!"), UInt8(ascii: "?"), UInt8(ascii: ";"), 0x80...: return true
        case UInt8(ascii: "."): return !follows && !isAbbreviation(endingAt: scanned)
        case UInt8(ascii: ","): return !follows
        default: return false
        }
    }

    /// Takes the clause that ends with the mark at which the text so far ends.
    mutating func takeAtMark() -> String? {
        guard isAtMark else { return nil }
        let clause = String(decoding: pending[start...], as: UTF8.self)
        self = ClauseSplitter()
        isFirst = false
        return clause
    }

    /// The end of the next complete clause, or nil: more text is needed to tell.
    private mutating func nextCut() -> Int? {
        while scanned < pending.count {
            let index = scanned
            guard let isFence = isFence(at: index) else { return nil }
            if isFence {
                isInCode.toggle()
                scanned += 3
                continue
            }
            if isInCode, index - start < Self.maxCodeBytes {
                scanned += 1
                continue
            }
            // Most bytes neither end a clause nor need a look at the bytes behind them.
            switch decision(at: index) {
            case .needsMore: return nil
            case .goOn:
                words.append(pending[index])
                scanned += 1
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

    private func decision(at index: Int) -> Decision {
        let byte = pending[index]
        let length = index + 1 - start
        switch byte {
        case UInt8(ascii: "."), UInt8(ascii: "!"), UInt8(ascii: "?"), UInt8(ascii: ";"):
            guard length >= Self.minSentenceBytes, words.isEnough else { return .goOn }
            return cut(after: index) {
                byte == UInt8(ascii: ".") && isAbbreviation(endingAt: index)
            }
        case UInt8(ascii: "\n"):
            guard length >= Self.minSentenceBytes, words.isEnough else { return .goOn }
            return .cut(index + 1)
        case UInt8(ascii: ","), UInt8(ascii: ":"):
            let least = isFirst ? Self.minFirstClauseBytes : Self.minCommaClauseBytes
            guard length >= least, words.isEnough else { return .goOn }
            return cut(after: index) { false }
        case 0x80...: return decisionBeyondASCII(at: index, length: length)
        case ...32: return decisionAtSpace(at: index, length: length)
        default:
            return length >= 2 * Self.maxClauseBytes ? cutBetweenCharacters(after: index) : .goOn
        }
    }

    /// A mark cuts where white space follows it, quotes and brackets that it closes included, so
    /// that "3.5", "10:30" and "example.com" stay whole.
    private func cut(after index: Int, unless isPartOfWord: () -> Bool) -> Decision {
        var next = index + 1
        while next < pending.count, let length = closerLength(at: next) { next += length }
        guard next < pending.count else { return .needsMore }
        if pending[next] == 0xE2, pending.count - next < 3 { return .needsMore }
        guard pending[next] <= 32, !isPartOfWord() else { return .goOn }
        return .cut(next)
    }

    /// Full-width marks (。！？； and, as commas do, ，、：) cut wherever they stand, and … — – where
    /// ASCII marks do.
    private func decisionBeyondASCII(at index: Int, length: Int) -> Decision {
        guard index >= start + 2 else { return .goOn }
        let least = isFirst ? Self.minFirstClauseBytes : Self.minCommaClauseBytes
        switch (pending[index - 2], pending[index - 1], pending[index]) {
        case (0xE3, 0x80, 0x82), (0xEF, 0xBC, 0x81), (0xEF, 0xBC, 0x9F), (0xEF, 0xBC, 0x9B):
            if length > Self.minSentenceBytes, words.isEnough { return cutFullWidth(after: index) }
        case (0xEF, 0xBC, 0x8C), (0xE3, 0x80, 0x81), (0xEF, 0xBC, 0x9A):
            if length >= least, words.isEnough { return cutFullWidth(after: index) }
        case (0xE2, 0x80, 0xA6):
            if length >= Self.minSentenceBytes, words.isEnough {
                return cut(after: index) { false }
            }
        case (0xE2, 0x80, 0x93), (0xE2, 0x80, 0x94):
            if length >= least, words.isEnough { return cut(after: index) { false } }
        default: break
        }
        return length >= 2 * Self.maxClauseBytes ? cutBetweenCharacters(after: index) : .goOn
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
        guard let end = pending[(index + 1)...].firstIndex(where: { $0 <= 32 }) else {
            // A longer word is no conjunction.
            return pending.count - index <= Conjunctions.maxBytes + 1 ? .needsMore : .goOn
        }
        return Conjunctions.contain(pending[index + 1..<end]) ? .cut(index) : .goOn
    }

    /// Not inside a character: the next byte must begin one (RFC 3629 §3).
    private func cutBetweenCharacters(after index: Int) -> Decision {
        guard index + 1 < pending.count else { return .needsMore }
        return pending[index + 1] & 0xC0 != 0x80 ? .cut(index + 1) : .goOn
    }

    // MARK: What stands where

    /// Whether three backquotes stand at an index; nil when that is not known yet.
    private func isFence(at index: Int) -> Bool? {
        let grave = UInt8(ascii: "`")
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
        let before = pending[start..<index]
        let space = before.lastIndex { $0 <= 32 || $0 == UInt8(ascii: "(") }
        let word = before[(space ?? start - 1) + 1..<index]
        guard let first = word.first else { return false }
        // "1." begins an item where nothing is before it in its line.
        if word.count <= 3, word.allSatisfy({ (48...57).contains($0) }) {
            return isLineStart(word.startIndex)
        }
        // "J. S. Bach", but "so do I. Then".
        if word.count == 1, (65...90).contains(first), first != UInt8(ascii: "I") { return true }
        return Abbreviations.contain(word)
    }

    private func isLineStart(_ index: Int) -> Bool {
        let before = pending[start..<index]
        guard let last = before.last(where: { $0 != 32 }) else { return true }
        return last == UInt8(ascii: "\n")
    }
}

/// Counts the words of a clause up to two. Emoji and marks are no words.
private struct WordCount {
    private var count = 0
    private var isInWord = false

    /// Whether a clause may end. A single word is kept together with its neighbours, which give it
    /// its melody. In a script without spaces there is no such limit.
    var isEnough: Bool { count >= 2 }

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
