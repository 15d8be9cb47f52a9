// What a shard measures of each tick, at its end, and shows to whoever scrapes. Counting what
// happens within a tick is done where it happens.
//
// Invariant: what is measured is never less than what passed, as far as this process can know it;
// how long bytes lay in a socket before the tick that found them, the kernel tells nobody.

import Session

/// Since when agents' jobs wait that ticks have left to the next ones. They run in the order in
/// which they came, so that some are counted off and the others are younger.
struct JobBacklog {
    /// Jobs that were left when those before them had run, and the earliest tick that they are of.
    private var count = 0
    private var since: Instant
    /// The first tick after that, of which the jobs behind them may be.
    private var sinceNext: Instant?
    /// When the tick began that the oldest job of this tick is of, at the latest.
    private(set) var tickSince: Instant

    init(at now: Instant) { (since, tickSince) = (now, now) }

    /// A tick begins to run jobs.
    mutating func begin(at now: Instant) {
        if sinceNext == nil { sinceNext = now }
        tickSince = count > 0 ? since : now
    }

    /// It has run some, and left some.
    mutating func end(ran: Int, left: Int) {
        count -= ran
        guard count <= 0, let next = sinceNext.take() else { return }
        (count, since) = (left, next)
    }
}

extension Shard {
    /// Runs what agents' tasks have to do, up to a tick's share.
    func runJobs() {
        jobBacklog.begin(at: now)
        let ran = executor.runJobs(atMost: configuration.maxJobsPerTurn)
        jobBacklog.end(ran: ran, left: executor.jobCount)
    }

    /// What the tick has read of models' replies was handed to the kernel in it, or waits for peers
    /// that are slow: what its last delta took, all did at most. A piece whose task had to wait for
    /// a later tick counts from the tick that read it.
    func noteDeltas() {
        guard deltasInTick > 0 else { return }
        metrics.observe(
            .deltaDelay,
            nanoseconds: Int(tickEnd.nanoseconds - jobBacklog.tickSince.nanoseconds),
            times: deltasInTick)
        deltasInTick = 0
    }

    /// Sets the gauges.
    func publishMetrics() {
        let counters = sessionContext.counters
        metrics.set(.turns, to: counters.turns)
        metrics.set(.samplesIn, to: counters.samplesIn)
        metrics.set(.millisecondsOut, to: counters.millisecondsOut)
        metrics.set(.decodeErrors, to: counters.decodeErrors)
        metrics.set(.interruptions, to: counters.interruptions)
        metrics.set(.falseInterruptions, to: counters.falseInterruptions)
        metrics.set(.packetsRecovered, to: counters.packetsRecovered)
        metrics.set(.packetsConcealed, to: counters.packetsConcealed)
        metrics.set(.packetsLate, to: counters.packetsLate)
        publishCodecs(before: &publishedCodecs)
        metrics.set(.responsesCompleted, to: counters.responsesCompleted)
        metrics.set(.responsesCancelled, to: counters.responsesCancelled)
        metrics.set(.responsesIncomplete, to: counters.responsesIncomplete)
        metrics.set(.responsesFailed, to: counters.responsesFailed)
        metrics.set(.toolCallsCompleted, to: counters.toolCallsCompleted)
        metrics.set(.toolCallsFailed, to: counters.toolCallsFailed)
        metrics.set(.connectionsOpen, to: connections.count)
        metrics.set(.sendBufferBytes, to: chunks.heldBytes)
        let shared = scratch.count + (wire?.sharedBytes ?? 0) + compression.heldBytes
        metrics.set(.scratchBytes, to: readBuffer.count + shared)
        metrics.set(.compressionContextBytes, to: compression.contextBytes)
        metrics.set(.agentTasks, to: agentLink.runningTasks)
        metrics.set(.upstreamTransfers, to: upstreamPort.watchCount)
        metrics.observe(.eventLoopTick, nanoseconds: Int(tickEnd.nanoseconds - now.nanoseconds))
    }
}
