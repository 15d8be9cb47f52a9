// An example of a worker in Swift: it answers turns of Parley from a Redis stream, as worker.py does.
// Change `answer`. Run it with `swift run -c release worker redis://127.0.0.1:6379`, and Parley with
// `--llm redis://127.0.0.1:6379 --llm-kind redis-stream`. SIGTERM lets it finish its turn, and it takes
// no other. docs/agents.md describes the entries.

import Codec
import Foundation
import Synchronization

/// Whether SIGTERM has come.
private let isStopping = Atomic(false)

/// Why the agent cannot answer.
enum AgentFailure: Error {
    /// Nobody has said anything.
    case noQuestion
}

/// The reply to a chat-completions request, in the pieces in which it is said. Where it throws, the turn
/// fails and the worker goes on.
func answer(_ request: JSONValue) throws -> [String] {
    var question: String?
    if let messages = request["messages"]?.elements {
        for message in messages { question = message["content"]?.string ?? question }
    }
    guard let question else { throw AgentFailure.noQuestion }
    return "You said: \(question)".split(separator: " ").map { "\($0) " }
}

/// What Parley wants, as the scripts return it.
enum Wish: Int64 {
    case stop, goOn, hold
}

/// One turn.
struct Job: Sendable {
    static let scripts = (
        begin: script(PackageResources.begin_lua), say: script(PackageResources.say_lua),
        beat: script(PackageResources.beat_lua), finish: script(PackageResources.finish_lua)
    )

    let entry: String
    let fields: [String: [UInt8]]
    let worker: Worker

    private static func script(_ bytes: [UInt8]) -> RedisScript {
        RedisScript(String(decoding: bytes, as: UTF8.self))
    }

    subscript(name: String) -> String { String(decoding: fields[name] ?? [], as: UTF8.self) }

    /// Runs one of the scripts, which all begin with the same keys and arguments.
    @discardableResult
    private func run(
        _ script: RedisScript, _ arguments: [String] = [], on redis: RedisConnection
    ) throws -> Wish {
        let first = [worker.group, worker.name, entry, self["job"], self["lease_ms"]]
        let command = RedisCommand(
            script, keys: [worker.stream, self["lease"], self["reply"]],
            arguments: (first + arguments).map { Array($0.utf8) })
        return try redis.run(command).integer.flatMap(Wish.init) ?? .stop
    }

    /// Takes the turn; false where it is not wanted any more.
    func begin(on redis: RedisConnection) throws -> Bool {
        try run(Self.scripts.begin, on: redis) == .goOn
    }

    /// Renews the lease.
    @discardableResult
    func beat(on redis: RedisConnection) throws -> Wish {
        try run(Self.scripts.beat, on: redis)
    }

    /// Answers the turn. An error of the agent is the end of the answer, one of Redis is thrown.
    func work(on redis: RedisConnection) throws {
        let pieces: [String]
        do {
            pieces = try answer(JSONParser().parse(fields["request"] ?? []))
        } catch {
            print("worker: \(error)")
            try run(Self.scripts.finish, ["1", "type", "error", "message", "\(error)"], on: redis)
            return
        }
        var number = 0
        for text in pieces {
            number += 1
            var wish = try run(
                Self.scripts.say, ["\(number)", "type", "text", "text", text], on: redis)
            while wish == .hold {
                usleep(100_000)
                wish = try beat(on: redis)
            }
            guard wish == .goOn else { return }
        }
        try run(Self.scripts.finish, ["\(number + 1)", "type", "end"], on: redis)
    }
}

/// The heartbeat of the worker's turn: a thread with a connection of its own, so that a slow agent
/// keeps its turn.
final class Heart: Sendable {
    /// The shortest lease is 1 s.
    private static let microseconds: UInt32 = 300_000

    private let job = Mutex<Job?>(nil)

    /// Beats for a turn; nil: for none.
    func beat(for job: Job?) { self.job.withLock { $0 = job } }

    /// Starts the thread.
    func start(_ address: RedisAddress) {
        Thread.detachNewThread { [self] in
            var redis: RedisConnection?
            while true {
                usleep(Self.microseconds)
                guard let current = job.withLock({ $0 }) else { continue }
                do {
                    if redis == nil { redis = try RedisConnection(to: address) }
                    if let redis { try current.beat(on: redis) }
                } catch {
                    redis = nil
                }
            }
        }
    }
}

/// Takes jobs one after another. Its name must be its own: what it holds is held by that name.
struct Worker: Sendable {
    let address: RedisAddress
    let stream = "parley:jobs"
    let group = "workers"
    let name = "\(hostName()):\(getpid()):\(String(UInt32.random(in: .min ... .max), radix: 16))"
    let heart = Heart()

    /// The name of the machine. Processes of several containers often have one number, so each worker's
    /// name also has a random part.
    private static func hostName() -> String {
        var name = [CChar](repeating: 0, count: 256)
        guard gethostname(&name, name.count - 1) == 0 else { return "swift" }
        return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Serves until SIGTERM comes.
    func serve() throws {
        let redis = try RedisConnection(to: address)
        while !isStopping.load(ordering: .relaxed) {
            do {
                let taken = try redis.run(
                    RedisCommand(
                        "XREADGROUP", "GROUP", group, name, "COUNT", "1", "BLOCK", "1000",
                        "STREAMS", stream, ">"))
                for entry in taken.array?.first?.array?.last?.array ?? [] {
                    guard let pair = entry.array, pair.count == 2, let id = pair[0].text,
                        let fields = pair[1].fields
                    else { continue }
                    let job = Job(entry: id, fields: fields, worker: self)
                    guard try job.begin(on: redis) else { continue }
                    heart.beat(for: job)
                    defer { heart.beat(for: nil) }
                    try job.work(on: redis)
                }
            } catch RedisFailure.refused(let text) where text.hasPrefix("NOGROUP") {
                // Another worker may have made it meanwhile.
                _ = try? redis.run(
                    RedisCommand("XGROUP", "CREATE", stream, group, "0", "MKSTREAM"))
            }
        }
    }
}

@main enum SwiftWorker {
    static func main() {
        guard CommandLine.arguments.count == 2,
            let address = RedisAddress(CommandLine.arguments[1])
        else {
            print("usage: worker redis://[user:password@]host[:6379][/database]")
            exit(2)
        }
        // The handler finds the flag made.
        isStopping.store(false, ordering: .relaxed)
        signal(SIGTERM) { _ in isStopping.store(true, ordering: .relaxed) }
        let worker = Worker(address: address)
        worker.heart.start(address)
        while !isStopping.load(ordering: .relaxed) {
            do {
                try worker.serve()
            } catch {
                print("worker: \(error)")
                sleep(1)
            }
        }
    }
}
