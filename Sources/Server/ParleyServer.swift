// The whole server: one listening socket and one thread per shard, the worker threads, and an
// orderly end on SIGTERM or SIGINT. What a connection does is Shard's business; what is configured,
// and where logs go, is the caller's.

import CLinux
import Codec
import Logging
import Session
import Synchronization

/// Why a server could not start.
public enum ServerError: Error, Equatable, CustomStringConvertible, Sendable {
    /// The host is neither an address nor a name that resolves.
    case unknownHost(String)
    /// Somebody else listens there.
    case portInUse(host: String, port: Int)
    /// The port needs rights that the process does not have.
    case portForbidden(port: Int)
    /// A setting is out of its range.
    case invalidConfiguration(String)
    /// A system call failed.
    case system(IOErrorDescription)

    /// The failed call and its `errno`.
    public struct IOErrorDescription: Equatable, Sendable {
        /// The call, for example `socket`.
        public let call: String
        /// Its `errno`.
        public let code: Int32
    }

    /// One line that says what to do.
    public var description: String {
        switch self {
        case .unknownHost(let host):
            "cannot listen on '\(host)': it is not an address of this machine; try 127.0.0.1 or "
                + "0.0.0.0"
        case .portInUse(let host, let port):
            "port \(port) on \(host) is taken by another process; stop that one, or choose another "
                + "port with --port"
        case .portForbidden(let port):
            "this user may not listen on port \(port); choose one above 1023 with --port"
        case .invalidConfiguration(let message): message
        case .system(let error):
            "\(error.call) failed: \(String(cString: strerror(error.code)))"
        }
    }

    init(_ error: IOError) { self = .system(.init(call: error.call, code: error.code)) }
}

/// A server process. Create it, then call `run()`; or `start()`, `stop()` and `waitUntilStopped()`.
public final class ParleyServer: Sendable {
    private struct State {
        var threads: [pthread_t] = []
        var stops: [@Sendable (WebSocketCloseCode) -> Void] = []
        var port = 0
    }

    private let configuration: ServerConfiguration
    private let agents: AgentSet
    private let voiceActivityModel: VoiceActivityModel?
    private let logger: Logger
    private let beginning: Instant
    private let workers: WorkerPool
    private let metrics: ServerMetrics
    private let state = Mutex(State())

    /// Prepares a server; nothing listens yet.
    /// - Parameter beginning: when the process began, from which the log counts the time of the
    ///   start. By default now, which leaves out whatever was made ready before.
    public init(
        configuration: ServerConfiguration, agents: AgentSet,
        voiceActivityModel: VoiceActivityModel?, logger: Logger,
        beginning: Instant = MonotonicClock.now
    ) {
        self.beginning = beginning
        self.configuration = configuration
        self.agents = agents
        self.voiceActivityModel = voiceActivityModel
        self.logger = logger
        let workers = WorkerPool(
            threads: max(1, configuration.workerThreads),
            maxQueued: max(0, configuration.maxQueuedJobs))
        self.workers = workers
        metrics = ServerMetrics(
            shards: max(1, configuration.shards), workers: { workers.counts })
    }

    /// The port that is listened on, once `start()` has returned.
    public var port: Int { state.withLock { $0.port } }

    /// Serves until SIGTERM or SIGINT, or until `stop()` is called elsewhere; then closes every
    /// connection and returns. A second signal ends the process at once.
    /// - Parameter onListening: is called once with the port, when connections are accepted.
    /// - Throws: `ServerError` when it cannot listen.
    public func run(onListening: (_ port: Int) -> Void = { _ in }) throws(ServerError) {
        let signals = StopSignals()
        signals.block()
        try start()
        onListening(port)
        signals.onArrival { [self] in stop() }
        waitUntilStopped()
    }

    /// Listens and starts the shards.
    /// - Throws: `ServerError` when it cannot listen.
    public func start() throws(ServerError) {
        if let objection = configuration.objection { throw .invalidConfiguration(objection) }
        // A peer that resets its connection must not end the process.
        StopSignals.ignoreBrokenPipes()
        var sockets: [ListeningSocket] = []
        var backends: [EpollIO] = []
        do throws(IOError) {
            for _ in 0..<configuration.shards { backends.append(try EpollIO()) }
        } catch {
            throw ServerError(error)
        }
        let address = try ListeningSocket.resolve(configuration)
        if !configuration.sharesPort { try ListeningSocket.checkUnused(address, configuration) }
        var port = configuration.port
        for _ in 0..<configuration.shards {
            let socket = try ListeningSocket(address, port: port, configuration)
            port = socket.port
            sockets.append(socket)
        }
        raiseDescriptorLimit()
        for (index, backend) in backends.enumerated() {
            try startShard(index, on: backend, listeningTo: sockets[index])
        }
        state.withLock { $0.port = port }
        logger.info(
            "listening",
            metadata: [
                "host": "\(configuration.host)", "port": "\(port)",
                "shards": "\(configuration.shards)", "workers": "\(configuration.workerThreads)",
                "start_ms": "\((MonotonicClock.now - beginning).wholeMilliseconds)",
            ])
    }

    /// Stops accepting, closes every session with 1001, and lets `run()` return. Any thread.
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
        logger.info("stopped")
    }

    private func startShard(
        _ index: Int, on backend: EpollIO, listeningTo socket: ListeningSocket
    ) throws(ServerError) {
        var services = ShardServices(
            configuration: configuration, agents: agents, pool: workers, metrics: metrics,
            logger: logger)
        services.index = index
        services.voiceActivityModel = voiceActivityModel
        services.makeUpstream = { UpstreamHTTP(loop: $0, executor: $1) }
        let shard = Shard(io: backend, services: services)
        do throws(IOError) { try shard.listen(on: socket.release()) } catch {
            throw ServerError(error)
        }
        let stop = shard.stop
        let thread = try ShardThread.start(shard)
        state.withLock {
            $0.stops.append(stop)
            $0.threads.append(thread)
        }
    }

    /// Every connection takes a descriptor; too few are no error before they are needed.
    private func raiseDescriptorLimit() {
        guard let limit = DescriptorLimit.raise(),
            !DescriptorLimit.suffices(limit, maxConnections: configuration.maxConnections)
        else { return }
        logger.warning(
            "fewer files may be open than max-connections needs; raise the limit with ulimit -n",
            metadata: [
                "open_files": "\(limit)",
                "needed": "\(configuration.maxConnections + DescriptorLimit.reserved)",
            ])
    }
}

/// A shard on its way to the thread that it is confined to from then on.
private final class ShardThread: @unchecked Sendable {
    private let shard: Shard<EpollIO>

    private init(_ shard: Shard<EpollIO>) { self.shard = shard }

    /// Starts a thread that turns the shard until it stops. The caller must not touch it any more.
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
