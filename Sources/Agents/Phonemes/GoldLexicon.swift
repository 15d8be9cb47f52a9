// The gold lexicon: 90,201 English words and their phonemes, 790 of them with variants by part of
// speech. Words are sorted and front-coded in blocks of 16, a byte a phoneme: 1.27 MB instead of
// about 10 MB as a dictionary. scripts/voice_tables.py writes the file and describes it.
//
// WordReader decides what of an entry is said.

/// Words and their phonemes. Immutable, for any thread.
struct GoldLexicon: Sendable {
    static let fileName = "lexicon.bin"
    private static let blockEntries = 16

    /// For which use of a word a reading is. The order is the script's.
    enum Variant: UInt8, CaseIterable {
        case standard, noun, verb, adjective, adverb, past, participle, present, determiner
        /// Before a mark, or at the end.
        case beforePause
    }

    /// What the lexicon has for a word.
    enum Entry: Equatable {
        case one(String)
        /// Nil: the word's letters are named.
        case variants([Variant: String?])
    }

    /// The phoneme of each code; codes begin at 1.
    private let symbols: [Unicode.Scalar]
    /// Where each block of entries begins.
    private let blocks: [Int]
    private let entries: [UInt8]

    /// Reads and checks a table.
    /// - Throws: `PhonemeTableError.damaged`.
    init(_ bytes: [UInt8]) throws(PhonemeTableError) {
        var file = try PhonemeTableFile(bytes, name: Self.fileName, mark: "PGL1")
        let symbolCount = try file.count()
        let wordCount = try file.count()
        let entryBytes = try file.count()
        guard (1...127).contains(symbolCount) else { throw file.damaged }
        var symbols: [Unicode.Scalar] = []
        for value in try file.words(symbolCount) {
            guard let scalar = Unicode.Scalar(value) else { throw file.damaged }
            symbols.append(scalar)
        }
        self.symbols = symbols
        let blockCount = (wordCount + Self.blockEntries - 1) / Self.blockEntries
        blocks = try file.words(blockCount).map(Int.init)
        entries = try file.remainder(entryBytes)
        guard isWhole(words: wordCount) else { throw file.damaged }
    }

    /// Whether every entry can be read and the words ascend.
    private func isWhole(words: Int) -> Bool {
        var place = 0
        var word: [UInt8] = []
        for index in 0..<words {
            let isFirst = index % Self.blockEntries == 0
            if isFirst, blocks[index / Self.blockEntries] != place { return false }
            guard place < entries.count else { return false }
            let kept = Int(entries[place])
            guard kept <= (isFirst ? 0 : word.count), let end = textEnd(place + 1) else {
                return false
            }
            var next = Array(word.prefix(kept))
            next += entries[place + 1..<end].map { $0 & 0x7F }
            guard index == 0 || word.lexicographicallyPrecedes(next), let after = entryEnd(end)
            else { return false }
            word = next
            place = after
        }
        return place == entries.count
    }

    /// The end of the text that begins at a place; nil where it has none.
    private func textEnd(_ place: Int) -> Int? {
        entries[min(place, entries.count)...].firstIndex { $0 >= 0x80 }.map { $0 + 1 }
    }

    /// The end of a reading or of variants; nil where they are damaged.
    private func entryEnd(_ place: Int) -> Int? {
        guard place < entries.count, entries[place] == 0 else { return readingEnd(place) }
        guard place + 1 < entries.count, entries[place + 1] > 0 else { return nil }
        var place = place + 2
        var hasStandard = false
        for _ in 0..<entries[place - 1] {
            guard place < entries.count, let variant = Variant(rawValue: entries[place] & 0x7F)
            else { return nil }
            hasStandard = hasStandard || variant == .standard
            if entries[place] >= 0x80 {
                place += 1
            } else {
                guard let end = readingEnd(place + 1) else { return nil }
                place = end
            }
        }
        return hasStandard ? place : nil
    }

    private func readingEnd(_ place: Int) -> Int? {
        guard let end = textEnd(place),
            entries[place..<end].allSatisfy({ (1...symbols.count).contains(Int($0 & 0x7F)) })
        else { return nil }
        return end
    }

    // MARK: Lookup

    /// The entry of a word. A word in lower case also finds the capitalised form, and the reverse.
    subscript(_ word: String) -> Entry? {
        if let entry = exact(word) { return entry }
        guard word.utf8.count > 1 else { return nil }
        if word.isLowercased { return exact(word.capitalisedWord) }
        return word.isCapitalisedWord ? exact(word.lowercased()) : nil
    }

    /// Whether the lexicon has a word.
    func contains(_ word: String) -> Bool { self[word] != nil }

    private func exact(_ word: String) -> Entry? {
        var word = word
        return word.withUTF8 { word in
            guard let start = block(of: word), let place = entry(of: word, from: start) else {
                return nil
            }
            return decoded(place)
        }
    }

    /// Where the block begins that would have a word; nil where the word precedes all.
    private func block(of word: UnsafeBufferPointer<UInt8>) -> Int? {
        var low = 0
        var high = blocks.count
        while low < high {
            let middle = (low + high) / 2
            if isAfter(word, entryAt: blocks[middle]) { high = middle } else { low = middle + 1 }
        }
        return low > 0 ? blocks[low - 1] : nil
    }

    /// Whether the first word of a block comes after a word.
    private func isAfter(_ word: UnsafeBufferPointer<UInt8>, entryAt block: Int) -> Bool {
        var place = block + 1
        for byte in word {
            let other = entries[place] & 0x7F
            if other != byte { return other > byte }
            // The block's word is a beginning of the other: it comes before, or is equal.
            if entries[place] >= 0x80 { return false }
            place += 1
        }
        return true
    }

    /// Where the reading of a word begins, searched for in the block that begins at a place.
    private func entry(of word: UnsafeBufferPointer<UInt8>, from block: Int) -> Int? {
        var place = block
        // Bytes at the start that the word and the entry before have in common.
        var common = 0
        for index in 0..<Self.blockEntries where place < entries.count {
            let kept = Int(entries[place])
            if index > 0, kept < common { return nil }
            place += 1
            let isNear = index == 0 || kept == common
            var isEqual = isNear
            while true {
                let byte = entries[place]
                if isEqual, common < word.count, byte & 0x7F == word[common] {
                    common += 1
                } else {
                    isEqual = false
                }
                place += 1
                if byte >= 0x80 { break }
            }
            if isEqual, common == word.count { return place }
            guard let end = entryEnd(place) else { return nil }
            place = end
        }
        return nil
    }

    private func decoded(_ place: Int) -> Entry {
        guard entries[place] == 0 else { return .one(reading(place).text) }
        var variants: [Variant: String?] = [:]
        var next = place + 2
        for _ in 0..<entries[place + 1] {
            let variant = Variant(rawValue: entries[next] & 0x7F) ?? .standard
            if entries[next] >= 0x80 {
                variants[variant] = .some(nil)
                next += 1
            } else {
                let reading = reading(next + 1)
                variants[variant] = reading.text
                next = reading.end
            }
        }
        return .variants(variants)
    }

    private func reading(_ place: Int) -> (text: String, end: Int) {
        var text = String.UnicodeScalarView()
        var place = place
        while true {
            let byte = entries[place]
            text.append(symbols[Int(byte & 0x7F) - 1])
            place += 1
            if byte >= 0x80 { return (String(text), place) }
        }
    }
}
