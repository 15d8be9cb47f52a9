// The client against a real redis-server: connections, logins, TLS, large values, scripts, commands
// that wait, servers that stop, die and come back.

import CLinux
import Codec
import Session
import Testing

@testable import Server

@Suite(.enabled(if: RedisServerProcess.isInstalled, "redis-server is not installed"))
struct RedisLinkTests {
    @Test("commands are answered in order over one connection")
    func commands() throws {
        let server = try RedisServerProcess()
        let world = RedisWorld()
        let link = try world.link(server.url)
        var replies: [String] = []
        for number in 0..<1_000 {
            try link.send(RedisCommand("ECHO", "\(number)")) { result in
                replies.append((try? result.get())?.text ?? "\(result)")
            }
        }
        try world.run { replies.count == 1_000 }
        #expect(replies == (0..<1_000).map { "\($0)" })
        #expect(link.counts.completed == 1_000 && link.counts.failed == 0)
        #expect(world.watchCount == 1)
        let list = try world.reply(to: RedisCommand("CLIENT", "LIST"), over: link).get().text
        #expect(list?.contains("name=parley-test") == true)
    }

    @Test("a value of some megabytes goes there and back")
    func largeValue() throws {
        let server = try RedisServerProcess()
        let world = RedisWorld()
        let link = try world.link(server.url)
        let bytes = (0..<5_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        var set = RedisCommand("SET", "key")
        set.append(bytes)
        let timeout = HangGuard.duration
        #expect(try world.reply(to: set, over: link, timeout: timeout) == .success(.simple("OK")))
        let read = try world.reply(to: RedisCommand("GET", "key"), over: link, timeout: timeout)
        #expect(try read.get().bytes == bytes)
    }

    @Test("it logs in with a password and chooses a database")
    func login() throws {
        let server = try RedisServerProcess(["--requirepass", "pa:ss"])
        let world = RedisWorld()
        let link = try world.link("redis://:pa%3Ass@127.0.0.1:\(server.port)/3")
        _ = try world.reply(to: RedisCommand("SET", "a", "1"), over: link)
        let keys = try world.reply(to: RedisCommand("INFO", "keyspace"), over: link).get().text
        #expect(keys?.contains("db3:keys=1") == true)

        let wrong = try world.client.link(
            to: try #require(RedisAddress("redis://:wrong@127.0.0.1:\(server.port)")), for: "x")
        wrong.open()
        try world.run { wrong.isAway }
        #expect(throws: RedisError.unavailable) { try wrong.send(RedisCommand("PING")) { _ in } }
    }

    @Test("a script runs, and runs again after the server has lost it")
    func script() throws {
        let server = try RedisServerProcess()
        let world = RedisWorld()
        let link = try world.link(server.url)
        let script = RedisScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
        let command = RedisCommand(script, keys: ["n"], arguments: [Array("5".utf8)])
        #expect(try world.reply(to: command, over: link) == .success(.integer(5)))
        #expect(try world.reply(to: command, over: link) == .success(.integer(10)))
        _ = try world.reply(to: RedisCommand("SCRIPT", "FLUSH"), over: link)
        guard case .failure(let error) = try world.reply(to: command, over: link) else {
            Issue.record("the script was not lost")
            return
        }
        #expect(error.isHarmless)
        #expect(try world.reply(to: command, over: link) == .success(.integer(15)))
    }

    @Test("a server that dies is noticed at once, and used again when it is back")
    func restart() throws {
        let server = try RedisServerProcess()
        let world = RedisWorld()
        let link = try world.link(server.url)
        _ = try world.reply(to: RedisCommand("SET", "a", "1"), over: link)
        server.kill()
        try world.run { link.isAway }
        #expect(throws: RedisError.unavailable) { try link.send(RedisCommand("PING")) { _ in } }
        try server.start()
        try world.run { link.isReady }
        #expect(try world.reply(to: RedisCommand("GET", "a"), over: link) == .success(.null))
        #expect(link.counts.losses == 1)
    }

    @Test("a server that stands still costs bounded memory, and every command gets an outcome")
    func standstill() throws {
        let server = try RedisServerProcess()
        var limits = RedisLimits()
        limits.maxCommands = 100
        limits.maxQueuedBytes = 1 << 20
        limits.commandTimeout = .milliseconds(200)
        limits.connectTimeout = .milliseconds(300)
        let world = RedisWorld(limits: limits)
        let link = try world.link(server.url)
        server.suspend()
        var accepted = 0
        var refused: [RedisError] = []
        var outcomes: [RedisError] = []
        var set = RedisCommand("SET", "a")
        set.append([UInt8](repeating: 7, count: 100_000))
        for _ in 0..<1_000 {
            do throws(RedisError) {
                try link.send(set) { result in
                    if case .failure(let error) = result { outcomes.append(error) }
                }
                accepted += 1
            } catch {
                refused.append(error)
            }
            if world.client.hasUnsent { world.client.flush() }
            #expect(link.queuedBytes <= limits.maxQueuedBytes)
        }
        #expect(refused.contains(.overloaded) && accepted > 0)
        try world.run { outcomes.count == accepted }
        #expect(outcomes.contains(.timedOut) && link.isAway)
        server.resume()
        try world.run { link.isReady }
        #expect(try world.reply(to: RedisCommand("PING"), over: link).get().text == "PONG")
    }

    @Test("nothing listens: commands before the first attempt fail, later ones are refused")
    func nothingListens() throws {
        let server = try RedisServerProcess()
        server.kill()
        let world = RedisWorld()
        let link = try world.client.link(to: try #require(RedisAddress(server.url)), for: "test")
        let outcome = try world.reply(to: RedisCommand("PING"), over: link)
        #expect(outcome == .failure(.unavailable))
        #expect(link.isAway)
    }

    @Test("a name that does not resolve is a server that is away")
    func unknownName() throws {
        let world = RedisWorld()
        let link = try world.client.link(
            to: try #require(RedisAddress("redis://nothing.invalid")), for: "test")
        link.open()
        try world.run { link.isAway }
    }

    @Test("over TLS, and not with a certificate that no authority has signed")
    func tls() throws {
        let server = try RedisServerProcess(isSecure: true)
        let url = "rediss://localhost:\(server.port)"
        let world = RedisWorld(authorities: server.certificate)
        let link = try world.link(url)
        let bytes = [UInt8](repeating: 9, count: 300_000)
        var echo = RedisCommand("ECHO")
        echo.append(bytes)
        let reply = try world.reply(to: echo, over: link, timeout: HangGuard.duration)
        #expect(try reply.get().bytes == bytes)

        let stranger = RedisWorld()
        let refused = try stranger.client.link(to: try #require(RedisAddress(url)), for: "test")
        refused.open()
        try stranger.run { refused.isAway }
    }

    // MARK: Tasks

    @Test("a task gets replies, also one that waits on a link of its own")
    func tasks() throws {
        let server = try RedisServerProcess()
        let world = RedisWorld()
        let address = try #require(RedisAddress(server.url))
        let waiting = world.start { client in
            try await client.commands(to: address, for: "reader")
                .send(RedisCommand("BLPOP", "list", "0"), timeout: .zero)
        }
        let pushed = world.start { client in
            let commands = client.commands(to: address, for: "writer")
            for number in 0..<3 {
                _ = try await commands.send(RedisCommand("SET", "k", "\(number)"))
            }
            return try await commands.send(RedisCommand("GET", "k"))
        }
        try world.run { pushed.outcome.isKnown }
        #expect(pushed.outcome.value == .bulk(Array("2".utf8)))
        #expect(!waiting.outcome.isKnown)
        let link = try world.client.link(to: address, for: "writer")
        _ = try world.reply(to: RedisCommand("RPUSH", "list", "x"), over: link)
        try world.run { waiting.outcome.isKnown }
        #expect(waiting.outcome.value?.array?.last?.text == "x")
    }

    @Test("a cancelled task does not wait, and the connection goes on")
    func cancellation() throws {
        let server = try RedisServerProcess()
        let world = RedisWorld()
        let address = try #require(RedisAddress(server.url))
        let link = try world.link(server.url)
        let waiting = world.start { client in
            try await client.commands(to: address, for: "test")
                .send(RedisCommand("BLPOP", "list", "0"), timeout: .zero)
        }
        try world.run { link.counts.waiting == 1 }
        waiting.task.cancel()
        try world.run { waiting.outcome.isKnown }
        #expect(waiting.outcome.error as? RedisError == .cancelled)
        // Unblocks the connection, whose reply nothing waits for.
        let other = try world.link(server.url, for: "other")
        _ = try world.reply(to: RedisCommand("RPUSH", "list", "x"), over: other)
        #expect(try world.reply(to: RedisCommand("PING"), over: link).get().text == "PONG")
    }

    @Test("after a shutdown everything has failed and nothing is watched")
    func shutdown() throws {
        let server = try RedisServerProcess()
        let world = RedisWorld()
        let link = try world.link(server.url)
        var outcome: Result<RedisValue, RedisError>?
        try link.send(RedisCommand("BLPOP", "list", "0"), timeout: .zero) { outcome = $0 }
        world.client.flush()
        world.client.shutdown()
        #expect(outcome == .failure(.disconnected))
        #expect(world.watchCount == 0)
        #expect(throws: RedisError.unavailable) { try link.send(RedisCommand("PING")) { _ in } }
    }
}
