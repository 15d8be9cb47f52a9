// What a shard is given at its start, apart from its backend. The server gives the real things, a
// simulation gives ones that a seed decides.

import Logging
import Session

/// Makes a shard's HTTP client, given the loop and the executor to run it on.
package typealias UpstreamFactory =
    (_ loop: any UpstreamEventLoop, _ executor: any TaskExecutor) -> any UpstreamClient

/// What a shard works with.
package struct ShardServices {
    /// Which of the server's shards it is, from 0.
    package var index = 0
    /// Every setting and limit.
    package var configuration: ServerConfiguration
    /// Who answers.
    package var agents: AgentSet
    /// Nil when it is not installed.
    package var voiceActivityModel: VoiceActivityModel?
    /// Where CPU-heavy work goes.
    package var pool: any ComputePool
    /// The numbers of the whole server.
    package var metrics: ServerMetrics
    /// What one address may take, of all shards together. A table of its own unless it is set.
    package var addressLimits: AddressLimits
    /// Who may use the server; of all shards together. Nobody is asked unless it is set.
    package var authenticator: Authenticator
    /// Replies that can be resumed, of all shards together. One of its own unless it is set.
    package var replies: ReplyDirectory
    /// How the shards ask each other of their sessions. One of its own unless it is set.
    package var directory = ShardDirectory()
    /// What the process may hold; of all shards together. One of its own unless it is set.
    package var memory: MemoryBudget
    /// Where lines go.
    package var logger: Logger
    /// What TLS is made from; nil: plain TCP.
    package var tls: TLSContext?
    /// Nil: agents have no HTTP client.
    package var makeUpstream: UpstreamFactory?
    /// Gives back to the system what nobody uses any more. On a worker thread; a simulation, whose
    /// process is a test's, has nothing to give.
    package var returnMemory: @Sendable () -> Void = {}
    /// Seed of each new session. Unpredictable by default; a simulation counts.
    package var makeSessionSeed: () -> UInt64 = { .random(in: .min ... .max) }
    /// Seconds since 1970. The time of day by default; a simulation counts its own.
    package var wallSeconds: () -> Int = { WallClock.seconds }
    /// Bytes that nobody can know, for secrets. The kernel's by default, not OpenSSL's: its random
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

    /// Collects what has no default.
    package init(
        configuration: ServerConfiguration, agents: AgentSet, pool: any ComputePool,
        metrics: ServerMetrics, logger: Logger
    ) {
        self.configuration = configuration
        self.agents = agents
        self.pool = pool
        self.metrics = metrics
        addressLimits = AddressLimits(configuration)
        authenticator = Authenticator(configuration, rules: CredentialRules())
        replies = ReplyDirectory(limit: configuration.maxResumableReplies)
        memory = MemoryBudget(configuration)
        self.logger = logger
    }
}
