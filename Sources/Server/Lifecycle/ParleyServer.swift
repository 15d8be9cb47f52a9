// The whole server: one listening socket and one thread per shard, the worker threads, and the effect
// of signals (ServerSignals): a drain, or files read anew. Shard does the work of the connections;
// the caller passes the configuration and the logger.

import CLinux
import Codec
import Logging
import Session
import Synchronization

/// A server process. Create it, then call `run()`; or `start()`, `stop()` and `waitUntilStopped()`.
public final class ParleyServer: Sendable {
    private struct State {
        var threads: [pthread_t] = []
        var stops: [@Sendable (WebSocketCloseCode) -> Void] = []
        /// Drains of the shards that accept. Each also drains the shards that it accepts for.
        var drains: [@Sendable (_ delay: Duration) -> Void] = []
        var port = 0
        /// Replace the TLS context of each shard.
        var renewals: [@Sendable (TLSContext) -> Void] = []
        /// Nil until the server starts: its files are read then.
        var authenticator: Authenticator?
        /// The address on which other machines can connect, if there is one.
        var exposedHost: String?
    }

    private let configuration: ServerConfiguration
    private let agents: AgentSet
    private let voiceActivityModel: VoiceActivityModel?
    private let records: (any RecordKeeper)?
    private let library: (any RecordLibrary)?
    private let logger: Logger
    private let beginning: Instant
    private let workers: WorkerPool
    private let metrics: ServerMetrics
    private let addressLimits: AddressLimits
    private let memory: MemoryBudget
    private let quotas: any QuotaStore
    private let recordings: (any RecordingKeeper)?
    private let replies: ReplyDirectory
    private let directory = ShardDirectory()
    private let localModel = LocalModelWatch()
    private let profiles: AgentDirectory
    private let sessionRecords: MemorySessionRecords
    private let history = ServerHistory()
    /// The name of this server among those that share a store. A new one at each start, so that
    /// nothing that an earlier process owned counts as owned.
    private let nodes = NodeDirectory(
        name: "node_" + String(UInt64.random(in: .min ... .max), radix: 36))
    private let state = Mutex(State())
    /// Nil without TLS: OpenSSL's random generator alone would take 2 MB of a plain server.
    private let tickets: TLSTicketKeys?

    /// Prepares a server; nothing listens yet.
    /// - Parameters:
    ///   - records: keeps records of sessions. Without it, no records are kept. It is shut down
    ///     once every shard has ended.
    ///   - library: reads and deletes what is kept of ended sessions. Nil where nothing is kept. It
    ///     is shut down before the keepers.
    ///   - recordings: keeps recordings. Without it, no session is recorded, whatever the settings
    ///     say.
    ///   - beginning: when the process began, from which the log counts the time of the start. By
    ///     default now, which leaves out the preparations before this call.
    public init(
        configuration: ServerConfiguration, agents: AgentSet,
        voiceActivityModel: VoiceActivityModel?, records: (any RecordKeeper)? = nil,
        library: (any RecordLibrary)? = nil, recordings: (any RecordingKeeper)? = nil,
        logger: Logger, beginning: Instant = MonotonicClock.now
    ) {
        self.beginning = beginning
        self.recordings = recordings
        self.configuration = configuration
        self.agents = agents
        profiles = AgentDirectory(agents.profiles)
        self.voiceActivityModel = voiceActivityModel
        self.records = records
        self.library = library
        self.logger = logger
        let threads = max(1, configuration.workers.threads)
        let workers = WorkerPool(
            threads: threads, maxQueued: max(0, configuration.workers.maxQueuedJobs))
        self.workers = workers
        addressLimits = AddressLimits(configuration.admission)
        memory = MemoryBudget(
            configuration.memory,
            modelBytes: (agents.recognizer?.serverBytes(workers: threads) ?? 0)
                + (agents.synthesizer?.serverBytes(workers: threads) ?? 0)
                + (agents.turnModel?.serverBytes(workers: threads) ?? 0))
        quotas = configuration.store.address == nil ? QuotaTable() : SharedQuotaTable()
        replies = ReplyDirectory(limit: configuration.textRequests.maxResumableReplies)
        sessionRecords = MemorySessionRecords(maxBytes: configuration.store.maxSavedSessionBytes)
        tickets =
            configuration.tls.isOn
            ? TLSTicketKeys(period: configuration.tls.ticketPeriod, at: beginning) : nil
        metrics = ServerMetrics(
            shards: max(1, configuration.shards), workers: { workers.counts },
            providers: { [model = agents.model] in model.providers },
            substitutedClauses: { [synthesizer = agents.synthesizer] in
                synthesizer?.substitutedClauses ?? 0
            },
            records: { records?.counts }, recordings: Self.counts(of: recordings),
            holders: [
                .tables: { [addressLimits] in addressLimits.memory },
                .models: { [agents] in
                    HeldMemory(
                        bytes: (agents.recognizer?.loadedBytes ?? 0)
                            + (agents.synthesizer?.loadedBytes ?? 0)
                            + (agents.turnModel?.loadedBytes ?? 0))
                },
            ])
    }

    private static func counts(
        of recordings: (any RecordingKeeper)?
    ) -> (@Sendable () -> RecordingCounts)? {
        guard let recordings else { return nil }
        return { recordings.counts }
    }

    /// The port that is listened on, once `start()` has returned.
    public var port: Int { state.withLock { $0.port } }

    /// Serves until SIGTERM, SIGINT or SIGQUIT, which drain, or until `drain()` or `stop()` is
    /// called elsewhere; returns when every connection is closed. A second of these signals ends
    /// the process at once. SIGHUP calls `reload()`; SIGUSR1 and SIGUSR2 are logged.
    ///
    /// Listens on the sockets that a supervisor passed (LISTEN_FDS), or otherwise on the configured
    /// host and port, and notifies the supervisor of the start and of the end (NOTIFY_SOCKET).
    /// - Parameter onListening: is called once with the port, when connections are accepted.
    /// - Throws: `ServerError` when it cannot listen.
    public func run(onListening: (_ port: Int) -> Void = { _ in }) throws(ServerError) {
        ServerSignals.standing.block()
        ServerSignals.ending.block()
        try start(listeningTo: try InheritedSockets.take(configuration.listener))
        onListening(port)
        ServerSignals.standing.onEachArrival { [self] number in handleStanding(signal: number) }
        ServerSignals.ending.onFirstArrival { [self] in
            SupervisorNotice.stopping.send()
            drain()
        }
        // In a container there is no other process that takes orphans. `deferStanding()` has blocked the
        // signal in every thread.
        if ServerSignals.isFirstProcess {
            ServerSignals.childEnds.onEachArrival { _ in ServerSignals.reapOrphans() }
        }
        SupervisorNotice.ready.send()
        waitUntilStopped()
    }

    private func handleStanding(signal number: Int32) {
        if number == SIGHUP { return reload() }
        logger.info(
            "no log to reopen: lines go to standard error",
            metadata: ["signal": number == SIGUSR1 ? "SIGUSR1" : "SIGUSR2"])
    }

    /// Looks at the settings, and at every file that they name, as a start does; nothing listens.
    /// - Throws: `ServerError`, why a server would not start.
    public func check() throws(ServerError) {
        if let objection = configuration.objection { throw .invalidConfiguration(objection) }
        _ = try makeTLSContext()
        try checkServiceAuthorities()
        let address = try ListeningSocket.resolve(configuration.listener)
        let rules = try readCredentials()
        // The checks below depend on the keys: whether there are any, and whether one can be guessed.
        let authenticator = Authenticator(configuration.credentials, rules: rules)
        state.withLock { $0.authenticator = authenticator }
        try checkExposure(at: address.address, named: configuration.listener.host)
        try checkSecrets(rules)
    }

    /// Listens on the configured host and port, and starts the shards.
    /// - Throws: `ServerError` when it cannot listen.
    public func start() throws(ServerError) { try start(listeningTo: []) }

    private func start(listeningTo inherited: [ListeningSocket]) throws(ServerError) {
        if let objection = configuration.objection { throw .invalidConfiguration(objection) }
        try memory.checkLimit(logger)
        // Neither a peer that resets its connection nor a file at its limit may end the process.
        ServerSignals.ignoreFailedWrites()
        let tls = try makeTLSContext()
        try checkServiceAuthorities()
        let rules = try readCredentials()
        let authenticator = Authenticator(configuration.credentials, rules: rules)
        state.withLock { $0.authenticator = authenticator }
        var backends: [EpollIO] = []
        do throws(IOError) {
            for _ in 0..<configuration.shards { backends.append(try EpollIO()) }
        } catch {
            throw ServerError(error)
        }
        for socket in inherited {
            try checkExposure(at: socket.address, named: "an inherited socket")
        }
        let port: Int
        if let first = inherited.first {
            port = first.port
            try checkSecrets(rules)
            raiseDescriptorLimit()
            try startShards(on: backends, acceptingFrom: inherited, tls: tls)
        } else {
            let (sockets, handover) = try bindSockets()
            port = sockets[0].port
            try checkSecrets(rules)
            raiseDescriptorLimit()
            try startShards(on: backends, listeningTo: sockets, handover, tls: tls)
        }
        awaitShards()
        state.withLock { $0.port = port }
        let proxies = configuration.upstream.proxy.inForce { name in
            getenv(name).map { String(cString: $0) }
        }
        if !proxies.isEmpty {
            logger.info(
                "requests to services go through a proxy, those between nodes do not",
                metadata: Dictionary(
                    uniqueKeysWithValues: proxies.map { ($0.name, "\($0.value)") }))
        }
        logger.info(
            "listening",
            metadata: [
                "scheme": configuration.tls.isOn ? "https" : "http",
                "host": "\(inherited.isEmpty ? configuration.listener.host : "inherited")",
                "port": "\(port)", "shards": "\(configuration.shards)",
                "workers": "\(configuration.workers.threads)",
                "start_ms": "\((MonotonicClock.now - beginning).wholeMilliseconds)",
            ])
    }

    /// Waits until every shard takes ticks: on a busy machine their threads may begin late. The
    /// pages of the program that their beginning has used are then among the memory that is given
    /// back after the start.
    private func awaitShards() {
        let beginning = ShardBeginning()
        let posts = directory.all
        for post in posts { post(.noteRunning(beginning.note)) }
        beginning.wait(forShards: posts.count)
    }

    /// One listening socket per shard, or more where a server that shares the port had more, all on
    /// the same port.
    private func bindSockets() throws(ServerError) -> ([ListeningSocket], PortHandover?) {
        let address = try ListeningSocket.resolve(configuration.listener)
        try checkExposure(at: address.address, named: configuration.listener.host)
        if !configuration.listener.sharesPort {
            try ListeningSocket.checkUnused(address, configuration.listener)
        }
        var sockets: [ListeningSocket] = []
        if configuration.listener.port == 0 {
            sockets.append(try ListeningSocket(address, port: 0, configuration.listener))
        }
        let port = sockets.first?.port ?? configuration.listener.port
        var handover: PortHandover?
        if configuration.listener.sharesPort {
            do throws(HandoverError) {
                let name = address.name(withPort: port)
                let (joined, passedOn) = try PortHandover.join(name)
                handover = joined
                sockets += passedOn.map { ListeningSocket(passedOn: $0, configuration.listener) }
            } catch {
                warnOfHandover(error)
            }
        }
        while sockets.count < configuration.shards {
            sockets.append(try ListeningSocket(address, port: port, configuration.listener))
        }
        do throws(HandoverError) {
            for socket in sockets { try handover?.offer(socket.handle) }
        } catch {
            // A successor must get all sockets or none.
            handover = nil
            warnOfHandover(error)
        }
        return (sockets, handover)
    }

    private func warnOfHandover(_ error: HandoverError) {
        logger.warning(
            "the port is not handed over: the end of a server may reset connections that wait",
            metadata: ["reason": "\(error.reason)"])
    }

    /// Drains: accepts no new connections, lets turns in flight finish, and closes every session
    /// with 1012 (service restart). Then `run()` returns, after at most the delay and the timeout of
    /// DrainSettings and `ConnectionSettings.closeTimeout` together. Any thread.
    public func drain() {
        guard !metrics.isDraining.exchange(true, ordering: .relaxed) else { return }
        logger.info(
            "draining; a second signal ends the server at once",
            metadata: [
                "sessions": "\(metrics.sessions.load(ordering: .relaxed))",
                "connections": "\(metrics.connections.load(ordering: .relaxed))",
                "timeout_ms": "\(configuration.drain.timeout.wholeMilliseconds)",
            ])
        for drain in state.withLock({ $0.drains }) { drain(configuration.drain.delay) }
    }

    /// Stops accepting, and closes every session with 1001 without waiting for its turn. Then
    /// `run()` returns. Any thread.
    public func stop() {
        metrics.isDraining.store(true, ordering: .relaxed)
        for stop in state.withLock({ $0.stops }) { stop(.goingAway) }
        logger.info("stopping")
    }

    /// Returns once every shard has ended.
    public func waitUntilStopped() {
        let threads = state.withLock { state in
            defer { state.threads = [] }
            return state.threads
        }
        for thread in threads { pthread_join(thread, nil) }
        workers.shutdown()
        agents.toolServers?.shutdown()
        library?.shutdown()
        records?.shutdown()
        recordings?.shutdown()
        logger.info(
            "stopped",
            metadata: [
                "drained_idle": "\(metrics.total(of: .drainedIdle))",
                "drained_finished": "\(metrics.total(of: .drainedFinished))",
                "drained_cut_off": "\(metrics.total(of: .drainedCutOff))",
            ])
    }

    /// Each shard listens to sockets of its own. The first one also passes the sockets of all on.
    private func startShards(
        on backends: [EpollIO], listeningTo sockets: [ListeningSocket],
        _ handover: PortHandover?, tls: TLSContext?
    ) throws(ServerError) {
        let duty = configuration.listener.sharesPort ? ListeningDuty.shared : .own
        for (index, backend) in backends.enumerated() {
            let own = stride(from: index, to: sockets.count, by: backends.count)
            let shard = try startShard(
                index, on: backend, listeningTo: own.map { sockets[$0] },
                handingOver: index == 0 ? handover : nil, duty, tls: tls)
            state.withLock { $0.drains.append(shard.drain) }
        }
    }

    /// The first shard accepts, and the others get their share of the connections.
    private func startShards(
        on backends: [EpollIO], acceptingFrom inherited: [ListeningSocket],
        tls: TLSContext?
    ) throws(ServerError) {
        var siblings: [ShardSibling] = []
        for index in backends.indices.dropFirst() {
            siblings.append(
                try startShard(index, on: backends[index], listeningTo: [], .own, tls: tls))
        }
        let first = try startShard(
            0, on: backends[0], listeningTo: inherited, .inherited(siblings), tls: tls)
        state.withLock { $0.drains.append(first.drain) }
    }

    /// Reads the files of TLS, of credentials and of keys that sign anew. Any thread.
    public func reload() {
        guard
            configuration.tls.isOn || configuration.credentials.haveFiles
                || agents.rereadKeys != nil
                || agents.rereadProfiles != nil || configuration.upstream.authorities != nil
                || records?.isReloadable == true
        else {
            logger.info(
                "nothing to reload: no file of TLS, of credentials or of signing keys is configured"
            )
            return
        }
        reloadTLS()
        reloadCredentials()
        reloadSigningKeys()
        reloadProfiles()
        reloadWebhooks()
        checkServiceAuthoritiesAgain()
    }

    /// Reads the secrets of webhooks anew. A file that cannot be used changes nothing, and is logged.
    private func reloadWebhooks() {
        guard let records, records.isReloadable else { return }
        do {
            try records.reload()
            logger.info("webhook settings reloaded")
        } catch {
            logger.error(
                "webhook secrets not reloaded: the old ones stay", metadata: ["reason": "\(error)"])
        }
    }

    /// Checks the file of authorities again. New connections to services read it by themselves,
    /// whether it is valid or not.
    private func checkServiceAuthoritiesAgain() {
        do throws(ServerError) { try checkServiceAuthorities() } catch {
            logger.error(
                "requests to services will fail until service-ca is mended",
                metadata: ["reason": "\(error)"])
        }
    }

    /// Reads the keys that sign requests to agents anew. A file that cannot be used changes nothing,
    /// and is logged. Any thread.
    private func reloadSigningKeys() {
        guard let reread = agents.rereadKeys else { return }
        do {
            try reread()
            logger.info("signing keys reloaded")
        } catch {
            logger.error(
                "signing keys not reloaded: the old ones stay", metadata: ["reason": "\(error)"])
        }
    }

    /// Reads the agents anew, for new sessions. A file that cannot be used changes nothing, and is
    /// logged.
    private func reloadProfiles() {
        guard let reread = agents.rereadProfiles else { return }
        do {
            profiles.replace(try reread())
            logger.info("agents reloaded", metadata: ["agents": "\(profiles.current.names.count)"])
        } catch {
            logger.error(
                "agents not reloaded: the old ones stay", metadata: ["reason": "\(error)"])
        }
    }

    /// Reads the files of TLS anew, for new connections; open ones keep their certificate. Files
    /// that cannot be used change nothing, and are logged. Any thread.
    public func reloadTLS() {
        do throws(ServerError) {
            guard let context = try makeTLSContext() else { return }
            for renew in state.withLock({ $0.renewals }) { renew(context) }
            logger.info("TLS files reloaded")
        } catch {
            logger.error(
                "TLS files not reloaded: the old ones stay", metadata: ["reason": "\(error)"])
        }
    }

    /// Reads the files of credentials anew. Open sessions go on; client secrets made with a removed
    /// key open nothing more. Files that cannot be used change nothing, and are logged. Any thread.
    public func reloadCredentials() {
        guard configuration.credentials.haveFiles,
            let authenticator = state.withLock({ $0.authenticator })
        else { return }
        do throws(ServerError) {
            let rules = try readCredentials()
            try checkSecrets(rules)
            authenticator.replace(rules)
            logger.info("credentials reloaded")
        } catch {
            logger.error(
                "credentials not reloaded: the old ones stay", metadata: ["reason": "\(error)"])
        }
    }

    private func readCredentials() throws(ServerError) -> CredentialRules {
        do throws(OptionError) {
            let rules = try CredentialRules(
                configuration.credentials, secrets: configuration.telephone.secrets)
            for warning in rules.tokens?.warnings ?? [] { logger.warning("\(warning)") }
            return rules
        } catch {
            throw .credentials(error.description)
        }
    }

    /// Refuses secrets that other machines could guess, unless the configuration demands it; warns of
    /// them where only this machine can connect.
    private func checkSecrets(_ rules: CredentialRules) throws(ServerError) {
        if let line = rules.guessable.first, !configuration.credentials.insecure,
            let host = state.withLock({ $0.exposedHost })
        {
            throw .guessable(host: host, line: line)
        }
        for line in rules.guessable { logger.warning("\(line)") }
    }

    /// A file that cannot be read, or is damaged, would fail every request to a service.
    private func checkServiceAuthorities() throws(ServerError) {
        guard let path = configuration.upstream.authorities else { return }
        do throws(OptionError) {
            _ = try CertificateList(ConfiguredFile(option: "service-ca", readingFrom: path))
        } catch {
            throw .tls(error.description)
        }
    }

    /// Refuses to listen beyond this machine without credentials, unless the configuration demands
    /// it: every client that reaches a model can spend its owner's money.
    private func checkExposure(
        at address: NetworkAddress, named host: String
    ) throws(ServerError) {
        guard !address.isLoopback else { return }
        state.withLock { $0.exposedHost = host }
        let isGuarded =
            configuration.credentials.areAskedFor || configuration.tls.asksForCertificates
        guard isGuarded || configuration.credentials.insecure else { throw .exposed(host: host) }
        if configuration.credentials.areAskedFor, !configuration.tls.isOn {
            logger.warning(
                """
                credentials and speech cross the network in plain: give --tls-cert and --tls-key, \
                or let a proxy end TLS in front of a loopback address
                """,
                metadata: ["host": "\(host)"])
        }
    }

    private func makeTLSContext() throws(ServerError) -> TLSContext? {
        do throws(OptionError) {
            guard let tickets, let material = try TLSMaterial(configuration.tls) else { return nil }
            let context = try TLSContext(
                material, clients: configuration.tls.clientAuthentication, tickets: tickets,
                at: MonotonicClock.now)
            for warning in context.warnings { logger.warning("\(warning)") }
            return context
        } catch {
            throw .tls(error.description)
        }
    }

    private func startShard(
        _ index: Int, on backend: EpollIO, listeningTo sockets: [ListeningSocket],
        handingOver handover: PortHandover? = nil, _ duty: ListeningDuty, tls: TLSContext?
    ) throws(ServerError) -> ShardSibling {
        var services = ShardServices(
            configuration: configuration, agents: agents, pool: workers, metrics: metrics,
            logger: logger)
        services.index = index
        services.addressLimits = addressLimits
        if let authenticator = state.withLock({ $0.authenticator }) {
            services.authenticator = authenticator
        }
        services.quotas = quotas
        services.recordings = recordings
        services.replies = replies
        services.directory = directory
        services.localModel = localModel
        services.profiles = profiles
        services.sessionRecords = sessionRecords
        services.nodes = nodes
        services.history = history
        services.drainServer = { [weak self] in
            SupervisorNotice.stopping.send()
            self?.drain()
        }
        services.records = records
        services.library = library
        let url = configuration.reachableURL(atPort: sockets.first?.port)
        services.describeNode = { [metrics, nodes, started = WallClock.seconds] in
            NodeRecord(
                name: nodes.name, url: url, started: started,
                sessions: metrics.sessions.load(ordering: .relaxed)
            ).json
        }
        services.memory = memory
        services.voiceActivityModel = voiceActivityModel
        services.tls = tls
        services.makeUpstream = { [configuration] in
            UpstreamHTTP(
                loop: $0, executor: $1, authorities: configuration.upstream.authorities,
                proxy: configuration.upstream.proxy.curlOption)
        }
        services.makeRedis = {
            [authorities = configuration.upstream.authorities, logger, services] in
            RedisClient(
                loop: $0, executor: $1, authorities: authorities, logger: logger,
                drawDelay: services.drawDelay)
        }
        services.returnMemory = AllocatorPages.giveBack
        let shard = Shard(io: backend, services: services)
        // One session's defect does not end the others. A simulated shard traps.
        shard.sessionContext.reportsFaults = true
        shard.duty = duty
        do throws(IOError) {
            for socket in sockets { try shard.listen(on: socket.release()) }
            if let handover { try shard.offer(handover) }
        } catch {
            throw ServerError(error)
        }
        // The models are the process's: one shard loads them for all.
        if configuration.warmsModels, index == 0 { shard.agents.link.prepareModels() }
        let (stop, sibling, renew) = (shard.stop, shard.asSibling, shard.renewTLS)
        let thread = try ShardThread.start(shard)
        state.withLock {
            $0.stops.append(stop)
            $0.renewals.append(renew)
            $0.threads.append(thread)
        }
        return sibling
    }

    /// Every connection takes a descriptor. The default of `maxConnections` fits the limit; a value
    /// that does not is no error before the descriptors are needed.
    private func raiseDescriptorLimit() {
        guard let limit = DescriptorLimit.raise(),
            !DescriptorLimit.suffices(limit, maxConnections: configuration.admission.maxConnections)
        else { return }
        logger.warning(
            "fewer files may be open than max-connections needs; raise the limit with ulimit -n",
            metadata: [
                "open_files": "\(limit)",
                "needed": "\(configuration.admission.maxConnections + DescriptorLimit.reserved)",
            ])
    }
}

/// Counts the shards that take ticks.
private final class ShardBeginning: @unchecked Sendable {
    private let lock = ConditionLock()
    private var running = 0

    /// Notes that one shard takes ticks. Any thread.
    func note() {
        lock.withLock {
            running += 1
            lock.signal()
        }
    }

    /// Waits until this many shards take ticks.
    func wait(forShards count: Int) {
        lock.withLock { while running < count { lock.wait() } }
    }
}

/// A shard on its way to the thread that it is confined to from then on.
private final class ShardThread: @unchecked Sendable {
    private let shard: Shard<EpollIO>

    private init(_ shard: Shard<EpollIO>) { self.shard = shard }

    /// Starts a thread that runs the shard until it stops. The caller must not touch it any more.
    static func start(_ shard: Shard<EpollIO>) throws(ServerError) -> pthread_t {
        let handover = Unmanaged.passRetained(ShardThread(shard))
        var thread = pthread_t()
        let code = pthread_create(
            &thread, nil,
            { argument in
                Unmanaged<ShardThread>.fromOpaque(argument!).takeRetainedValue().shard.run()
                return nil
            }, handover.toOpaque())
        guard code == 0 else {
            handover.release()
            throw .system(.init(call: "pthread_create", code: code))
        }
        return thread
    }
}
