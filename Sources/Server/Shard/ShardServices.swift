// The services that a shard gets at its start, apart from its backend. The server passes the real
// ones, a simulation passes ones that a seed decides.

import Logging
import Session

/// Makes a shard's HTTP client, given the loop and the executor to run it on.
package typealias UpstreamFactory =
    (_ loop: any UpstreamEventLoop, _ executor: any TaskExecutor) -> any UpstreamClient

/// Makes a shard's client for Redis servers, given the loop and the executor to run it on.
package typealias RedisFactory =
    (_ loop: any UpstreamEventLoop, _ executor: any TaskExecutor) -> RedisClient

/// The services and settings of a shard.
package struct ShardServices {
    /// Which of the server's shards it is, from 0.
    package var index = 0
    /// Every setting and limit.
    package var configuration: ServerConfiguration
    /// The model, and what recognises and makes speech.
    package var agents: AgentSet
    /// Agents by their names, over all shards. Those of `agents` unless it is set.
    package var profiles: AgentDirectory
    /// Routes beside those of the configuration.
    var routes: [Route] = []
    /// Nil when it is not installed.
    package var voiceActivityModel: VoiceActivityModel?
    /// Where CPU-heavy work goes.
    package var pool: any ComputePool
    /// The numbers of the whole server.
    package var metrics: ServerMetrics
    /// Limits of one address, over all shards. A table of its own unless it is set.
    package var addressLimits: AddressLimits
    /// Credentials, over all shards. Every client is admitted unless it is set.
    package var authenticator: Authenticator
    /// The use of quotas, over all shards. A table of its own unless it is set.
    package var quotas: any QuotaStore
    /// Replies that can be resumed, over all shards. A directory of its own unless it is set.
    package var replies: ReplyDirectory
    /// The way in which shards ask each other for their sessions. One of its own unless it is set.
    package var directory = ShardDirectory()
    /// Whether a model of this machine runs, over all shards.
    package var localModel = LocalModelWatch()
    /// States of sessions that no Redis server keeps, over all shards. Its own unless it is set.
    package var sessionRecords: MemorySessionRecords
    /// Keeps records of sessions, over all shards. Without it, no records are kept.
    package var records: (any RecordKeeper)?
    /// Reads and deletes what is kept of ended sessions, over all shards. Nil where nothing is
    /// kept.
    package var library: (any RecordLibrary)?
    /// This node among those that share a store, and the others, over all shards.
    package var nodes = NodeDirectory(name: "node")
    /// The keeper of recordings. Nil means that no session is recorded.
    package var recordings: (any RecordingKeeper)?
    /// Makes the record of this node for the others.
    package var describeNode: () -> [UInt8] = { Array("{}".utf8) }
    /// The memory limit of the process, over all shards. One of its own unless it is set.
    package var memory: MemoryBudget
    /// The history of the server's last hour, over all shards. Nil means that none is kept.
    package var history: ServerHistory?
    /// Begins to drain the server for an operator. Nil means that operators cannot. Any thread.
    package var drainServer: (@Sendable () -> Void)?
    /// Takes log lines.
    package var logger: Logger
    /// The context of new TLS connections. Nil means plain TCP.
    package var tls: TLSContext?
    /// Nil means that agents have no HTTP client.
    package var makeUpstream: UpstreamFactory?
    /// Makes the shard's Redis client. Nil where there is no Redis server for this shard.
    package var makeRedis: RedisFactory?
    /// Gives unused memory back to the system; called on a worker thread. In a simulation, which
    /// runs in a test's process, it does nothing.
    package var returnMemory: @Sendable () -> Void = {}
    /// Seed of each new session. Unpredictable by default; a simulation counts.
    package var makeSessionSeed: () -> UInt64 = { .random(in: .min ... .max) }
    /// Makes a shard's store of sessions, whose argument is the shard's time. The default is the
    /// store that the configuration names. A simulation has one for several servers.
    package var makeSessionStore: ((_ now: @escaping () -> Instant) -> any SessionStore)?
    /// Seconds since 1970. The time of day by default; a simulation counts its own.
    package var wallSeconds: () -> Int = { WallClock.seconds }
    /// Unpredictable bytes for secrets. The kernel's by default, not OpenSSL's: its random
    /// generator alone takes 2 MB of a server without TLS.
    package var makeRandomBytes: (_ count: Int) -> [UInt8] = { count in
        var generator = SystemRandomNumberGenerator()
        return (0..<count).map { _ in generator.next() }
    }
    /// A delay from zero to the given one, to spread what would otherwise happen at once. Random
    /// by default; a simulation draws from its seed.
    package var drawDelay: (_ limit: Duration) -> Duration = { limit in
        .nanoseconds(Int64.random(in: 0...max(0, limit.wholeNanoseconds)))
    }

    /// Creates services with defaults for all that is not given.
    package init(
        configuration: ServerConfiguration, agents: AgentSet, pool: any ComputePool,
        metrics: ServerMetrics, logger: Logger
    ) {
        self.configuration = configuration
        self.agents = agents
        profiles = AgentDirectory(agents.profiles)
        self.pool = pool
        self.metrics = metrics
        addressLimits = AddressLimits(configuration.admission)
        authenticator = Authenticator(configuration.credentials, rules: CredentialRules())
        quotas = QuotaTable()
        replies = ReplyDirectory(limit: configuration.textRequests.maxResumableReplies)
        sessionRecords = MemorySessionRecords(maxBytes: configuration.store.maxSavedSessionBytes)
        memory = MemoryBudget(configuration.memory)
        self.logger = logger
    }
}
