// The gauges of a shard, set at the end of each tick for a scrape to read. TickMeter measures the
// tick itself; ShardCodecs adapts the encoding of replies to the share of work.

import Session

extension Shard {
    /// The facts that an agent may know of its session. Nil where the session has ended, or is over
    /// HTTP.
    func facts(of token: EventToken) -> SessionFacts? {
        guard let live = sessions[token], textRequests[token] == nil else { return nil }
        let bytes = live.connection?.charged ?? returning.waiting[token]?.charge.bytes ?? 0
        return SessionFacts(
            openSessions: services.metrics.sessions.load(ordering: .relaxed),
            bytes: Int(bytes), answeredTurn: live.work.tools?.answeredTurn?.times)
    }

    /// Runs what agents' tasks have to do, up to a tick's share.
    func runJobs() {
        journal.meter.beginJobs(at: now)
        let ran = agents.executor.runJobs(atMost: configuration.loop.maxJobsPerTick)
        journal.meter.endJobs(ran: ran, left: agents.executor.jobCount)
    }

    /// The tick's work is done: measures it and publishes the gauges.
    func endTick() {
        clock.endTick(at: io.now)
        if let (share, seconds) = journal.meter.endTick(clock, metrics) {
            handleLoad(share, seconds: seconds)
        }
        publishMetrics()
    }

    /// Begins the account at the first connection: use before it belongs to the process's start.
    func beginAccount() {
        publishMemory(sessionContext.codecUse)
        services.metrics.account.begin(services.metrics.shards)
    }

    /// Sets the gauges.
    private func publishMetrics() {
        metrics.publish(sessionContext.counters)
        let codecs = sessionContext.codecUse
        metrics.set(.decodersInUse, to: codecs.decodersInUse)
        metrics.set(.decodersPooled, to: codecs.decodersPooled)
        metrics.set(.encodersInUse, to: codecs.encodersInUse)
        metrics.set(.encodersPooled, to: codecs.encodersPooled)
        metrics.set(.phraseHits, to: codecs.phraseHits)
        metrics.set(.phraseMisses, to: codecs.phraseMisses)
        metrics.set(.phraseBytes, to: codecs.phraseBytes)
        metrics.set(.connectionsOpen, to: connections.count)
        publishMemory(codecs)
        metrics.set(.compressionContextBytes, to: fixtures.compression.contextBytes)
        metrics.set(.agentTasks, to: agents.link.runningTasks)
        metrics.set(.upstreamTransfers, to: upstreams.port.watchCount)
        publishStore()
        metrics.observe(.eventLoopTick, nanoseconds: clock.tickNanoseconds)
    }

    /// Sets the gauges of the memory that the shard's connections share.
    private func publishMemory(_ codecs: CodecUse) {
        metrics.set(.sendBufferBytes, to: fixtures.chunks.heldBytes)
        metrics.set(
            .pooledBytes, to: fixtures.chunks.idleBytes + codecs.pooledBytes + codecs.phraseBytes)
        let free = max(0, Self.reservedPlaces(configuration) - connections.count)
        metrics.set(.untouchedTableBytes, to: free * Connection.tableBytes)
        let shared =
            scratch.count + (fixtures.wire?.sharedBytes ?? 0) + fixtures.compression.heldBytes
        metrics.set(.scratchBytes, to: fixtures.readBuffer.count + shared)
    }
}
