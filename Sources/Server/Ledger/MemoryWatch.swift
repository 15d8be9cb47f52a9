// A shard's looks at the memory of the whole process: when one is due, and its finding. A finding
// says whether new sessions are refused from now on, and by how much the limit is exceeded. The
// figures are MemoryBudget's; ShardMemory acts on a finding.
//
// Invariant: of all shards, one sees each change of admission, so that it is logged once.

import Session

/// The finding of one look at the process's memory.
struct MemoryFinding: Equatable {
    /// How admission has changed.
    enum Change: Equatable {
        /// New sessions are refused from now on.
        case becameShort
        /// New sessions are taken again.
        case becameFree
    }

    /// Bytes that the process takes.
    let held: Int
    /// The sum of all shards' ledgers, in bytes.
    let ledgers: Int
    /// Bytes that sessions without a client are to free, on this shard: its share of what admission
    /// needs. 0 where the others' memory is far from the limit, too.
    let waitingExcess: Int
    /// Bytes of ledgers that must go; 0 where the limit holds, or where evicting every client
    /// would not be enough: then the ledgers are not what exceeds the limit.
    let excess: Int
    /// Nil where nothing has changed, or where another shard has seen it first.
    let change: Change?
}

/// One shard's view of the process's memory.
struct MemoryWatch {
    /// Growth of the shard's ledgers after which it looks before it is time. 1 MiB.
    private static let notableGrowth = 1 << 20
    /// How often it looks otherwise, while it ticks. 100 ms.
    private static let interval = Duration.milliseconds(100)
    /// Time between two evictions for the others. 10 ms: each looks through all connections, and a
    /// thousand clients of one machine grow by 20 MB meanwhile.
    private static let evictionInterval = Duration.milliseconds(10)

    private let budget: MemoryBudget
    private let metrics: ServerMetrics
    /// Which of the server's shards this is.
    private let shard: Int
    /// When the server's memory is next looked at, and the charges at the last look.
    private var next = Instant(nanoseconds: .min)
    private var totalThen = 0
    /// When a client may next be evicted for the others: those before it are gone by then.
    private var nextEviction = Instant(nanoseconds: .min)

    /// - Parameter shard: from 0; the place of its cells in `metrics`.
    init(budget: MemoryBudget, metrics: ServerMetrics, shard: Int) {
        self.budget = budget
        self.metrics = metrics
        self.shard = shard
    }

    /// Whether it is time for a look.
    /// - Parameter total: the charges of all owners of the shard.
    @inline(__always)
    func isDue(total: Int, at now: Instant) -> Bool {
        budget.isLimited && (isStale(at: now) || total > totalThen + Self.notableGrowth)
    }

    /// Whether the last look was too long ago to rely on.
    @inline(__always)
    func isStale(at now: Instant) -> Bool { now >= next }

    /// Whether new sessions were refused when a shard last looked.
    var isShort: Bool { budget.isLimited && metrics.isShortOfMemory.load(ordering: .relaxed) }

    /// Looks at the process's memory. Sessions that wait for their clients keep no new session out:
    /// they end first.
    /// - Parameters:
    ///   - total: the charges of all owners of the shard.
    ///   - waiting: the part of that which belongs to sessions that wait for their clients.
    mutating func look(total: Int, waiting: Int, at now: Instant) -> MemoryFinding {
        next = now + Self.interval
        totalThen = total
        metrics.shards[shard].set(.waitingBytes, to: waiting)
        let ledgers = metrics.total(of: .ledgerBytes)
        let allWaiting = max(waiting, metrics.total(of: .waitingBytes))
        let held = budget.held(ledgers: ledgers, at: now)
        let over = max(0, held - budget.limit)
        return MemoryFinding(
            held: held, ledgers: ledgers,
            waitingExcess: budget.waitingExcess(held: held, waiting: waiting, ofAll: allWaiting),
            excess: ledgers > over ? over : 0, change: noteChange(held: held - allWaiting))
    }

    /// - Parameter held: without what sessions hold that end for others.
    private func noteChange(held: Int) -> MemoryFinding.Change? {
        let wasShort = metrics.isShortOfMemory.load(ordering: .relaxed)
        let isShort = budget.isShort(held: held, wasShort: wasShort)
        guard isShort != wasShort,
            metrics.isShortOfMemory.exchange(isShort, ordering: .relaxed) == wasShort
        else { return nil }
        return isShort ? .becameShort : .becameFree
    }

    /// Whether clients may be evicted for the others now. If so, the next eviction has to wait for
    /// a while, because their memory is freed only a tick later.
    mutating func takeEvictionTurn(at now: Instant) -> Bool {
        guard now >= nextEviction else { return false }
        nextEviction = now + Self.evictionInterval
        return true
    }

    /// Whether the largest owner of the whole server may be this shard's.
    var mayHaveLargest: Bool { metrics.shardWithLargestLedger == shard }

    /// Asks the shard that may have the largest owner to look.
    /// - Parameter leastBytes: the least charge of an owner that is asked for.
    func wakeShardWithLargest(leastBytes: Int) {
        let fullest = metrics.shardWithLargestLedger
        guard metrics.shards[fullest].value(of: .largestLedgerBytes) >= leastBytes else { return }
        budget.wake(shard: fullest)
    }
}
