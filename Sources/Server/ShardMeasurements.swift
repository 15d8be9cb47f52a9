// What a shard measures of each turn, at its end, and shows to whoever scrapes. Counting what
// happens within a turn is done where it happens.

import Session

extension Shard {
    /// What the turn has read of models' replies was handed to the kernel in it, or waits for peers
    /// that are slow: what its last delta took, all did at most.
    func noteDeltas() {
        guard deltasInTurn > 0 else { return }
        metrics.observe(
            .deltaDelay, nanoseconds: Int(turnEnd.nanoseconds - now.nanoseconds),
            times: deltasInTurn)
        deltasInTurn = 0
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
        metrics.observe(.eventLoopTurn, nanoseconds: Int(turnEnd.nanoseconds - now.nanoseconds))
    }
}
