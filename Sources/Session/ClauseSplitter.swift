// Cuts a model's stream of text into clauses that can be spoken while the model still writes.
// Pure text: what is speakable and how it sounds is the synthesiser's business.

/// Gathers text and gives out clauses: sentences, or, for the first one, anything up to a comma
/// that is long enough, because the first clause decides when the user hears something.
struct ClauseSplitter {
    /// UTF-8 bytes from which a sentence end cuts. Shorter sentences ("Yes. Of course.") go
    /// together, because every cut costs a pause.
    static let minSentenceBytes = 12
    /// UTF-8 bytes from which the first clause may end at a comma. 24 is about 1.5 s of speech,
    /// which covers the synthesis of the next clause many times.
    static let minFirstClauseBytes = 24
    /// A clause is cut at a space from here on even without punctuation; bounds latency and memory.
    static let maxClauseBytes = 240

    private var pending: [UInt8] = []
    /// Where the clause in progress starts in `pending`.
    private var start = 0
    private var scanned = 0
    private var isFirst = true

    /// Adds text; returns the clauses that it completes.
    mutating func append(_ text: String) -> [String] {
        pending.append(contentsOf: text.utf8)
        var clauses: [String] = []
        while let end = nextCut() {
            clauses.append(String(decoding: pending[start..<end], as: UTF8.self))
            start = end
            scanned = end
            isFirst = false
        }
        // Once a call, not once a clause, so that a long text costs its length and no more.
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

    /// The end of the next complete clause: past a mark that is followed by white space, so that
    /// "3.5", "e.g." inside a word and "10:30" stay whole; past a full-width mark (。！？) wherever it
    /// stands; or, in text that has neither, where it grows too long.
    private mutating func nextCut() -> Int? {
        while scanned + 1 < pending.count {
            let index = scanned
            scanned += 1
            let length = index + 1 - start
            if length > Self.minSentenceBytes, endsFullWidthMark(at: index) { return index + 1 }
            // Not inside a character: the next byte must begin one (RFC 3629 §3).
            if length >= 2 * Self.maxClauseBytes, pending[index + 1] & 0xC0 != 0x80 {
                return index + 1
            }
            guard pending[index + 1] <= 32 || pending[index] == UInt8(ascii: "\n") else { continue }
            switch pending[index] {
            case UInt8(ascii: "."), UInt8(ascii: "!"), UInt8(ascii: "?"), UInt8(ascii: ";"),
                UInt8(ascii: "\n"):
                if length >= Self.minSentenceBytes { return index + 1 }
            case UInt8(ascii: ","), UInt8(ascii: ":"):
                if isFirst, length >= Self.minFirstClauseBytes { return index + 1 }
            default:
                if length >= Self.maxClauseBytes { return index + 1 }
            }
        }
        return nil
    }

    /// Whether the UTF-8 of 。 (E3 80 82), ！ (EF BC 81) or ？ (EF BC 9F) ends at a byte.
    private func endsFullWidthMark(at index: Int) -> Bool {
        guard index >= start + 2 else { return false }
        return switch (pending[index - 2], pending[index - 1], pending[index]) {
        case (0xE3, 0x80, 0x82), (0xEF, 0xBC, 0x81), (0xEF, 0xBC, 0x9F): true
        default: false
        }
    }
}
