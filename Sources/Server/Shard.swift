// One event loop on one thread: its connections, their deadlines, its agents. Nothing of it is
// shared and nothing is locked, but for the two mailboxes that wake it.
//
// A turn: wait → go on with messages held → read → expire deadlines → run agents' jobs → step
// sessions → flush writes → remove the closed. Reading comes before writing, so that the answers to
// everything that came in a turn leave in one write; a read handler never writes a socket, and
// nobody is removed while a handler may still hold him. Accepting is in ShardListener, flushing and
// deadlines in ShardConnections, bytes and their meaning in ShardHTTP and ShardWebSocket.

import Codec
import Logging
import Session

/// Whose deadline has come.
enum DeadlineOwner {
    /// A slot of the connections.
    case connection(Int)
    /// Accepting was paused for want of descriptors.
    case acceptPause
    /// Connections that have not closed by now are cut off.
    case drainLimit
}

/// What other threads may ask of a shard.
private enum ShardCommand: Sendable {
    case stop(WebSocketCloseCode)
}

/// An event loop over a backend. Confined to the thread that calls `turn()`, except `stop(with:)`.
package final class Shard<Backend: IO> {
    let io: Backend
    let services: ShardServices
    let configuration: ServerConfiguration
    let metrics: ShardMetrics
    let logger: Logger
    let sessionLog: SessionLog
    let routes: Routes
    private let commands: Mailbox<ShardCommand>
    private var takenCommands: [ShardCommand] = []

    /// The time of this turn.
    package private(set) var now: Instant
    /// Whether the shard takes nothing new and ends once its connections have.
    package internal(set) var isStopping = false

    var connections = ConnectionTable()
    var deadlines = DeadlineQueue<DeadlineOwner>()
    /// Slots that hold messages for the next turn.
    var unfinishedSlots: [Int] = []
    /// Slots whose output is to be flushed.
    var dirtySlots: [Int] = []
    /// Slots to be removed at the end of the turn.
    var closedSlots: [Int] = []
    var listener: IOHandle?
    var isAcceptPaused = false
    /// When accepting was last paused, until that is long enough ago.
    var lastAcceptPause: Instant?

    let chunks = ChunkPool()
    let readBuffer: UnsafeMutableRawBufferPointer
    /// Payloads and heads on their way into a send buffer; empty between two uses.
    var scratch = ByteWriter(capacity: 16 * 1024)
    var frameHeader = ByteWriter(capacity: WebSocketFrame.maxHeaderBytes)
    var eventParser = ClientEventParser()

    let executor: ShardExecutor
    let gate: ShardGate
    let agentLink: AgentLink
    let sessionContext: SessionContext
    private let upstreamPort: UpstreamPort<Backend>
    private let upstream: (any UpstreamClient)?

    /// Creates a shard that listens to nobody yet. The calling thread is its thread until another
    /// calls `run()`.
    package init(io: Backend, services: ShardServices) {
        self.io = io
        self.services = services
        configuration = services.configuration
        metrics = services.metrics.shards[services.index]
        logger = services.logger
        sessionLog = SessionLog(
            logger: services.logger, includesContent: services.configuration.logContent)
        routes = Routes(configuration: services.configuration, metrics: services.metrics)
        now = io.now
        commands = Mailbox(wake: io.wake)
        readBuffer = .allocate(byteCount: services.configuration.readBufferBytes, alignment: 64)
        executor = ShardExecutor(wake: io.wake)
        gate = ShardGate(executor: executor, at: io.now)
        upstreamPort = UpstreamPort(io: io)
        upstream = services.makeUpstream?(upstreamPort, executor.task)
        let host = ShardAgentHost(gate: gate, pool: services.pool, upstream: upstream)
        agentLink = AgentLink(
            agents: services.agents, host: host, gate: gate, logger: services.logger)
        sessionContext = SessionContext(
            limits: services.configuration.session,
            voiceActivityModel: services.voiceActivityModel,
            hasRecognizer: services.agents.recognizer != nil,
            hasSynthesizer: services.agents.synthesizer != nil)
        executor.adoptThread()
    }

    deinit {
        connections.forEach { $0.output.removeAll(into: chunks) }
        readBuffer.deallocate()
    }

    // MARK: The turn

    /// Turns until the shard has stopped. Called once, on the shard's own thread.
    package func run() {
        executor.adoptThread()
        while turn() {}
    }

    /// Takes one turn. Waits first, unless there is work left.
    /// - Returns: false once the shard has stopped.
    package func turn() -> Bool {
        let reports = io.wait(until: nextWake)
        now = io.now
        continueMessages()
        for position in 0..<reports { dispatch(io.readiness(at: position)) }
        runCommands()
        expireDeadlines()
        gate.assumeIsolated { [now] in $0.handleTurn(at: now) }
        executor.runJobs(atMost: configuration.maxJobsPerTurn)
        stepSessions()
        flushWrites()
        removeClosed()
        publishMetrics()
        return !(isStopping && connections.count == 0)
    }

    /// Stops accepting, closes every WebSocket with `code`, and ends when all are closed or
    /// `closeTimeout` has passed. Any thread.
    package var stop: @Sendable (_ code: WebSocketCloseCode) -> Void {
        { [commands] code in commands.post(.stop(code)) }
    }

    /// When the next turn must begin: now, if this one left work.
    private var nextWake: Instant? {
        let hasWork =
            executor.hasJobs || !dirtySlots.isEmpty || !unfinishedSlots.isEmpty
            || gate.assumeIsolated { $0.hasDeliveries }
        if hasWork { return now }
        let sleep = gate.assumeIsolated { $0.nextDeadline }
        return earlier(deadlines.next, earlier(sleep, upstreamPort.deadline))
    }

    private func earlier(_ one: Instant?, _ other: Instant?) -> Instant? {
        guard let one else { return other }
        guard let other else { return one }
        return min(one, other)
    }

    private func dispatch(_ report: Readiness) {
        switch report.token.kind {
        case .connection:
            // A report may be for a connection whose slot was given to another since.
            guard let connection = connections[report.token] else { return }
            handleReadiness(report, of: connection)
        case .listener:
            acceptConnections()
        case .upstream:
            guard let upstream, let descriptor = upstreamPort.descriptor(of: report.token)
            else { return }
            upstream.handleReady(
                fd: descriptor, readable: report.isReadable, writable: report.isWritable,
                failed: report.hasFailed)
        case nil:
            preconditionFailure("the backend made up a token")
        }
    }

    private func expireDeadlines() {
        while let (owner, deadline) = deadlines.popExpired(at: now) {
            metrics.observe(.eventLoopLag, now - deadline)
            switch owner {
            case .connection(let slot): handleDeadline(ofSlot: slot)
            case .acceptPause: resumeAccepting()
            case .drainLimit: connections.forEach(close)
            }
        }
        if upstreamPort.takeExpired(at: now) { upstream?.handleTimer() }
    }

    /// Hands what agents produced to the sessions that still want it.
    private func stepSessions() {
        guard gate.assumeIsolated({ $0.hasDeliveries }) else { return }
        for delivery in gate.assumeIsolated({ $0.takeDeliveries() }) {
            guard let connection = connections[delivery.token], let live = connection.live,
                live.work.accepts(serial: delivery.serial)
            else { continue }
            live.session.handle(delivery.event, at: now)
            drain(live, of: connection)
            agentLink.handleDelivered(delivery, work: &live.work)
        }
    }

    // MARK: Stopping

    private func runCommands() {
        commands.take(into: &takenCommands)
        for command in takenCommands {
            switch command {
            case .stop(let code): beginStopping(with: code)
            }
        }
        takenCommands.removeAll(keepingCapacity: true)
    }

    private func beginStopping(with code: WebSocketCloseCode) {
        guard !isStopping else { return }
        isStopping = true
        stopListening()
        connections.forEach { connection in
            switch connection.state {
            case .webSocket: closeWebSocket(connection, code, reason: "The server is stopping.")
            case .http where connection.output.isEmpty: close(connection)
            case .http: linger(connection)
            case .closing, .lingering, .closed: break
            }
        }
        upstream?.shutdown()
        _ = deadlines.schedule(.drainLimit, at: now + configuration.closeTimeout)
    }

    // MARK: Metrics

    private func publishMetrics() {
        let counters = sessionContext.counters
        metrics.set(.turns, to: counters.turns)
        metrics.set(.samplesIn, to: counters.samplesIn)
        metrics.set(.millisecondsOut, to: counters.millisecondsOut)
        metrics.set(.decodeErrors, to: counters.decodeErrors)
        metrics.set(.responsesCompleted, to: counters.responsesCompleted)
        metrics.set(.responsesCancelled, to: counters.responsesCancelled)
        metrics.set(.responsesIncomplete, to: counters.responsesIncomplete)
        metrics.set(.responsesFailed, to: counters.responsesFailed)
        metrics.set(.connectionsOpen, to: connections.count)
        metrics.set(.sendBufferBytes, to: chunks.heldBytes)
        metrics.set(.scratchBytes, to: readBuffer.count + scratch.count)
        metrics.set(.agentTasks, to: agentLink.runningTasks)
        metrics.set(.upstreamTransfers, to: upstreamPort.watchCount)
        metrics.observe(.eventLoopTurn, io.now - now)
    }
}
