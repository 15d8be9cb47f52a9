// The sums of one shard's ledgers: the bytes of all its connections and text requests, and a
// histogram of them by state. The bytes of one owner are read in ShardLedger. Here its entry moves
// from the charge before to the charge now, and the shard's cells with it, so that the scrape of
// another thread always reads the present sums.
//
// Invariant: the sum of all charges is `total`; without an owner all cells are 0.

import Session

/// Charges of one shard, and their sum.
struct LedgerBook {
    /// The first bucket's upper bound: 512 bytes, less than any session. The others double it.
    static let firstBoundBytes = 512
    /// How many bounds there are: up to 1 MiB.
    static let boundCount = 12

    private let metrics: ShardMetrics
    /// Bytes that all owners are charged.
    private(set) var total = 0

    init(metrics: ShardMetrics) { self.metrics = metrics }

    /// The charge or the state of an owner has changed.
    /// - Parameters:
    ///   - stateBefore: nil where it was charged nothing yet.
    ///   - state: nil where it is charged nothing any more.
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
