// The language of a session whose client has named none. A recogniser tells it with each utterance;
// one or two words are often taken for another language, so it is settled only once enough was said,
// and then stays. VoiceSession+Language uses it.

/// The language that a recogniser has heard, in two bytes: an idle session pays nothing for it.
struct HeardLanguage: Equatable {
    /// So many words settle it. With five words Whisper base is right in 97% of the recordings of five
    /// languages, with one or two in 70% (docs/speech.md).
    static let leastWords = 5
    /// The same for speech, in milliseconds: some languages write no spaces.
    static let leastMilliseconds = 2_000

    /// Two letters of five bits each, or 0; then whether it is settled.
    private var bits: UInt16 = 0
    private static let settledBit: UInt16 = 1 << 10

    /// The code of the newest language that was heard, or nil.
    var newest: String? {
        guard bits & 0x3FF != 0 else { return nil }
        let letters = [bits >> 5 & 0x1F, bits & 0x1F].map { UInt8($0) + UInt8(ascii: "a") - 1 }
        return String(decoding: letters, as: UTF8.self)
    }

    /// The code of the session's language, once it is settled.
    var settled: String? { bits & Self.settledBit == 0 ? nil : newest }

    /// A recogniser has told a language. Codes of other than two letters are not kept.
    mutating func hear(_ language: String?) {
        guard settled == nil, let language else { return }
        let letters = Phrase.primary(language).utf8.map { $0 &- (UInt8(ascii: "a") - 1) }
        guard letters.count == 2, letters.allSatisfy({ (1...26).contains($0) }) else { return }
        bits = bits & ~0x3FF | UInt16(letters[0]) << 5 | UInt16(letters[1])
    }

    /// An utterance is complete: settles the language if enough was said.
    mutating func settle(words: Int, milliseconds: Int) {
        guard words >= Self.leastWords || milliseconds >= Self.leastMilliseconds else { return }
        settle()
    }

    /// Settles the newest language.
    mutating func settle() { if newest != nil { bits |= Self.settledBit } }
}
