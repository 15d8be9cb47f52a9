// The memory of the process by what holds it: the ledgers, the memory that sessions share, and the
// rest. For /metrics and `parley top`; MemoryBudget judges the limit by figures of its own.
//
// The kernel says how much the process has written, the allocator how much of the heap is in use,
// and every part how much it holds. Heap that is in use and in no part is `other`. Memory that is
// written and not in use is `allocator`. Both are differences: a part that counts too little shows
// in `other`.
//
// The account begins with the first connection. The memory that the process had then, apart from the
// parts, is `start`, whose pages are not looked through.
//
// Invariant: the sum of the lines is the kernel's figure of the process's own memory.

import CLinux
import Session
import Synchronization

/// A holder of the process's memory. The raw values are labels of `parley_memory_bytes`.
package enum MemoryHolder: String, CaseIterable, Sendable {
    /// The process before its first connection: the program's data, stacks, settings.
    case start
    /// All connections, text requests and waiting sessions, each by its ledger.
    case ledgers
    /// Objects that wait to be used again: send chunks, codecs, spoken phrases.
    case pools
    /// Buffers that the connections of a shard use in turn.
    case scratch
    /// The table of addresses.
    case tables
    /// Contexts, caches and idle connections of OpenSSL and libcurl.
    case libraries
    /// The model of the embedded recogniser, once it is loaded.
    case models
    /// Freed memory that the allocator has not given back, and stacks.
    case allocator
    /// Heap in use that none of the others names: models at work, records, requests of agents that
    /// charge nothing.
    case other

    /// Whether its bytes are read from what holds them. The others are differences.
    fileprivate var isPart: Bool { self != .start && self != .allocator && self != .other }
}

/// Bytes of a part.
package struct HeldMemory: Equatable, Sendable {
    /// Bytes that were written.
    package var bytes: Int
    /// Bytes of blocks of the allocator that were never written: address space and no memory.
    package var untouched: Int

    package init(bytes: Int, untouched: Int = 0) {
        (self.bytes, self.untouched) = (bytes, untouched)
    }
}

/// The account. Any thread.
package final class ProcessAccount: Sendable {
    /// Reads the bytes of one part. Any thread.
    package typealias Reading = @Sendable () -> HeldMemory

    /// All figures at one moment.
    struct Figures: Equatable {
        /// Resident bytes that are no file's, by the kernel.
        var `private` = 0
        /// Bytes in use on the heap, by the allocator.
        var allocated = 0
        /// Bytes of those that were never written, as far as their holders know.
        var untouched = 0
        /// Bytes by part.
        var parts: [MemoryHolder: Int] = [:]

        fileprivate var partBytes: Int { parts.values.reduce(0, +) }

        /// The bytes of every holder.
        /// - Parameter start: the figures before the first connection.
        func lines(since start: Figures) -> [(MemoryHolder, Int)] {
            let inUse = allocated - untouched - (start.allocated - start.untouched)
            return MemoryHolder.allCases.map { holder in
                switch holder {
                case .start: (holder, start.private - start.partBytes)
                case .allocator: (holder, `private` - start.private - inUse)
                case .other: (holder, inUse - (partBytes - start.partBytes))
                case .ledgers, .pools, .scratch, .tables, .libraries, .models:
                    (holder, parts[holder] ?? 0)
                }
            }
        }
    }

    private let holders: [MemoryHolder: Reading]
    private let begun = Atomic<Bool>(false)
    private let start = Mutex<Figures?>(nil)

    /// - Parameter holders: the holders of memory beside the shards.
    init(_ holders: [MemoryHolder: Reading]) {
        assert(holders.keys.allSatisfy(\.isPart))
        self.holders = holders
    }

    /// Whether there was a connection.
    var hasBegun: Bool { begun.load(ordering: .relaxed) }

    /// Begins the account at the first connection.
    func begin(_ shards: [ShardMetrics]) {
        guard !begun.exchange(true, ordering: .relaxed) else { return }
        let figures = figures(of: shards)
        start.withLock { $0 = figures }
    }

    /// The bytes of every holder now.
    func lines(of shards: [ShardMetrics]) -> [(MemoryHolder, Int)] {
        let now = figures(of: shards)
        return now.lines(since: start.withLock { $0 } ?? now)
    }

    private func figures(of shards: [ShardMetrics]) -> Figures {
        func sum(_ metric: ShardMetric) -> Int { shards.reduce(0) { $0 + $1.value(of: metric) } }
        var figures = Figures()
        figures.parts = [
            .ledgers: sum(.ledgerBytes), .pools: sum(.pooledBytes), .scratch: sum(.scratchBytes),
            .libraries: NativeMemory.sharedBytes,
        ]
        figures.untouched = sum(.untouchedTableBytes)
        for (holder, read) in holders {
            let held = read()
            figures.parts[holder] = held.bytes
            figures.untouched += held.untouched
        }
        figures.private = ProcessMemory.current.private
        figures.allocated = ProcessMemory.allocated
        return figures
    }
}
