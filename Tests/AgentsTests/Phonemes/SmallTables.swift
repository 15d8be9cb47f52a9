// Tables of a few words in the format of scripts/voice_tables.py, so that tests of the rules need no
// package. InstalledPhonemesTests has the real ones.

@testable import Agents

/// Writes the tables of a small lexicon and tagger.
struct SmallTables {
    /// Words with one reading.
    var words: [String: String] = [:]
    /// Words with readings by variant; nil where the letters are named.
    var variants: [String: [(GoldLexicon.Variant, String?)]] = [:]
    /// Words with one tag.
    var tags: [String: String] = [:]
    /// Weights in tenths of features, by kind and text.
    var weights: [(TaggerTable.Kind, String, [(tag: String, tenths: Int)])] = []
    /// Words that are split, with their parts.
    var splits: [[String]] = []

    /// A phonemizer of the tables.
    /// - Parameter guess: the phonemes of a word that the lexicon lacks.
    func phonemizer(
        guess: @escaping @Sendable (String) -> String = { "<\($0)>" }
    ) throws -> Phonemizer {
        try Phonemizer(lexicon: lexicon, tagger: tagger, guess: guess)
    }

    // MARK: The lexicon

    var lexicon: [UInt8] {
        let readings = words.values + variants.values.flatMap { $0.compactMap(\.1) }
        let symbols = Set(readings.flatMap(\.unicodeScalars)).sorted()
        func ended(_ bytes: [UInt8]) -> [UInt8] { bytes.dropLast() + [bytes.last! | 0x80] }
        func reading(_ text: String) -> [UInt8] {
            ended(text.unicodeScalars.map { UInt8(symbols.firstIndex(of: $0)! + 1) })
        }
        var entries: [UInt8] = []
        var blocks: [UInt32] = []
        var previous: [UInt8] = []
        let sorted = (Array(words.keys) + variants.keys).map { Array($0.utf8) }
            .sorted { $0.lexicographicallyPrecedes($1) }
        for (index, word) in sorted.enumerated() {
            if index % 16 == 0 {
                blocks.append(UInt32(entries.count))
                previous = []
            }
            let kept = zip(previous, word).prefix { $0 == $1 }.count
            entries += [UInt8(kept)] + ended(Array(word[kept...]))
            let name = String(decoding: word, as: UTF8.self)
            if let sounds = words[name] {
                entries += reading(sounds)
            } else if let all = variants[name] {
                entries += [0, UInt8(all.count)]
                for (variant, sounds) in all {
                    entries +=
                        sounds.map { [variant.rawValue] + reading($0) }
                        ?? [variant.rawValue | 0x80]
                }
            }
            previous = word
        }
        return Array("PGL1".utf8)
            + Self.bytes([UInt32(symbols.count), UInt32(sorted.count), UInt32(entries.count)])
            + Self.bytes(symbols.map(\.value)) + Self.bytes(blocks) + entries
    }

    // MARK: The tagger

    private static let lowestWeight = -100

    var tagger: [UInt8] {
        let names = Set(tags.values).union(weights.flatMap { $0.2.map(\.tag) }).union(["NN"])
            .sorted()
        func item(_ tag: String, _ weight: Int) -> UInt16 {
            UInt16(names.firstIndex(of: tag)! << 10 | (weight - Self.lowestWeight))
        }
        var records: [(TaggerTable.Kind, String, [UInt16])] = []
        for (word, tag) in tags { records.append((.fixedTag, word, [item(tag, 0)])) }
        for parts in splits {
            records.append((.split, parts.joined(), parts.map { UInt16($0.utf8.count) }))
        }
        for (kind, text, weights) in weights {
            records.append((kind, text, weights.map { item($0.tag, $0.tenths) }))
        }
        let buckets = 4
        var content = [[UInt8]](repeating: [], count: buckets)
        for (kind, text, items) in records {
            var key = TaggerTable.Key(kind)
            key.append(text.utf8)
            let folded = key.hash ^ key.hash >> 32
            let upper = UInt32(truncatingIfNeeded: folded / UInt64(buckets))
            content[Int(folded % UInt64(buckets))] +=
                Self.bytes([upper]).prefix(3) + [UInt8(items.count)]
                + items.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
        }
        var ends: [UInt32] = []
        for bucket in content { ends.append((ends.last ?? 0) + UInt32(bucket.count)) }
        return Array("PTT1".utf8)
            + Self.bytes([
                UInt32(names.count), UInt32(bitPattern: Int32(Self.lowestWeight)), UInt32(buckets),
                ends.last ?? 0,
            ]) + names.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) } + Self.bytes(ends)
            + content.joined()
    }

    private static func bytes(_ numbers: [UInt32]) -> [UInt8] {
        numbers.flatMap { number in (0..<4).map { UInt8(number >> ($0 * 8) & 0xFF) } }
    }
}
