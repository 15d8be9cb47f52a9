// A Redis that answers the scripts of jobs as a test says, without a stream: the scripts themselves
// are tested against a real one (Tests/clients/test_job_scripts.py). And a host whose clock the test
// sets.

import Codec
import Session
import Synchronization

@testable import Agents

/// Answers the commands of a JobDesk.
final class ScriptedRedis: RedisCommands {
    private static let names: [String: String] = [
        "ask": PackageResources.ask_lua, "claim": PackageResources.claim_lua,
        "bury": PackageResources.bury_lua, "stop": PackageResources.stop_lua,
        "hold": PackageResources.hold_lua, "watch": PackageResources.watch_lua,
        "tidy": PackageResources.tidy_lua,
    ].reduce(into: [:]) { names, script in
        names[RedisScript(String(decoding: script.value, as: UTF8.self)).digest] = script.key
    }

    private struct State {
        var sent: [(name: String, words: [String])] = []
        var pieces: [RedisValue] = []
        var read = 0
        var answers: [String: Result<RedisValue, RedisError>] = [:]
        var sights: [String: String] = [:]
        var jobs = 0
    }

    private let state = Mutex(State())

    /// The words of the commands of a name, in order.
    func commands(_ name: String) -> [[String]] {
        state.withLock { state in state.sent.filter { $0.name == name }.map(\.words) }
    }

    /// Answers every command of a name so from now on; nil: as usual.
    func answer(_ name: String, _ answer: Result<RedisValue, RedisError>?) {
        state.withLock { $0.answers[name] = answer }
    }

    /// What is seen of a job from now on, by the number in which it was asked for; "running" before.
    func see(_ job: Int, _ sight: String) {
        state.withLock { $0.sights["\(job)-0"] = sight }
    }

    /// The fields of a job, by the number in which it was asked for.
    func job(_ number: Int) -> [String: String] {
        let words = state.withLock { state in
            state.sent.filter { $0.name == "ask" || $0.name == "claim" }[number - 1].words
        }
        guard let start = words.firstIndex(of: "job") else { return [:] }
        var fields: [String: String] = [:]
        for index in stride(from: start, to: words.count, by: 2) {
            fields[words[index]] = words[index + 1]
        }
        return fields
    }

    /// A worker says a piece of the answer to a job.
    func say(_ job: Int, _ number: Int, _ fields: [String: String]) {
        let name = self.job(job)["job"] ?? ""
        let words = ["job", name, "n", "\(number)"] + fields.flatMap { [$0.key, $0.value] }
        state.withLock { state in
            state.pieces.append(
                .array([
                    .bulk(Array("\(100 + state.pieces.count)-0".utf8)),
                    .array(words.map { .bulk(Array($0.utf8)) }),
                ]))
        }
    }

    /// A worker says a word.
    func say(_ job: Int, _ number: Int, _ text: String) {
        say(job, number, ["type": "text", "text": text])
    }

    func send(
        _ command: RedisCommand, timeout: Duration?
    ) async throws(RedisError) -> RedisValue {
        await Task.yield()
        let words = command.words.map { String(decoding: $0, as: UTF8.self) }
        let name = command.script.flatMap { Self.names[$0.digest] } ?? words[0]
        let answer = state.withLock { state -> Result<RedisValue, RedisError> in
            if name != "XREAD" { state.sent.append((name, words)) }
            return state.answers[name] ?? .success(Self.answer(name, words, &state))
        }
        return try answer.get()
    }

    private static func answer(
        _ name: String, _ words: [String], _ state: inout State
    ) -> RedisValue {
        switch name {
        case "XREAD":
            guard state.read < state.pieces.count else { return .null }
            defer { state.read = state.pieces.count }
            return .array([
                .array([.bulk([]), .array(Array(state.pieces[state.read...]))])
            ])
        case "ask", "claim":
            state.jobs += 1
            return .bulk(Array("\(state.jobs)-0".utf8))
        case "watch":
            let keys = Int(words[2]) ?? 2
            let entries = words[(3 + keys + 4)...]
            let last = state.pieces.isEmpty ? "0-1" : "\(99 + state.pieces.count)-0"
            return .array(
                ([last] + entries.map { state.sights[$0] ?? "running" })
                    .map { .bulk(Array($0.utf8)) })
        default: return .integer(1)
        }
    }
}

/// A host with that Redis, whose clock is set by the test.
final class JobHost: HostWithoutServices {
    let redis = ScriptedRedis()
    private let time = Mutex(Instant(nanoseconds: 0))
    private let charges = Mutex(0)
    private let works = Mutex(0)

    /// Shared works that go on.
    var runningWorks: Int { works.withLock { $0 } }
    /// Each host is a shard.
    var shard: ObjectIdentifier { ObjectIdentifier(self) }

    func startSharedWork(_ work: @escaping @Sendable (any AgentHost) async -> Void) {
        works.withLock { $0 += 1 }
        Task(executorPreference: OneThread.shared) {
            await work(self)
            self.works.withLock { $0 -= 1 }
        }
    }

    /// Bytes that are charged now.
    var charged: Int { charges.withLock { $0 } }

    func charge(_ bytes: Int) { charges.withLock { $0 += bytes } }

    func now() async -> Instant { time.withLock { $0 } }

    func pass(_ duration: Duration) { time.withLock { $0 = $0 + duration } }

    func sleep(for duration: Duration) async throws {
        let end = await now() + duration
        while await now() < end {
            try Task.checkCancellation()
            await Task.yield()
        }
    }

    func redis(
        at address: RedisAddress, for purpose: String
    ) throws(AgentError) -> any RedisCommands { redis }
}
