// The state machine of a connection to Redis, without a socket and on a virtual clock: what it
// sends, which reply belongs to which command, and what happens when the server is slow or away.

import Codec
import Session
import TestMaterial
import Testing

@testable import Server

/// A pipeline and what it has asked for.
private struct PipelineWorld {
    var pipeline: RedisPipeline<Int>
    var log: [String] = []
    var now = Instant.milliseconds(0)
    /// The delays that were drawn, the longest possible each.
    let draws: Draws

    final class Draws { var limits: [Duration] = [] }

    init(
        _ url: String = "redis://localhost", probe: RedisProbe = .write,
        limits: RedisLimits = RedisLimits()
    ) throws {
        let draws = Draws()
        self.draws = draws
        pipeline = RedisPipeline(
            to: try #require(RedisAddress(url)), named: "test", probe: probe, limits: limits
        ) {
            draws.limits.append($0)
            return $0
        }
    }

    mutating func take() -> [String] {
        while let action = pipeline.nextAction() { log.append(Self.text(of: action)) }
        defer { log = [] }
        return log
    }

    private static func text(of action: RedisAction<Int>) -> String {
        switch action {
        case .connect: "connect"
        case .disconnect: "disconnect"
        case .complete(let tag, .success(let value)): "\(tag) \(value.text ?? "\(value)")"
        case .complete(let tag, .failure(.refused(let code, _))): "\(tag) refused \(code)"
        case .complete(let tag, .failure(let error)): "\(tag) \(error)"
        case .becomeReady: "ready"
        case .becomeAway(let reason, _): "away: \(reason)"
        }
    }

    /// The first words of the commands that it has sent.
    mutating func sent() -> [String] {
        var bytes: [UInt8] = []
        pipeline.withUnsent { bytes = [UInt8]($0) }
        pipeline.handleSent(bytes.count)
        let reader = RedisReader()
        var names: [String] = []
        bytes.withUnsafeBytes { try? reader.feed($0) }
        while let command = try? reader.next() {
            let words = command.array?.compactMap(\.text) ?? []
            names.append(words.prefix(2).joined(separator: " "))
        }
        return names
    }

    mutating func receive(_ text: String) {
        Array(text.utf8).withUnsafeBytes { pipeline.handleReceived($0, at: now) }
    }

    mutating func send(_ tag: Int, timeout: Duration? = nil) -> RedisError? {
        do throws(RedisError) {
            try pipeline.send(RedisCommand("GET", "\(tag)"), timeout: timeout, tag: tag, at: now)
            return nil
        } catch {
            return error
        }
    }

    mutating func advance(to milliseconds: Int) {
        now = .milliseconds(milliseconds)
        if let due = pipeline.nextDeadline, due <= now { pipeline.handleTimer(at: now) }
    }

    /// Connects and gets ready.
    mutating func connect() {
        pipeline.open(at: now)
        pipeline.handleConnected(at: now)
        receive("+OK\r\n+OK\r\n")
        _ = sent()
        _ = take()
    }
}

struct RedisPipelineTests {
    @Test("it logs in, chooses its database, and is ready once the server has carried out a write")
    func preparation() throws {
        var world = try PipelineWorld("redis://ann:secret@localhost/2")
        world.pipeline.open(at: world.now)
        #expect(world.take() == ["connect"])
        #expect(world.sent() == [])
        world.pipeline.handleConnected(at: world.now)
        #expect(
            world.sent() == ["AUTH ann", "SELECT 2", "CLIENT SETNAME", "SETRANGE parley:probe"])
        world.receive("+OK\r\n+OK\r\n+OK\r\n")
        #expect(world.take() == [] && !world.pipeline.isReady)
        world.receive("+OK\r\n")
        #expect(world.take() == ["ready"] && world.pipeline.isReady)
        #expect(world.pipeline.nextDeadline == nil)
    }

    @Test("commands before the first connection wait for it, and replies come in their order")
    func order() throws {
        var world = try PipelineWorld()
        #expect(world.send(1) == nil && world.send(2) == nil)
        #expect(world.take() == ["connect"])
        world.pipeline.handleConnected(at: world.now)
        #expect(world.sent() == ["CLIENT SETNAME", "SETRANGE parley:probe"])
        world.receive("+OK\r\n+OK\r\n")
        #expect(world.send(3) == nil)
        #expect(world.sent() == ["GET 1", "GET 2", "GET 3"])
        world.receive("$1\r\na\r\n-ERR what\r\n$1\r\n")
        world.receive("c\r\n")
        #expect(world.take() == ["ready", "1 a", "2 refused ERR", "3 c"])
        #expect(world.pipeline.commandCount == 0)
    }

    @Test("a refused login is a loss, and the next attempt waits")
    func refusedLogin() throws {
        var world = try PipelineWorld("redis://:wrong@localhost")
        #expect(world.send(1) == nil)
        world.pipeline.handleConnected(at: world.now)
        world.receive("-WRONGPASS invalid password\r\n")
        #expect(
            world.take() == [
                "connect", "disconnect",
                "away: it refuses the connection (WRONGPASS invalid password)", "1 unavailable",
            ])
        #expect(world.send(2) == .unavailable)
        #expect(world.pipeline.nextDeadline == .milliseconds(100))
    }

    @Test("pauses double up to the longest, and a ready connection begins anew")
    func backoff() throws {
        var world = try PipelineWorld()
        world.pipeline.open(at: world.now)
        for _ in 0..<8 {
            world.pipeline.handleLoss("refused", at: world.now)
            world.advance(to: Int(world.pipeline.nextDeadline?.nanoseconds ?? 0) / 1_000_000)
        }
        #expect(
            world.draws.limits.map(\.wholeMilliseconds)
                == [100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000])
        let log = world.take()
        #expect(log.filter { $0 == "connect" }.count == 9)
        #expect(log.filter { $0.hasPrefix("away") }.count == 1)
        world.pipeline.handleConnected(at: world.now)
        world.receive("+OK\r\n+OK\r\n")
        world.pipeline.handleLoss("reset", at: world.now)
        #expect(world.draws.limits.last == .milliseconds(100))
    }

    @Test("a server that is away refuses commands at once until it answers again")
    func away() throws {
        var world = try PipelineWorld()
        world.connect()
        #expect(world.send(1) == nil)
        world.pipeline.handleLoss("reset", at: world.now)
        #expect(world.take() == ["disconnect", "away: reset", "1 disconnected"])
        #expect(world.send(2) == .unavailable)
        world.advance(to: 100)
        #expect(world.take() == ["connect"])
        #expect(world.send(3) == .unavailable)
        world.pipeline.handleConnected(at: world.now)
        #expect(world.send(4) == .unavailable)
        world.receive("+OK\r\n+OK\r\n")
        #expect(world.send(5) == nil)
        #expect(world.take() == ["ready"])
    }

    @Test("a command without a reply gives up the connection, and all that was sent over it")
    func timeout() throws {
        var world = try PipelineWorld()
        world.connect()
        #expect(world.send(1) == nil)
        world.advance(to: 999)
        #expect(world.send(2) == nil && world.take() == [])
        world.advance(to: 1_000)
        #expect(
            world.take() == [
                "disconnect", "away: it does not answer", "1 timedOut", "2 disconnected",
            ])
    }

    @Test("a reply just in time keeps the connection, and a command that waits has no limit")
    func inTime() throws {
        var world = try PipelineWorld()
        world.connect()
        #expect(world.send(1) == nil)
        world.advance(to: 900)
        world.receive("$-1\r\n")
        #expect(world.send(2, timeout: .zero) == nil)
        world.advance(to: 1_000_000)
        #expect(world.take() == ["1 null"])
        #expect(world.pipeline.isReady)
        #expect(world.send(3, timeout: .milliseconds(50)) == nil)
        #expect(world.pipeline.nextDeadline == .milliseconds(1_000_050))
    }

    @Test("a server that accepts connections and is stuck is not ready")
    func stuck() throws {
        var world = try PipelineWorld()
        #expect(world.send(1) == nil)
        world.pipeline.handleConnected(at: world.now)
        world.advance(to: 1_000)
        #expect(world.take() == ["connect", "1 unavailable"])
        world.advance(to: 2_000)
        #expect(world.take() == ["disconnect", "away: it does not answer"])
    }

    @Test("the queue is bounded in commands and in bytes")
    func bounds() throws {
        var limits = RedisLimits()
        limits.maxCommands = 3
        var world = try PipelineWorld(limits: limits)
        world.connect()
        for tag in 1...3 { #expect(world.send(tag) == nil) }
        #expect(world.send(4) == .overloaded)
        _ = world.sent()
        // What was sent still counts until it has its reply.
        #expect(world.send(5) == .overloaded)
        world.receive(":1\r\n")
        #expect(world.send(6) == nil)

        limits.maxQueuedBytes = 100
        limits.maxCommands = 1_000
        var small = try PipelineWorld(limits: limits)
        small.connect()
        let command = RedisCommand("SET", "key", String(repeating: "a", count: 60))
        try small.pipeline.send(command, tag: 1, at: small.now)
        #expect(throws: RedisError.overloaded) {
            try small.pipeline.send(command, tag: 2, at: small.now)
        }
        _ = small.sent()
        try small.pipeline.send(command, tag: 3, at: small.now)
    }

    @Test("a script is loaded once for each connection, before its first use")
    func scripts() throws {
        var world = try PipelineWorld()
        world.connect()
        let command = RedisCommand(RedisScript("return 1"), keys: [])
        for tag in 1...2 { try world.pipeline.send(command, tag: tag, at: world.now) }
        #expect(
            world.sent().map { $0.prefix(11) } == ["SCRIPT LOAD", "EVALSHA e0e", "EVALSHA e0e"])
        world.receive("$1\r\nx\r\n:1\r\n-NOSCRIPT No matching script.\r\n")
        #expect(world.take() == ["1 integer(1)", "2 refused NOSCRIPT"])
        try world.pipeline.send(command, tag: 3, at: world.now)
        #expect(world.sent().map { $0.prefix(11) } == ["SCRIPT LOAD", "EVALSHA e0e"])
        world.pipeline.handleLoss("reset", at: world.now)
        world.advance(to: 100)
        world.pipeline.handleConnected(at: world.now)
        world.receive("+OK\r\n+OK\r\n")
        _ = world.sent()
        try world.pipeline.send(command, tag: 4, at: world.now)
        #expect(world.sent().first?.hasPrefix("SCRIPT LOAD") == true)
    }

    @Test(
        "a server that carries out nothing for a while is left, and the error is harmless",
        arguments: [
            "LOADING", "READONLY", "MASTERDOWN", "OOM", "MISCONF", "NOREPLICAS", "NOAUTH", "BUSY",
            "CLUSTERDOWN", "MOVED",
        ])
    func passing(code: String) throws {
        var world = try PipelineWorld()
        world.connect()
        #expect(world.send(1) == nil && world.send(2) == nil)
        world.receive("-\(code) for now\r\n:1\r\n")
        #expect(
            world.take() == [
                "1 refused \(code)", "disconnect",
                "away: it carries out no commands (\(code) for now)", "2 disconnected",
            ])
        #expect(RedisError.refused(code: code, message: "").isHarmless)
        #expect(!RedisError.disconnected.isHarmless && !RedisError.timedOut.isHarmless)
    }

    @Test("a server that answers and is of no use is one line, and asked less often (redis#2746)")
    func ofNoUse() throws {
        var world = try PipelineWorld()
        world.connect()
        #expect(world.send(1) == nil)
        world.receive("-READONLY You can't write against a read only replica.\r\n")
        #expect(world.take().filter { $0.hasPrefix("away") }.count == 1)
        var pauses: [Int] = []
        for _ in 0..<6 {
            let due = try #require(world.pipeline.nextDeadline)
            pauses.append((due - world.now).wholeMilliseconds)
            world.advance(to: Int(due.nanoseconds / 1_000_000))
            world.pipeline.handleConnected(at: world.now)
            world.receive("+OK\r\n-READONLY You can't write against a read only replica.\r\n")
            #expect(world.take() == ["connect", "disconnect"] && !world.pipeline.isReady)
            #expect(world.send(2) == .unavailable && world.pipeline.trouble == .replica)
        }
        #expect(pauses == [100, 200, 400, 800, 1_000, 1_000])
        // Half of a pause at least, whatever was drawn.
        #expect(world.draws.limits.last == .milliseconds(500))
        world.advance(to: 60_000)
        world.pipeline.handleConnected(at: world.now)
        world.receive("+OK\r\n+OK\r\n")
        #expect(world.take() == ["connect", "ready"] && world.pipeline.trouble == nil)
    }

    @Test("a second cause is named, too: a password that was changed during an outage")
    func anotherCause() throws {
        var world = try PipelineWorld("redis://:old@localhost")
        world.pipeline.open(at: world.now)
        world.pipeline.handleLoss("refused", at: world.now)
        #expect(world.take() == ["connect", "disconnect", "away: refused"])
        for _ in 0..<2 {
            let due = try #require(world.pipeline.nextDeadline)
            world.advance(to: Int(due.nanoseconds / 1_000_000))
            world.pipeline.handleConnected(at: world.now)
            world.receive("-WRONGPASS invalid password\r\n")
        }
        let lines = world.take().filter { $0.hasPrefix("away") }
        #expect(lines == ["away: it refuses the connection (WRONGPASS invalid password)"])
        #expect(world.pipeline.trouble == .password)
    }

    @Test("a user that may not write the probe's key is served")
    func probeRefused() throws {
        var world = try PipelineWorld()
        world.pipeline.open(at: world.now)
        world.pipeline.handleConnected(at: world.now)
        world.receive("+OK\r\n-NOPERM No permissions to access a key\r\n")
        #expect(world.take() == ["connect", "ready"])
    }

    @Test(
        "a server that refuses the store's keys or scripts is of no use to it",
        arguments: [
            ("", "-NOPERM No permissions to access a key", RedisTrouble.permission),
            ("+OK\r\n", "-NOPERM User has no permissions to run 'script|load'", .permission),
            ("", "-CLUSTERDOWN Hash slot not served", .cluster),
            ("+OK\r\n+OK\r\n", "-CROSSSLOT Keys don't hash to the same slot", .cluster),
            ("+OK\r\n", "-ERR unknown command 'SCRIPT'", .refusal),
        ])
    func storeRefused(before: String, line: String, cause: RedisTrouble) throws {
        var world = try PipelineWorld(probe: .script(keys: ["a", "b"]))
        world.pipeline.open(at: world.now)
        for _ in 0..<2 {
            world.pipeline.handleConnected(at: world.now)
            #expect(
                world.sent() == [
                    "CLIENT SETNAME", "SETRANGE parley:probe", "SCRIPT LOAD",
                    "EVALSHA \(RedisScript("return redis.call('EXISTS', KEYS[1], KEYS[2])").digest)",
                ])
            world.receive("+OK\r\n\(before)\(line)\r\n")
            #expect(!world.pipeline.isReady && world.pipeline.trouble == cause)
            let due = try #require(world.pipeline.nextDeadline)
            world.advance(to: Int(due.nanoseconds / 1_000_000))
        }
        #expect(world.take().filter { $0.hasPrefix("away") }.count == 1)
        world.pipeline.handleConnected(at: world.now)
        world.receive("+OK\r\n:0\r\n+digest\r\n:0\r\n")
        #expect(world.take().last == "ready" && world.pipeline.trouble == nil)
    }

    @Test(
        "a server that sends what is no answer is left",
        arguments: [":1\r\n:2\r\n", "hello\r\n", "$99999999\r\n"])
    func nonsense(stream: String) throws {
        var limits = RedisLimits()
        limits.maxReplyBytes = 1_000
        var world = try PipelineWorld(limits: limits)
        world.connect()
        #expect(world.send(1) == nil)
        world.receive(stream)
        world.receive(String(repeating: "a", count: 1_100))
        let log = world.take()
        #expect(log.contains("disconnect") && log.contains { $0.hasPrefix("away: ") })
        #expect(log.filter { $0.hasPrefix("1 ") }.count == 1)
    }

    @Test("a closed pipeline fails what waits and refuses the rest")
    func close() throws {
        var world = try PipelineWorld()
        world.connect()
        #expect(world.send(1) == nil)
        world.pipeline.close(at: world.now)
        #expect(world.take() == ["disconnect", "1 disconnected"])
        #expect(world.send(2) == .unavailable)
        world.pipeline.handleLoss("late", at: world.now)
        world.pipeline.handleConnected(at: world.now)
        #expect(world.take() == [] && world.pipeline.nextDeadline == nil)
    }

    @Test("every command completes once, whatever the server and the network do")
    func random() throws {
        for seed in 1...200 as ClosedRange<UInt64> {
            var generator = SeededGenerator(seed: seed)
            var limits = RedisLimits()
            limits.maxCommands = 20
            var world = try PipelineWorld(limits: limits)
            var accepted = 0
            var outcomes: [Int: Int] = [:]
            for step in 0..<300 {
                switch Int.random(in: 0..<10, using: &generator) {
                case 0...3: accepted += world.send(step) == nil ? 1 : 0
                case 4: world.pipeline.handleConnected(at: world.now)
                case 5...7: world.receive(["+OK\r\n", "$-1\r\n", "-ERR x\r\n"][step % 3])
                case 8: world.pipeline.handleLoss("chance", at: world.now)
                default: world.advance(to: Int(world.now.nanoseconds / 1_000_000) + step * 5)
                }
                _ = world.sent()
                for line in world.take() {
                    if let tag = Int(line.prefix { $0 != " " }) { outcomes[tag, default: 0] += 1 }
                }
                #expect(world.pipeline.commandCount <= 20)
            }
            world.pipeline.close(at: world.now)
            for line in world.take() {
                if let tag = Int(line.prefix { $0 != " " }) { outcomes[tag, default: 0] += 1 }
            }
            #expect(outcomes.count == accepted && outcomes.values.allSatisfy { $0 == 1 })
        }
    }
}
