// A turn as a job, from the request to the end of its answer: what becomes of it where its worker
// dies, the user interrupts, or Redis does not answer. The clock is the test's.

import Codec
import Session
import Synchronization
import Testing

@testable import Agents

@Suite(.onOneThread, .timeLimit(.minutes(5))) struct JobModelTests {
    private let host = JobHost()
    private let model: JobModel
    private let heard = Collected<ModelDelta>()

    init() {
        var service = ModelService(baseURL: "redis://r.test/1")
        service.name = "team"
        service.jobs.stream = "jobs"
        service.totalTimeout = .seconds(60)
        model = JobModel(service)
    }

    private var redis: ScriptedRedis { host.redis }

    /// Asks for a turn; `heard` gets its answer.
    private func ask(_ text: String = "Hello") -> Task<Void, any Error> {
        var request = ModelRequest(model: "m", messages: [.user(text)])
        request.turn = TurnIdentity(sessionID: "sess_1", responseID: "resp_1", subject: "ada")
        return Task(executorPreference: OneThread.shared) { [request, heard, model, host] in
            try await model.respond(to: request, on: host) { heard.append($0) }
        }
    }

    private func untilAsked(_ count: Int = 1) async throws {
        try await yield { redis.commands("ask").count + redis.commands("claim").count == count }
    }

    /// Lets time pass until something has happened.
    private func pass(until condition: () -> Bool) async throws {
        while !condition() {
            try Task.checkCancellation()
            host.pass(.milliseconds(100))
            for _ in 0..<100 where !condition() { await Task.yield() }
        }
    }

    @Test func aTurnIsAskedForAndAnswered() async throws {
        let turn = ask()
        try await untilAsked()
        let job = redis.job(1)
        #expect(job["key"] == "resp_1" && job["turn"] == "resp_1" && job["session"] == "sess_1")
        #expect(job["subject"] == "ada" && job["run"] == "1" && job["lease_ms"] == "5000")
        #expect(job["job"]?.hasPrefix("resp_1.") == true)
        #expect(job["lease"] == "jobs:lease:\(job["job"] ?? "")")
        #expect(job["reply"]?.hasPrefix("jobs:replies:") == true)
        #expect(job["heard_item"] == nil && job["signature"] == nil)
        let request = try JSONParser(limits: .ofAnAnswer).parse(job["request"] ?? "")
        var messages = try #require(request["messages"]?.elements)
        #expect(messages.next()?["content"]?.string == "Hello")
        redis.say(1, 1, "Good ")
        try await yield { heard.all.count == 1 }
        redis.say(1, 2, "day.")
        redis.say(1, 3, ["type": "end", "input_tokens": "5", "output_tokens": "2"])
        try await turn.value
        #expect(
            heard.all == [
                .text("Good "), .text("day."),
                .usage(inputTokens: 5, cachedTokens: 0, outputTokens: 2),
            ])
        try await yield { host.charged == 0 }
        #expect(model.providers == [ModelProviderCounts(name: "team")])
    }

    @Test func whatTheUserHeardIsTold() async throws {
        var request = ModelRequest(model: "m", messages: [])
        request.heard = HeardReply(itemID: "item_1", characters: 9)
        let turn = Task(executorPreference: OneThread.shared) { [request, model, host] in
            try await model.respond(to: request, on: host) { _ in }
        }
        try await untilAsked()
        #expect(redis.job(1)["heard_item"] == "item_1")
        #expect(redis.job(1)["heard_characters"] == "9" && redis.job(1)["session"] == nil)
        redis.say(1, 1, ["type": "end"])
        try await turn.value
    }

    // MARK: Workers that die

    @Test func aTurnThatNobodyHasHeardIsRunAgain() async throws {
        let turn = ask()
        try await untilAsked()
        redis.see(1, "lost")
        try await pass { redis.commands("claim").count == 1 }
        // The same turn under another name.
        #expect(redis.job(2)["key"] == "resp_1" && redis.job(2)["run"] == "2")
        #expect(redis.job(2)["job"] != redis.job(1)["job"])
        // Only where its entry is there still: the first worker may have answered meanwhile.
        #expect(redis.commands("claim")[0].suffix(from: 5).prefix(3) == ["workers", "1-0", "0"])
        // What the first worker says after all is not heard.
        redis.say(1, 1, "old")
        redis.say(2, 1, "new")
        redis.say(2, 2, ["type": "end"])
        try await turn.value
        #expect(heard.all == [.text("new")])
        #expect(model.providers[0].repeats == 1 && model.providers[0].lost == 0)
    }

    @Test func aTurnWhoseWorkersAllDieIsADeadLetter() async throws {
        let turn = ask()
        for run in 1...3 {
            try await untilAsked(run)
            redis.see(run, "lost")
            try await pass {
                run < 3
                    ? redis.commands("claim").count == run : redis.commands("bury").count == 1
            }
        }
        await #expect(throws: AgentError.agentLost(hasSpoken: false)) { try await turn.value }
        #expect(redis.commands("bury")[0].contains("attempts"))
        #expect(redis.commands("bury")[0].contains("3-0"))
        #expect(redis.commands("stop").isEmpty)
        #expect(model.providers[0].repeats == 2 && model.providers[0].lost == 1)
    }

    @Test func aTurnThatWasHeardFailsAndIsNotRunAgain() async throws {
        let turn = ask()
        try await untilAsked()
        redis.say(1, 1, "Once upon ")
        try await yield { heard.all.count == 1 }
        redis.see(1, "lost")
        try await pass { redis.commands("bury").count == 1 }
        await #expect(throws: AgentError.agentLost(hasSpoken: true)) { try await turn.value }
        #expect(redis.commands("bury")[0].contains("spoken") && redis.commands("claim").isEmpty)
        #expect(heard.all == [.text("Once upon ")])
    }

    @Test(arguments: ["claim", "bury"])
    func aWorkerThatIsAliveAfterAllGoesOn(script: String) async throws {
        redis.answer(script, .success(script == "claim" ? .null : .integer(0)))
        let turn = ask()
        try await untilAsked()
        let said = script == "bury" ? 1 : 0
        if said == 1 {
            redis.say(1, 1, "One")
            try await yield { heard.all.count == 1 }
        }
        redis.see(1, "lost")
        try await pass { redis.commands(script).count == 1 }
        redis.see(1, "running")
        redis.say(1, said + 1, "Two")
        redis.say(1, said + 2, ["type": "end"])
        try await turn.value
        #expect(heard.all.last == .text("Two"))
        #expect(model.providers[0].repeats == 0 && model.providers[0].lost == 0)
        #expect(redis.commands("stop").isEmpty)
    }

    @Test func aRedisThatHasLostTheJobGetsItAgain() async throws {
        let turn = ask()
        try await untilAsked()
        redis.see(1, "gone")
        try await pass { redis.commands("claim").count == 1 }
        #expect(redis.commands("claim")[0].suffix(from: 5).prefix(3) == ["workers", "1-0", "1"])
        redis.say(2, 1, ["type": "end"])
        try await turn.value
    }

    // MARK: What others have left

    /// Ends the turns, and the work of the shard with them.
    private func untilIdle() async throws { try await pass { host.runningWorks == 0 } }

    @Test func aServerWithFewTurnsRemovesWhatOthersHaveLeft() async throws {
        for number in 1...2 {
            let turn = ask()
            try await untilAsked(number)
            redis.say(number, 1, ["type": "end"])
            try await turn.value
            try await untilIdle()
            // With the first turn, and not again a moment later.
            #expect(redis.commands("tidy").count == 1)
        }
        host.pass(.seconds(30))
        #expect(redis.commands("tidy").count == 1)
        // The stream may be full of what others have left.
        redis.answer("ask", .success(.null))
        await #expect(throws: AgentError.self) { try await ask().value }
        try await untilIdle()
        #expect(redis.commands("tidy").count == 2)
    }

    @Test func aServerWithALongTurnRemovesWhatOthersHaveLeft() async throws {
        let turn = ask()
        try await untilAsked()
        let start = await host.now()
        for number in 1...50 {
            redis.say(1, number, "word ")
            try await yield { heard.all.count == number }
            host.pass(.seconds(1))
        }
        try await pass { redis.commands("tidy").count == 2 }
        #expect(await host.now() >= start + .seconds(30))
        redis.say(1, 51, ["type": "end"])
        try await turn.value
    }

    @Test func aStreamThatIsFullOfWhatOthersHaveLeftIsEmptiedAtOnce() async throws {
        redis.answer("tidy", .success(.integer(Int64(JobScripts.tidied))))
        let turn = ask()
        try await untilAsked()
        redis.say(1, 1, ["type": "end"])
        try await turn.value
        try await untilIdle()
        // As often as the stream can have so many jobs, whatever Redis says.
        #expect(redis.commands("tidy").count == 1_000 / JobScripts.tidied + 1)
    }

    @Test func shardsHaveReplyStreamsOfTheirOwn() async throws {
        let hosts = (0..<32).map { _ in JobHost() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for host in hosts {
                group.addTask { [model] in
                    let request = ModelRequest(model: "m", messages: [.user("Hello")])
                    try await model.respond(to: request, on: host) { _ in }
                }
            }
            for host in hosts {
                try await yield { host.redis.commands("ask").count == 1 }
                host.redis.say(1, 1, ["type": "end"])
            }
            try await group.waitForAll()
        }
        let streams = Set(hosts.map { $0.redis.job(1)["reply"] })
        #expect(streams.count == hosts.count && !streams.contains(nil))
    }

    // MARK: Ends

    @Test func anInterruptionStopsTheWorker() async throws {
        let turn = ask()
        try await untilAsked()
        redis.say(1, 1, "Once")
        try await yield { heard.all.count == 1 }
        turn.cancel()
        await #expect(throws: CancellationError.self) { try await turn.value }
        try await yield { redis.commands("stop").count == 1 }
        #expect(redis.commands("stop")[0].contains("1-0"))
        #expect(redis.commands("stop")[0].contains(redis.job(1)["lease"] ?? "?"))
    }

    @Test func anInterruptionBeforeAWorkerHasItRemovesTheJob() async throws {
        let turn = ask()
        try await untilAsked()
        turn.cancel()
        await #expect(throws: CancellationError.self) { try await turn.value }
        try await yield { redis.commands("stop").count == 1 }
    }

    @Test func aJobThatNoWorkerTakesFails() async throws {
        redis.see(1, "waiting")
        let turn = ask()
        try await untilAsked()
        try await pass { redis.commands("stop").count == 1 }
        await #expect(throws: AgentError.self) { try await turn.value }
        #expect(await host.now() >= .milliseconds(10_000))
        #expect(await host.now() < .milliseconds(12_000))
    }

    @Test func aFullStreamRefuses() async {
        redis.answer("ask", .success(.null))
        await #expect(
            throws: AgentError.rateLimited(
                retryAfter: .seconds(1), detail: "the stream of jobs is full")
        ) { try await ask().value }
    }

    @Test(arguments: [RedisError.timedOut, .refused(code: "ERR", message: "ERR")])
    func aRedisThatDoesNotTakeTheJobFailsTheTurn(error: RedisError) async throws {
        redis.answer("ask", .failure(error))
        let failure = await #expect(throws: AgentError.self) { try await ask().value }
        #expect(failure?.code == "upstream_error")
        // Whether it has the job is not known.
        try await yield { redis.commands("stop").count == 1 }
        #expect(redis.commands("stop")[0].dropFirst(5).contains(""))
    }

    @Test func whatRedisCertainlyDoesNotHaveIsNotStopped() async throws {
        redis.answer("ask", .failure(.unavailable))
        let failure = await #expect(throws: AgentError.self) { try await ask().value }
        #expect(failure?.code == "upstream_error")
        redis.answer("ask", .success(.null))
        await #expect(throws: AgentError.self) { try await ask().value }
        redis.answer("ask", .failure(.timedOut))
        await #expect(throws: AgentError.self) { try await ask().value }
        try await yield { !redis.commands("stop").isEmpty }
        #expect(redis.commands("stop").count == 1)
    }

    @Test func aRedisThatIsAwayForAMomentIsNotFelt() async throws {
        let turn = ask()
        try await untilAsked()
        redis.answer("watch", .failure(.unavailable))
        redis.answer("XREAD", .failure(.disconnected))
        let looks = redis.commands("watch").count
        try await pass { redis.commands("watch").count == looks + 3 }
        redis.answer("watch", nil)
        redis.answer("XREAD", nil)
        redis.say(1, 1, "Hello")
        redis.say(1, 2, ["type": "end"])
        try await pass { heard.all.count == 1 }
        try await turn.value
    }

    @Test func aRedisThatIsAwayForLongFailsTheTurn() async throws {
        let turn = ask()
        try await untilAsked()
        redis.say(1, 1, "Hello")
        try await yield { heard.all.count == 1 }
        redis.answer("watch", .failure(.unavailable))
        try await pass { redis.commands("stop").count == 1 }
        let failure = await #expect(throws: AgentError.self) { try await turn.value }
        #expect(failure?.detail == "Redis does not answer.")
    }

    @Test func aReplyStreamThatCannotBeReadFailsTheTurn() async throws {
        let turn = ask()
        try await untilAsked()
        redis.answer("XREAD", .failure(.disconnected))
        try await pass { redis.commands("stop").count == 1 }
        let failure = await #expect(throws: AgentError.self) { try await turn.value }
        #expect(failure?.detail == "The answers in Redis cannot be read.")
        #expect(await host.now() >= .milliseconds(9_000))
        #expect(await host.now() < .milliseconds(12_000))
    }

    @Test func aModelWithoutRedisIsUnavailable() async {
        let failure = await #expect(throws: AgentError.self) {
            try await model.deltas(
                for: ModelRequest(model: "m", messages: []), on: ScriptedAgentHost())
        }
        #expect(failure?.code == "agent_unavailable")
    }
}
