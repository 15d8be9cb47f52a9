// One real shard on a simulated kernel, and the loop that drives both: it runs ticks until no work
// is left, then advances the clock. Tests hold the clients.

import Codec
import Server
import Session
import Synchronization

/// Runs jobs synchronously when they are submitted: a worker without a thread.
package final class InlineComputePool: ComputePool {
    /// Urgencies of jobs that are refused.
    private let refused: [JobUrgency]

    /// Creates a pool. A full pool accepts no job; a busy one accepts only urgent jobs, for which a
    /// user is waiting.
    package init(isFull: Bool = false, isBusy: Bool = false) {
        refused = isFull ? [.awaited, .expected, .spare] : isBusy ? [.expected, .spare] : []
    }

    package func submit(
        _ urgency: JobUrgency, for owner: JobOwner?, _ job: ComputeJob
    ) -> Bool {
        guard !refused.contains(urgency) else { return false }
        job.run()
        return true
    }
}

/// A model without any reply.
package struct SilentModel: LanguageModel {
    package init() {}

    package func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {}
}

/// The memory use that a simulated kernel reports for the process.
package final class SimulatedMemory: Sendable {
    /// Resident bytes.
    package let resident = Atomic<Int>(0)
}

/// A shard and its simulated environment.
package final class SimulatedServer {
    /// The time of day at the start of a simulation, in seconds since 1970.
    package static let firstSecond = 1_800_000_000
    /// Maximum ticks of a run without idleness. More mean a busy loop, and the run fails.
    package static let maxTicksPerRun = 200_000

    package let io: SimulatedIO
    package let shard: Shard<SimulatedIO>
    package let metrics: ServerMetrics
    package let authenticator: Authenticator
    private let directory: ShardDirectory
    private let budget: MemoryBudget
    package let memory = SimulatedMemory()
    /// Whether the shard has stopped.
    package private(set) var hasStopped = false
    private var clients: [SimulatedClient] = []

    /// Creates a listening server.
    /// - Parameters:
    ///   - shards: number of shards of the server; this is the first of them.
    ///   - first: the first shard, if this is another one of the same server. Each has its own
    ///     kernel and clock.
    ///   - store: outlives the server, which may share it with others.
    ///   - change: changes the shard's services.
    package init(
        configuration: ServerConfiguration = ServerConfiguration(),
        agents: AgentSet = AgentSet(model: SilentModel()), seed: UInt64 = 1,
        faults: SimulatedFaults = SimulatedFaults(), pool: any ComputePool = InlineComputePool(),
        voiceActivityModel: VoiceActivityModel? = nil, log: LogRecord = LogRecord(),
        tls: TLSContext? = nil, credentials: CredentialRules = CredentialRules(),
        shards: Int = 1, besides first: SimulatedServer? = nil, store: SimulatedStore? = nil,
        _ change: (inout ShardServices) -> Void = { _ in }
    ) throws {
        io = SimulatedIO(seed: seed, faults: faults)
        metrics = first?.metrics ?? ServerMetrics(shards: shards, workers: { WorkerCounts() })
        directory = first?.directory ?? ShardDirectory()
        var services = ShardServices(
            configuration: configuration, agents: agents, pool: pool, metrics: metrics,
            logger: log.logger)
        services.index = first == nil ? 0 : 1
        services.directory = directory
        services.voiceActivityModel = voiceActivityModel
        services.tls = tls
        budget =
            first?.budget
            ?? MemoryBudget(configuration.memory) { [memory] in
                memory.resident.load(ordering: .relaxed)
            }
        services.memory = budget
        authenticator = Authenticator(configuration.credentials, rules: credentials)
        services.authenticator = authenticator
        services.wallSeconds = { [io] in
            SimulatedServer.firstSecond + Int(io.now.nanoseconds / 1_000_000_000)
        }
        var secrets = SeededGenerator(seed: seed &+ 1)
        services.makeRandomBytes = { count in
            (0..<count).map { _ in UInt8(truncatingIfNeeded: secrets.next()) }
        }
        var seeds = SeededGenerator(seed: seed)
        services.makeSessionSeed = { seeds.next() }
        var delays = SeededGenerator(seed: ~seed)
        services.drawDelay = { limit in
            .nanoseconds(Int64.random(in: 0...max(0, limit.wholeNanoseconds), using: &delays))
        }
        if let store { services.makeSessionStore = store.view }
        change(&services)
        shard = Shard(io: io, services: services)
        try shard.listen(on: SimulatedIO.listener)
    }

    /// Checks the end of every simulated test: without connections, no memory may be charged.
    deinit {
        precondition(shard.isBalanced, "a ledger is not what its connection holds")
        guard !hasStopped else { return }
        shard.stop(.goingAway)
        run(for: .seconds(60))
        precondition(!hasStopped || shard.ledgerBytes == 0, "charges were left behind")
        precondition(shard.isBalanced, "a ledger is not what its connection holds")
    }

    /// Creates a connection. `window`: bytes that the server may write before the peer reads.
    package func connect(
        window: Int = 1 << 20, from address: String = "127.0.0.1"
    ) -> SimulatedPeer {
        guard let address = NetworkAddress(address) else {
            preconditionFailure("no address: \(address)")
        }
        return SimulatedPeer(io.connect(window: window, from: address))
    }

    /// Creates a client that every run polls, and sends its handshake.
    package func openClient(
        _ target: String = "/v1/realtime?model=test", subprotocols: [String] = ["realtime"],
        offer: PerMessageDeflateOffer? = nil, key: String? = nil, beta: String? = nil,
        fields: [(String, String)] = [], from address: String = "127.0.0.1"
    ) -> SimulatedClient {
        let client = SimulatedClient(connect(from: address), seed: UInt64(clients.count) + 1)
        clients.append(client)
        client.open(
            target, subprotocols: subprotocols, offer: offer, credential: key, beta: beta,
            fields: fields)
        return client
    }

    /// Runs for a period of virtual time; clients answer at once.
    /// - Returns: false if the shard never became idle.
    @discardableResult
    package func run(for duration: Duration = .zero) -> Bool {
        io.horizon = io.now + duration
        for _ in 0..<SimulatedServer.maxTicksPerRun {
            guard !hasStopped else { return true }
            hasStopped = !shard.tick()
            // In every tick, so that an answer arrives before the clock jumps to the next deadline.
            for client in clients where client.isReading { client.poll(at: io.now) }
            if io.isIdle && !io.hasWork { return true }
        }
        return false
    }
}
