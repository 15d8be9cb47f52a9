// One event loop on one thread: its connections, their deadlines, its agents. Only the two mailboxes
// that wake it have a lock. All shards of a server share atomic numbers, and a few tables with a
// lock each: addresses, credentials, keys of tickets, kept replies.
//
// The loop is `tick()`, whose comment gives the reasons of its order. Each subject has a part that
// owns its state:
//
//   ShardClock      the time, and the clock by which peers are judged       Loop/
//   ShardInbox      commands of other threads                               Loop/
//   DeadlineQueue   the earliest deadline, and its owner                    Loop/
//   SlotQueue       connections that wait for one step of the loop          Loop/
//   Acceptor        listeners, their pauses, shares of siblings             Connection/
//   SlotTable       connections and sessions, by slot                       Loop/
//   WaitingSessions sessions whose clients are away                         Resume/
//   OutputSchedule  what is to be flushed, limits of queued output          Connection/
//   FrameWriter     WebSocket frames into a send buffer                     WebSocket/
//   MessageRules    limits of messages that cost a client nothing           Connection/
//   TextRequests    requests over HTTP that a model answers                 TextRequests/
//   LedgerKeeper    what each owner is charged for its memory               Ledger/
//   MemoryWatch     looks at the memory of the process                      Ledger/
//   MemoryReturn    when freed memory goes back to the system               Ledger/
//   SurveyTable     questions of operators                                  Surveys/
//   SidebandTable   calls, and connections that have joined a session       Sideband/
//   OperatorTable   connections that watch the server                       Administration/
//   Switchboard     what telephone lines share                              Telephony/
//   NodeRelays      requests that other nodes answer                        Cluster/
//   SecretLookups   requests whose client secret another node may have made Credentials/
//   TickMeter       what is measured of each tick                           Observation/
//   Shutdown        the progress of the shard's end                         Lifecycle/
//
// ShardParts has them by subject. Extensions of `Shard` connect them. ShardListener accepts, ShardConnections reads, flushes
// and expires, ShardHTTP and ShardWebSocket give bytes their meaning. ShardActions does what a
// change of a connection asks of the loop.

import Codec
import Logging
import Session

/// The owner of a deadline, as the queue names it when the deadline expires.
enum DeadlineOwner {
    /// A slot of the connections.
    case connection(Int)
    /// Accepting was paused for want of descriptors.
    case acceptPause
    /// A step of the shard's end.
    case shutdown(ShutdownStep)
    /// The keys of session tickets may be too old.
    case ticketRotation
    /// Much memory was freed, and may be returned to the system.
    case memoryReturn
    /// A session without a connection: its own deadline, or the end of the wait for its client.
    case session(EventToken)
    /// A survey ends with the answers that have come.
    case survey(SurveyID)
    /// A request for ended sessions has waited long enough.
    case recordQuestion(RecordQuestionID)
    /// A question for one session ends with the answers that have come.
    case call(CallID)
    /// An operator's view of the server is a second old.
    case operatorView(EventToken)
    /// The server's history is to be continued.
    case history
    /// Other servers must hear that this one is alive.
    case heartbeat
    /// The changes of shared quotas and places are to be reported to the store.
    case report
}

/// An event loop over a backend. Confined to the thread that calls `tick()`, except `stop`,
/// `drain`, `adopt` and `renewTLS`.
///
/// As in `Connection`, some properties are exempt from the run-time check for overlapping accesses; the
/// comment beside each says what the check would cost.
package final class Shard<Backend: IO> {
    let io: Backend
    let services: ShardServices
    var configuration: ServerConfiguration { _read { yield services.configuration } }
    var logger: Logger { services.logger }
    let metrics: ShardMetrics
    let fixtures: ShardFixtures
    @exclusivity(unchecked) var inbox: ShardInbox  // 97 instructions an echo.
    var clock: ShardClock
    /// The progress of the shard's end; serving until a drain or a stop.
    @exclusivity(unchecked) var shutdown: Shutdown  // 68 instructions an echo.

    @exclusivity(unchecked) var connections: SlotTable<Connection>  // 340 instructions an echo.
    @exclusivity(unchecked) var sessions: SlotTable<LiveSession>  // 68 instructions an echo.
    @exclusivity(unchecked)  // 233 instructions an echo.
    var deadlines: DeadlineQueue<DeadlineOwner>
    var acceptor: Acceptor<Backend>
    @exclusivity(unchecked) var tickWork: TickWork  // 408 instructions an echo.
    @exclusivity(unchecked) var output: OutputSchedule  // 495 instructions an echo.
    @exclusivity(unchecked) var memory: ShardMemory  // 506 instructions an echo.
    @exclusivity(unchecked) var journal: ShardJournal  // 233 instructions an echo.
    @exclusivity(unchecked) var workspace: MessageWorkspace  // 97 instructions an echo.
    /// Payloads on their way into a send buffer; empty between two uses. By itself, because it is lent
    /// while the workspace is used.
    @exclusivity(unchecked)  // 68 instructions an echo.
    var scratch = ByteWriter(capacity: 16 * 1024)

    let sessionContext: SessionContext
    var clients: ShardClients
    @exclusivity(unchecked) var returning: ReturningSessions  // 68 instructions an echo.
    var textRequests: TextRequests
    /// Calls, and connections that have joined a session.
    @exclusivity(unchecked) var sidebands = SidebandTable()  // 136 instructions an echo.
    @exclusivity(unchecked) var questions = ShardQuestions()  // 136 instructions an echo.
    let agents: ShardAgents
    let upstreams: ShardUpstreams<Backend>

    /// Creates a shard without a listener. The calling thread is its thread until another calls
    /// `run()`.
    package init(io: Backend, services: ShardServices) {
        self.io = io
        self.services = services
        let configuration = services.configuration
        let places = Self.reservedPlaces(configuration)
        connections = SlotTable(of: .connection, capacity: places)
        sessions = SlotTable(of: .session, capacity: places)
        deadlines = DeadlineQueue(capacity: places)
        metrics = services.metrics.shards[services.index]
        memory = ShardMemory(services)
        output = OutputSchedule(
            softLimit: configuration.connection.softQueuedOutputBytes,
            hardLimit: configuration.connection.maxQueuedOutputBytes)
        fixtures = ShardFixtures(io: io, services)
        acceptor = Acceptor(io: io)
        shutdown = Shutdown(
            configuration.drain, closeTimeout: configuration.connection.closeTimeout)
        textRequests = TextRequests(configuration.textRequests)
        workspace = MessageWorkspace(configuration)
        tickWork = TickWork(configuration.loop)
        clock = ShardClock(at: io.now)
        journal = ShardJournal(services, at: clock.now)
        inbox = ShardInbox(wake: io.wake)
        let executor = ShardExecutor(wake: io.wake)
        upstreams = ShardUpstreams(io: io, services, executor)
        agents = ShardAgents(services, executor, upstreams.http, upstreams.redis, at: io.now)
        clients = ShardClients(configuration.telephone, workRate: fixtures.rules.workRate)
        returning = ReturningSessions(services, redis: upstreams.redis, now: { io.now })
        sessionContext = SessionContext(services)
        agents.executor.adoptThread()
        agents.gate.answerFacts { [unowned self] in facts(of: $0) }
        rotateTicketKeys()
        joinServer()
    }

    deinit {
        connections.forEach {
            $0.output.removeAll(into: fixtures.chunks)
            $0.tls?.unsent.removeAll(into: fixtures.chunks)
        }
        fixtures.readBuffer.deallocate()
    }

    // MARK: Time

    /// The time of this tick.
    @inline(__always) package var now: Instant { clock.now }

    /// The clock by which peers are judged; see ShardClock.
    @inline(__always) var peerClock: Instant { clock.peerTime }

    /// When something that is due by the peers' clock is due, unless the shard is away until then.
    @inline(__always)
    func time(ofPeerTime due: Instant) -> Instant { clock.time(ofPeerTime: due) }

    // MARK: The tick

    /// Ticks until the shard has stopped. Called once, on the shard's own thread.
    package func run() {
        agents.executor.adoptThread()
        openStore()
        // The services are the same for all shards.
        if services.index == 0 { agents.link.checkServices() }
        while tick() {}
        upstreams.redis?.shutdown()
        memory.ledgers.setLargest(to: 0)
        services.directory.leave(services.index)
    }

    /// Takes one tick. Waits first, unless there is work left.
    ///
    /// The order of a tick has reasons:
    ///
    /// 1. `wait` comes first, and the time is taken right after it, once: all that happens in a
    ///    tick happens at one time, so that a run of the simulation can be repeated.
    /// 2. Messages left by the last tick come before new reads, because they came before them, and
    ///    so that a connection which sends without pause cannot overtake others.
    /// 3. Reads come before deadlines: bytes that arrived in time count, also where the tick is
    ///    late. A client that answered a ping is not closed for its silence.
    /// 4. Commands and surveys come after reads, so that a `stop` closes connections that have
    ///    been read to the end.
    /// 5. Deadlines come before agents' jobs: a session whose deadline ends a response cancels
    ///    work that would run for nothing.
    /// 6. Jobs come before deliveries, so that what a job produces reaches its session in the same
    ///    tick. One shot: jobs made by deliveries run in the next tick, which then does not wait.
    ///    Commands for Redis leave here, in one write for each connection.
    /// 7. Writes come after everything that can produce output, so that all answers of a tick
    ///    leave in one write for each connection. A read handler never writes a socket.
    /// 8. Ledgers are settled when nothing but the removal of closed connections changes them
    ///    any more. Memory is judged by these sums, before the removal: an eviction closes
    ///    connections, which are removed in the same tick.
    /// 9. Closed connections are removed last: until then every reference to a connection that a
    ///    handler, a queue or a delivery has is good, and no token means another connection.
    /// 10. Freed memory is looked at when it is free, and the tick is measured when it is over.
    ///
    /// - Returns: false once the shard has stopped. A shard that stops waits for the outcome of its
    ///   last changes of the store, which the time limit of a command bounds.
    package func tick() -> Bool {
        let wake = nextWake
        let reports = io.wait(
            until: wake, atMost: journal.meter.hadDeltas ? Self.streamingReports : Self.maxReports)
        beginTick(wake: wake)
        fixtures.wire?.beginTick(at: now)
        tickWork.messageTime.begin(at: now)
        sessionContext.beginTick(samples: tickWork.maxSamples)
        continueMessages()
        readAll(reports)
        runCommands()
        if questions.surveys.isScanning { continueScans() }
        if sidebands.hasWork { continueSidebands() }
        expireDeadlines()
        agents.gate.handleTick(at: now)
        runJobs()
        deliverToSessions()
        if let redis = upstreams.redis, redis.hasUnsent { redis.flush() }
        flushWrites()
        settleLedgers()
        reviewMemory()
        removeClosed()
        noteFreedMemory()
        endTick()
        return
            !(shutdown.isStopping && connections.count == 0
            && returning.store.sessions.pendingChanges == 0)
    }

    /// The most reports that a tick takes. 64, as many as the pool keeps chunks: the answers of a
    /// tick then need no allocation, and stay in the cache. A call per 64 reports costs nothing
    /// beside the reads.
    private static var maxReports: Int { 64 }
    /// Reports that a tick takes while models stream. A delta costs some 15 µs, and leaves with the
    /// tick's writes. The first of 64, and with it the next ones, would wait for 1 ms; of 16, for
    /// 0.25 ms (LoadTests/RESULTS.md has the cost and the gain).
    private static var streamingReports: Int { 16 }

    /// Takes the time, and says where the shard was away for long.
    @inline(__always)
    private func beginTick(wake: Instant?) {
        let away = clock.beginTick(at: io.now, wake: wake)
        if away > 0 { noteAbsence(away) }
    }

    @inline(never)
    private func noteAbsence(_ nanoseconds: Int64) {
        metrics.add(.absentMilliseconds, Int(nanoseconds / 1_000_000))
        guard nanoseconds >= ShardClock.notableNanoseconds else { return }
        logger.warning(
            "event loop was away", metadata: ["milliseconds": "\(nanoseconds / 1_000_000)"])
    }

    /// When the next tick must begin: now, if this one left work.
    private var nextWake: Instant? {
        let hasWork =
            agents.executor.hasJobs || output.hasWork || !tickWork.unfinished.isEmpty
            || agents.gate.hasDeliveries || questions.surveys.isScanning || sidebands.hasWork
            || upstreams.redis?.hasUnsent == true
        if hasWork { return now }
        let clients = earlier(
            upstreams.port.deadline,
            earlier(upstreams.redisPort.deadline, upstreams.relayPort.deadline))
        return earlier(deadlines.next, earlier(agents.gate.nextDeadline, clients))
    }

    private func earlier(_ one: Instant?, _ other: Instant?) -> Instant? {
        guard let one else { return other }
        guard let other else { return one }
        return min(one, other)
    }

    /// Reads the connections that are ready. Windows of audio that several sessions complete
    /// meanwhile are computed together.
    private func readAll(_ reports: Int) {
        guard reports > 1, let batch = sessionContext.activityBatch else {
            for position in 0..<reports { dispatch(io.readiness(at: position)) }
            return
        }
        batch.open()
        for position in 0..<reports {
            dispatch(io.readiness(at: position))
            if batch.isFull { judge(batch) }
        }
        if batch.count > 0 { judge(batch) }
        batch.close()
    }

    /// Computes the windows of a batch, and gives its sessions their voice activity.
    private func judge(_ batch: VoiceActivityBatch) {
        batch.compute()
        for token in tickWork.awaitingActivity {
            // It may have ended since.
            guard let live = sessions[token], live.session.awaitsActivity else { continue }
            step(live) { $0.handleActivity(at: now) }
        }
        tickWork.awaitingActivity.removeAll(keepingCapacity: true)
        batch.removeAll()
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
            guard let upstream = upstreams.http,
                let descriptor = upstreams.port.descriptor(of: report.token)
            else { return }
            upstream.handleReady(
                fd: descriptor, readable: report.isReadable, writable: report.isWritable,
                failed: report.hasFailed)
        case .redis:
            guard let redis = upstreams.redis,
                let descriptor = upstreams.redisPort.descriptor(of: report.token)
            else { return }
            redis.handleReady(
                fd: descriptor, readable: report.isReadable, writable: report.isWritable,
                failed: report.hasFailed)
        case .relay:
            guard let descriptor = upstreams.relayPort.descriptor(of: report.token) else { return }
            handleRelayReady(
                fd: descriptor, readable: report.isReadable, writable: report.isWritable,
                failed: report.hasFailed)
        case .handover: answerSuccessor()
        case .session, nil:
            preconditionFailure("the backend reported a token that was never watched")
        }
    }

    /// Connections that tables have room for from the start. It is address space, no memory:
    /// 60 MB of it for 1,048,576.
    private static var maxReservedPlaces: Int { 1 << 20 }

    /// Connections whose places in the tables are reserved.
    static func reservedPlaces(_ configuration: ServerConfiguration) -> Int {
        min(configuration.admission.maxConnections, maxReservedPlaces)
    }
    /// Deadlines that expire in one tick; the others wait for the next. 1,024 take less than a
    /// millisecond. After an absence, the deadlines of all connections may be due at once.
    private static var maxDeadlinesPerTick: Int { 1_024 }

    private func expireDeadlines() {
        for _ in 0..<Self.maxDeadlinesPerTick {
            guard let (owner, deadline) = deadlines.popExpired(at: now) else { break }
            metrics.observe(.eventLoopLag, now - deadline)
            switch owner {
            case .connection(let slot): handleDeadline(ofSlot: slot)
            case .acceptPause: resumeAccepting()
            case .shutdown(let step): handleShutdownDeadline(step)
            case .ticketRotation: rotateTicketKeys()
            case .memoryReturn: reviewMemoryReturn()
            case .session(let token): handleSessionDeadline(token)
            case .survey(let id): endSurvey(id)
            case .recordQuestion(let id): endRecordQuestion(id)
            case .call(let id): endCall(id)
            case .operatorView(let token): renewView(at: token)
            case .history: continueHistory()
            case .heartbeat: sendHeartbeat()
            case .report: sendReport()
            }
        }
        if upstreams.port.takeExpired(at: now) { upstreams.http?.handleTimer() }
        if upstreams.redisPort.takeExpired(at: now) { upstreams.redis?.handleTimer() }
        if upstreams.relayPort.takeExpired(at: now) { handleRelayTimer() }
    }

    /// Deliveries whose room is kept for the next tick. 256: a delta for each report of a tick, and
    /// as many again for those that brought several.
    private static var maxKeptDeliveries: Int { 256 }

    /// Hands what agents produced to the sessions that still want it.
    private func deliverToSessions() {
        guard agents.gate.hasDeliveries else { return }
        var taken: [AgentDelivery] = []
        swap(&taken, &tickWork.deliveries)
        agents.gate.assumeIsolated { $0.takeDeliveries(into: &taken) }
        defer {
            taken.removeAll(keepingCapacity: taken.count <= Self.maxKeptDeliveries)
            swap(&taken, &tickWork.deliveries)
        }
        for delivery in taken {
            if case .modelDelta = delivery.event { journal.meter.noteDelta() }
            guard let live = sessions[delivery.token],
                live.work.accepts(serial: delivery.serial)
            else { continue }
            step(live) { $0.handle(delivery.event, at: now) }
            agents.link.handleDelivered(delivery, work: &live.work)
            // With a connection it is settled at the end of the tick.
            if live.connection == nil { settle(live) }
        }
    }

    /// Chunks in the connections' send buffers now; none without a connection.
    package var chunksInUse: Int { fixtures.chunks.chunksInUse }
}

extension SessionContext {
    /// The context that the sessions of a shard share.
    fileprivate convenience init(_ services: ShardServices) {
        let (agents, configuration) = (services.agents, services.configuration)
        self.init(
            limits: configuration.session, voiceActivityModel: services.voiceActivityModel,
            hasRecognizer: agents.recognizer != nil,
            makesHypotheses: agents.recognizer?.makesHypotheses ?? false,
            hasTurnModel: agents.turnModel != nil,
            abilities: { [model = agents.model] in model.abilities(of: $0) },
            hasSynthesizer: agents.synthesizer != nil,
            expectedLanguage: agents.recognizer?.languages.first,
            voiceLanguages: agents.synthesizer?.languages,
            notUnderstood: configuration.phrases.notUnderstood,
            apology: configuration.phrases.apology, toolServers: agents.toolServers?.policy,
            codecs: configuration.codecs)
    }
}
