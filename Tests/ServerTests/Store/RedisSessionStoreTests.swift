// Two servers and one real redis-server: who owns a session when both believe it, what a restart and
// a standstill of Redis do, and how a server learns that it has lost a session.

import Codec
import Session
import Testing

@testable import Server

private let proof = [UInt8](repeating: 7, count: 32)

/// One server: a client on a loop of its own, with its store and heartbeat.
private final class StoreNode {
    let world: RedisWorld
    let store: RedisSessionStore
    let heartbeat: NodeHeartbeat
    let directory: NodeDirectory
    let link: StoreLink
    let metrics = ShardMetrics()

    init(_ name: String, at url: String, limits: RedisLimits = RedisLimits()) throws {
        world = RedisWorld(limits: limits)
        let address = try #require(RedisAddress(url))
        let link = StoreLink(client: world.client, address: address, metrics: metrics)
        self.link = link
        store = RedisSessionStore(over: link, node: name, metrics: metrics)
        let directory = NodeDirectory(name: name)
        self.directory = directory
        let record = FencedRecord()
        self.record = record
        heartbeat = NodeHeartbeat(
            over: link, directory,
            describe: {
                NodeRecord(name: name, url: "http://\(name):8080", started: 1, sessions: 0).json
            },
            makeSecret: { Array(name.utf8) + [UInt8](repeating: 0, count: 32) },
            onFenced: { record.list.append("\($0) \($1)") }, onNodes: { record.nodes = $0 })
        link.open()
        try world.run { link.isReady }
    }

    final class FencedRecord {
        var list: [String] = []
        var nodes: Int?
    }
    let record: FencedRecord

    func write(
        _ id: String, fence: UInt64, _ fields: [(String, String)] = [], whole: Bool = false,
        removed: [String] = [], lifetime: Duration = .seconds(60)
    ) throws -> StoreWriteOutcome {
        var set = fields.map { (name: $0.0, value: Array($0.1.utf8)) }
        if fence == 0 || whole { set.append((name: "proof", value: proof)) }
        var outcome: StoreWriteOutcome?
        store.write(
            SessionChange(
                sessionID: id, fence: fence, isWhole: whole, set: set, removed: removed,
                lifetime: lifetime)
        ) { outcome = $0 }
        try world.run { outcome != nil }
        return try #require(outcome)
    }

    func claim(
        _ id: String, proof shown: [UInt8] = proof, force: Bool = false
    ) throws -> ClaimOutcome {
        var outcome: ClaimOutcome?
        store.claim(
            SessionClaim(sessionID: id, proof: shown, force: force, lifetime: .seconds(60))
        ) { outcome = $0 }
        try world.run { outcome != nil }
        return try #require(outcome)
    }

    /// Waits until what was sent without an outcome for its caller is done.
    func settle() throws { try world.run { store.pendingChanges == 0 } }

    func beat() throws {
        heartbeat.beat()
        try settle()
    }
}

/// The fields of a claim as texts, without the proof.
private func texts(_ outcome: ClaimOutcome) -> [String: String]? {
    guard case .claimed(var fields, _) = outcome else { return nil }
    fields["proof"] = nil
    return fields.mapValues { String(decoding: $0, as: UTF8.self) }
}

@Suite(.enabled(if: RedisServerProcess.isInstalled, "redis-server is not installed"))
struct RedisSessionStoreTests {
    @Test("a dead server's session goes on elsewhere with all of its fields")
    func takeOver() throws {
        let server = try RedisServerProcess()
        let one = try StoreNode("one", at: server.url)
        let two = try StoreNode("two", at: server.url)
        #expect(one.store.isShared)
        #expect(try one.write("s", fence: 0, [("a", "1"), ("b", "2")]) == .written)
        #expect(try one.write("s", fence: 1, [("a", "3")], removed: ["b"]) == .written)
        let outcome = try two.claim("s")
        #expect(texts(outcome) == ["a": "3"])
        #expect(try two.write("s", fence: 2, [("c", "4")]) == .written)
    }

    @Test("two servers that both believe they own a session: the older fence writes nothing")
    func fencing() throws {
        let server = try RedisServerProcess()
        let one = try StoreNode("one", at: server.url)
        let two = try StoreNode("two", at: server.url)
        _ = try one.write("s", fence: 0, [("a", "1")])
        guard case .claimed(_, 2) = try two.claim("s") else {
            Issue.record("the session of a server without a heartbeat is not claimed")
            return
        }
        #expect(try one.write("s", fence: 1, [("a", "old")]) == .fenced)
        #expect(try one.write("s", fence: 1, [("a", "old")], whole: true) == .fenced)
        // The right fence of another owner is no right either.
        #expect(try one.write("s", fence: 2, [("a", "old")]) == .fenced)
        one.store.release("s", fence: 1, lifetime: .seconds(1))
        one.store.remove("s", fence: 2)
        try one.settle()
        #expect(try two.write("s", fence: 2, [("b", "2")]) == .written)
        #expect(texts(try two.claim("s")) == ["a": "1", "b": "2"])
        #expect(one.metrics.value(of: .storeFenced) == 3)
    }

    @Test("of many claims at once each gets a fence of its own, and the last one owns the session")
    func race() throws {
        let server = try RedisServerProcess()
        let nodes = try (0..<3).map { try StoreNode("node\($0)", at: server.url) }
        _ = try nodes[0].write("s", fence: 0)
        var fences: [(node: Int, fence: UInt64)] = []
        for _ in 0..<10 {
            for (index, node) in nodes.enumerated() {
                node.store.claim(
                    SessionClaim(
                        sessionID: "s", proof: proof, force: true, lifetime: .seconds(60))
                ) {
                    if case .claimed(_, let fence) = $0 { fences.append((index, fence)) }
                }
            }
            for node in nodes { if node.world.client.hasUnsent { node.world.client.flush() } }
        }
        for node in nodes { try node.settle() }
        #expect(Set(fences.map(\.fence)) == Set(2...31))
        let last = try #require(fences.max { $0.fence < $1.fence })
        for (index, node) in nodes.enumerated() {
            for fence in UInt64(2)...31 {
                let isOwner = index == last.node && fence == last.fence
                #expect(
                    try node.write("s", fence: fence, [("x", "1")])
                        == (isOwner ? .written : .fenced))
            }
        }
    }

    @Test("a living server keeps its session until it is forced, and is told then")
    func living() throws {
        let server = try RedisServerProcess()
        let one = try StoreNode("one", at: server.url)
        let two = try StoreNode("two", at: server.url)
        try one.beat()
        _ = try one.write("s", fence: 0)
        #expect(try two.claim("s") == .heldBy(node: "one"))
        guard case .claimed(_, 2) = try two.claim("s", force: true) else {
            Issue.record("a forced claim has failed")
            return
        }
        #expect(one.record.list == [])
        try one.beat()
        #expect(one.record.list == ["s 2"])
        try one.beat()
        #expect(one.record.list == ["s 2"] && one.record.nodes == 1)
        // The server that has it may claim it again, as another of its shards does.
        try two.beat()
        #expect(two.record.nodes == 2 && two.directory.others.map(\.name) == ["one"])
        #expect(two.directory.others.first?.url == "http://one:8080")
        #expect(one.directory.others == [])
        // Both have the secret of the first.
        try one.beat()
        let third = NodeRecord(name: "three", url: "http://three:1", started: 1, sessions: 0)
        let passes = [one, two].map { node in
            node.directory.request(.get, "/", to: third, for: .anonymous, at: 0)?.pass
        }
        #expect(passes[0] != nil && passes[0] == passes[1])
        guard case .claimed(_, 3) = try two.claim("s") else {
            Issue.record("a server cannot claim its own session")
            return
        }
    }

    @Test("a released session is for whoever knows its secret; no server changes it before")
    func release() throws {
        let server = try RedisServerProcess()
        let one = try StoreNode("one", at: server.url)
        let two = try StoreNode("two", at: server.url)
        try one.beat()
        _ = try one.write("s", fence: 0, [("a", "1")])
        one.store.release("s", fence: 1, lifetime: .seconds(60))
        try one.settle()
        #expect(try one.write("s", fence: 1, [("a", "late")]) == .fenced)
        #expect(try two.claim("s", proof: Array(proof.dropLast()) + [8]) == .missing)
        #expect(try two.claim("s", proof: []) == .missing)
        #expect(texts(try two.claim("s")) == ["a": "1"])
        two.store.remove("s", fence: 2)
        try two.settle()
        #expect(try one.claim("s") == .missing)
    }

    @Test("a record lives as long as its last change says")
    func lifetime() throws {
        let server = try RedisServerProcess()
        let one = try StoreNode("one", at: server.url)
        _ = try one.write("s", fence: 0, lifetime: .seconds(1_000))
        let link = try one.world.link(server.url)
        let left = try one.world.reply(to: RedisCommand("PTTL", "parley:{s}"), over: link).get()
        #expect((900_000...1_000_000).contains(try #require(left.integer)))
        _ = try one.write("s", fence: 1, lifetime: .milliseconds(1))
        try one.world.run {
            let keys = try? one.world.reply(to: RedisCommand("DBSIZE"), over: link).get().integer
            return keys == 0
        }
        #expect(try one.write("s", fence: 1, [("a", "1")]) == .missing)
    }

    @Test("a Redis that has lost its data gets the sessions again from their owners")
    func emptyRestart() throws {
        let server = try RedisServerProcess()
        let one = try StoreNode("one", at: server.url)
        let two = try StoreNode("two", at: server.url)
        _ = try one.write("s", fence: 0, [("a", "1")])
        guard case .claimed(_, 2) = try two.claim("s") else { return }
        server.kill()
        for node in [one, two] { try node.world.run { !node.link.isReady } }
        try server.start()
        for node in [one, two] { try node.world.run { node.link.isReady } }
        #expect(try two.write("s", fence: 2, [("b", "2")]) == .missing)
        // The old owner comes first, and yet the newer one prevails.
        #expect(try one.write("s", fence: 1, [("a", "old")], whole: true) == .written)
        #expect(try two.write("s", fence: 2, [("a", "1"), ("b", "2")], whole: true) == .written)
        #expect(try one.write("s", fence: 1, [("a", "old")]) == .fenced)
        #expect(try one.write("s", fence: 1, [("a", "old")], whole: true) == .fenced)
        #expect(texts(try two.claim("s")) == ["a": "1", "b": "2"])
    }

    @Test("a Redis that stands still costs bounded memory, and every change has an outcome")
    func standstill() throws {
        let server = try RedisServerProcess()
        var limits = RedisLimits()
        limits.maxQueuedBytes = 1 << 20
        limits.commandTimeout = .milliseconds(200)
        limits.connectTimeout = .milliseconds(300)
        let one = try StoreNode("one", at: server.url, limits: limits)
        _ = try one.write("s", fence: 0)
        server.suspend()
        var outcomes: [StoreWriteOutcome] = []
        let value = [UInt8](repeating: 1, count: 20_000)
        for _ in 0..<1_000 {
            one.store.write(
                SessionChange(
                    sessionID: "s", fence: 1, set: [(name: "a", value: value)],
                    lifetime: .seconds(60))
            ) { outcomes.append($0) }
            if one.world.client.hasUnsent { one.world.client.flush() }
        }
        try one.world.run { outcomes.count == 1_000 }
        #expect(outcomes.allSatisfy { $0 == .failed })
        #expect(try one.claim("s") == .unavailable)
        #expect(one.store.pendingChanges == 0)
        #expect(one.metrics.value(of: .storeFailures) == 1_001)
        server.resume()
        try one.world.run { one.link.isReady }
        #expect(try one.write("s", fence: 1, [("a", "1")], whole: true) == .written)
    }

    @Test("a Redis that has lost its scripts carries out the claim, and the next change")
    func lostScripts() throws {
        let server = try RedisServerProcess()
        let one = try StoreNode("one", at: server.url)
        _ = try one.write("s", fence: 0, [("a", "1")])
        _ = try one.claim("s")
        let link = try one.world.link(server.url)
        _ = try one.world.reply(to: RedisCommand("SCRIPT", "FLUSH"), over: link)
        #expect(texts(try one.claim("s")) == ["a": "1"])
        #expect(try one.write("s", fence: 3, [("a", "2")]) == .failed)
        #expect(try one.write("s", fence: 3, [("a", "2")]) == .written)
    }

    @Test("a record that something else has damaged is no session, and no trap")
    func damaged() throws {
        let server = try RedisServerProcess()
        let one = try StoreNode("one", at: server.url)
        let link = try one.world.link(server.url)
        let proofText = String(decoding: proof, as: UTF8.self)
        for (fence, owner) in [("x", "one"), ("-5", ""), ("1e300", "one"), ("", "")] {
            let key = RedisCommand(
                "HSET", "parley:{s}", "fence", fence, "owner", owner, "proof", proofText)
            _ = try one.world.reply(to: RedisCommand("DEL", "parley:{s}"), over: link)
            _ = try one.world.reply(to: key, over: link)
            _ = try one.claim("s")
            _ = try one.write("s", fence: 1, [("a", "1")])
        }
        _ = try one.world.reply(to: RedisCommand("DEL", "parley:{s}"), over: link)
        _ = try one.world.reply(to: RedisCommand("SET", "parley:{s}", "text"), over: link)
        #expect(try one.claim("s") == .unavailable)
        #expect(try one.write("s", fence: 0) == .failed)
        let inbox = RedisCommand(
            "RPUSH", "parley:inbox:one", "fenced", "fenced x s", "", "other 1 s")
        _ = try one.world.reply(to: inbox, over: link)
        try one.beat()
        #expect(one.record.list == [])
    }

    @Test("a server that was cut off learns which of its sessions others have claimed meanwhile")
    func cutOff() throws {
        let server = try RedisServerProcess()
        let one = try StoreNode("one", at: server.url)
        let two = try StoreNode("two", at: server.url)
        _ = try one.write("s", fence: 0)
        // It has no heartbeat, so that it does not count as alive.
        guard case .claimed(_, 2) = try two.claim("s") else {
            Issue.record("the session is not claimed")
            return
        }
        try one.beat()
        #expect(one.record.list == ["s 2"])
        try one.beat()
        #expect(one.record.list == ["s 2"], "it is told once")
    }
}
