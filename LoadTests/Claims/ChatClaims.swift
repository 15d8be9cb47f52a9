// Claims about sessions and turns: the load harness runs a scenario against one stack after the
// other, with the scripted model behind it.
//
// A run in which anything failed (a session was lost, or a turn failed or was never begun) is
// recorded as a failure, not as a figure. Otherwise a server that drops work under load would look
// fast.

import CLinux

extension Claim {
    /// Runs a scenario against a newly started server.
    /// - Throws: `LoadFailure` when it cannot be carried out, or anything in it failed.
    private static func run(
        _ scenario: Scenario, on contender: Contender, _ bench: ClaimBench,
        mayFallBehind: Bool = false
    ) throws(LoadFailure) -> ScenarioResult {
        let server = try bench.start(contender.stack)
        let result = try bench.run(scenario, against: server, mayFallBehind: mayFallBehind)
        try server.checkIsRunning()
        return result
    }

    private static let delays = [
        Measure(word: "p50", title: "delay per delta, p50", unit: "ms", places: 2),
        Measure(word: "p95", title: "p95", unit: "ms", places: 2),
        Measure(word: "p99", title: "p99", unit: "ms", places: 2),
        Measure(word: "p999", title: "p99.9", unit: "ms", places: 2),
    ]

    private static func delays(of result: ScenarioResult) throws(LoadFailure) -> Sample {
        guard let delta = result.latencies[.delta] else { throw LoadFailure("no delta came") }
        return ["p50": delta.p50, "p95": delta.p95, "p99": delta.p99, "p999": delta.p999]
    }

    private static let perCore = Measure(
        word: "core", title: "deltas per second of a core", unit: "/s", places: 0, isGain: true)

    /// Deltas per second of the server's processor time while all turns are in flight.
    private static func deltasPerCore(_ result: ScenarioResult) -> Sample {
        guard let seconds = result.serverCPUSeconds, seconds > 0,
            let deltas = result.latencies[.delta]?.count
        else { return [:] }
        return ["core": Double(deltas) / seconds]
    }

    /// A scenario whose turns are all in flight in the measured part: they begin before it, over a
    /// second, and last past its end.
    static func turnsInFlight(
        _ turns: Int, of sessions: Int, rate: Double, _ size: ClaimSize
    ) -> Scenario {
        var scenario = Scenario(.chat)
        (scenario.sessions, scenario.chatting) = (sessions, turns)
        (scenario.tokenRate, scenario.firstToken, scenario.ramp) = (rate, 0.2, 1)
        scenario.seconds = scenario.rampSeconds + size.chatSeconds
        scenario.turnEvery = scenario.seconds + 1
        scenario.tokens = Int((rate * scenario.seconds).rounded(.up))
        scenario.settleSeconds = 0.5
        return scenario
    }

    /// Delays of deltas under a load that all stacks can carry.
    static func streaming(_ size: ClaimSize) -> Claim {
        Claim(
            name: "streaming", title: "Delay under streaming load",
            published: "p99 140 ms (Node) and 180 ms (FastAPI)",
            measures: [delays[2], delays[0], delays[1], delays[3], perCore],
            contenders: size.stacks.map { Contender(stack: $0) }, rounds: size.rounds,
            remarks: """
                100 sessions, each in one turn that begins before the measured part and ends after \
                it, 50 deltas a second in each. A delay is from the model's sending of a delta to \
                its arrival at the client: the model's own time is in none. Deltas per second of a \
                core: the number of deltas by the server's CPU time, all its threads.
                """
        ) { (bench, contender) throws(LoadFailure) in
            let scenario = turnsInFlight(100, of: 100, rate: 50, size)
            let result = try run(scenario, on: contender, bench)
            return try delays(of: result).merging(deltasPerCore(result)) { first, _ in first }
        }
    }

    /// Many sessions open, many turns in flight.
    static func inFlight(_ size: ClaimSize) -> Claim {
        let named: [Stack] = [.parley, .node, .fastapi]
        let contenders = size.turns.enumerated().flatMap { index, load in
            size.stacks.filter { load.isForAll || named.contains($0) }.map {
                Contender(stack: $0, variant: load.title, size: index + 1)
            }
        }
        return Claim(
            name: "in-flight", title: "Latency with many sessions open",
            published: "target: 10,000 sessions, 1,000 turns at 50/s, p99 ≤ 5 ms in the server",
            measures: [
                delays[2], delays[0], delays[3],
                Measure(word: "busy", title: "server's CPU of its core", unit: "%", places: 0),
                Measure(word: "load", title: "generator's CPU of its core", unit: "%", places: 0),
                Measure(word: "open", title: "turns not ended", unit: "", places: 0),
            ],
            contenders: contenders, rounds: 1,
            remarks: """
                As in "Delay under streaming load". 1,000 turns at 50/s are 50,000 deltas a \
                second, more than most stacks can move with a core: their queues then grow \
                steadily, and the figures only show how far behind they were. Turns not ended: 15 s \
                after the measured part, when each had at most two seconds to go. The delays include \
                the generator's and the model's, which share the other core: where those \
                fill their core, every row is late. The server's own delay is in Parley's \
                metrics only.
                """
        ) { (bench, contender) throws(LoadFailure) in
            let load = size.turns[contender.size - 1]
            let scenario = turnsInFlight(load.turns, of: load.sessions, rate: load.rate, size)
            let result = try run(scenario, on: contender, bench, mayFallBehind: true)
            var sample = try delays(of: result)
            sample["open"] = Double(result.turnsOpen)
            sample["load"] = result.generatorCPUSeconds / result.measuredSeconds * 100
            if let seconds = result.serverCPUSeconds {
                sample["busy"] = seconds / result.measuredSeconds * 100
            }
            return sample
        }
    }

    /// The most sessions that a process can have under a light load.
    static func concurrent(_ size: ClaimSize) -> Claim {
        let bound = 100.0
        let steps = size.sessionSteps
        return Claim(
            name: "concurrent", title: "Concurrent WebSockets per process",
            published: "about 10,000 (Node), about 4,000 (Python)",
            measures: [
                Measure(word: "held", title: "sessions held", unit: "", places: 0, isGain: true),
                Measure(word: "p99", title: "p99 of a delta at that count", unit: "ms", places: 2),
                Measure(
                    word: "bytes", title: "anonymous memory per session at that count", unit: "kB"),
            ],
            contenders: size.stacks.map { Contender(stack: $0) }, rounds: 1,
            remarks: """
                \(steps.map(String.init).joined(separator: ", ")) sessions, from the top until a \
                count is held, opened at 1,000 a second, each on a fresh server; one session in a \
                hundred (at most 100) takes turns at 10 deltas a second. Held: all opened, none \
                was lost, every turn ended well, and the p99 of a delta's delay was at most \
                \(Int(bound)) ms. \(steps[0]) is where this machine ends (20,000 descriptors a \
                process), not a stack's limit.
                """
        ) { (bench, contender) throws(LoadFailure) in
            for sessions in steps {
                var scenario = Scenario(.chat)
                scenario.sessions = sessions
                scenario.connectRate = 1_000
                scenario.chatting = min(100, sessions / 100)
                (scenario.tokens, scenario.tokenRate, scenario.turnEvery) = (20, 10, 2.5)
                scenario.seconds = 5
                // A failure means that the stack cannot hold so many, which is the result.
                do throws(LoadFailure) {
                    let result = try run(scenario, on: contender, bench)
                    let p99 = try delays(of: result)["p99"] ?? .infinity
                    guard p99 <= bound else { throw LoadFailure("p99 \(decimal(p99)) ms") }
                    var sample = ["held": Double(sessions), "p99": p99]
                    if let bytes = result.bytesPerSession { sample["bytes"] = bytes / 1_000 }
                    return sample
                } catch {
                    printError("  not \(sessions): \(error.reason)\n")
                }
            }
            return ["held": 0]
        }
    }

    /// Sessions opened per second, and the memory of an idle one.
    static func opening(_ size: ClaimSize) -> Claim {
        Claim(
            name: "opening", title: "Opening sessions, and their memory",
            published: "–",
            measures: [
                Measure(
                    word: "rate", title: "sessions opened", unit: "/s", places: 0, isGain: true),
                Measure(word: "bytes", title: "anonymous memory per idle session", unit: "kB"),
                Measure(word: "p99", title: "connect + upgrade + session, p99", unit: "ms"),
            ],
            contenders: size.stacks.map { Contender(stack: $0) }, rounds: size.longRounds,
            remarks: """
                \(size.storm) sessions, begun as fast as the generator can, until each has its \
                `session.created`; then the growth of Anonymous (smaps_rollup) by session.
                """
        ) { (bench, contender) throws(LoadFailure) in
            var scenario = Scenario(.storm)
            scenario.sessions = size.storm
            scenario.connectRate = 100_000
            let result = try run(scenario, on: contender, bench)
            guard result.openingSeconds > 0 else { throw LoadFailure("no session was opened") }
            var sample = ["rate": Double(result.counts.opened) / result.openingSeconds]
            if let bytes = result.bytesPerSession { sample["bytes"] = bytes / 1_000 }
            if let session = result.latencies[.session] { sample["p99"] = session.p99 }
            return sample
        }
    }

    /// The time of a turn beyond the model's own time.
    static func share(_ size: ClaimSize) -> Claim {
        let ideal = 2_400.0
        return Claim(
            name: "share", title: "The framework's share of a turn",
            published: "80 ms of 2,400 ms",
            measures: [
                Measure(word: "p50", title: "beyond the model's 2,400 ms, p50", unit: "ms"),
                Measure(word: "p99", title: "p99", unit: "ms"),
            ],
            contenders: size.stacks.map { Contender(stack: $0) },
            rounds: size.longRounds,
            remarks: """
                20 sessions in turns of 101 deltas, the first 400 ms after the request and the \
                others 20 ms apart: 2,400 ms of the model. From the user's message to the end of \
                the response at the client, less those. The lateness of the model's timers is included.
                """
        ) { (bench, contender) throws(LoadFailure) in
            var scenario = Scenario(.chat)
            scenario.sessions = 20
            scenario.connectRate = 100
            (scenario.tokens, scenario.tokenRate, scenario.firstToken) = (101, 50, 0.4)
            scenario.turnEvery = 3
            scenario.settleSeconds = 0.5
            scenario.seconds = size.chatSeconds
            let result = try run(scenario, on: contender, bench)
            guard let turn = result.latencies[.turn] else { throw LoadFailure("no turn ended") }
            return ["p50": turn.p50 - ideal, "p99": turn.p99 - ideal]
        }
    }
}
