// How much memory the whole process may hold, and how much it does, by two accounts of which the
// larger counts: what its connections are charged, beyond what it held before there were any; and
// what the kernel says, because it is the kernel that kills. Who is turned away or given up is
// ShardMemory's.
//
// The kernel is asked once a second; in between its figure moves with the ledgers, so that a shard
// sees at once what it has taken and given back. Shared by all shards; only waking another takes a
// lock, which happens beyond the limit alone.

import Session
import Synchronization

/// The budget of a process.
package final class MemoryBudget: Sendable {
    /// Time between two questions to the kernel. 1 s.
    private static let readingInterval = Duration.seconds(1)
    /// From what part of the limit on nobody new is taken, in percent. 90: what is there may still
    /// grow, as every session does that begins to speak.
    private static let nearPercent = 90
    /// Time between two attempts to give memory back, while it is short. 10 s: it takes the
    /// allocator from everybody for milliseconds, and finds little so soon again.
    private static let returnInterval = Duration.seconds(10)

    /// Bytes that the process may hold; `.max`: as many as there are.
    let limit: Int
    /// Bytes from which on nobody new is taken.
    let near: Int
    /// Bytes that it held before anybody came.
    private let resting: Int
    private let readResident: @Sendable () -> Int
    /// What the kernel said last, what the ledgers came to then, and when that was.
    private let resident = Atomic<Int>(0)
    private let ledgersThen = Atomic<Int>(0)
    private let readAt = Atomic<Int64>(.min)
    /// When memory was last to be given back, and whether nobody has begun to yet.
    private let returnedAt = Atomic<Int64>(.min)
    private let wantsReturn = Atomic<Bool>(false)
    private let shards = Mutex<[Int: @Sendable () -> Void]>([:])

    /// - Parameter readResident: what the kernel says; a simulation says it itself.
    package init(
        _ configuration: ServerConfiguration,
        readResident: @escaping @Sendable () -> Int = { ProcessMemory.current.resident }
    ) {
        let isLimited = configuration.maxMemoryBytes > 0
        limit = isLimited ? configuration.maxMemoryBytes : .max
        near = isLimited ? limit / 100 * Self.nearPercent : .max
        self.readResident = readResident
        resting = isLimited ? readResident() : 0
    }

    /// Whether there is a limit.
    var isLimited: Bool { limit < .max }

    /// Bytes that the process holds.
    /// - Parameter ledgers: the sum of all shards' ledgers now.
    func held(ledgers: Int, at now: Instant) -> Int {
        let last = readAt.load(ordering: .relaxed)
        let isDue = last == .min || now.nanoseconds - last >= Self.readingInterval.wholeNanoseconds
        if isDue,
            readAt.compareExchange(
                expected: last, desired: now.nanoseconds, ordering: .relaxed
            ).exchanged
        {
            read(ledgers: ledgers, at: now)
        }
        let moved = ledgers - ledgersThen.load(ordering: .relaxed)
        return max(resting + ledgers, resident.load(ordering: .relaxed) + moved)
    }

    /// Asks the kernel. Near the limit, what was freed and is only kept by the allocator goes back
    /// first, on a worker, and the next reading judges: nobody must be turned away for it.
    private func read(ledgers: Int, at now: Instant) {
        let bytes = readResident()
        if bytes > near, bytes > resting + ledgers {
            let last = returnedAt.load(ordering: .relaxed)
            if last == .min
                || now.nanoseconds - last >= Self.returnInterval.wholeNanoseconds
            {
                returnedAt.store(now.nanoseconds, ordering: .relaxed)
                return wantsReturn.store(true, ordering: .relaxed)
            }
        }
        resident.store(bytes, ordering: .relaxed)
        ledgersThen.store(ledgers, ordering: .relaxed)
    }

    /// Whether what the allocator keeps is to be given back; whoever asks sees to it.
    func takeReturnRequest() -> Bool {
        wantsReturn.load(ordering: .relaxed) && wantsReturn.exchange(false, ordering: .relaxed)
    }

    /// How a shard is asked to give somebody up. Called once a shard, at its start.
    func register(shard index: Int, review: @escaping @Sendable () -> Void) {
        shards.withLock { $0[index] = review }
    }

    /// Asks a shard to give somebody up.
    func wake(shard index: Int) { shards.withLock { $0[index] }?() }
}

extension ServerConfiguration {
    /// What the process may hold of the memory that it is given, by its control group or by the
    /// machine: four fifths. The rest is the kernel's, which keeps some 4 kB for every idle
    /// connection, as much as an idle session itself, and what waits in sockets; and is left for a
    /// burst between two looks. 0, no limit, where nobody says how much there is.
    static let memoryBudget = (ProcessMemory.available ?? 0) / 5 * 4
}
