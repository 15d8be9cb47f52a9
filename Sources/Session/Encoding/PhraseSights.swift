// Which phrases have been asked for before. Nearly every clause of a model is spoken once. Only a
// phrase that is repeated is worth a place in PhraseCache, whose entries the others would evict.
//
// Invariant: memory is bounded and never grows. The state depends on the phrases alone, so that a
// conversation can be replayed. Two phrases may have the same place or the same fingerprint: then a
// phrase is cached later than at its second time, or at its first.

import Codec

/// Fingerprints of phrases, a place each.
struct PhraseSights {
    /// Phrases that are remembered at most. 16,384 in 64 KiB: what a hundred talkative models say
    /// in some minutes.
    static let capacity = 1 << 14

    /// Empty until the first phrase. 0: the place is free.
    private var tags: [UInt32] = []

    /// A phrase is asked for.
    /// - Returns: whether it was asked for before.
    mutating func note(_ key: PhraseKey) -> Bool {
        if tags.isEmpty { tags = Array(repeating: 0, count: Self.capacity) }
        let fingerprint = key.fingerprint
        let place = Int(fingerprint % UInt64(Self.capacity))
        let tag = max(1, UInt32(truncatingIfNeeded: fingerprint >> 32))
        defer { tags[place] = tag }
        return tags[place] == tag
    }
}

extension PhraseKey {
    /// The same for the same phrase in every process: Swift's own hashes are not. FNV-1a, mixed
    /// once more so that its low bits are as good as its high ones.
    var fingerprint: UInt64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        func add(_ byte: UInt8) { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        func add(_ number: UInt64) {
            for shift in stride(from: 0, to: 64, by: 8) {
                add(UInt8(truncatingIfNeeded: number >> UInt64(shift)))
            }
        }
        for byte in text.utf8 { add(byte) }
        add(UInt8(0))
        for byte in voice.utf8 { add(byte) }
        add(speed.bitPattern)
        if let opus {
            add(UInt64(truncatingIfNeeded: opus.bitrate))
            add(UInt64(truncatingIfNeeded: opus.complexity))
            add(UInt8(opus.usesDTX ? 1 : 0))
        }
        return (hash ^ hash >> 29) &* 0xbf58_476d_1ce4_e5b9
    }
}
