// The store of sessions on a shard: which one it is, its heartbeat, and the messages of other
// servers.

import Codec
import Session

/// A shard's store, and its heartbeat where the shard has that task.
final class ShardStore {
    /// Where state is kept.
    let sessions: any SessionStore
    /// Where client secrets are left for other nodes, if they are.
    var secrets: (any SharedSecrets)?
    /// The connection to Redis, if there is one.
    let link: StoreLink?
    fileprivate let heartbeat: NodeHeartbeat?
    /// Reports this server's use of quotas. Nil where another shard does that, or nothing is
    /// shared.
    fileprivate let quotas: QuotaReports?
    /// The same for the sessions of keys.
    fileprivate let places: PlaceReports?
    /// Whether a report is planned.
    fileprivate var isReportPlanned = false

    /// The store that the configuration names. Nothing is sent yet.
    init(_ services: ShardServices, redis: RedisClient?, now: @escaping () -> Instant) {
        let metrics = services.metrics.shards[services.index]
        guard let redis, let address = services.configuration.store.address else {
            sessions =
                services.makeSessionStore?(now)
                ?? MemorySessionStore(services.sessionRecords, now: now)
            (link, heartbeat, quotas, places) = (nil, nil, nil, nil)
            return
        }
        let link = StoreLink(client: redis, address: address, metrics: metrics)
        self.link = link
        let node = services.nodes.name
        sessions = RedisSessionStore(over: link, node: node, metrics: metrics)
        secrets = RedisSharedSecrets(over: link)
        guard services.index == 0 else {
            (heartbeat, quotas, places) = (nil, nil, nil)
            return
        }
        let (directory, table) = (services.directory, services.quotas as? SharedQuotaTable)
        let places = PlaceReports(
            over: link, places: services.authenticator.places, node: node)
        self.places = places
        heartbeat = NodeHeartbeat(
            over: link, services.nodes, describe: services.describeNode,
            makeSecret: { services.makeRandomBytes(NodeHeartbeat.secretBytes) },
            onFenced: { sessionID, fence in
                for post in directory.all { post(.fenced(sessionID: sessionID, fence: fence)) }
            },
            onNodes: { count in
                places.handleHeartbeat(isReachable: count != nil)
                table?.noteReachable(count != nil)
                if let count { table?.noteServers(count) }
            })
        quotas = table.map { QuotaReports(over: link, table: $0, now: now) }
    }
}

extension Shard {
    /// Connects to the store, if it is a server. On the shard's thread.
    func openStore() {
        returning.store.link?.onReady = { [unowned self] in
            // A server that was cut off learns at once which sessions others have taken.
            returning.store.heartbeat?.beat()
            reviewRecords()
        }
        returning.store.link?.open()
        sendHeartbeat()
        guard returning.store.places != nil else { return }
        let plan: @Sendable () -> Void = { [mailbox = inbox.mailbox] in
            mailbox.post(.planReport)
        }
        (services.quotas as? SharedQuotaTable)?.onUse(plan)
        services.authenticator.sharePlaces(plan)
    }

    /// Shows other servers that this one is alive, now and from now on.
    func sendHeartbeat() {
        guard let heartbeat = returning.store.heartbeat else { return }
        heartbeat.beat()
        _ = deadlines.schedule(.heartbeat, at: now + NodeHeartbeat.interval)
    }

    /// Plans a report of what quotas were used, and of what sessions keys have.
    func planReport() {
        guard returning.store.places != nil, !returning.store.isReportPlanned else { return }
        returning.store.isReportPlanned = true
        _ = deadlines.schedule(.report, at: now + SharedQuotaTable.reportDelay)
    }

    /// Reports the changes. A change that cannot be reported now is tried again.
    func sendReport() {
        returning.store.isReportPlanned = false
        returning.store.quotas?.send()
        returning.store.places?.send()
        if returning.store.quotas?.hasUses == true || returning.store.places?.hasChanges == true {
            planReport()
        }
    }

    /// Sets the gauges of Redis and of the store.
    func publishStore() {
        guard let redis = upstreams.redis, !redis.orderedLinks.isEmpty else { return }
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
        metrics.set(.storeConnected, to: returning.store.link?.isReady == true ? 1 : 0)
        for trouble in RedisTrouble.allCases {
            metrics.set(trouble.storeMetric, to: returning.store.link?.trouble == trouble ? 1 : 0)
        }
    }
}
