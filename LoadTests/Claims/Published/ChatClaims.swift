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
    static func run(
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

    static func delays(of result: ScenarioResult) throws(LoadFailure) -> Sample {
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
    /// - Parameter seconds: the length of that part.
    static func turnsInFlight(
        _ turns: Int, of sessions: Int, rate: Double, seconds: Double
    ) -> Scenario {
        var scenario = Scenario(.chat)
        (scenario.sessions, scenario.chatting) = (sessions, turns)
        scenario.connectRate = openingRate
        (scenario.tokenRate, scenario.firstToken, scenario.ramp) = (rate, 0.2, 1)
        scenario.seconds = scenario.rampSeconds + seconds
        scenario.turnEvery = scenario.seconds + 1
        scenario.tokens = Int((rate * scenario.seconds).rounded(.up))
        scenario.settleSeconds = 0.2
        return scenario
    }

    /// Sessions opened per second where opening is not measured. A server that is slower than that
    /// has a queue.
    static let openingRate = 2_500.0

    /// Delays of deltas under a load that all stacks can carry.
    static func streaming(_ size: ClaimSize) -> Claim {
        let (node, fastapi) = (Contender(stack: .node), Contender(stack: .fastapi))
        return Claim(
            name: "streaming", title: "Delay under streaming load",
            published: [
                PublishedClaim(
                    text: "p99 140 ms (Node) and 180 ms (FastAPI)", source: .tables,
                    conditions: [
                        .ratio(node, to: fastapi, measure: "p99", in: .about(140.0 / 180))
                    ])
            ],
            measures: [delays[2], delays[0], delays[1], delays[3], perCore],
            contenders: size.chatAgents.map { Contender(stack: $0) }, rounds: size.rounds,
            seconds: ClaimSize.scenarioSeconds + 2 + size.chatSeconds,
            remarks: """
                100 sessions, each in one turn that begins before the measured part and ends after \
                it, 50 deltas a second in each. A delay is from the model's sending of a delta to \
                its arrival at the client: the model's own time is in none. Deltas per second of a \
                core: the number of deltas by the server's CPU time, all its threads. No stack is near \
                its limit here, so that p99 shows little but the machine's noise: see "Turns that a \
                core carries".
                """
        ) { (bench, contender) throws(LoadFailure) in
            let scenario = turnsInFlight(100, of: 100, rate: 50, seconds: size.chatSeconds)
            let result = try run(scenario, on: contender, bench)
            return try delays(of: result).merging(deltasPerCore(result)) { first, _ in first }
        }
    }

    /// Many sessions open, many turns in flight.
    static func inFlight(_ size: ClaimSize) -> Claim {
        Claim(
            name: "in-flight", title: "Delay with many sessions open",
            published: [
                PublishedClaim(
                    text: "Parley's deltas are less late than those of every other stack",
                    source: .aim, conditions: [.leads(Contender(stack: .parley), measure: "p99")])
            ],
            measures: [
                delays[2], delays[0], delays[3],
                Measure(word: "busy", title: "server's CPU of its core", unit: "%", places: 0),
                Measure(word: "load", title: "generator's CPU of its core", unit: "%", places: 0),
                Measure(word: "open", title: "turns not ended", unit: "", places: 0),
            ],
            contenders: size.chatAgents.map { Contender(stack: $0) }, rounds: size.rounds,
            seconds: ClaimSize.scenarioSeconds + size.chatSeconds
                + Double(size.busySessions) / openingRate,
            remarks: """
                \(grouped(size.busySessions)) sessions are open, and \(grouped(size.turns)) of them \
                are in a turn of 10 deltas a second for the whole measured part. Turns not ended: 5 s \
                after the measured part, when each had at most two seconds to go. The delays include \
                the generator's and the model's, which share the other core. The server's own delay \
                is in Parley's metrics only.
                """
        ) { (bench, contender) throws(LoadFailure) in
            var scenario = turnsInFlight(
                size.turns, of: size.busySessions, rate: 10, seconds: size.chatSeconds)
            scenario.turnPatience = 5
            // The ramp warms the server.
            scenario.warmUp = false
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
}
