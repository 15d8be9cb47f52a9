// From a text to the phonemes that the natural voice was trained on: those of misaki, a part of the
// International Phonetic Alphabet with capitals for diphthongs (A as in "day", I "my", O "go", W
// "now", Y "boy") and T for the tapped t of "water".
//
// The text has been through SpokenText. SentenceReader reads a sentence, ClauseCutter cuts it.

/// Makes clauses of phonemes. Immutable, for any thread; its tables take 2.4 MB.
package struct Phonemizer: Sendable {
    /// Symbols of a clause, at most. 100: about 7 s of speech. The voice needs 3.4 MB of work space
    /// for each second of a clause.
    package static let maxClauseSymbols = 100
    /// The files that it reads.
    static let fileNames = [GoldLexicon.fileName, TaggerTable.fileName]

    private let reader: SentenceReader

    /// Reads the tables: 15 ms of CPU.
    /// - Parameter folder: of the voice, with `lexicon.bin` and `tagger.bin`.
    /// - Throws: `PhonemeTableError`.
    package init(folder: String) throws(PhonemeTableError) {
        try self.init(
            lexicon: PhonemeTableFile.bytes(of: GoldLexicon.fileName, in: folder),
            tagger: PhonemeTableFile.bytes(of: TaggerTable.fileName, in: folder),
            guess: GuessedSounds.byFlite)
    }

    /// Reads tables from memory.
    /// - Parameter guess: the phonemes of a word that the lexicon lacks. The thread that makes
    ///   clauses calls it.
    /// - Throws: `PhonemeTableError.damaged`.
    init(
        lexicon: [UInt8], tagger: [UInt8], guess: @escaping @Sendable (String) -> String
    ) throws(PhonemeTableError) {
        let table = try TaggerTable(tagger)
        reader = SentenceReader(
            tokens: SpeechTokens(table: table), tagger: Tagger(table: table),
            words: WordReader(lexicon: try GoldLexicon(lexicon)), guess: guess)
    }

    /// The clauses of a piece of text, in order. A clause without a sound is left out.
    /// - Parameters:
    ///   - piece: of `SpokenText.pieces(of:)`. Characters beyond ASCII make no sound.
    ///   - maxSymbols: Unicode scalars of a clause, at most; at least 2. A longer one is cut after a
    ///     mark, between two words, or anywhere.
    package func clauses(of piece: String, maxSymbols: Int = maxClauseSymbols) -> [String] {
        var clauses: [String] = []
        for sentence in ClauseCutter.sentences(of: Self.plain(piece)) {
            var sounds = reader.sounds(of: sentence)
            // The last dot of "at five P.M." belongs to a word, and ends the sentence, too.
            if sentence.last == ".", let last = sounds.unicodeScalars.last,
                !SentenceReader.marks.contains(last)
            {
                sounds += "."
            }
            clauses += ClauseCutter.clauses(of: sounds, maxSymbols: maxSymbols)
        }
        return clauses
    }

    /// The text without quotation marks, of which the tagger makes nouns, and with a space in the
    /// place of each run of other characters.
    private static func plain(_ piece: String) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(piece.utf8.count)
        for byte in piece.utf8 where byte != UInt8(ascii: "\"") {
            if (0x21...0x7E).contains(byte) {
                bytes.append(byte)
            } else if let last = bytes.last, last != 0x20 {
                bytes.append(0x20)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
