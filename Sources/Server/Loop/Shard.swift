// One event loop on one thread: its connections, their deadlines, its agents. Nothing of it is
// shared and nothing is locked, but for the two mailboxes that wake it. What all shards of a server
// share is beside it: the table of addresses and the keys of tickets, with a lock each, and atomic
// numbers.
//
// A tick: wait → go on with messages held → read → expire deadlines → run agents' jobs → step
// sessions → flush writes → remove the closed. Reading comes before writing, so that the answers to
// everything that came in a tick leave in one write; a read handler never writes a socket, and
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
    /// A step of the drain.
    case draining(DrainStep)
    /// The keys of session tickets may be too old.
    case ticketRotation
    /// Much was let go: whether memory is to be given back.
    case memoryReturn
    /// A text request: its session's time, or the end of waiting for its client.
    case textRequest(EventToken)
    /// Shards that have not answered a survey are waited for no longer.
    case survey(SurveyID)
}

/// What other threads may ask of a shard, in the order in which they do.
private enum ShardCommand: Sendable {
    case stop(WebSocketCloseCode)
    case drain(after: Duration)
    case adopt(IOHandle, of: NetworkAddress)
    case renew(TLSContext)
    case continueAnswer(EventToken)
    case reviewTextRequest(EventToken)
    case answerSurvey(SurveyQuestion)
    case noteReport(SurveyReport, for: SurveyID)
    case judgeMemory
}

/// An event loop over a backend. Confined to the thread that calls `tick()`, except `stop`,
/// `drain`, `adopt` and `renewTLS`.
///
/// As in `Connection`, what every tick touches is exempt from the run-time check for overlapping
/// accesses; 20 of them would double a tick's own cost.
package final class Shard<Backend: IO> {
    let io: Backend
    let services: ShardServices
    let configuration: ServerConfiguration
    let metrics: ShardMetrics
    let logger: Logger
    let sessionLog: SessionLog
    let routes: Routes
    let admission: Admission
    var refusals = RefusalLog()
    private let commands: Mailbox<ShardCommand>
    @exclusivity(unchecked) private var takenCommands: [ShardCommand] = []

    /// The time of this tick.
    @exclusivity(unchecked) package private(set) var now: Instant
    /// The clock by which peers are judged: it stands still while the shard is away, when their
    /// bytes wait unread and their pings unsent.
    @exclusivity(unchecked) private(set) var peerClock: Instant
    /// When the last tick ended.
    @exclusivity(unchecked) var tickEnd: Instant
    /// Whether the shard takes nothing new and ends once its connections have.
    package internal(set) var isStopping = false
    /// Nil until the shard is told to drain.
    var draining: Draining?

    @exclusivity(unchecked) var connections: ConnectionTable
    @exclusivity(unchecked) var deadlines: DeadlineQueue<DeadlineOwner>
    /// Slots that hold messages for the next tick.
    @exclusivity(unchecked) var unfinishedSlots: [Int] = []
    /// Slots whose output is to be flushed.
    @exclusivity(unchecked) var dirtySlots: [Int] = []
    /// The same of the flush in progress; empty otherwise.
    @exclusivity(unchecked) var flushedSlots: [Int] = []
    /// Slots whose ledger is to be settled at the end of the tick.
    @exclusivity(unchecked) var touchedSlots: [Int] = []
    /// What its connections and text requests hold.
    @exclusivity(unchecked) var book: LedgerBook
    /// Bytes that one connection, or text request, may hold.
    let maxLedgerBytes: UInt32
    /// Those that hold more, until the end of the tick.
    @exclusivity(unchecked) var oversized: [EventToken] = []
    @exclusivity(unchecked) var memoryWatch = MemoryWatch()
    /// Turns until a debug build checks all ledgers.
    var auditCountdown = 0
    /// Slots to be removed at the end of the tick.
    @exclusivity(unchecked) var closedSlots: [Int] = []
    var listeners: [IOHandle] = []
    /// Whose they are.
    package var duty = ListeningDuty.own
    /// Whose turn it was to get a connection: 0 is this shard, the others are its siblings.
    var nextSibling = 0
    var isAcceptPaused = false
    /// When accepting was last paused, until that is long enough ago.
    var lastAcceptPause: Instant?

    let chunks = ChunkPool()
    var memoryReturn = MemoryReturn()
    /// Nil: plain TCP.
    let wire: TLSWire?
    var backlogs = OutputBacklogPool()
    let floodRate: TokenRate
    let messagePace: TransferPace
    let readBuffer: UnsafeMutableRawBufferPointer
    /// Audio that its sessions hear between them in one tick, in samples at 16 kHz.
    let maxSamplesPerTick: Int
    /// Payloads and heads on their way into a send buffer; empty between two uses.
    var scratch = ByteWriter(capacity: 16 * 1024)
    var frameHeader = ByteWriter(capacity: WebSocketFrame.maxHeaderBytes)
    var eventParser = ClientEventParser()
    let compression: ShardCompression
    var textRequests = TextRequestTable()
    /// What operators ask for now.
    var surveys = SurveyTable()
    /// Made with the first request that has a body for it.
    lazy var chatParser = ChatRequestParser()

    let executor: ShardExecutor
    let gate: ShardGate
    let agentLink: AgentLink
    let sessionContext: SessionContext
    @exclusivity(unchecked) private var load: ShardLoad
    /// What was last published of the codecs.
    @exclusivity(unchecked) var publishedCodecs: CodecUse?
    @exclusivity(unchecked) private var takenDeliveries: [AgentDelivery] = []
    /// Pieces of models' replies that this tick has taken.
    @exclusivity(unchecked) var deltasInTick = 0
    @exclusivity(unchecked) var jobBacklog: JobBacklog
    let upstreamPort: UpstreamPort<Backend>
    let upstream: (any UpstreamClient)?

    /// Creates a shard that listens to nobody yet. The calling thread is its thread until another
    /// calls `run()`.
    package init(io: Backend, services: ShardServices) {
        self.io = io
        self.services = services
        configuration = services.configuration
        let places = min(services.configuration.maxConnections, Self.maxReservedPlaces)
        connections = ConnectionTable(capacity: places)
        deadlines = DeadlineQueue(capacity: places)
        metrics = services.metrics.shards[services.index]
        book = LedgerBook(metrics: metrics)
        let maxLedger = services.configuration.maxConnectionMemoryBytes
        maxLedgerBytes = maxLedger > 0 ? UInt32(clamping: maxLedger) : .max
        logger = services.logger
        sessionLog = SessionLog(
            logger: services.logger, includesContent: services.configuration.logContent)
        routes = Routes(configuration: services.configuration, metrics: services.metrics)
        compression = ShardCompression(services.configuration)
        admission = Admission(services.configuration, limits: services.addressLimits)
        floodRate = TokenRate(
            perSecond: services.configuration.maxNuisancesPerSecond,
            burst: services.configuration.maxNuisanceBurst)
        messagePace = services.configuration.messagePace
        now = io.now
        tickEnd = now
        peerClock = now
        commands = Mailbox(wake: io.wake)
        readBuffer = .allocate(byteCount: services.configuration.readBufferBytes, alignment: 64)
        maxSamplesPerTick = SampleRate.hz16000.samples(
            inMilliseconds: Int(clamping: configuration.maxAudioPerTurn.wholeMilliseconds))
        wire = services.tls.map { [chunks] context in
            TLSWire(
                context: context, io: io, chunks: chunks, configuration: services.configuration)
        }
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
            makesHypotheses: services.agents.recognizer?.makesHypotheses ?? false,
            abilities: { [model = services.agents.model] in model.abilities(of: $0) },
            hasSynthesizer: services.agents.synthesizer != nil,
            toolServers: services.agents.toolServers?.policy,
            codecs: services.configuration.codecs)
        load = ShardLoad(since: now)
        jobBacklog = JobBacklog(at: now)
        executor.adoptThread()
        rotateTicketKeys()
        services.directory.join(services.index) { [commands] in commands.post(.answerSurvey($0)) }
        services.memory.register(shard: services.index) { [commands] in
            commands.post(.judgeMemory)
        }
    }

    deinit {
        connections.forEach {
            $0.output.removeAll(into: chunks)
            $0.tls?.unsent.removeAll(into: chunks)
        }
        readBuffer.deallocate()
    }

    // MARK: The tick

    /// Turns until the shard has stopped. Called once, on the shard's own thread.
    package func run() {
        executor.adoptThread()
        while tick() {}
        noteLargest(0)
        services.directory.leave(services.index)
    }

    /// Takes one tick. Waits first, unless there is work left.
    /// - Returns: false once the shard has stopped.
    package func tick() -> Bool {
        let wake = nextWake
        let reports = io.wait(until: wake)
        noteTime(wake: wake)
        wire?.beginTick(at: now)
        sessionContext.beginTick(samples: maxSamplesPerTick)
        continueMessages()
        for position in 0..<reports { dispatch(io.readiness(at: position)) }
        runCommands()
        if surveys.isScanning { continueScans() }
        expireDeadlines()
        gate.handleTick(at: now)
        runJobs()
        stepSessions()
        flushWrites()
        settleLedgers()
        reviewMemory()
        removeClosed()
        noteHeldMemory()
        tickEnd = io.now
        noteDeltas()
        if let (share, seconds) = load.handleTick(from: now, to: tickEnd) {
            handleLoad(share, seconds: seconds)
        }
        publishMetrics()
        return !(isStopping && connections.count == 0)
    }

    /// Stops accepting, closes every WebSocket with `code`, and ends when all are closed or
    /// `closeTimeout` has passed. Any thread.
    package var stop: @Sendable (_ code: WebSocketCloseCode) -> Void {
        { [commands] code in commands.post(.stop(code)) }
    }

    /// Stops accepting, lets turns in flight finish, closes every WebSocket with 1012, and ends
    /// when all are closed; see ShardDraining. Any thread.
    package var drain: @Sendable (_ delay: Duration) -> Void {
        { [commands] delay in commands.post(.drain(after: delay)) }
    }

    /// Takes over a connection that a sibling accepted. Any thread.
    var adopt: @Sendable (_ handle: IOHandle, _ peer: NetworkAddress) -> Void {
        { [commands] handle, peer in commands.post(.adopt(handle, of: peer)) }
    }

    /// Makes new connections from another TLS context; open ones go on as they are. Any thread.
    package var renewTLS: @Sendable (_ context: TLSContext) -> Void {
        { [commands] context in commands.post(.renew(context)) }
    }

    /// There is more of the reply that a connection shows. Any thread.
    var continueTextAnswer: @Sendable (_ connection: EventToken) -> Void {
        { [commands] token in commands.post(.continueAnswer(token)) }
    }

    /// A shard has answered what this one has asked all of them. Any thread.
    var noteReport: @Sendable (_ report: SurveyReport, _ survey: SurveyID) -> Void {
        { [commands] report, survey in commands.post(.noteReport(report, for: survey)) }
    }

    /// The readers of a text request's reply have come, gone or gone on. Any thread.
    var reviewTextRequest: @Sendable (_ turn: EventToken) -> Void {
        { [commands] token in commands.post(.reviewTextRequest(token)) }
    }

    /// Takes the time, and of the time since the last tick began what the shard was away for: its
    /// work then, and what it was woken later than it asked for. A little is normal, and must not
    /// stop the peers' clock on a busy shard. Of a wait that ended much too late nobody knows when
    /// the process was stopped: none of it counts.
    private func noteTime(wake: Instant?) {
        let before = now
        now = io.now
        let late = max(0, now.nanoseconds - max(wake ?? now, tickEnd).nanoseconds)
        let work = tickEnd.nanoseconds - before.nanoseconds
        let passed = now.nanoseconds - before.nanoseconds
        let spent = late >= Self.notableNanoseconds ? passed : work + late
        let away = max(0, spent - Self.unnoticedNanoseconds)
        peerClock.nanoseconds += passed - away
        guard away > 0 else { return }
        metrics.add(.absentMilliseconds, Int(away / 1_000_000))
        guard away >= Self.notableNanoseconds else { return }
        logger.warning("event loop was away", metadata: ["milliseconds": "\(away / 1_000_000)"])
    }

    /// When something that is due by the peers' clock is due, unless the shard is away until then.
    func time(ofPeerTime due: Instant) -> Instant {
        Instant(nanoseconds: due.nanoseconds + (now.nanoseconds - peerClock.nanoseconds))
    }

    /// What a tick may last, or begin late, without being taken off the peers' clock. 250 ms: far
    /// less than any timeout.
    private static var unnoticedNanoseconds: Int64 { 250_000_000 }
    /// What is worth a line in the log. 1 s: speech would have had a gap.
    private static var notableNanoseconds: Int64 { 1_000_000_000 }

    /// When the next tick must begin: now, if this one left work.
    private var nextWake: Instant? {
        let hasWork =
            executor.hasJobs || !dirtySlots.isEmpty || !unfinishedSlots.isEmpty
            || gate.hasDeliveries || surveys.isScanning
        if hasWork { return now }
        return earlier(deadlines.next, earlier(gate.nextDeadline, upstreamPort.deadline))
    }

    private func earlier(_ one: Instant?, _ other: Instant?) -> Instant? {
        guard let one else { return other }
        guard let other else { return one }
        return min(one, other)
    }

    @inline(__always)
    private func dispatch(_ report: Readiness) {
        switch report.token.kind {
        case .connection:
            // A report may be for a connection whose slot was given to another since.
            connections.reference(to: report.token)?._withUnsafeGuaranteedRef {
                handleReadiness(report, of: $0)
            }
        case .listener:
            acceptConnections()
        case .upstream:
            guard let upstream, let descriptor = upstreamPort.descriptor(of: report.token)
            else { return }
            upstream.handleReady(
                fd: descriptor, readable: report.isReadable, writable: report.isWritable,
                failed: report.hasFailed)
        case .textRequest, nil:
            preconditionFailure("the backend made up a token")
        }
    }

    /// Connections that tables have room for from the start; it is address space, no memory.
    /// 1,048,576: 60 MB of it.
    private static var maxReservedPlaces: Int { 1 << 20 }
    /// Deadlines that expire in one tick; the others are as late as that tick takes. 1,024: less
    /// than a millisecond, where a shard that was away may have those of all its connections due.
    private static var maxDeadlinesPerTick: Int { 1_024 }

    private func expireDeadlines() {
        for _ in 0..<Self.maxDeadlinesPerTick {
            guard let (owner, deadline) = deadlines.popExpired(at: now) else { break }
            metrics.observe(.eventLoopLag, now - deadline)
            switch owner {
            case .connection(let slot): handleDeadline(ofSlot: slot)
            case .acceptPause: resumeAccepting()
            case .drainLimit: connections.forEach(close)
            case .draining(let step): handleDrainDeadline(step)
            case .ticketRotation: rotateTicketKeys()
            case .memoryReturn: reviewMemoryReturn()
            case .textRequest(let token): handleTextDeadline(token)
            case .survey(let id): endSurvey(id)
            }
        }
        if upstreamPort.takeExpired(at: now) { upstream?.handleTimer() }
    }

    /// Deliveries whose room is kept for the next tick. 256: a delta for each report of a tick, and
    /// as many again for those that brought several.
    private static var maxKeptDeliveries: Int { 256 }

    /// Hands what agents produced to the sessions that still want it.
    private func stepSessions() {
        guard gate.hasDeliveries else { return }
        var taken: [AgentDelivery] = []
        swap(&taken, &takenDeliveries)
        gate.assumeIsolated { $0.takeDeliveries(into: &taken) }
        defer {
            taken.removeAll(keepingCapacity: taken.count <= Self.maxKeptDeliveries)
            swap(&taken, &takenDeliveries)
        }
        for delivery in taken {
            if case .modelDelta = delivery.event { deltasInTick += 1 }
            guard delivery.token.kind == .connection else {
                handleTextDelivery(delivery)
                continue
            }
            guard let connection = connections[delivery.token], let live = connection.live,
                live.work.accepts(serial: delivery.serial)
            else { continue }
            noteUnsentAudio(of: connection, in: live)
            live.session.handle(delivery.event, at: now)
            drain(live, of: connection)
            agentLink.handleDelivered(delivery, work: &live.work)
        }
    }

    /// Chunks that the connections' send buffers hold now; none without a connection.
    package var chunksInUse: Int { chunks.chunksInUse }

    // MARK: Stopping

    private func runCommands() {
        guard commands.take(into: &takenCommands) else { return }
        for command in takenCommands {
            switch command {
            case .stop(let code): beginStopping(with: code)
            case .drain(let delay): beginDraining(after: delay)
            case .adopt(let handle, let peer): takeOver(handle, of: peer)
            case .renew(let context): renew(context)
            case .continueAnswer(let token): continueAnswer(of: token)
            case .reviewTextRequest(let token): reviewTextRequest(at: token)
            case .answerSurvey(let question): surveys.begin(question)
            case .noteReport(let report, let survey): handle(report, for: survey)
            case .judgeMemory: judgeMemory()
            }
        }
        takenCommands.removeAll(keepingCapacity: true)
    }

    func beginStopping(with code: WebSocketCloseCode) {
        guard !isStopping else { return }
        isStopping = true
        stopListening()
        connections.forEach { connection in
            switch connection.state {
            case .webSocket: closeWebSocket(connection, code, reason: "The server is stopping.")
            case .proxyHeader: close(connection)
            case .http where !connection.hasOutput: close(connection)
            case .http: linger(connection)
            case .closing, .lingering, .closed: break
            }
        }
        stopTextRequests()
        upstream?.shutdown()
        _ = deadlines.schedule(.drainLimit, at: now + configuration.closeTimeout)
    }
}
