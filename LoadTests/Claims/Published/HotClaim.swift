// The claim about CPU-heavy work: one session keeps the processor busy, and the delay of the other
// sessions' deltas is measured.

import CLinux

extension Claim {
    private static let inLoop = "in its loop"
    private static let aside = "in a thread"

    /// One session's CPU-heavy work beside the other sessions' turns.
    static func hot(_ size: ClaimSize) -> Claim {
        Claim(
            name: "hot", title: "One session's work for the processor, and the others",
            published: hotPublished,
            measures: [
                Measure(word: "p99", title: "others' delay per delta, p99", unit: "ms"),
                Measure(word: "p50", title: "p50", unit: "ms"),
                Measure(word: "max", title: "max", unit: "ms"),
            ],
            contenders: size.chatAgents.flatMap { stack in
                switch stack {
                case .node, .fastapi:
                    [
                        Contender(stack: stack, variant: inLoop),
                        Contender(stack: stack, variant: aside),
                    ]
                case .parley: [Contender(stack: stack, variant: "on its worker pool")]
                default: [Contender(stack: stack, variant: inLoop)]
                }
            }, rounds: size.rounds, seconds: ClaimSize.scenarioSeconds + 1 + size.chatSeconds,
            remarks: """
                50 sessions in a turn each, at 20 deltas a second; one more calls a tool that \
                computes for 300 ms, again and again, inside the server: where the session is, or \
                in a thread (Node's worker_threads, Python's asyncio.to_thread). Parley has no \
                code of a session's own on its event loop: its hot session says a minute of speech \
                at once, again and again, so that the embedded recogniser always computes, on the \
                worker pool. All of it on the server's one core.
                """
        ) { (bench, contender) throws(LoadFailure) in
            let server = try bench.start(contender.stack)
            let work =
                contender.stack == .parley
                ? ["speech"] + (try ClaimInputs.recordings().files)
                : ["burn", "300"] + (contender.variant == aside ? ["aside"] : [])
            let hot = try bench.start(
                [
                    "\(bench.paths.environment)/bin/python", "\(bench.paths.peers)/hot_session.py",
                    "ws://127.0.0.1:\(server.port)/v1/realtime?model=scripted",
                ] + work, name: "the hot session", core: ClaimBench.loadCore, isTalking: true)
            guard let ready = hot.readLine(within: 120), ready.elementsEqual("hot".utf8) else {
                throw LoadFailure(
                    "awaited the end of the hot session's first work, for at most 120 s")
            }
            var scenario = turnsInFlight(50, of: 50, rate: 20, seconds: size.chatSeconds)
            scenario.connectRate = 500
            scenario.warmUp = false
            let result = try bench.run(scenario, against: server)
            try server.checkIsRunning()
            guard hot.isRunning else { throw LoadFailure("the hot session ended by itself") }
            guard let delta = result.latencies[.delta] else { throw LoadFailure("no delta came") }
            return ["p50": delta.p50, "p99": delta.p99, "max": delta.max]
        }
    }

    private static var hotPublished: [PublishedClaim] {
        let node = Contender(stack: .node, variant: inLoop)
        let named = [Stack.node, .fastapi]
        return [
            PublishedClaim(
                text: "a CPU-heavy task blocks Node's event loop", source: .tables,
                conditions: [.figure(node, measure: "p99", in: ClaimBounds(least: 150))]),
            PublishedClaim(
                text: "a thread for such a task (worker_threads, to_thread) keeps the loop free",
                source: .documentation,
                conditions: named.map {
                    .ratio(
                        Contender(stack: $0, variant: aside),
                        to: Contender(stack: $0, variant: inLoop), measure: "p99",
                        in: ClaimBounds(most: 0.25))
                }),
        ]
    }
}
