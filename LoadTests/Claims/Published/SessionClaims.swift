// Claims about sessions: how many a process holds, how fast they open in a storm, what an idle one
// takes, and the framework's share of a turn.

import CLinux

extension Claim {
    /// The longest p99 of a delta's delay with which a number of sessions counts as held, in ms.
    private static let heldDelay = 100.0

    /// The most sessions that a process can have under a light load.
    static func concurrent(_ size: ClaimSize) -> Claim {
        let steps = size.sessionSteps
        let ceiling = Double(steps[0])
        return Claim(
            name: "concurrent", title: "Concurrent WebSockets per process",
            published: [
                PublishedClaim(
                    text: "a process of Node holds about 10,000, one of Python about 4,000",
                    source: .tables,
                    conditions: [
                        .figure(
                            Contender(stack: .node), measure: "held",
                            in: ClaimBounds(least: 10_000), ceiling: ceiling),
                        .figure(
                            Contender(stack: .fastapi), measure: "held",
                            in: ClaimBounds(least: 4_000, most: 6_000), ceiling: ceiling),
                    ])
            ],
            measures: [
                Measure(word: "held", title: "sessions held", unit: "", places: 0, isGain: true),
                Measure(word: "p99", title: "p99 of a delta at that count", unit: "ms", places: 2),
                Measure(
                    word: "bytes", title: "anonymous memory per session at that count", unit: "kB"),
            ],
            contenders: size.chatAgents.map { Contender(stack: $0) }, rounds: size.rounds,
            seconds: ClaimSize.scenarioSeconds + 7.5 + ceiling / openingRate,
            remarks: """
                \(steps.map(grouped).joined(separator: ", ")) sessions, from the top until a \
                count is held, opened at \(grouped(Int(openingRate))) a second, each on a fresh \
                server; one session in a hundred takes turns at 10 deltas a second. Held: all \
                opened, none was lost, every turn ended well, and the p99 of a delta's delay was at \
                most \(Int(heldDelay)) ms. \(grouped(steps[0])) is the top of the steps, not a stack's \
                limit; `parley-load scale` goes to 19,800 with Parley.
                """
        ) { (bench, contender) throws(LoadFailure) in
            for sessions in steps {
                // A failure means that the stack cannot hold so many, which is the result.
                do throws(LoadFailure) {
                    return try hold(sessions, on: contender, bench)
                } catch {
                    bench.note("not \(grouped(sessions)): \(bench.explained(error).reason)")
                    bench.forgetProcesses()
                }
            }
            return ["held": 0]
        }
    }

    private static func hold(
        _ sessions: Int, on contender: Contender, _ bench: ClaimBench
    ) throws(LoadFailure) -> Sample {
        var scenario = Scenario(.chat)
        scenario.sessions = sessions
        scenario.connectRate = openingRate
        scenario.chatting = min(100, sessions / 100)
        (scenario.tokens, scenario.tokenRate, scenario.turnEvery) = (20, 10, 2.5)
        (scenario.seconds, scenario.settleSeconds) = (4, 0.5)
        let result = try run(scenario, on: contender, bench)
        let p99 = try delays(of: result)["p99"] ?? .infinity
        guard p99 <= heldDelay else { throw LoadFailure("p99 \(decimal(p99)) ms") }
        var sample = ["held": Double(sessions), "p99": p99]
        if let bytes = result.bytesPerSession { sample["bytes"] = bytes / 1_000 }
        return sample
    }

    /// Sessions opened at once, and the memory of an idle one.
    static func storm(_ size: ClaimSize) -> Claim {
        let parley = Contender(stack: .parley)
        return Claim(
            name: "storm", title: "\(grouped(size.storm)) connections at once",
            published: [
                PublishedClaim(
                    text: "in a storm of 4,000 connections Parley's p99 is that of the best peer, "
                        + "or less",
                    source: .aim, conditions: [.leads(parley, measure: "p99")]),
                PublishedClaim(
                    text: "Parley opens more connections a second than every other stack",
                    source: .aim, conditions: [.leads(parley, measure: "rate")]),
                PublishedClaim(
                    text: "memory of an idle connection: Node with ws 7 kB, FastAPI 38.5 kB",
                    source: .aim,
                    conditions: [
                        .ratio(
                            Contender(stack: .node), to: Contender(stack: .fastapi),
                            measure: "bytes", in: .about(7 / 38.5))
                    ]),
            ],
            measures: [
                Measure(word: "p99", title: "connect + upgrade + session, p99", unit: "ms"),
                Measure(
                    word: "rate", title: "sessions opened", unit: "/s", places: 0, isGain: true),
                Measure(word: "bytes", title: "anonymous memory per idle session", unit: "kB"),
            ],
            contenders: size.chatAgents.map { Contender(stack: $0) }, rounds: size.rounds,
            seconds: ClaimSize.scenarioSeconds + 2.5 + Double(size.storm) / 2_500,
            remarks: """
                \(grouped(size.storm)) sessions, begun as fast as the generator can, until each has its \
                `session.created`; then the growth of Anonymous (smaps_rollup) by session. Where the \
                queue of a listening socket is full, a client waits a second until the kernel sends \
                its request again. So every stack has the longest queue that the kernel allows \
                (net.core.somaxconn, \(grouped(SystemLimit.waitingConnections))): Parley by its \
                default, Node, uvicorn, picows and SwiftNIO by their setting `backlog`, and Bun, which \
                has no such setting and asks for 512, by a library that is preloaded.
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
        let named = [Contender(stack: .node), Contender(stack: .fastapi)]
        return Claim(
            name: "share", title: "The framework's share of a turn",
            published: [
                PublishedClaim(
                    text: "1 ms of overhead is below 1% of a turn's p50", source: .tables,
                    conditions: named.map {
                        .figure($0, measure: "p50", in: ClaimBounds(most: ideal / 100))
                    }),
                PublishedClaim(
                    text: "80 ms of 2,400 ms are the framework's", source: .tables,
                    conditions: named.map {
                        .figure($0, measure: "p50", in: ClaimBounds(least: 40, most: 160))
                    }),
            ],
            measures: [
                Measure(word: "p50", title: "beyond the model's 2,400 ms, p50", unit: "ms"),
                Measure(word: "p99", title: "p99", unit: "ms"),
            ],
            contenders: size.chatAgents.map { Contender(stack: $0) },
            rounds: size.rounds, seconds: ClaimSize.scenarioSeconds + 1 + size.chatSeconds,
            remarks: """
                20 sessions in turns of 101 deltas, the first 400 ms after the request and the \
                others 20 ms apart: 2,400 ms of the model. From the user's message to the end of \
                the response at the client, less those. The lateness of the model's timers is \
                included. 1% of a turn is 24 ms.
                """
        ) { (bench, contender) throws(LoadFailure) in
            var scenario = Scenario(.chat)
            scenario.sessions = 20
            scenario.connectRate = 100
            (scenario.tokens, scenario.tokenRate, scenario.firstToken) = (101, 50, 0.4)
            scenario.turnEvery = 3
            scenario.settleSeconds = 0.2
            scenario.warmUp = false
            scenario.seconds = size.chatSeconds
            let result = try run(scenario, on: contender, bench)
            guard let turn = result.latencies[.turn] else { throw LoadFailure("no turn ended") }
            return ["p50": turn.p50 - ideal, "p99": turn.p99 - ideal]
        }
    }
}
