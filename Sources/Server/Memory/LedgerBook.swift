// The sums of one shard's ledgers: all bytes that its connections and its text requests hold, and
// how many of them hold how much in which state. Who holds what is read in ShardLedger; here an
// entry moves from what was charged before to what is charged now, and the shard's cells with it,
// so that a scrape of another thread reads them as they are.
//
// Invariant: the sum of what is charged is `total`; without anybody all cells are 0.

import Session

/// Charges of one shard, and their sum.
struct LedgerBook {
    /// The first bucket's upper bound: 512 bytes, less than any session. The others double it.
    static let firstBoundBytes = 512
    /// How many bounds there are: up to 1 MiB.
    static let boundCount = 12

    private let metrics: ShardMetrics
    /// Bytes of everybody.
    private(set) var total = 0

    init(metrics: ShardMetrics) { self.metrics = metrics }

    /// Somebody holds other than before, or does something else.
    /// - Parameters:
    ///   - stateBefore: nil where nothing was charged yet.
    ///   - state: nil where nothing is charged any more.
    mutating func move(
        from before: UInt32, _ stateBefore: SessionState?, to after: UInt32,
        _ state: SessionState?
    ) {
        if let stateBefore { count(before, stateBefore, by: -1) }
        if let state { count(after, state, by: 1) }
        total += Int(after) - Int(before)
        metrics.set(.ledgerBytes, to: total)
    }

    private func count(_ bytes: UInt32, _ state: SessionState, by sign: Int) {
        let units = UInt(bytes == 0 ? 0 : bytes - 1) / UInt(Self.firstBoundBytes)
        let bucket = min(UInt.bitWidth - units.leadingZeroBitCount, Self.boundCount)
        metrics.countLedger(
            bucket: bucket, of: state, by: sign, bytes: sign * Int(bytes))
    }
}
