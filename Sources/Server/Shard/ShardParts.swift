// The parts of a shard, by subject. Each is a value with the parts that one subject needs, and has no rules of
// its own: the folders that are named have them.

import Codec
import Session

/// The parts that a shard keeps from its start to its end (Routes, Admission, TLS, Memory,
/// WebSocket). All are constant, so that the path of a message counts no reference to them.
struct ShardFixtures {
    let routes: Routes
    let admission: Admission
    /// The TLS of connections, or nil for plain TCP.
    let wire: TLSWire?
    let chunks = ChunkPool()
    let readBuffer: UnsafeMutableRawBufferPointer
    let compression: ShardCompression
    let rules: MessageRules

    init(io: some IO, _ services: ShardServices) {
        let configuration = services.configuration
        routes = Routes(
            configuration: configuration, metrics: services.metrics,
            publicKeys: services.agents.publicKeys, added: services.routes)
        admission = Admission(
            configuration.admission, host: configuration.listener.host,
            limits: services.addressLimits)
        wire = services.tls.map { [chunks] context in
            TLSWire(
                context: context, io: io, chunks: chunks, settings: configuration.tls,
                readBufferBytes: configuration.loop.readBufferBytes)
        }
        readBuffer = .allocate(byteCount: configuration.loop.readBufferBytes, alignment: 64)
        compression = ShardCompression(
            configuration.compression, configuration.connection.webSocket)
        rules = MessageRules(configuration.connection.webSocket)
    }
}

/// Work that this tick leaves for a later step of it, or for the next tick (Loop).
struct TickWork {
    /// Connections with messages, or requests, that are for the next tick.
    var unfinished = SlotQueue()
    /// Connections that are removed at the end of the tick.
    var closed = SlotQueue()
    /// Sessions that have a window in the batch of voice activity.
    var awaitingActivity: [EventToken] = []
    var deliveries: [AgentDelivery] = []
    /// How long this tick handles messages.
    var messageTime = MessageTime()
    /// Audio that all its sessions together hear in one tick, in samples at 16 kHz.
    let maxSamples: Int

    init(_ settings: LoopSettings) {
        maxSamples = SampleRate.hz16000.samples(
            inMilliseconds: Int(clamping: settings.maxAudioPerTick.wholeMilliseconds))
    }
}

/// Memory, as it is charged, judged and given back (Ledger).
struct ShardMemory {
    var ledgers: LedgerKeeper
    var watch: MemoryWatch
    var freed = MemoryReturn()

    init(_ services: ShardServices) {
        ledgers = LedgerKeeper(
            metrics: services.metrics.shards[services.index],
            maxBytes: services.configuration.memory.maxConnectionBytes)
        watch = MemoryWatch(
            budget: services.memory, metrics: services.metrics, shard: services.index)
    }
}

/// The reports of a shard: lines of the log, and the measurements of its ticks (Observation).
struct ShardJournal {
    var refusals = RefusalLog()
    let sessionLog: SessionLog
    var meter: TickMeter

    init(_ services: ShardServices, at now: Instant) {
        sessionLog = SessionLog(
            logger: services.logger, includesContent: services.configuration.log.includesContent,
            failures: services.metrics.recentFailures)
        meter = TickMeter(at: now)
    }
}

/// Turns bytes into messages and back, one connection after the other (WebSocket).
struct MessageWorkspace: ~Copyable {
    var frames = FrameWriter()
    var parser = ClientEventParser()

    init(_ configuration: ServerConfiguration) {
        parser.refusesUnknownFields = configuration.refusesUnknownFields
    }
}

/// The state of connections beside their sessions, by connection (Fronts, Admission, Telephony).
struct ShardClients {
    /// The fronts of clients that do not speak Realtime.
    var fronts: [EventToken: any Front] = [:]
    /// The budgets of work.
    var work: WorkBudgets
    /// The state that telephone lines share.
    let switchboard = Switchboard()
    let telephoneAccess: TelephoneAccess

    init(_ settings: TelephoneSettings, workRate: TokenRate) {
        work = WorkBudgets(rate: workRate)
        telephoneAccess = TelephoneAccess(settings)
    }
}

/// Sessions whose clients may come back, here or at another server (Resume, Store).
struct ReturningSessions {
    /// Those that wait for their clients.
    var waiting: WaitingSessions
    /// Those that are written to a shared store, by their ids.
    var stored: [String: EventToken] = [:]
    /// The time of day at which sessions end.
    var calendar = SessionCalendar()
    let store: ShardStore

    init(_ services: ShardServices, redis: RedisClient?, now: @escaping () -> Instant) {
        waiting = WaitingSessions(share: services.configuration.detachedShare(of: services.metrics))
        store = ShardStore(services, redis: redis, now: now)
    }
}

/// Questions whose answers come in a later tick, and operators who ask all the time.
struct ShardQuestions {
    /// Surveys that operators have asked for.
    var surveys = SurveyTable()
    var records = RecordQuestions()
    /// Requests whose client secret another node may have made.
    var secrets = SecretLookups()
    /// Operators that watch the server.
    var operators = OperatorTable()
}

/// Agents at work on the shard's thread (AgentTasks).
struct ShardAgents {
    let executor: ShardExecutor
    let gate: ShardGate
    let link: AgentLink

    init(
        _ services: ShardServices, _ executor: ShardExecutor, _ upstream: (any UpstreamClient)?,
        _ redis: RedisClient?, at now: Instant
    ) {
        self.executor = executor
        gate = ShardGate(executor: executor, at: now)
        let host = ShardAgentHost(
            gate: gate, pool: services.pool, upstream: upstream, redis: redis,
            noteFault: { [metrics = services.metrics, logger = services.logger] fault in
                metrics.note(fault, at: MonotonicClock.now, logger: logger)
            })
        link = AgentLink(agents: services.agents, host: host, gate: gate, logger: services.logger)
    }
}

/// Sockets to services, to Redis, and to other nodes (Upstream, Redis, Cluster).
struct ShardUpstreams<Backend: IO> {
    let port: UpstreamPort<Backend>
    let http: (any UpstreamClient)?
    let redisPort: UpstreamPort<Backend>
    /// Nil where services make none.
    let redis: RedisClient?
    let relayPort: UpstreamPort<Backend>
    /// Requests that other nodes answer.
    let relays: NodeRelays

    init(io: Backend, _ services: ShardServices, _ executor: ShardExecutor) {
        port = UpstreamPort(io: io, kind: .upstream)
        http = services.makeUpstream?(port, executor.task)
        redisPort = UpstreamPort(io: io, kind: .redis)
        redis = services.makeRedis?(redisPort, executor.task)
        relayPort = UpstreamPort(io: io, kind: .relay)
        relays = NodeRelays(
            loop: relayPort, authorities: services.configuration.upstream.authorities)
    }
}
