// The gauges of a shard, set at the end of each tick for a scrape to read. TickMeter measures the
// tick itself; ShardCodecs adapts the encoding of replies to the share of work.

import Session

extension Shard {
    /// Runs what agents' tasks have to do, up to a tick's share.
    func runJobs() {
        meter.beginJobs(at: now)
        let ran = executor.runJobs(atMost: configuration.maxJobsPerTick)
        meter.endJobs(ran: ran, left: executor.jobCount)
    }

    /// The tick's work is done: measures it and publishes the gauges.
    func endTick() {
        clock.endTick(at: io.now)
        if let (share, seconds) = meter.endTick(clock, metrics) {
            handleLoad(share, seconds: seconds)
        }
        publishMetrics()
    }

    /// Sets the gauges.
    private func publishMetrics() {
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
        publishCodecs()
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
        metrics.observe(.eventLoopTick, nanoseconds: clock.tickNanoseconds)
    }
}
