// The table of the part-of-speech tagger: the weights of its features, its fixed words, its
// vocabulary, and the words that are split in a way of their own. One hash table of 1.1 MB holds all
// of it. Keys are kept as 37 bits of a hash, so a text that is no key is taken for one once in ten
// million times. scripts/voice_tables.py writes the file and describes it.
//
// Tagger has the features; SpeechTokens splits words.

/// A part of speech: a tag of the Penn Treebank, such as "NN" for a noun.
struct PennTag: Equatable, Sendable, ExpressibleByStringLiteral {
    let name: String

    init(_ name: String) { self.name = name }
    init(stringLiteral name: String) { self.name = name }

    var isNoun: Bool { name.hasPrefix("NN") }
    var isVerb: Bool { name.hasPrefix("VB") }
    var isAdjective: Bool { name.hasPrefix("JJ") }
    var isAdverb: Bool { name.hasPrefix("RB") }
}

/// The tagger's numbers. Immutable, for any thread.
struct TaggerTable: Sendable {
    static let fileName = "tagger.bin"
    /// Tags that an item can have: 6 bits.
    static let maxTags = 64
    /// Bytes of the longest key that is looked up. A longer word is none of the table.
    private static let maxKeyBytes = 48

    /// What a key stands for: a feature of the tagger, or a table of its own. The letters are the
    /// script's.
    enum Kind: UInt8 {
        case bias = 0x62  // b
        case ending = 0x65  // e: the last three letters
        case firstLetter = 0x70  // p
        case word = 0x77  // w
        case shape = 0x68  // h
        case isFirst = 0x30  // 0
        case isLater = 0x2B  // +
        case tagBefore = 0x74  // t
        case secondTagBefore = 0x75  // u
        case bothTagsBefore = 0x63  // c
        case wordBefore = 0x6C  // l
        case endingBefore = 0x6D  // m
        case secondWordBefore = 0x6B  // k
        case wordAfter = 0x72  // r
        case endingAfter = 0x6E  // n
        case secondWordAfter = 0x71  // q
        case fixedTag = 0x64  // d
        case vocabulary = 0x76  // v
        case split = 0x73  // s
    }

    /// In the order of their names.
    let tags: [PennTag]
    private let lowestWeight: Int
    /// Where each bucket ends.
    private let ends: [UInt32]
    private let records: [UInt8]

    /// Reads and checks a table.
    /// - Throws: `PhonemeTableError.damaged`.
    init(_ bytes: [UInt8]) throws(PhonemeTableError) {
        var file = try PhonemeTableFile(bytes, name: Self.fileName, mark: "PTT1")
        let tagCount = try file.count()
        lowestWeight = Int(Int32(bitPattern: try file.word()))
        let buckets = try file.count()
        let recordBytes = try file.count()
        guard (1...Self.maxTags).contains(tagCount), buckets > 0, buckets & (buckets - 1) == 0,
            (-4096...0).contains(lowestWeight)
        else { throw file.damaged }
        var tags: [PennTag] = []
        for _ in 0..<tagCount {
            let name = try file.take(Int(try file.byte()))
            tags.append(PennTag(String(decoding: name, as: UTF8.self)))
        }
        self.tags = tags
        ends = try file.words(buckets)
        records = try file.remainder(recordBytes)
        guard isWhole else { throw file.damaged }
    }

    /// Whether the records of each bucket fill it.
    private var isWhole: Bool {
        var place = 0
        for end in ends {
            guard end <= records.count, end >= place else { return false }
            while place < end {
                guard place + 4 <= end else { return false }
                place += 4 + 2 * Int(records[place + 3])
            }
            guard place == end else { return false }
        }
        return place == records.count
    }

    // MARK: Lookup

    /// A key as it is put together from texts.
    struct Key {
        /// FNV-1a of 64 bits.
        private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        private(set) var count = -1

        init(_ kind: Kind) { append(kind.rawValue) }

        mutating func append(_ byte: UInt8) {
            hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3
            count += 1
        }

        mutating func append(_ text: some Sequence<UInt8>) {
            for byte in text { append(byte) }
        }
    }

    /// Where the items of a key are; nil where the table has none.
    private func items(of key: Key) -> Range<Int>? {
        let folded = key.hash ^ key.hash >> 32
        let bucket = Int(folded & UInt64(ends.count - 1))
        let upper = UInt32(truncatingIfNeeded: folded >> UInt64(ends.count.trailingZeroBitCount))
        var place = bucket > 0 ? Int(ends[bucket - 1]) : 0
        let end = Int(ends[bucket])
        while place < end {
            let kept =
                UInt32(records[place]) | UInt32(records[place + 1]) << 8
                | UInt32(records[place + 2]) << 16
            let next = place + 4 + 2 * Int(records[place + 3])
            if kept == upper & 0xFF_FFFF { return place + 4..<next }
            place = next
        }
        return nil
    }

    private func item(at place: Int) -> Int { Int(records[place]) | Int(records[place + 1]) << 8 }

    private func key(_ kind: Kind, _ text: Substring) -> Key? {
        guard text.utf8.count <= Self.maxKeyBytes else { return nil }
        var key = Key(kind)
        key.append(text.utf8)
        return key
    }

    /// Adds the weights of a feature to the scores of tags.
    /// - Parameter scores: of `maxTags` tags.
    /// - Returns: whether the feature has weights.
    func add(_ key: Key, to scores: inout [Int]) -> Bool {
        guard let items = items(of: key) else { return false }
        for place in stride(from: items.lowerBound, to: items.upperBound, by: 2) {
            let item = item(at: place)
            scores[item >> 10] += item & 0x3FF + lowestWeight
        }
        return true
    }

    /// The tag of a word that has only one.
    func fixedTag(of word: Substring) -> PennTag? {
        guard let key = key(.fixedTag, word), let items = items(of: key), !items.isEmpty else {
            return nil
        }
        let tag = item(at: items.lowerBound) >> 10
        return tag < tags.count ? tags[tag] : nil
    }

    /// Whether the tagger has learnt a word.
    func knows(_ word: Substring) -> Bool {
        key(.vocabulary, word).flatMap(items) != nil
    }

    /// The bytes of the parts of a word that is split in a way of its own, such as "don't", or kept
    /// whole, such as "Mr."; nil for other words.
    func split(_ word: Substring) -> [Int]? {
        guard let key = key(.split, word), let items = items(of: key) else { return nil }
        let counts = stride(from: items.lowerBound, to: items.upperBound, by: 2).map(item)
        return counts.allSatisfy { $0 > 0 } && counts.reduce(0, +) == word.utf8.count
            ? counts : nil
    }
}
