// How much memory the whole process may take, and how much it takes. There are two accounts, of
// which the larger counts: the connections' ledgers beside the server's own memory; and the
// resident memory, because the kernel kills by that figure. ShardMemory refuses and evicts.
//
// The server's own memory is that of the process at its start, and that of its models once they are
// used. It leaves clients the rest of the limit, of which admission keeps a tenth free. Memory of no
// client must not keep clients out: resident memory beyond the ledgers, after the allocator has
// given back its free pages, counts as the server's own, too.
//
// The kernel is asked once a second; in between its figure moves with the ledgers, so that a shard
// sees at once what it has taken and given back. Shared by all shards; only waking another takes a
// lock, which happens beyond the limit alone.

import Logging
import Session
import Synchronization

/// The budget of a process.
package final class MemoryBudget: Sendable {
    /// Time between two questions to the kernel. 1 s.
    private static let readingInterval = Duration.seconds(1)
    /// The share of the clients' part of the limit that new sessions must leave free: a tenth.
    /// Sessions that are open still grow, as every session does that begins to speak.
    private static let reservePart = 10
    /// The share of the clients' part that must be free again before new sessions are taken: three
    /// twentieths, so that admission does not change with every reading.
    private static let reliefTwentieths = 3
    /// Time between two attempts to give memory back, near the limit. 10 s: each takes the
    /// allocator from all threads for milliseconds, and finds little so soon again. Beyond the
    /// limit, connections would be closed because of free pages that the allocator keeps. There
    /// each reading may ask for their return.
    private static let returnInterval = Duration.seconds(10)
    /// The least that clients need for a limit to be of use. 16 MiB: a hundred sessions that speak,
    /// at 73 kB each (LoadTests/RESULTS.md), and as much again for their replies.
    static let leastClientBytes = 16 << 20

    /// Bytes that the process may take; `.max`: without a limit.
    let limit: Int
    /// Bytes that the process took before there were connections.
    let startBytes: Int
    /// Bytes that its models take once they are used, at most.
    let modelBytes: Int
    /// The server's own memory, as far as it is known at the start. It excludes the models where
    /// the limit leaves no room for clients beside them.
    private let resting: Int
    /// The server's own memory, including the resident memory that was found beyond all ledgers.
    private let own: Atomic<Int>
    private let readResident: @Sendable () -> Int
    /// The kernel's last figure, and the sum of the ledgers and the time when it was read.
    private let resident = Atomic<Int>(0)
    private let ledgersThen = Atomic<Int>(0)
    private let readAt = Atomic<Int64>(.min)
    /// When the allocator was last asked to give memory back, whether a shard is still to see to
    /// that, and how far it is.
    private let returnedAt = Atomic<Int64>(.min)
    private let wantsReturn = Atomic<Bool>(false)
    private let progress = Atomic<ReturnProgress>(.none)
    private let shards = Mutex<[Int: @Sendable () -> Void]>([:])

    /// - Parameters:
    ///   - modelBytes: the most that embedded models take once they are used.
    ///   - readResident: the kernel's figure of resident memory; a simulation has its own.
    package init(
        _ settings: MemorySettings, modelBytes: Int = 0,
        readResident: @escaping @Sendable () -> Int = { ProcessMemory.current.resident }
    ) {
        let isLimited = settings.maxBytes > 0
        limit = isLimited ? settings.maxBytes : .max
        self.readResident = readResident
        self.modelBytes = modelBytes
        startBytes = isLimited ? readResident() : 0
        let fits = startBytes + modelBytes + Self.leastClientBytes <= limit
        resting = fits ? startBytes + modelBytes : startBytes
        own = Atomic(resting)
    }

    /// Whether there is a limit.
    var isLimited: Bool { limit < .max }

    /// The least limit with which sessions can speak: the server's own memory and
    /// `leastClientBytes`.
    package var neededBytes: Int { startBytes + modelBytes + Self.leastClientBytes }

    /// Bytes from which on new sessions are refused. It is the server's own memory and nine tenths
    /// of the rest of the limit.
    var near: Int { isLimited ? limit - clientBytes / Self.reservePart : .max }

    /// The part of the limit that the server's own memory leaves to clients.
    private var clientBytes: Int { max(0, limit - own.load(ordering: .relaxed)) }

    /// Bytes from which down new sessions are taken again, once they were refused.
    private var relief: Int { isLimited ? limit - clientBytes / 20 * Self.reliefTwentieths : .max }

    /// Whether new sessions are to be refused.
    /// - Parameters:
    ///   - held: bytes that the process takes now.
    ///   - wasShort: whether they are refused already.
    func isShort(held: Int, wasShort: Bool) -> Bool { held > (wasShort ? relief : near) }

    /// Bytes that a shard's sessions without a client are to free before new sessions would be
    /// refused for them: its share, in proportion to their bytes.
    /// - Parameters:
    ///   - held: bytes that the process takes now.
    ///   - waiting: bytes of such sessions of the shard.
    ///   - all: bytes of those of all shards.
    func waitingExcess(held: Int, waiting: Int, ofAll all: Int) -> Int {
        guard held > near, all > 0 else { return 0 }
        let part = Double(waiting) / Double(all)
        return min(waiting, Int((Double(held - relief) * part).rounded(.up)))
    }

    /// Bytes that the process takes, by the larger of its two accounts.
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

    /// Asks the kernel. Where admission is closed or may close, a worker first gives back the free
    /// pages that the allocator keeps. Figures from before the end of that work are not judged,
    /// except where every worker is busy for long. Resident memory that remains beyond the ledgers
    /// would not become less by refusing sessions.
    private func read(ledgers: Int, at now: Instant) {
        let bytes = readResident()
        // Below `relief` admission is open, whether it was open before or not.
        let isNear = bytes > relief && bytes > resting + ledgers
        if isNear, awaitsReturn(of: bytes, at: now) { return }
        progress.store(.none, ordering: .relaxed)
        let beyond = bytes - ledgers
        // Far from the limit it only shrinks: pages that the allocator keeps are not the server's
        // own.
        let most = isNear ? beyond : min(beyond, own.load(ordering: .relaxed))
        own.store(max(resting, most), ordering: .relaxed)
        resident.store(bytes, ordering: .relaxed)
        ledgersThen.store(ledgers, ordering: .relaxed)
    }

    /// Whether the allocator must give back its free pages before a figure near the limit is
    /// judged. Asks for that where it has not begun.
    private func awaitsReturn(of bytes: Int, at now: Instant) -> Bool {
        let last = returnedAt.load(ordering: .relaxed)
        let passed = last == .min ? Int64.max : now.nanoseconds - last
        switch progress.load(ordering: .relaxed) {
        case .ended: return false
        // Where every worker is busy for so long, the figure is judged as it is.
        case .requested: return passed < Self.returnInterval.wholeNanoseconds
        case .none:
            let interval = bytes > limit ? Self.readingInterval : Self.returnInterval
            guard passed >= interval.wholeNanoseconds else { return false }
            returnedAt.store(now.nanoseconds, ordering: .relaxed)
            progress.store(.requested, ordering: .relaxed)
            requestReturn()
            return true
        }
    }

    /// Notes that the allocator has given back free memory. The kernel is asked again at the next
    /// look.
    func handleReturned() {
        progress.store(.ended, ordering: .relaxed)
        readAt.store(.min, ordering: .relaxed)
    }

    /// The memory of the process by its parts, for the log.
    func account(ledgers: Int) -> MemoryAccount {
        MemoryAccount(
            limit: limit, near: near, resident: resident.load(ordering: .relaxed),
            ledgers: ledgers, server: resting)
    }

    /// Asks for the return of the allocator's free pages. The shard that takes the request does it.
    func requestReturn() { wantsReturn.store(true, ordering: .relaxed) }

    /// Whether the allocator must give back its free pages. True for one caller, which must have
    /// that done or call `requestReturn` again.
    func takeReturnRequest() -> Bool {
        wantsReturn.load(ordering: .relaxed) && wantsReturn.exchange(false, ordering: .relaxed)
    }

    /// Judges the limit at the start. One that leaves no room for the models is a warning: sessions
    /// may be refused once the models are used.
    /// - Throws: `.invalidConfiguration` where every session would be refused, because the process
    ///   already takes that much.
    func checkLimit(_ logger: Logger) throws(ServerError) {
        guard isLimited, limit < neededBytes else { return }
        guard limit > startBytes else {
            throw .invalidConfiguration(
                """
                max-memory-bytes is \(limit), but the server takes \(startBytes) bytes before any \
                session: give at least \(neededBytes)
                """)
        }
        logger.warning(
            """
            max-memory-bytes leaves too little for sessions beside the server's own memory and its \
            models: new ones are refused early; give at least needed_bytes, or fewer worker-threads
            """,
            metadata: [
                "limit_bytes": "\(limit)", "needed_bytes": "\(neededBytes)",
                "start_bytes": "\(startBytes)", "models_bytes": "\(modelBytes)",
                "clients_bytes": "\(Self.leastClientBytes)",
            ])
    }

    /// Registers the way to ask a shard to evict its largest owner. Called once a shard, at
    /// its start.
    func register(shard index: Int, review: @escaping @Sendable () -> Void) {
        shards.withLock { $0[index] = review }
    }

    /// Asks a shard to evict its largest owner.
    func wake(shard index: Int) { shards.withLock { $0[index] }?() }
}

/// The progress of the allocator in giving memory back.
private enum ReturnProgress: UInt8, AtomicRepresentable {
    /// The allocator was not asked to give memory back.
    case none
    /// The allocator was asked to, and no worker has finished it.
    case requested
    /// The allocator has given memory back, and no figure was judged since.
    case ended
}

/// The memory of the process and its limit, in bytes, at a moment.
struct MemoryAccount: Equatable {
    let limit: Int
    /// From here on new sessions are refused.
    let near: Int
    /// Resident memory, by the kernel.
    let resident: Int
    /// The sum of all ledgers.
    let ledgers: Int
    /// The server's own memory: its start, and its models.
    let server: Int

    /// Resident bytes that are neither the server's own nor on a ledger.
    var unaccounted: Int { max(0, resident - server - ledgers) }

    /// The largest part, by the name of its field in the log.
    var largestPart: String {
        let parts = [("ledgers", ledgers), ("server", server), ("unaccounted", unaccounted)]
        return parts.max { $0.1 < $1.1 }?.0 ?? "server"
    }
}
