// The buckets of many subjects: those that have used something, and whose buckets are not all full
// again.
//
// Invariant: there are at most `limit` entries. Each new entry makes the table look at a few
// others, in turn: those that are full again are dropped. Where the table is still at its limit, it
// drops the one of these few that would be full first: its loss gives its owner the least.

import Session

/// The buckets of subjects.
struct QuotaSubjects {
    private struct Entry {
        let subject: QuotaSubject
        var buckets = QuotaBuckets()
    }

    /// Entries that are looked at for each new one. 8: an entry is dropped soon after it is full,
    /// and one that is pushed out was nearly full.
    private static let lookedAt = 8

    private let limit: Int
    private var entries: [Entry] = []
    private var places: [QuotaSubject: Int] = [:]
    /// The next entry to look at.
    private var hand = 0

    /// - Parameter limit: the most entries, 1 or more.
    init(limit: Int) { self.limit = limit }

    /// Entries.
    var count: Int { entries.count }

    /// The buckets of a subject; full where nothing is known of it.
    subscript(subject: QuotaSubject) -> QuotaBuckets {
        places[subject].map { entries[$0].buckets } ?? QuotaBuckets()
    }

    /// Changes the buckets of a subject.
    mutating func change(
        _ subject: QuotaSubject, at now: Instant, _ change: (inout QuotaBuckets) -> Void
    ) {
        if places[subject] == nil {
            makeRoom(at: now)
            places[subject] = entries.count
            entries.append(Entry(subject: subject))
        }
        changeKnown(subject, change)
    }

    /// Changes the buckets of a subject, if it has an entry.
    mutating func changeKnown(
        _ subject: QuotaSubject, _ change: (inout QuotaBuckets) -> Void
    ) {
        if let place = places[subject] { change(&entries[place].buckets) }
    }

    private mutating func makeRoom(at now: Instant) {
        var first: Int?
        for _ in 0..<min(Self.lookedAt, entries.count) {
            if hand >= entries.count { hand = 0 }
            if entries[hand].buckets.full <= now {
                remove(hand)
                first = nil
                guard !entries.isEmpty else { return }
                continue
            }
            if first.map({ entries[hand].buckets.full < entries[$0].buckets.full }) ?? true {
                first = hand
            }
            hand += 1
        }
        if entries.count >= limit, let first { remove(first) }
    }

    /// Removes an entry. The last one takes its place.
    private mutating func remove(_ place: Int) {
        places[entries[place].subject] = nil
        let last = entries.removeLast()
        guard place < entries.count else { return }
        entries[place] = last
        places[last.subject] = place
    }
}
