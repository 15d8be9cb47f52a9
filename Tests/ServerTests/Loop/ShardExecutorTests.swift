// Tasks on a shard's thread: where they run, how they sleep, what they deliver. The test's thread
// is the shard's; nothing here waits for another, except where a test is about other threads.

import Codec
import Session
import Simulation
import Synchronization
import Testing

@testable import Server

/// The steps of tasks, in order.
private final class Journal: Sendable {
    private let lines = Mutex<[String]>([])

    func note(_ line: String) { lines.withLock { $0.append(line) } }

    var all: [String] { lines.withLock { $0 } }
}

/// Does what only a shard's thread may, on one that never adopted the executor.
private func touchForeignGate() {
    let gate = ShardGate(executor: ShardExecutor(wake: {}), at: .milliseconds(0))
    _ = gate.assumeIsolated { $0.hasDeliveries }
}

@Suite struct ShardExecutorTests {
    private func makeExecutor() -> ShardExecutor {
        let executor = ShardExecutor(wake: {})
        executor.adoptThread()
        return executor
    }

    @Test func runsJobsOnlyInRunJobs() {
        let executor = makeExecutor()
        let journal = Journal()
        Task(executorPreference: executor.task) {
            journal.note("one")
            await Task.yield()
            journal.note("two")
        }
        #expect(journal.all.isEmpty && executor.hasJobs)
        #expect(executor.runJobs(atMost: 1) == 1)
        #expect(journal.all == ["one"])
        #expect(executor.runJobs(atMost: 100) > 0)
        #expect(journal.all == ["one", "two"])
        #expect(!executor.hasJobs)
    }

    @Test func stopsAtItsLimitAlthoughTasksNeverEnd() {
        let executor = makeExecutor()
        let task = Task(executorPreference: executor.task) {
            while !Task.isCancelled { await Task.yield() }
        }
        #expect(executor.runJobs(atMost: 50) == 50)
        task.cancel()
        #expect(executor.runJobs(atMost: 50) < 50)
    }

    @Test func isolatesTheGateToItsThread() {
        let executor = makeExecutor()
        let gate = ShardGate(executor: executor, at: .milliseconds(0))
        #expect(gate.assumeIsolated { !$0.hasDeliveries })
    }

    @Test func refusesTheGateToOtherThreads() async {
        await #expect(processExitsWith: .failure) {
            touchForeignGate()
        }
    }

    @Test func sleepsOnTheShardsClock() {
        let executor = makeExecutor()
        let gate = ShardGate(executor: executor, at: .milliseconds(0))
        let journal = Journal()
        for milliseconds in [30, 10, 20] {
            Task(executorPreference: executor.task) {
                try await gate.sleep(for: .milliseconds(milliseconds))
                journal.note("\(milliseconds)")
            }
        }
        executor.runJobs(atMost: 100)
        #expect(gate.assumeIsolated { $0.nextDeadline } == .milliseconds(10))
        gate.assumeIsolated { $0.handleTick(at: .milliseconds(9)) }
        executor.runJobs(atMost: 100)
        #expect(journal.all.isEmpty)
        gate.assumeIsolated { $0.handleTick(at: .milliseconds(25)) }
        executor.runJobs(atMost: 100)
        #expect(journal.all == ["10", "20"])
        #expect(gate.assumeIsolated { $0.nextDeadline } == .milliseconds(30))
        gate.assumeIsolated { $0.handleTick(at: .milliseconds(30)) }
        executor.runJobs(atMost: 100)
        #expect(journal.all == ["10", "20", "30"])
    }

    @Test(arguments: [false, true])
    func cancelsASleeper(beforeItSleeps: Bool) {
        let executor = makeExecutor()
        let gate = ShardGate(executor: executor, at: .milliseconds(0))
        let journal = Journal()
        let task = Task(executorPreference: executor.task) {
            do {
                try await gate.sleep(for: .seconds(10))
                journal.note("slept")
            } catch is CancellationError {
                journal.note("cancelled")
            }
        }
        if beforeItSleeps { task.cancel() }
        executor.runJobs(atMost: 100)
        if !beforeItSleeps { task.cancel() }
        executor.runJobs(atMost: 100)
        #expect(journal.all == ["cancelled"])
        #expect(gate.assumeIsolated { $0.nextDeadline } == nil)
    }
}

@Suite struct ShardGateTests {
    private let token = EventToken(.connection, index: 3, generation: 1)

    private func makeGate() -> ShardGate {
        let executor = ShardExecutor(wake: {})
        executor.adoptThread()
        return ShardGate(executor: executor, at: .milliseconds(0))
    }

    private func delivery(_ number: UInt64, for token: EventToken) -> AgentDelivery {
        AgentDelivery(token: token, serial: number, event: .modelFinished(responseID: "r"))
    }

    /// Runs what is ready, and returns the serials of what was delivered.
    private func step(_ gate: ShardGate) -> [UInt64] {
        gate.executor.runJobs(atMost: 1_000)
        return gate.assumeIsolated { $0.takeDeliveries() }.map(\.serial)
    }

    @Test func suspendsOnlyTheTasksOfASlowReader() {
        let gate = makeGate()
        let other = EventToken(.connection, index: 4, generation: 1)
        gate.assumeIsolated { [token] in $0.suspend(token) }
        for number in UInt64(1)...3 {
            let first = delivery(number, for: token)
            let second = delivery(number + 10, for: other)
            Task(executorPreference: gate.executor.task) { await gate.deliver(first) }
            Task(executorPreference: gate.executor.task) { await gate.deliver(second) }
        }
        #expect(step(gate) == [11, 12, 13])
        #expect(step(gate).isEmpty && !gate.executor.hasJobs, "waiting must cost nothing")
        gate.assumeIsolated { [token] in $0.resume(token) }
        #expect(step(gate) == [1, 2, 3])
    }

    @Test func waitsAgainWhenTheRoomIsGoneBeforeItsTurn() {
        let gate = makeGate()
        let held = delivery(1, for: token)
        gate.assumeIsolated { [token] in $0.suspend(token) }
        Task(executorPreference: gate.executor.task) { await gate.deliver(held) }
        #expect(step(gate).isEmpty)
        gate.assumeIsolated { [token] in
            $0.resume(token)
            $0.suspend(token)
        }
        #expect(step(gate).isEmpty)
        gate.assumeIsolated { [token] in $0.resume(token) }
        #expect(step(gate) == [1])
    }

    /// The end of a clause is delivered at once: it takes no room.
    @Test func suspendsTheSpeechOfATaskAndNothingElse() {
        let gate = makeGate()
        let chunk = SpeechChunk(samples: [1, 2], rate: .hz16000)
        gate.assumeIsolated { $0.suspendSpeech(ofTask: 1) }
        for serial in UInt64(1)...2 {
            let speech = AgentDelivery(
                token: token, serial: serial, event: .speech(responseID: "r", chunk))
            Task(executorPreference: gate.executor.task) { await gate.deliver(speech) }
        }
        #expect(step(gate) == [2])
        let other = delivery(1, for: token)
        Task(executorPreference: gate.executor.task) { await gate.deliver(other) }
        #expect(step(gate) == [1])
        gate.assumeIsolated { $0.resumeSpeech(ofTask: 1) }
        #expect(step(gate) == [1])
    }

    @Test func takesSpeechOfATaskOnlyUpToALimitATick() {
        let gate = makeGate()
        let samples = [Int16](repeating: 0, count: ShardGate.maxUntakenSpeechBytes / 4)
        let speech = AgentDelivery(
            token: token, serial: 1,
            event: .speech(responseID: "r", SpeechChunk(samples: samples, rate: .hz16000)))
        Task(executorPreference: gate.executor.task) {
            for _ in 0..<5 { await gate.deliver(speech) }
        }
        #expect(step(gate).count == 2)
        #expect(step(gate).count == 2)
        #expect(step(gate).count == 1)
    }

    /// A cancelled task is resumed, so that it does not wait for a reader that is gone.
    @Test(arguments: [false, true])
    func resumesACancelledTask(beforeItWaits: Bool) {
        let gate = makeGate()
        let held = delivery(1, for: token)
        gate.assumeIsolated { [token] in $0.suspend(token) }
        let task = Task(executorPreference: gate.executor.task) { await gate.deliver(held) }
        if beforeItWaits { task.cancel() } else { #expect(step(gate).isEmpty) }
        if !beforeItWaits { task.cancel() }
        #expect(step(gate) == [1])
        gate.assumeIsolated { [token] in $0.resume(token) }
        #expect(step(gate).isEmpty)
    }
}

/// Not an error that agents promise.
private struct OddError: Error {}

/// Agents that do what a test scripts.
private struct ScriptedAgents: LanguageModel, SpeechRecognizer, SpeechSynthesizer {
    let journal: Journal

    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        journal.note("model starts")
        for word in ["a", "b"] {
            try await host.sleep(for: .milliseconds(10))
            try await reply(.text(word))
        }
    }

    func transcribe(_ utterance: Utterance, on host: any AgentHost) async throws -> Transcript {
        try await host.compute { Transcript("\(try utterance.samples().count) samples") }
    }

    func probability(
        ofEndAfter audio: HeardAudio, on host: any AgentHost
    ) async throws -> Float {
        try await host.compute { Float(try audio.samples().count) / 4 }
    }

    func speak(
        _ request: SpeechRequest, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws {
        journal.note("speaks \(request.text)")
        if request.text == "odd" { throw OddError() }
        if request.text == "bad" { throw AgentError.malformedReply(message: "bad") }
        try await host.compute(
            yielding: { yield in
                for count in 1...3 where !yield(count) { return }
            },
            each: { count in
                let samples = [Int16](repeating: 0, count: count)
                try await emit(SpeechChunk(samples: samples, rate: .hz16000))
            })
    }
}

extension ScriptedAgents: TurnEndModel {
    func prepare(on host: any AgentHost) async {}
}

@Suite struct AgentLinkTests {
    /// A link with its own loop, and the work of one session.
    private final class Bench {
        let executor = ShardExecutor(wake: {})
        let gate: ShardGate
        let link: AgentLink
        let journal = Journal()
        let log = LogRecord()
        let token = EventToken(.connection, index: 4, generation: 2)
        var work = AgentWork(caller: CallerTag(principal: nil, address: .unspecified))
        var now = 0

        init(pool: any ComputePool = InlineComputePool(), hasSpeech: Bool = true) {
            executor.adoptThread()
            gate = ShardGate(executor: executor, at: .milliseconds(0))
            let host = ShardAgentHost(gate: gate, pool: pool, upstream: nil)
            let agents = ScriptedAgents(journal: journal)
            var set = AgentSet(
                model: agents, recognizer: hasSpeech ? agents : nil,
                synthesizer: hasSpeech ? agents : nil)
            set.turnModel = hasSpeech ? agents : nil
            link = AgentLink(agents: set, host: host, gate: gate, logger: log.logger)
        }

        func perform(_ command: AgentCommand) {
            link.perform(command, for: token, subject: nil, work: &work)
        }

        /// Lets time pass, and returns what still counts of the deliveries, as the shard would.
        func step(milliseconds: Int = 0) -> [String] {
            var lines: [String] = []
            now += milliseconds
            for _ in 0..<20 {
                gate.assumeIsolated { [now] in $0.handleTick(at: .milliseconds(now)) }
                executor.runJobs(atMost: 1_000)
                for delivery in gate.assumeIsolated({ $0.takeDeliveries() })
                where work.accepts(serial: delivery.serial) {
                    lines.append(describe(delivery.event))
                    link.handleDelivered(delivery, work: &work)
                }
            }
            return lines
        }

        private func describe(_ event: AgentEvent) -> String {
            switch event {
            case .transcript(let id, let text, _): "\(id) transcript \(text)"
            case .transcriptPart(let id, let text): "\(id) part \(text)"
            case .transcriptionFailed(let id, let error), .modelFailed(let id, let error):
                "\(id) failed \(error.code)"
            case .hypothesis(let id, let text, _): "\(id) hypothesis \(text)"
            case .hypothesisFailed(let id): "\(id) no hypothesis"
            case .turnEnd(let id, let probability):
                probability.map { "\(id) \($0)" } ?? "\(id) no judgement"
            case .modelDelta(let id, let delta): "\(id) \(delta)"
            case .modelFinished(let id): "\(id) finished"
            case .speech(let id, let chunk): "\(id) speech \(chunk.samples.count)"
            case .speechFinished(let id): "\(id) spoken"
            case .speechFailed(let id, let error): "\(id) speech failed \(error.code)"
            case .tools, .audioEncoded: "not asked for here"
            }
        }
    }

    private let request = ModelRequest(model: "m", messages: [])

    private func clause(_ text: String) -> SpeechRequest { SpeechRequest(text: text, voice: "v") }

    @Test func streamsAModelsReply() {
        let bench = Bench()
        bench.perform(.respond(responseID: "r1", request))
        #expect(bench.step().isEmpty)
        #expect(bench.step(milliseconds: 10) == [#"r1 text("a")"#])
        #expect(bench.step(milliseconds: 10) == [#"r1 text("b")"#, "r1 finished"])
        #expect(bench.work.running.isEmpty && bench.link.runningTasks == 0)
    }

    @Test func answersNothingAfterACancellation() {
        let bench = Bench()
        bench.perform(.respond(responseID: "r1", request))
        bench.perform(.respond(responseID: "r2", request))
        #expect(bench.step(milliseconds: 5).isEmpty)
        bench.perform(.cancelResponse(responseID: "r1"))
        let lines = (0..<3).flatMap { _ in bench.step(milliseconds: 10) }
        #expect(lines == [#"r2 text("a")"#, #"r2 text("b")"#, "r2 finished"])
        #expect(bench.work.running.isEmpty && bench.link.runningTasks == 0)
    }

    @Test func neverStartsWhatWasCancelledBeforeItsFirstStep() {
        let bench = Bench()
        for number in 0..<20 {
            bench.perform(.respond(responseID: "r\(number)", request))
            bench.perform(.cancelResponse(responseID: "r\(number)"))
        }
        #expect(bench.step(milliseconds: 100).isEmpty)
        #expect(bench.journal.all.isEmpty, "the model was asked for nothing")
        #expect(bench.link.runningTasks == 0)
    }

    @Test func tellsTheOperatorAloudOfErrorsThatAreNoAgentErrors() {
        let bench = Bench()
        bench.perform(.speak(responseID: "r1", clause("bad")))
        bench.perform(.speak(responseID: "r1", clause("odd")))
        #expect(
            bench.step() == [
                "r1 speech failed upstream_malformed_reply", "r1 speech failed agent_unavailable",
            ])
        #expect(bench.log.lines.last == "warning agent failed error=OddError() part=synthesiser")
    }

    @Test func refusesWhatWasDeliveredBeforeTheCancellation() {
        let bench = Bench()
        bench.perform(.transcribe(itemID: "i1", Utterance(samples: [1, 2])))
        bench.executor.runJobs(atMost: 1_000)
        #expect(bench.gate.assumeIsolated { $0.hasDeliveries })
        bench.perform(.cancelTranscription(itemID: "i1"))
        #expect(bench.step().isEmpty)
    }

    @Test func transcribes() {
        let bench = Bench()
        bench.perform(.transcribe(itemID: "i1", Utterance(samples: [1, 2, 3])))
        #expect(bench.step() == ["i1 transcript 3 samples"])
    }

    @Test func speaksTheClausesOfAResponseOneAfterAnother() {
        let bench = Bench()
        for text in ["one", "bad", "three"] {
            bench.perform(.speak(responseID: "r1", clause(text)))
        }
        bench.perform(.speak(responseID: "r2", clause("other")))
        let lines = bench.step()
        let spoken = ["r1 speech 1", "r1 speech 2", "r1 speech 3", "r1 spoken"]
        #expect(
            lines.filter { $0.hasPrefix("r1") } == spoken
                + ["r1 speech failed upstream_malformed_reply"] + spoken)
        #expect(lines.filter { $0.hasPrefix("r2") }.last == "r2 spoken")
        let order = bench.journal.all.filter { $0 != "speaks other" }
        #expect(order == ["speaks one", "speaks bad", "speaks three"])
    }

    @Test func dropsWaitingClausesWithTheirResponse() {
        let bench = Bench()
        bench.perform(.speak(responseID: "r1", clause("one")))
        bench.perform(.speak(responseID: "r1", clause("two")))
        bench.perform(.cancelResponse(responseID: "r1"))
        #expect(bench.step().isEmpty)
        #expect(!bench.journal.all.contains("speaks two"))
        #expect(bench.work.waiting.isEmpty && bench.work.running.isEmpty)
    }

    @Test func makesHypothesesOnlyWhereWorkersAreFree() {
        let words = Utterance(samples: [1, 2, 3])
        for use in [HypothesisUse.display, .probableTranscript, .interruption] {
            let idle = Bench()
            idle.perform(.hypothesize(itemID: "i1", words, use))
            #expect(idle.step() == ["i1 hypothesis 3 samples"])
            #expect(idle.work.running.isEmpty && idle.link.runningTasks == 0)
            let busy = Bench(pool: InlineComputePool(isBusy: true))
            busy.perform(.hypothesize(itemID: "i1", words, use))
            busy.perform(.transcribe(itemID: "i2", words))
            #expect(busy.step() == ["i1 no hypothesis", "i2 transcript 3 samples"])
            #expect(busy.work.running.isEmpty && busy.link.runningTasks == 0)
        }
    }

    @Test func judgesTurnEndsOnlyWhereWorkersAreFree() {
        let audio = HeardAudio(samples: [1, 2, 3])
        for (isBusy, answer) in [(false, "i1 0.75"), (true, "i1 no judgement")] {
            let bench = Bench(pool: InlineComputePool(isBusy: isBusy))
            bench.perform(.judgeTurnEnd(itemID: "i1", audio))
            #expect(bench.step() == [answer])
            #expect(bench.work.running.isEmpty && bench.link.runningTasks == 0)
        }
    }

    @Test func aWithdrawnHypothesisFailsUnlessItHasBegun() {
        let bench = Bench()
        bench.perform(.hypothesize(itemID: "i1", Utterance(samples: [1]), .probableTranscript))
        bench.perform(.withdrawHypothesis(itemID: "i1"))
        bench.perform(.transcribe(itemID: "i2", Utterance(samples: [1, 2])))
        #expect(bench.step() == ["i1 no hypothesis", "i2 transcript 2 samples"])
        #expect(bench.work.running.isEmpty && bench.link.runningTasks == 0)
        bench.perform(.withdrawHypothesis(itemID: "i1"))
        #expect(bench.step().isEmpty, "there is none any more")
    }

    @Test func stopsHypothesesWithTheTranscription() {
        let bench = Bench()
        bench.perform(.hypothesize(itemID: "i1", Utterance(samples: [1]), .display))
        bench.perform(.cancelTranscription(itemID: "i1"))
        bench.perform(.transcribe(itemID: "i1", Utterance(samples: [1, 2])))
        #expect(bench.step() == ["i1 transcript 2 samples"])
        #expect(bench.work.running.isEmpty && bench.link.runningTasks == 0)
    }

    @Test func reportsAFullPoolAsOverload() {
        let bench = Bench(pool: InlineComputePool(isFull: true))
        bench.perform(.transcribe(itemID: "i1", Utterance(samples: [])))
        bench.perform(.speak(responseID: "r1", clause("one")))
        #expect(
            bench.step() == ["i1 failed server_overloaded", "r1 speech failed server_overloaded"])
    }

    @Test func reportsPartsThatAreMissing() {
        let bench = Bench(hasSpeech: false)
        bench.perform(.transcribe(itemID: "i1", Utterance(samples: [])))
        bench.perform(.speak(responseID: "r1", clause("one")))
        #expect(
            bench.step() == ["i1 failed agent_unavailable", "r1 speech failed agent_unavailable"])
    }

    @Test func stopsEverythingWithTheSession() {
        let bench = Bench()
        bench.perform(.respond(responseID: "r1", request))
        bench.perform(.transcribe(itemID: "i1", Utterance(samples: [])))
        bench.perform(.speak(responseID: "r1", clause("one")))
        bench.link.stopAll(&bench.work)
        #expect(bench.step(milliseconds: 100).isEmpty)
        #expect(bench.work.running.isEmpty && bench.link.runningTasks == 0)
    }
}
