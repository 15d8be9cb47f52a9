// Speech of phrases that were spoken before: a phrase that is repeated in the same voice is neither
// synthesised nor encoded again. The cache is shared by a shard's sessions. It reveals nothing,
// because its key is the words themselves. A phrase is cached when it is spoken for the second time
// (PhraseSights), so that phrases that are said once do not evict those that all users hear.
//
// Invariant: the bytes of all entries are at most `maxBytes`; the least recently used go first.

import Codec

/// Everything that the sound of a phrase depends on.
struct PhraseKey: Hashable, Sendable {
    var text: String
    var voice: String
    var speed: Double
    var language: String?
    /// How it is encoded. Where nil, it is kept as it came from the synthesiser.
    var opus: ResolvedOpusSettings?

    /// Bytes of its texts.
    var bytes: Int {
        text.utf8.count + voice.utf8.count + (language?.utf8.count ?? 0)
    }

    /// The key of a request. Spaces around its text are ignored.
    init(_ request: SpeechRequest, opus: ResolvedOpusSettings?) {
        let start = request.text.drop { $0.isWhitespace }
        let end = start.lastIndex { !$0.isWhitespace }.map { start.index(after: $0) }
        text = String(start[..<(end ?? start.startIndex)])
        voice = request.voice
        speed = request.speed
        language = request.language
        self.opus = opus
    }
}

/// A phrase that is being spoken and will be kept once it is complete.
struct PhraseInProgress {
    let key: PhraseKey
    /// Its speech so far. Opus is recorded as it leaves instead (ItemSpeechQueue).
    private var speech: [SpeechChunk] = []
    private var bytes = 0

    init(_ key: PhraseKey) { self.key = key }

    /// More of its speech has come. A phrase that is too long for the cache is dropped.
    mutating func append(_ chunk: SpeechChunk, to cache: PhraseCache) {
        guard key.opus == nil else { return }
        bytes += chunk.byteCount
        if bytes <= cache.maxPhraseBytes { speech.append(chunk) } else { speech = [] }
    }

    /// All of its speech has come.
    func finish(in cache: inout PhraseCache) {
        if bytes <= cache.maxPhraseBytes { cache.insert(key, speech) }
    }
}

/// Spoken phrases, bounded.
struct PhraseCache {
    private struct Entry {
        let key: PhraseKey
        let speech: [SpeechChunk]
        let bytes: Int
        /// Neighbours in the order of use.
        var newer: Int?
        var older: Int?
    }

    /// The share of the cache that one phrase may take; a longer one would evict too many others.
    private static let maxShare = 8
    /// Bytes of an entry in addition to its text and its speech.
    private static let overhead = 256

    private let maxBytes: Int
    private var sights = PhraseSights()
    private var slots: [Entry?] = []
    private var freeSlots: [Int] = []
    private var index: [PhraseKey: Int] = [:]
    private var newest: Int?
    private var oldest: Int?
    /// Bytes of all entries.
    private(set) var bytes = 0
    /// Lookups that found a phrase, and that did not.
    private(set) var hits = 0
    private(set) var misses = 0

    init(maxBytes: Int) { self.maxBytes = maxBytes }

    /// Whether anything may be kept.
    var isEnabled: Bool { maxBytes > 0 }
    /// Bytes of speech that a phrase may have to be kept.
    var maxPhraseBytes: Int { maxBytes / Self.maxShare }

    /// Notes a phrase that is about to be synthesised. Returns whether it is to be cached.
    mutating func admits(_ key: PhraseKey) -> Bool { sights.note(key) }

    /// The speech of a phrase, which becomes the most recently used; counts a hit or a miss.
    mutating func find(_ key: PhraseKey) -> [SpeechChunk]? {
        guard let slot = index[key], let entry = slots[slot] else {
            misses += 1
            return nil
        }
        hits += 1
        unlink(slot)
        link(slot)
        return entry.speech
    }

    /// Keeps the complete speech of a phrase, unless it is too long or there already.
    mutating func insert(_ key: PhraseKey, _ speech: [SpeechChunk]) {
        let speechBytes = speech.reduce(0) { $0 + $1.byteCount }
        guard speechBytes > 0, speechBytes <= maxPhraseBytes, index[key] == nil else { return }
        let bytes = speechBytes + key.bytes + Self.overhead
        while self.bytes + bytes > maxBytes, let oldest { remove(oldest) }
        guard self.bytes + bytes <= maxBytes else { return }
        let slot = freeSlots.popLast() ?? slots.count
        if slot == slots.count { slots.append(nil) }
        slots[slot] = Entry(key: key, speech: speech, bytes: bytes)
        index[key] = slot
        self.bytes += bytes
        link(slot)
    }

    private mutating func remove(_ slot: Int) {
        unlink(slot)
        guard let entry = slots[slot] else { return }
        slots[slot] = nil
        freeSlots.append(slot)
        index[entry.key] = nil
        bytes -= entry.bytes
    }

    /// Makes an entry the newest.
    private mutating func link(_ slot: Int) {
        slots[slot]?.older = newest
        slots[slot]?.newer = nil
        if let newest { slots[newest]?.newer = slot }
        newest = slot
        if oldest == nil { oldest = slot }
    }

    private mutating func unlink(_ slot: Int) {
        guard let entry = slots[slot] else { return }
        if let newer = entry.newer {
            slots[newer]?.older = entry.older
        } else {
            newest = entry.older
        }
        if let older = entry.older {
            slots[older]?.newer = entry.newer
        } else {
            oldest = entry.newer
        }
    }
}

extension SpeechChunk {
    /// Bytes of its memory.
    var heapBytes: Int {
        switch payload {
        case .samples(let samples, _): samples.heapBytes
        case .opus(let packets): packets.heapBytes
        }
    }

    /// Bytes of samples or packets.
    public var byteCount: Int {
        switch payload {
        case .samples(let samples, _): samples.count * 2
        case .opus(let packets): packets.byteCount + packets.count * MemoryLayout<Int32>.size
        }
    }
}
