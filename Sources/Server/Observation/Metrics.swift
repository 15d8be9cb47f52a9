// The server's counters, gauges and distributions. Every shard writes its own cells only, with plain
// loads and stores of relaxed atomics; a scrape adds them up. MetricsText writes them out.
// Names and units: docs/operations.md; text format: Prometheus exposition format 0.0.4.
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
    case authLimited, refusedModel, refusedCredentialSessions, refusedClientSecrets
    case clientSecretsIssued, sessionsExpired, sessionsFailed
    case sessionsStarted, sessionsRefused
    case drainedIdle, drainedFinished, drainedCutOff
    case bytesReceived, bytesSent, outputLimitCloses, slowReaderCloses, protocolErrors
    case sendsSent, sendsBuffered, sendsOverLimit
    case lateAudioMessages, lateAudioBytes, cancelledAudioMessages, cancelledAudioBytes
    case silenceCloses, messageIdleCloses, slowRequestCloses, slowMessageCloses, floodCloses
    case postponedPongs, absentMilliseconds
    case requests
    case textRequestsOpen, textRequestsChatCompletions, textRequestsUIMessages, textRequestsInvalid
    case textRequestsRefused, textRequestsAbandoned, textRepliesResumed
    case tlsHandshakesFull, tlsHandshakesResumed, tlsHandshakesFailed, tlsTruncations
    case eventsInSession, eventsInAudio, eventsInConversation, eventsInResponse, eventsInOutputAudio
    case eventsInAudioPacket, eventsInRefused
    case eventsOutError, eventsOutSession, eventsOutInputAudio, eventsOutConversation
    case eventsOutResponse, eventsOutOutputAudio, eventsOutRateLimits, eventsOutAudioPacket
    case turns, samplesIn, millisecondsOut, decodeErrors
    case interruptions, falseInterruptions
    case packetsRecovered, packetsConcealed, packetsLate
    case decodersInUse, decodersPooled, encodersInUse, encodersPooled
    case phraseHits, phraseMisses, phraseBytes, busyPermille, complexityReduction
    case responsesCompleted, responsesCancelled, responsesIncomplete, responsesFailed
    case toolCallsCompleted, toolCallsFailed
    case deflatedBytesIn, inflatedBytesIn, deflatedBytesOut, inflatedBytesOut
    case compressionContextBytes
    case memoryClosesConnection, memoryClosesTotal
    case ledgerBytes, largestLedgerBytes, sendBufferBytes, scratchBytes, agentTasks
    case upstreamTransfers
    case memoryReturns
}

/// The distributions of one shard.
package enum ShardHistogram: Int, CaseIterable, Sendable {
    case transcript, firstToken, firstAudio, eventLoopLag, eventLoopTick, sessionScan, deltaDelay
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

    /// The first bucket's upper bound: 0.1 ms. The others double it, up to 26 s.
    static let firstBoundNanoseconds = 100_000
    /// How many bounds there are.
    static let boundCount = 19
    /// A bucket per bound, one for what is beyond, and the sum in nanoseconds.
    private static let histogramCells = boundCount + 2
    private static let metricCount = ShardMetric.allCases.count
    private static let firstLedgerCell =
        metricCount + ShardHistogram.allCases.count * histogramCells
    /// A bucket per bound of `LedgerBook`, one for what is beyond, and the sum.
    private static let ledgerCells = LedgerBook.boundCount + 2

    private let cells: Cells

    /// All zero.
    init() {
        let ledgers = SessionState.allCases.count * ShardMetrics.ledgerCells
        cells = Cells(count: ShardMetrics.firstLedgerCell + ledgers)
    }

    deinit { cells.deallocate() }

    /// Adds to a counter or gauge. Only the shard's thread may call this.
    func add(_ metric: ShardMetric, _ amount: Int = 1) { addToCell(metric.rawValue, amount) }

    /// Sets a gauge. Only the shard's thread may call this.
    func set(_ metric: ShardMetric, to value: Int) {
        cells.base[metric.rawValue].store(value, ordering: .relaxed)
    }

    /// Reads a number; any thread.
    package func value(of metric: ShardMetric) -> Int {
        cells.base[metric.rawValue].load(ordering: .relaxed)
    }

    /// Counts a duration; negative ones count as zero. Only the shard's thread may call this.
    func observe(_ histogram: ShardHistogram, _ duration: Duration) {
        observe(histogram, nanoseconds: Int(clamping: duration.wholeNanoseconds))
    }

    /// The same without the 128 bits of a `Duration`, whose arithmetic costs 200 instructions.
    func observe(_ histogram: ShardHistogram, nanoseconds: Int, times: Int = 1) {
        let nanoseconds = max(0, nanoseconds)
        // The bounds double, so the bucket is the number of bits above the first bound.
        let units = UInt(max(0, nanoseconds - 1) / ShardMetrics.firstBoundNanoseconds)
        let bucket = min(UInt.bitWidth - units.leadingZeroBitCount, ShardMetrics.boundCount)
        let first = firstCell(of: histogram)
        addToCell(first + bucket, times)
        addToCell(first + ShardMetrics.boundCount + 1, nanoseconds * times)
    }

    /// Observations per bucket, the last of them beyond all bounds; and their sum in nanoseconds.
    package func distribution(of histogram: ShardHistogram) -> (buckets: [Int], sum: Int) {
        let first = firstCell(of: histogram)
        let last = first + ShardMetrics.boundCount + 1
        return ((first..<last).map(cell), cell(last))
    }

    /// Moves an owner's ledger into a bucket of a state, or out of it. Only the shard's thread may
    /// call this.
    func countLedger(bucket: Int, of state: SessionState, by count: Int, bytes: Int) {
        let first = ShardMetrics.firstLedgerCell + state.index * ShardMetrics.ledgerCells
        addToCell(first + bucket, count)
        addToCell(first + LedgerBook.boundCount + 1, bytes)
    }

    /// The ledgers of a state: a number of owners per bucket, the last of them beyond all bounds;
    /// and the sum of their bytes.
    package func ledgers(of state: SessionState) -> (buckets: [Int], sum: Int) {
        let first = ShardMetrics.firstLedgerCell + state.index * ShardMetrics.ledgerCells
        let last = first + LedgerBook.boundCount + 1
        return ((first..<last).map(cell), cell(last))
    }

    /// Whether no owner is counted, and nothing is charged.
    var ledgerCellsAreZero: Bool {
        (ShardMetrics.firstLedgerCell..<cells.count).allSatisfy { cell($0) == 0 }
            && value(of: .ledgerBytes) == 0
    }

    private func firstCell(of histogram: ShardHistogram) -> Int {
        ShardMetrics.metricCount + histogram.rawValue * ShardMetrics.histogramCells
    }

    private func cell(_ index: Int) -> Int { cells.base[index].load(ordering: .relaxed) }

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
    /// Text requests of all shards, likewise.
    package let textRequests = Atomic<Int>(0)
    /// Connections of all shards.
    package let connections = Atomic<Int>(0)
    /// Whether new sessions are refused because the process is near its memory limit.
    let isShortOfMemory = Atomic<Bool>(false)
    /// Whether the server drains.
    package let isDraining = Atomic<Bool>(false)
    private let workers: @Sendable () -> WorkerCounts
    private let providers: @Sendable () -> [ModelProviderCounts]

    /// Creates the cells. `workers` reads the worker pool, `providers` what the providers of
    /// models have done.
    package init(
        shards: Int, workers: @escaping @Sendable () -> WorkerCounts,
        providers: @escaping @Sendable () -> [ModelProviderCounts] = { [] }
    ) {
        self.providers = providers
        self.shards = (0..<shards).map { _ in ShardMetrics() }
        self.workers = workers
    }

    /// Takes a place among at most `limit`; false when there is none.
    func reserve(_ count: borrowing Atomic<Int>, limit: Int) -> Bool {
        if count.add(1, ordering: .relaxed).newValue <= limit { return true }
        count.subtract(1, ordering: .relaxed)
        return false
    }

    /// The sum over all shards.
    package func total(of metric: ShardMetric) -> Int {
        shards.reduce(0) { $0 + $1.value(of: metric) }
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
        let exposition = MetricsText(metrics: self)
        exposition.writeAll(workers: workers(), into: &text)
        exposition.writeAdmission(isFull: isFull, into: &text)
        exposition.write(providers(), into: &text)
    }
}
