// The server's counters, gauges and distributions. Every shard writes its own cells only, with plain
// loads and stores of relaxed atomics; a scrape adds them up. MetricFamilies has the names by which
// they are shown.
//
// Invariant: one writer per cell. No label has a value that a peer can choose.

import Codec
import Session
import Synchronization

/// Numbers of one shard: counters that only grow, and gauges that its thread sets.
package enum ShardMetric: Int, CaseIterable, Sendable {
    case connectionsOpen, sessionsOpen, connectionsAccepted, connectionsRefused, acceptFailures
    case refusedAddressConnections, refusedAddressRate, refusedTotalRate, refusedDescriptors
    case refusedProxyHeader, refusedHost, refusedOrigin
    case authMissing, authMalformed, authUnknown, authExpired, authClaims, authInsufficient
    case authSignature
    case authLimited, refusedModel, refusedAgent, refusedCredentialSessions, refusedAgentSessions
    case refusedClientSecrets, refusedQuota
    case quotaRefusedConnections, quotaRefusedEvents, quotaRefusedAudio, quotaRefusedTurns
    case quotaRefusedTokens
    case clientSecretsIssued, secretsFound, secretsMissing, secretsFailed
    case sessionsExpired, sessionsFailed
    case sessionsStarted, sessionsRefused
    case sidebandsOpen, sidebandsJoined, sidebandsCutOff, sidebandEventsIn, sidebandEventsOut
    case callsHungUp
    case callsOpen, callsBegun, callsRefused, callsCleared, callMarksPlayed, callMarksCleared
    case callDigits, callMessagesRefused
    case relaysOpen, relaysBegun, relaysFailed
    case sessionsResumable, sessionsDetached, sessionsDetachedTotal, detachmentsRefused
    case resumesRecovered, resumesRestored, resumesUnknown, resumesMissed, resumesTakenOver
    case sessionsHandedOver
    case drainedIdle, drainedFinished, drainedCutOff
    case bytesReceived, bytesSent, outputLimitCloses, slowReaderCloses, protocolErrors
    case sendsSent, sendsBuffered, sendsOverLimit
    case lateAudioMessages, lateAudioBytes, cancelledAudioMessages, cancelledAudioBytes
    case silenceCloses, messageIdleCloses, slowRequestCloses, slowMessageCloses, floodCloses
    case workPauses, workCloses
    case postponedPongs, absentMilliseconds
    case requests
    case textRequestsOpen, textRequestsChatCompletions, textRequestsUIMessages, textRequestsInvalid
    case textRequestsRefused, textRequestsAbandoned, textRepliesResumed
    case afterCallsAnswered, afterCallsFailed, afterCallsNotAsked
    case tlsHandshakesFull, tlsHandshakesResumed, tlsHandshakesFailed, tlsTruncations
    case eventsInSession, eventsInAudio, eventsInConversation, eventsInResponse, eventsInOutputAudio
    case eventsInAudioPacket, eventsInRefused
    case eventsOutError, eventsOutSession, eventsOutInputAudio, eventsOutConversation
    case eventsOutResponse, eventsOutOutputAudio, eventsOutRateLimits, eventsOutAudioPacket
    case decodersInUse, decodersPooled, encodersInUse, encodersPooled
    case phraseHits, phraseMisses, phraseBytes, busyPermille, complexityReduction
    case deflatedBytesIn, inflatedBytesIn, deflatedBytesOut, inflatedBytesOut
    case compressionContextBytes
    case memoryClosesConnection, memoryClosesTotal
    case ledgerBytes, waitingBytes, largestLedgerBytes, sendBufferBytes, scratchBytes, pooledBytes,
        agentTasks
    case upstreamTransfers
    case redisConnections, redisCompleted, redisFailed, redisLosses, redisWaiting, redisQueuedBytes
    case storeConnected, storeFailures, storeFenced
    case storeUnreachable, storeIsReplica, storeMemoryFull, storeDiskFailing, storeReplicasMissing
    case storeLoading, storePasswordRefused, storePermissionMissing, storeIsCluster, storeRefusing
    case memoryReturns, untouchedTableBytes

    /// Its place among a shard's cells.
    var cell: Int { rawValue }
}

/// A number that the sessions of a shard count.
package typealias SessionCounter = KeyPath<SessionCounters, Int>

/// The distributions of one shard.
package enum ShardHistogram: Int, CaseIterable, Sendable {
    case transcript, firstToken, firstAudio, eventLoopLag, eventLoopTick, sessionScan
    case storeWrite, storeClaim, storeRelease, storeRemove, storeHeartbeat, storeUse
    case storePlaces, storeShare, storeFind
    /// The last: it has buckets of its own.
    case deltaDelay
}

/// Buckets whose upper bounds double after a number of equal steps, and one more for what is beyond.
struct DoublingBuckets: Sendable {
    let firstBound: Int
    let boundCount: Int
    /// The steps of a doubling are 2 to this power.
    var stepBits = 0

    /// Cells that a distribution takes: its buckets, and the sum of its values.
    var cellCount: Int { boundCount + 2 }

    /// The bucket of a value; of negative ones the first.
    @inline(__always)
    func index(of value: Int) -> Int {
        guard value > firstBound else { return 0 }
        // In units of one step of the first doubling: its highest bit is the doubling, the bits behind
        // that are the step.
        let units = UInt(((value - 1) << stepBits) / firstBound)
        let doubling = UInt.bitWidth - 1 - units.leadingZeroBitCount - stepBits
        let step = Int(units >> UInt(doubling)) & (1 << stepBits - 1)
        return min(doubling << stepBits + step + 1, boundCount)
    }

    /// The upper bound of a bucket, or nil for the last one, which has none.
    func bound(of index: Int) -> Int? {
        guard index < boundCount else { return nil }
        let steps = 1 << stepBits
        return (firstBound << (index >> stepBits)) / steps * (steps + index & (steps - 1))
    }
}

/// Values counted in buckets.
package struct MetricDistribution: Sendable {
    let buckets: DoublingBuckets
    /// How many values each bucket has; the last of them are beyond all bounds.
    package var counts: [Int]
    package var sum: Int

    /// A quantile, from 0 to 1, as Prometheus' histogram_quantile estimates it: values are taken to
    /// be evenly spread within their bucket. The result is nil where there is no value, and the
    /// last bound for values beyond all bounds.
    func quantile(_ share: Double) -> Int? {
        let total = counts.reduce(0, +)
        guard total > 0 else { return nil }
        let rank = Double(total) * share
        var before = 0
        for (index, count) in counts.enumerated() where count > 0 {
            guard let upper = buckets.bound(of: index) else { break }
            if Double(before + count) >= rank {
                let lower = index == 0 ? 0 : buckets.bound(of: index - 1) ?? 0
                let part = (rank - Double(before)) / Double(count)
                return lower + Int((Double(upper - lower) * part).rounded())
            }
            before += count
        }
        return buckets.bound(of: buckets.boundCount - 1)
    }

    /// The values that came since an earlier reading of the same cells.
    func since(_ earlier: MetricDistribution?) -> MetricDistribution {
        guard let earlier else { return self }
        var new = self
        // Cells are read one after the other while they are written.
        for index in counts.indices {
            new.counts[index] = max(0, counts[index] - earlier.counts[index])
        }
        new.sum -= earlier.sum
        return new
    }

    /// Adds values that are counted in the same buckets.
    mutating func add(_ other: MetricDistribution) {
        for index in counts.indices { counts[index] += other.counts[index] }
        sum += other.sum
    }
}

/// One shard's cells.
package final class ShardMetrics: Sendable {
    /// Cells with a fixed address, so that they may be read while they are written.
    private struct Cells: @unchecked Sendable {
        let base: UnsafeMutablePointer<Atomic<Int>>
        let count: Int

        init(count: Int) {
            base = .allocate(capacity: count)
            self.count = count
            for index in 0..<count { (base + index).initialize(to: Atomic(0)) }
        }

        func deallocate() {
            base.deinitialize(count: count)
            base.deallocate()
        }
    }

    /// The buckets of durations, in nanoseconds: from 0.1 ms to 26 s.
    private static let durationBuckets = DoublingBuckets(firstBound: 100_000, boundCount: 19)
    /// The buckets of the delays of deltas, in nanoseconds: from 0.1 to 410 ms, in four steps for
    /// each doubling. Their p99 is some milliseconds, and a bucket from 3.2 to 6.4 ms would hide
    /// it.
    private static let delayBuckets = DoublingBuckets(
        firstBound: 100_000, boundCount: 49, stepBits: 2)
    /// The buckets of ledgers, in bytes: from 512, less than any session, to 1 MiB.
    private static let ledgerBuckets = DoublingBuckets(firstBound: 512, boundCount: 12)
    /// The cells of `ShardMetric` come first, then those of sessions' counters, of the
    /// distributions and of the ledgers.
    private static let firstCounterCell = ShardMetric.allCases.count
    static let firstHistogramCell =
        firstCounterCell + MemoryLayout<SessionCounters>.size / MemoryLayout<Int>.size
    private static let firstLedgerCell =
        firstHistogramCell + ShardHistogram.deltaDelay.rawValue * durationBuckets.cellCount
        + delayBuckets.cellCount
    private static let cellCount =
        firstLedgerCell + SessionState.allCases.count * ledgerBuckets.cellCount

    private let cells: Cells

    /// All zero.
    init() { cells = Cells(count: Self.cellCount) }

    deinit { cells.deallocate() }

    /// Adds to a counter or gauge. Only the shard's thread may call this.
    func add(_ metric: ShardMetric, _ amount: Int = 1) { addToCell(metric.cell, amount) }

    /// Sets a gauge. Only the shard's thread may call this.
    func set(_ metric: ShardMetric, to value: Int) {
        cells.base[metric.cell].store(value, ordering: .relaxed)
    }

    /// Reads a number; any thread.
    package func value(of metric: ShardMetric) -> Int { value(ofCell: metric.cell) }

    /// Reads a cell; any thread.
    func value(ofCell cell: Int) -> Int { cells.base[cell].load(ordering: .relaxed) }

    /// The place among a shard's cells of a counter of its sessions.
    static func cell(of counter: SessionCounter) -> Int {
        guard let offset = MemoryLayout<SessionCounters>.offset(of: counter) else {
            preconditionFailure("a counter is a stored property")
        }
        return firstCounterCell + offset / MemoryLayout<Int>.size
    }

    /// Copies the counters of the shard's sessions, which are nothing but integers. Only the shard's
    /// thread may call this.
    func publish(_ counters: SessionCounters) {
        withUnsafeBytes(of: counters) { bytes in
            let count = bytes.count / MemoryLayout<Int>.size
            for index in 0..<count {
                let value = bytes.load(
                    fromByteOffset: index * MemoryLayout<Int>.size, as: Int.self)
                cells.base[Self.firstCounterCell + index].store(value, ordering: .relaxed)
            }
        }
    }

    /// Counts a duration; negative ones count as zero. Only the shard's thread may call this.
    func observe(_ histogram: ShardHistogram, _ duration: Duration) {
        observe(histogram, nanoseconds: Int(clamping: duration.wholeNanoseconds))
    }

    /// Like `observe` of a `Duration`, without its 128 bits, whose arithmetic costs 200
    /// instructions.
    func observe(_ histogram: ShardHistogram, nanoseconds: Int, times: Int = 1) {
        let nanoseconds = max(0, nanoseconds)
        let (first, buckets) = (firstCell(of: histogram), Self.buckets(of: histogram))
        addToCell(first + buckets.index(of: nanoseconds), times)
        addToCell(first + buckets.boundCount + 1, nanoseconds * times)
    }

    /// The durations of a histogram, in nanoseconds.
    package func distribution(of histogram: ShardHistogram) -> MetricDistribution {
        distribution(at: firstCell(of: histogram), Self.buckets(of: histogram))
    }

    /// Counts an owner's ledger among those of a state, or takes it out. Only the shard's thread may
    /// call this.
    /// - Parameter sign: 1 or -1.
    func countLedger(of bytes: Int, _ state: SessionState, by sign: Int) {
        let (first, buckets) = (firstCell(of: state), Self.ledgerBuckets)
        addToCell(first + buckets.index(of: bytes), sign)
        addToCell(first + buckets.boundCount + 1, sign * bytes)
    }

    /// The ledgers of a state, in bytes.
    package func ledgers(of state: SessionState) -> MetricDistribution {
        distribution(at: firstCell(of: state), Self.ledgerBuckets)
    }

    /// Whether no owner is counted, and nothing is charged.
    var ledgerCellsAreZero: Bool {
        (Self.firstLedgerCell..<Self.cellCount).allSatisfy { value(ofCell: $0) == 0 }
            && value(of: .ledgerBytes) == 0
    }

    private func distribution(at first: Int, _ buckets: DoublingBuckets) -> MetricDistribution {
        let last = first + buckets.boundCount + 1
        return MetricDistribution(
            buckets: buckets, counts: (first..<last).map(value), sum: value(ofCell: last))
    }

    @inline(__always)
    private static func buckets(of histogram: ShardHistogram) -> DoublingBuckets {
        histogram == .deltaDelay ? delayBuckets : durationBuckets
    }

    private func firstCell(of histogram: ShardHistogram) -> Int {
        Self.firstHistogramCell + histogram.rawValue * Self.durationBuckets.cellCount
    }

    private func firstCell(of state: SessionState) -> Int {
        Self.firstLedgerCell + state.index * Self.ledgerBuckets.cellCount
    }

    /// A load and a store, not a read-modify-write: there is one writer, and no lock prefix to pay.
    private func addToCell(_ index: Int, _ amount: Int) {
        let cell = cells.base + index
        let sum = cell.pointee.load(ordering: .relaxed) &+ amount
        cell.pointee.store(sum, ordering: .relaxed)
    }
}

/// The cells of all shards, and what belongs to the process.
package final class ServerMetrics: Sendable {
    /// One per shard, in their order.
    package let shards: [ShardMetrics]
    /// Sessions of all shards, counted before they are accepted: the limit holds for their sum.
    package let sessions = Atomic<Int>(0)
    /// Sessions of all shards whose client is away, counted likewise.
    let detached = Atomic<Int>(0)
    /// Text requests of all shards, likewise.
    package let textRequests = Atomic<Int>(0)
    /// Connections of all shards.
    package let connections = Atomic<Int>(0)
    /// Whether new sessions are refused because the process is near its memory limit.
    let isShortOfMemory = Atomic<Bool>(false)
    /// Whether the server drains.
    package let isDraining = Atomic<Bool>(false)
    /// Failures of the services that the operator has configured.
    let serviceFaults = ServiceFaultLog()
    /// The newest failures, for the operator's page.
    let recentFailures = RecentFailures()
    /// The memory of the process by what holds it.
    let account: ProcessAccount
    private let workers: @Sendable () -> WorkerCounts
    private let substitutedClauses: @Sendable () -> Int
    private let providers: @Sendable () -> [ModelProviderCounts]
    private let records: @Sendable () -> RecordCounts?
    private let recordings: (@Sendable () -> RecordingCounts)?

    /// Creates the cells. `workers` reads the worker pool, `providers` the outcomes of the
    /// providers of models, `substitutedClauses` the synthesiser, `records` the keeper of records,
    /// if there is one. `recordings` reads the keeper of recordings, if there is one. `holders`
    /// reads the memory of the process beside its shards.
    package init(
        shards: Int, workers: @escaping @Sendable () -> WorkerCounts,
        providers: @escaping @Sendable () -> [ModelProviderCounts] = { [] },
        substitutedClauses: @escaping @Sendable () -> Int = { 0 },
        records: @escaping @Sendable () -> RecordCounts? = { nil },
        recordings: (@Sendable () -> RecordingCounts)? = nil,
        holders: [MemoryHolder: ProcessAccount.Reading] = [:]
    ) {
        account = ProcessAccount(holders)
        self.recordings = recordings
        self.providers = providers
        self.records = records
        self.shards = (0..<shards).map { _ in ShardMetrics() }
        self.workers = workers
        self.substitutedClauses = substitutedClauses
    }

    /// Takes a place among at most `limit`; false when there is none.
    func reserve(_ count: borrowing Atomic<Int>, limit: Int) -> Bool {
        if count.add(1, ordering: .relaxed).newValue <= limit { return true }
        count.subtract(1, ordering: .relaxed)
        return false
    }

    /// The outcomes of the providers of models.
    var providerCounts: [ModelProviderCounts] { providers() }

    /// The work of the worker pool.
    var workerCounts: WorkerCounts { workers() }

    /// Connections, text requests and waiting sessions of all shards in a state.
    func count(of state: SessionState) -> Int {
        shards.reduce(0) { $0 + $1.ledgers(of: state).counts.reduce(0, +) }
    }

    /// The sum over all shards.
    package func total(of metric: ShardMetric) -> Int {
        shards.reduce(0) { $0 + $1.value(of: metric) }
    }

    /// The sum over all shards of a counter of their sessions.
    package func total(of counter: SessionCounter) -> Int {
        let cell = ShardMetrics.cell(of: counter)
        return shards.reduce(0) { $0 + $1.value(ofCell: cell) }
    }

    /// The shard that may have the owner with the largest ledger; the first of several. A shard's
    /// cell is exact as of its last look, or too high.
    var shardWithLargestLedger: Int {
        let bytes = shards.map { $0.value(of: .largestLedgerBytes) }
        return bytes.indices.reduce(0) { bytes[$1] > bytes[$0] ? $1 : $0 }
    }

    /// Writes the whole exposition.
    /// - Parameter isFull: whether every place of a session is taken.
    package func write(into text: inout ByteWriter, isFull: Bool = false) {
        let snapshot = MetricsSnapshot(
            workers: workers(), substitutedClauses: substitutedClauses(), providers: providers(),
            records: records(),
            recordings: recordings?(), serviceFailures: serviceFaults.totals,
            account: account.lines(of: shards),
            isShortOfMemory: isShortOfMemory.load(ordering: .relaxed),
            isDraining: isDraining.load(ordering: .relaxed), isFull: isFull)
        MetricsText(shards: shards, snapshot: snapshot).write(into: &text)
    }
}
