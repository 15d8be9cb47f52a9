// The store of sessions on a shard: which one it is, its heartbeat, and what other servers tell.

import Codec
import Session

/// A shard's store, and its heartbeat where the shard has that task.
final class ShardStore {
    /// Where state is kept.
    let sessions: any SessionStore
    /// The connection to Redis; nil: there is none.
    let link: StoreLink?
    fileprivate let heartbeat: NodeHeartbeat?
    /// Nil as `heartbeat`.
    fileprivate let registry: NodeRegistry?

    /// The store that the configuration names. Nothing is sent yet.
    init(_ services: ShardServices, redis: RedisClient?, now: @escaping () -> Instant) {
        let metrics = services.metrics.shards[services.index]
        guard let redis, let address = services.configuration.storeAddress else {
            sessions = MemorySessionStore(services.sessionRecords, now: now)
            (link, heartbeat, registry) = (nil, nil, nil)
            return
        }
        let link = StoreLink(client: redis, address: address, metrics: metrics)
        self.link = link
        sessions = RedisSessionStore(over: link, node: services.nodes.name, metrics: metrics)
        let directory = services.directory
        heartbeat =
            services.index == 0
            ? NodeHeartbeat(over: link, node: services.nodes.name, describe: services.describeNode)
            {
                for post in directory.all { post(.fenced(sessionID: $0, fence: $1)) }
            } : nil
        registry =
            services.index == 0
            ? NodeRegistry(
                over: link, services.nodes, describe: services.describeNode,
                makeSecret: { services.makeRandomBytes(NodeRegistry.secretBytes) }) : nil
    }
}

extension Shard {
    /// Connects to the store, if it is a server. On the shard's thread.
    func openStore() {
        store.link?.open()
        beatHeart()
    }

    /// Shows other servers that this one is alive, now and from now on.
    func beatHeart() {
        guard let heartbeat = store.heartbeat else { return }
        heartbeat.beat()
        store.registry?.renew()
        _ = deadlines.schedule(.heartbeat, at: now + NodeHeartbeat.interval)
    }

    /// Another server has claimed a session, which this shard may have.
    func handleFenced(_ sessionID: String, fence: UInt64) {
        store.sessions.onFenced?(sessionID, fence)
    }

    /// Sets the gauges of Redis and of the store.
    func publishStore() {
        guard let redis, !redis.orderedLinks.isEmpty else { return }
        var total = RedisCounts()
        var bytes = 0
        var ready = 0
        for link in redis.orderedLinks {
            total.completed += link.counts.completed
            total.failed += link.counts.failed
            total.losses += link.counts.losses
            total.waiting += link.counts.waiting
            bytes += link.queuedBytes
            ready += link.isReady ? 1 : 0
        }
        metrics.set(.redisConnections, to: ready)
        metrics.set(.redisCompleted, to: total.completed)
        metrics.set(.redisFailed, to: total.failed)
        metrics.set(.redisLosses, to: total.losses)
        metrics.set(.redisWaiting, to: total.waiting)
        metrics.set(.redisQueuedBytes, to: bytes)
        metrics.set(.storeConnected, to: store.link?.isReady == true ? 1 : 0)
    }
}

extension ServerConfiguration {
    /// The Redis server that keeps sessions; nil: they are kept in memory.
    var storeAddress: RedisAddress? { RedisAddress(store) }
}
