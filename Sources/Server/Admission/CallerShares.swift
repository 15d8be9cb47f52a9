// How much each caller has of something that a shard has few of, such as relays to other nodes. One
// caller may have three quarters of it. The last quarter is for callers with less than a quarter, so
// that no caller takes all from the others.
//
// Invariant: a caller without any has no entry.

import Codec

/// The shares of the callers on one shard.
struct CallerShares {
    private var counts: [CallerTag: Int] = [:]

    /// Whether a caller may have one more.
    /// - Parameters:
    ///   - taken: how many all callers have.
    ///   - limit: how many there are.
    func admits(_ caller: CallerTag, taken: Int, of limit: Int) -> Bool {
        guard taken < limit else { return false }
        let quarter = limit / 4
        return taken < limit - quarter || (counts[caller] ?? 0) < quarter
    }

    /// Counts one more for a caller.
    mutating func add(_ caller: CallerTag) { counts[caller, default: 0] += 1 }

    /// Counts one less for a caller.
    mutating func remove(_ caller: CallerTag) {
        guard let count = counts[caller] else { return }
        counts[caller] = count > 1 ? count - 1 : nil
    }
}
